"""The frame of every command: passes what it works on, makes its options, and turns errors into exit codes."""

from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Any, get_type_hints

import typer

from cephlab.cli.conventions import EMPTY, REPEATED
from cephlab.cli.output import JsonOption, Output, reporting
from cephlab.cli.world import World, world_of
from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.given import user_path

_TELL_OF_HOMES = ("doctor",)
"""Commands that report an unusable home themselves, together with everything else that is missing."""


def framed(command: Callable[..., int | None]) -> Callable[..., None]:
    """Make a command callable by typer. The command returns its exit code, None for 0.

    Parameters of type Output or World are passed in. A parameter of another dataclass type becomes one option for each
    field, as annotated. A LabError that the command raises becomes a message and an exit code. Each command gets --json
    unless it has its own.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind) and kind is not World}
    flat = [Parameter("ctx", Parameter.KEYWORD_ONLY, annotation=typer.Context)]
    for name, parameter in signature(command).parameters.items():
        if name in groups:
            flat += _options(groups[name])
        elif hints[name] not in (Output, World):
            flat.append(parameter.replace(annotation=hints[name], kind=Parameter.KEYWORD_ONLY))
    own_json = "as_json" in hints
    if not own_json:
        flat.append(Parameter("as_json", Parameter.KEYWORD_ONLY, default=False, annotation=JsonOption))

    @wraps(command)
    def called(ctx: typer.Context, **values: Any) -> None:
        values = {name: user_path(value) if isinstance(value, Path) else value for name, value in values.items()}
        for name, group in groups.items():
            values[name] = group(**{option.name: values.pop(option.name) for option in fields(group)})
        with reporting(values["as_json"] if own_json else values.pop("as_json")) as out:
            _refuse_unmeant(ctx)
            values |= {name: out for name, kind in hints.items() if kind is Output}
            for name in (name for name, kind in hints.items() if kind is World):
                values[name] = world_of(ctx)
                if command.__name__ not in _TELL_OF_HOMES:
                    values[name].home.refuse_unfit()
            if code := command(**values):
                raise typer.Exit(code)

    vars(called)["__signature__"] = Signature(flat)
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
    return called


def _refuse_unmeant(ctx: typer.Context) -> None:
    """SpecError for an option or path that was given empty, as from a variable of a shell that is not set, or twice.

    Read as if it had not been given, or had been given once, the command would do less than was asked for.
    """
    for name in ctx.meta.get(EMPTY, ()):
        raise SpecError(f"{name} is empty", "got '', wanted: a value", "leave it out, or fill it")
    for name in ctx.meta.get(REPEATED, ()):
        raise SpecError(f"{name} was given more than once", "it takes one value", "run the command once for each")


def _options(group: Any) -> list[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        Parameter(
            option.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if option.default is MISSING else option.default,
            annotation=hints[option.name],
        )
        for option in fields(group)
    ]
