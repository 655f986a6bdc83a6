"""The JSON schemas of an archive, and a function that validates a value against its schema."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from cephlab.lab.base.errors import SpecError

VERSION = 1
"""Version of the archive format; incremented by a change that an older cephlab cannot read."""

WITH_SCHEMA = ("figure", "limit", "step")
"""Kinds of events whose data also has a schema."""


_GROWING = ("additionalProperties", "enum")
"""Rules that a newer cephlab breaks if it knows more keys or words. Between releases it keeps the same VERSION."""


@cache
def schema(kind: str) -> dict[str, Any]:
    """The schema of `manifest`, `verdicts` or `event`, or of the data of an event kind in WITH_SCHEMA."""
    return dict(json.loads(Path(__file__).with_name(f"{kind}-{VERSION}.json").read_text()))


def validate(kind: str, value: Any, source: str) -> None:
    """SpecError with source, place and reason if the value does not match its schema."""
    import jsonschema  # a tenth of the time in which a command starts, and most commands validate nothing

    validator = jsonschema.Draft202012Validator(schema(kind))
    error = jsonschema.exceptions.best_match(validator.iter_errors(value))
    if error is not None:
        place = "/".join(str(part) for part in error.absolute_path) or "the whole value"
        what, detail = f"{source} does not match its schema", f"{place}: {error.message}"
        newer = "update cephlab if a newer one wrote it, else " if error.validator in _GROWING else ""
        raise SpecError(what, detail, f"{newer}check whether the file was edited")
