"""MkDocs hook: generates the sections about commands and keys of files from the code when the site is built.

A line `<!-- keys: MODULE:CLASS TITLE -->` in a page becomes a table of the keys, and one for each table inside it.
The values of a key come from the model: its type, its bounds, and its error message for an invalid value.
A line `<!-- commands: MODULE:APP -->` becomes typer's documentation of each command.
"""

from __future__ import annotations

import dataclasses
import html
import importlib
import re
import types
import typing
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Annotated, Any

import annotated_types
import typer.main
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from typer.cli import get_docs_for_click

PLACE = re.compile(r"^<!-- keys: (?P<module>[\w.]+):(?P<name>\w+) (?P<title>.+?) -->$", re.MULTILINE)
COMMANDS = re.compile(r"^<!-- commands: (?P<module>[\w.]+):(?P<name>\w+) -->$", re.MULTILINE)
PROBE = "\0"
"""A text that no key accepts."""


@dataclasses.dataclass(frozen=True)
class Key:
    """One key of a table. default: as written in the file, None if the key is required."""

    name: str
    hint: Any
    default: str | None


def on_page_markdown(markdown: str, **_kwargs: Any) -> str:
    """Insert the tables; MkDocs calls this for each page."""
    markdown = PLACE.sub(lambda match: tables(match["module"], match["name"], match["title"]), markdown)
    return COMMANDS.sub(lambda match: commands(match["module"], match["name"]), markdown)


def commands(module: str, name: str) -> str:
    """Typer's documentation of each command, with arguments and options, without the heading of the whole program."""
    command = typer.main.get_command(getattr(importlib.import_module(module), name))
    text = get_docs_for_click(obj=command, ctx=typer.Context(command), name="cephlab")
    return html.unescape(text[text.index("\n## ") + 1 :])


def tables(module: str, name: str, title: str) -> str:
    """The keys of a class and of the tables below it, as Markdown."""
    waiting = [(title, getattr(importlib.import_module(module), name))]
    titles: dict[Any, list[str]] = {}
    while waiting:
        where, cls = waiting.pop(0)
        if where in titles.setdefault(cls, []):
            continue
        titles[cls].append(where)
        for key in keys(cls):
            waiting += [(f"`{path}`", kind) for path, kind in below(where, key.name, inner_table(key.hint), key.hint)]
    lines: list[str] = []
    for cls, places in titles.items():
        lines += ["", f"**{', '.join(places)}**", "", "| key | value | default |", "|---|---|---|"]
        for key in keys(cls):
            left_out = "**required**" if key.default is None else key.default
            lines.append(f"| `{key.name}` | {escaped(takes(key.hint))} | {escaped(left_out)} |")
    return "\n".join([*lines, ""])


def below(where: str, key: str, inner: Any, hint: Any) -> Iterator[tuple[str, Any]]:
    """The path of a table inside another, as TOML writes it."""
    if inner is None:
        return
    above = where.strip("`[]") + "." if where.startswith("`") else ""
    path = f"{above}{key}" + (".NAME" if is_mapping(hint) else "")
    yield (f"[[{path}]]" if is_list(hint) else f"[{path}]"), inner


def keys(cls: Any) -> Iterator[Key]:
    """The keys of a pydantic model or of a dataclass that pydantic reads."""
    hints = typing.get_type_hints(cls, include_extras=True)
    if issubclass(cls, BaseModel):
        for name, field in cls.model_fields.items():
            yield Key(name, hints[name], default_of(field))
        return
    for field in dataclasses.fields(cls):
        missing = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        yield Key(field.name, hints[field.name], None if missing else written(default))


def default_of(field: FieldInfo) -> str | None:
    """The value that applies if a key is left out; None if the key is required."""
    if field.is_required():
        return None
    value = field.get_default(call_default_factory=True)
    return "" if value is PydanticUndefined else written(value)


