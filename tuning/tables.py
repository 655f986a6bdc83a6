"""TOML files of this folder: strict tables, and how a file that does not fit is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from cephlab.lab.base.errors import SpecError
from cephlab.lab.spec.specfile import explain, load_toml

T = TypeVar("T")
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


def read_toml(path: Path, build: Callable[[Any], T], what: str, hint: str = "") -> T:
    """Build a value from a file. what: what the file should be, e.g. profile. SpecError names file, key and reason."""
    try:
        return build(load_toml(path, hint))
    except ValidationError as error:
        raise SpecError(f"{path} is not a {what}", explain(error), hint) from None
