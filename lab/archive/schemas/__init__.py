"""The JSON schemas of an archive, and one function that holds a value against its schema."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

from cephlab.lab.base.errors import SpecError

VERSION = 1
"""Version of the archive's layout and files; a change that an older cephlab cannot read raises it."""

WITH_SCHEMA = ("figure", "limit", "step")
"""Kinds of events whose data has a schema too."""


@cache
def schema(kind: str) -> dict[str, Any]:
    """The schema of `manifest`, `verdicts`, `event`, or of the data of an event of some kinds."""
    return dict(json.loads(Path(__file__).with_name(f"{kind}-{VERSION}.json").read_text()))


def validate(kind: str, value: Any, source: str) -> None:
    """SpecError naming source, place and finding when the value does not fit."""
    validator = jsonschema.Draft202012Validator(schema(kind))
    error = jsonschema.exceptions.best_match(validator.iter_errors(value))
    if error is not None:
        place = "/".join(str(part) for part in error.absolute_path) or "the whole of it"
        raise SpecError(f"{source} does not fit its schema", f"{place}: {error.message}", "was the file edited?")
