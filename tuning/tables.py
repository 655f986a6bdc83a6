"""What the TOML files of this folder have in common: strict tables, and one way to read and to refuse them."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from cephlab.lab.base.errors import SpecError
from cephlab.lab.spec.specfile import explain

T = TypeVar("T")
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Count = Annotated[int, Field(ge=1, strict=True)]


class TomlTable(BaseModel):
    """A table of a file. An unknown key is refused: it is a typing error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def read_toml(path: Path, build: Callable[[Any], T], what: str, hint: str = "") -> T:
    """What a file says. what: what it should be, e.g. profile. SpecError names file, key, got and wanted."""
    try:
        return build(tomllib.loads(path.read_text()))
    except OSError as error:
        raise SpecError(f"the {what} {path} cannot be read", str(error), hint) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"{path} is not TOML", str(error), "mend the line that is named") from error
    except ValidationError as error:
        raise SpecError(f"{path} is not a {what}", explain(error), hint) from None
