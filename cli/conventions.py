"""How commands show help and report wrong use: in the usual form of command lines, and errors in one form."""

from __future__ import annotations

import math
import os
from collections import Counter
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from cephlab.lab.base.errors import SpecError, unwritable

DEFAULT_COPIES = 3
_WORDS = {int: "N", float: "NUMBER"}
EMPTY = "cephlab.empty"
REPEATED = "cephlab.repeated"
"""Keys of a context's `meta` for the names of what was given empty, and of options given again that take one value."""


def placeholder(option: TyperOption) -> str:
    """The placeholder of an option's value: FILE, N, or the option's own name; empty for a flag."""
    if option.is_flag:
        return ""
    kind = option.type_descriptor
    if kind.is_path:
        return "FILE"
    return _WORDS.get(kind.annotation, str(option.name).replace("_", "-").upper())


def default_words(param: TyperOption | TyperArgument) -> str:
    """The default as help shows it: in the words of `show_default`, else the value; empty if there is none."""
    if isinstance(param.show_default, str):
        return param.show_default
    if not param.show_default or isinstance(param.default, bool) or not isinstance(param.default, int | float | str):
        return ""
    return f"{param.default:g}" if isinstance(param.default, float) else str(param.default)


def shown_plainly(param: TyperOption | TyperArgument) -> None:
    """Give an option its placeholder, and end a help text with the default.

    typer would show `[default: 120.0]`, and `[default: (reef)]` for one in words.
    """
    if isinstance(param, TyperOption) and param.metavar is None:
        param.metavar = placeholder(param)
    default = default_words(param)
    if default:
        param.help = f"{(param.help or '').rstrip('.')}. Default: {default}."
    param.show_default = False


def all_plainly(params: list[Any]) -> list[Any]:
    """The same parameters, each shown plainly."""
    for param in params:
        if isinstance(param, TyperOption | TyperArgument):
            shown_plainly(param)
        if isinstance(param, TyperArgument):
            vars(param)["display_type_rich"] = _no_type  # typer has no setting for it
    return params


def usage_word(argument: TyperArgument) -> str:
    """NAME if it is required, [NAME] if not, with dots if there may be several."""
    name = argument.metavar or str(argument.name).upper()
    several = "..." if argument.nargs != 1 and not name.endswith("...") else ""
    return f"{name}{several}" if argument.required else f"[{name}{several}]"


def _unfilled(param: object, given: object) -> str:
    """The name of an option or path that was given empty; else nothing. Other arguments may be empty."""
    if given == "" or (isinstance(given, list | tuple) and "" in given):
        if isinstance(param, TyperOption):
            return str(param.opts[-1])
        if isinstance(param, TyperArgument) and param.type_descriptor.is_path:
            return usage_word(param)
    return ""


def _refuse_endless(param: object, given: object) -> None:
    """BadParameter for nan and infinity: a limit may hold for them, and none of what is asked for can be endless."""
    if (
        not isinstance(param, TyperOption)
        or param.type_descriptor.annotation is not float
        or not isinstance(given, str)
    ):
        return
    try:
        finite = math.isfinite(float(given))
    except ValueError:
        return  # typer says so
    if not finite:
        limits = param.type_descriptor.parameter_info
        ends = [f"{end:g} or {more}" for end, more in ((limits.min, "more"), (limits.max, "less")) if end is not None]
        wanted = ", ".join(("a finite number", *ends))
        raise typer.BadParameter(f"(got: {given!r}; wanted: {wanted})", param=param)


def _takes_one(param: object) -> bool:
    """Whether it is an option with one value. A flag means the same however often it is given."""
    return isinstance(param, TyperOption) and not (param.is_flag or param.multiple or param.count)


def _no_type(**_: Any) -> None:
    """An argument's name says what it is."""


