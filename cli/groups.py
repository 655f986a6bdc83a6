"""Option groups: a command takes a dataclass, and typer sees its fields as options of the command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """The command as typer sees it: each parameter that is a dataclass is replaced by the fields of that class.

    The fields are annotated like options. Two commands that take the same group have the same options.
    """
    hints = get_type_hints(command, include_extras=True)
    flat: list[Parameter] = []
    groups: dict[str, Any] = {}
    for name, parameter in signature(command).parameters.items():
        kind = hints[name]
        if is_dataclass(kind):
            groups[name] = kind
            flat += _options(kind)
        else:
            flat.append(parameter.replace(annotation=kind, kind=Parameter.KEYWORD_ONLY))

    @wraps(command)
    def called(**given: Any) -> None:
        made = {
            name: group(**{option.name: given.pop(option.name) for option in fields(group)})
            for name, group in groups.items()
        }
        command(**given, **made)

    vars(called)["__signature__"] = Signature(flat)
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
    return called


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
