"""Strict tables and value types for the TOML files of this folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Count = Annotated[int, Field(ge=1, strict=True)]


class TomlTable(BaseModel):
    """A table of a file. An unknown key is refused, as it is a typing error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def refuse_twice(what: str, names: Sequence[str]) -> None:
    """ValueError where a name stands more than once."""
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise ValueError(f"{what}: got more than once: {', '.join(twice)}; wanted: each name once")