def written(value: object) -> str:
    """A default as written in a file; an empty text for None and for empty values."""
    if isinstance(value, Enum):
        value = value.value
    if (
        value is None
        or value == ""
        or dataclasses.is_dataclass(value)
        or isinstance(value, BaseModel)
        or (isinstance(value, tuple | list | frozenset | Mapping) and not value)
    ):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def bare(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """A hint without an optional None and without Annotated; and the metadata from Annotated."""
    extras: tuple[Any, ...] = ()
    while True:
        if typing.get_origin(hint) is Annotated:
            hint, *more = typing.get_args(hint)
            extras += tuple(more)
        elif isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
            others = [one for one in typing.get_args(hint) if one is not type(None)]
            if len(others) != 1:
                return hint, extras
            hint = others[0]
        else:
            return hint, extras


def is_list(hint: Any) -> bool:
    """Whether a key takes a list."""
    return typing.get_origin(bare(hint)[0]) in (tuple, list, frozenset, set)


def of_kinds(hint: Any) -> bool:
    """Whether a key takes one of several tables; a page shows each of them with a separate line."""
    kinds = [bare(kind)[0] for kind in typing.get_args(bare(hint)[0])]
    return bool(kinds) and all(isinstance(kind, type) and issubclass(kind, BaseModel) for kind in kinds)


def is_mapping(hint: Any) -> bool:
    """Whether a key takes a table of names."""
    origin = typing.get_origin(bare(hint)[0])
    return isinstance(origin, type) and issubclass(origin, Mapping)


def inner_table(hint: Any) -> Any:
    """The class of the table or tables that a key holds, if it holds any."""
    kind, extras = bare(hint)
    if any(probed(one) for one in extras):
        return None
    arguments = [one for one in typing.get_args(kind) if one is not Ellipsis]
    if is_list(hint) or is_mapping(hint):
        return inner_table(arguments[-1])
    if isinstance(kind, type) and (issubclass(kind, BaseModel) or dataclasses.is_dataclass(kind)):
        return kind
    return None


def probed(annotation: Any) -> bool:
    """Whether this part of an annotation is a validator, whose rule only shows in the error for an invalid value."""
    return type(annotation).__name__ in ("AfterValidator", "BeforeValidator")


def takes(hint: Any) -> str:
    """What a key takes, in words."""
    kind, extras = bare(hint)
    arguments = [one for one in typing.get_args(kind) if one is not Ellipsis]
    if any(probed(one) for one in extras):
        words = complaint(hint)
    elif is_mapping(hint):
        words = f"a table: {takes(arguments[0])} = {'a table' if inner_table(hint) else takes(arguments[1])}"
    elif is_list(hint):
        tables_inside = inner_table(hint) or of_kinds(arguments[0])
        words = "tables, see below" if tables_inside else f"a list of: {takes(arguments[0])}"
    elif inner_table(hint):
        words = "a table, see below"
    elif typing.get_origin(kind) is typing.Literal:
        words = " or ".join(f"`{one}`" for one in arguments)
    elif isinstance(kind, type) and issubclass(kind, Enum):
        words = ", ".join(f"`{one.value}`" for one in kind)
    else:
        words = scalar(kind, extras)
    return words


def scalar(kind: Any, extras: tuple[Any, ...]) -> str:
    """A number, a text or a truth value, with its bounds."""
    name = {int: "integer", float: "number", str: "text", bool: "`true` or `false`"}.get(
        kind, getattr(kind, "__name__", str(kind))
    )
    bounds = []
    for one in [part for entry in extras for part in getattr(entry, "metadata", [entry])]:
        if isinstance(one, annotated_types.Ge):
            bounds.append(f"at least {one.ge}")
        elif isinstance(one, annotated_types.Gt):
            bounds.append(f"above {one.gt}")
        elif isinstance(one, annotated_types.Le):
            bounds.append(f"at most {one.le}")
        elif getattr(one, "pattern", None):
            bounds.append(f"like `{one.pattern}`")
    return ", ".join([name, *bounds])


def complaint(hint: Any) -> str:
    """The wanted value, from the error of the model for an invalid one."""
    reader: TypeAdapter[Any] = TypeAdapter(hint)
    messages = []
    for wrong in (PROBE, {"value": PROBE, "source": "here"}):
        try:
            reader.validate_python(wrong)
        except ValidationError as error:
            messages.append(error.errors()[0]["msg"])
    own = [words.removeprefix("Value error, ") for words in messages if words.startswith("Value error, ")]
    if not own:
        raise ValueError(f"{hint} does not say which values it takes: {messages}")
    return own[-1].removeprefix("wanted: ").replace(repr(PROBE), "").strip()


def escaped(text: str) -> str:
    """Text for a cell of a table."""
    return text.replace("|", "\\|").replace("\n", " ")
