"""Strict tables and value types for the TOML files of this folder."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Count = Annotated[int, Field(ge=1, strict=True)]


class TomlTable(BaseModel):
    """A table of a file. An unknown key is refused: it is a typing error."""

    model_config = ConfigDict(extra="forbid", frozen=True)
