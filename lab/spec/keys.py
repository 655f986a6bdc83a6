"""The keys that a table of a file may have, found in the model that reads it."""

from collections.abc import Sequence
from dataclasses import is_dataclass
from typing import Any, get_args, get_type_hints

from pydantic import BaseModel


def keys_at(model: Any, place: Sequence[int | str]) -> list[str]:
    """The keys of the table at a place of the file. place: as in an error of pydantic, without the key itself.

    A part that is no key, such as the number of a table in a list, stays in the same table.
    """
    tables = _tables_in(model)
    for part in place:
        inside = [hints[str(part)] for hints in map(_keys_of, tables) if part in hints]
        tables = {table for hint in inside for table in _tables_in(hint)} if inside else tables
    return sorted({key for table in tables for key in _keys_of(table)})


def _tables_in(hint: Any) -> set[Any]:
    """The models in a type hint: itself, its alternatives, and the entries of its lists and tables."""
    if arguments := get_args(hint):
        return {table for argument in arguments for table in _tables_in(argument)}
    return {hint} if isinstance(hint, type) and (issubclass(hint, BaseModel) or is_dataclass(hint)) else set()


def _keys_of(table: Any) -> dict[str, Any]:
    """Key -> type hint."""
    hints = get_type_hints(table, include_extras=True)
    names = table.model_fields if issubclass(table, BaseModel) else table.__dataclass_fields__
    return {name: hints[name] for name in names}