class Command(TyperCommand):
    """A command with plain placeholders in its help, whose paragraphs are as wide as the terminal."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        paragraphs = (self.help or "").split("\n\n")
        self.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)

    def get_params(self, ctx: Any) -> Any:
        """The parameters of typer, each with its placeholder and its default."""
        return all_plainly(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Also refuse nan and infinity, and note what was given empty or again.

        Later an empty path is the current folder, and one value is left.
        """
        values, _, order = self.make_parser(ctx).parse_args(args=list(args))
        for param in self.params:
            _refuse_endless(param, values.get(param.name))
        ctx.meta[EMPTY] = [shown for param in self.params if (shown := _unfilled(param, values.get(param.name)))]
        ctx.meta[REPEATED] = [each.opts[-1] for each, times in Counter(order).items() if times > 1 and _takes_one(each)]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """`[OPTIONS] NAME [DAEMON]`."""
        arguments = [usage_word(param) for param in self.params if isinstance(param, TyperArgument)]
        return [*([self.options_metavar] if self.options_metavar else []), *arguments]


class Group(TyperGroup):
    """A group of commands."""

    def get_params(self, ctx: Any) -> Any:
        """The parameters of typer, each with its placeholder and its default."""
        return all_plainly(super().get_params(ctx))


def copies(replicas: int | None, ec: str | None) -> int:
    """The number of copies: as asked, else the default. SpecError if an erasure code was asked for as well."""
    if replicas is not None and ec:
        got = f"got --replicas {replicas} and --ec {ec}"
        raise SpecError("--replicas and --ec cannot be given together", got, "leave one out")
    return DEFAULT_COPIES if replicas is None else replicas


def refuse_other_format(path: Path | None) -> None:
    """SpecError if --output, which writes an HTML page, names a file of another format. None: not given."""
    if path is not None and path.suffix.lower() not in ("", ".html", ".htm"):
        raise SpecError(f"--output {path}: the page is HTML", f"got {path.suffix}, wanted: .html", "name another file")


def refuse_unwritable(option: str, path: Path | None, *, folders: bool = False, instead: str = "name another") -> None:
    """SpecError if the file that an option names cannot be written; checked before any work. None: not given.

    folders: whether missing folders above it will be made. instead: what the user can do.
    """
    if path is None:
        return
    above = path.absolute().parents or (path,)
    try:
        folder = next(parent for parent in above if parent.exists()) if folders else above[0]
        there = path.is_dir()
    except OSError as error:  # a name that is too long
        raise SpecError(f"{option} {path} cannot be written", error.strerror or str(error), instead) from None
    place, hint = path if path.exists() else folder, instead
    if there:
        why = f"{path} is a folder"
    elif not folder.is_dir():
        why, hint = f"{folder} is not a folder", f"create it, or {instead}"
    elif not os.access(place, os.W_OK):
        read_only = os.statvfs(place).f_flag & os.ST_RDONLY
        why = "it is on a read-only file system" if read_only else "this user may not write there"
    else:
        return
    raise SpecError(f"{option} {path} cannot be written", why, hint)


def wrong_use(error: typer.TyperException, name: str) -> SpecError:
    """An error of typer about wrong use, as a SpecError. name: of the command, with the groups that it is in."""
    from cephlab.lab.spec.specfile import plainly

    what, _, rest = error.format_message().strip().partition(" (")
    detail = rest.removesuffix(")").strip()
    what = what.replace("argument(s)", "arguments" if " " in detail else "argument")
    what, _, wanted = what.partition(": Input should be ")
    if wanted:
        # The value is in the error of pydantic that caused this one.
        inputs = [repr(problem["input"]) for problem in getattr(error.__cause__, "errors", list)()]
        detail = "; ".join([*(f"got: {text}" for text in inputs), f"wanted: {plainly(wanted)}"])
    return SpecError(f"{what[:1].lower()}{what[1:]}".rstrip(".: "), detail, f"see `{name} --help`")


def write_named(path: Path, text: str) -> None:
    """Write a file that the user named. LabBroken names it if it cannot be written; of a new file no part is left."""
    new = not os.path.lexists(path)
    try:
        path.write_text(text)
    except OSError as error:
        if new:
            path.unlink(missing_ok=True)
        raise unwritable(path, error) from error
