"""Changes to a profile without another file: `PLACE=VALUE` is put into its tables before they are read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import deepcopy
from decimal import Decimal
from typing import Any

from cephlab.lab.base.errors import SpecError

_HINT = "for example nodes.count=6, nodes.NAME.cores=64 or nodes.disks.count=8; see docs/requirements.md"
_RANGE = re.compile(r"(?P<place>[^=]+)=(?P<first>[0-9]{1,18})\.\.(?P<last>[0-9]{1,18})")
_EXPONENT = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?[eE][+-]?[0-9]{1,3}")
MOST_POINTS = 64
FIGURES_WANTED = ("metadata", "db")
"""The only keys of a requirement that are figures with a source; its limits are plain text."""


def changed(raw: dict[str, Any], changes: Sequence[str]) -> dict[str, Any]:
    """A copy of a file's tables with each change made; SpecError where a place does not exist.

    PLACE is a key after the names of the tables above it. In a list of several tables, the name of one follows the
    list's. Values are checked like those of a file.
    """
    document = deepcopy(raw)
    places = [change.partition("=")[0].strip() for change in changes]
    if twice := sorted({place for place in places if places.count(place) > 1}):
        raise SpecError(f"{', '.join(twice)}: set more than once", f"got {', '.join(changes)}", "keep one of them")
    for change in changes:
        place, equals, value = change.partition("=")
        if not (place.strip() and equals and value.strip()):
            raise SpecError("--set needs PLACE=VALUE", f"got {change!r}", _HINT)
        *tables, key = place.strip().split(".")
        table = _table(document, tables, change)
        figure = tables[:1] != ["requirements"] or key in FIGURES_WANTED
        table[key] = _value(value.strip(), change, figure)
    return document


def _table(raw: dict[str, Any], tables: Sequence[str], change: str) -> dict[str, Any]:
    """The table that a change is made in."""
    here: Any = raw
    for name in tables:
        if isinstance(here, list):
            chosen = [table for table in here if table.get("name") == name]
            if chosen:
                here = chosen[0]
                continue
            here = _only(here, change)
        here = here.get(name) if isinstance(here, dict) else None
        if here is None:
            raise SpecError(f"--set: the profile has no {name!r} there", f"got {change!r}", _HINT)
    table = _only(here, change) if isinstance(here, list) else here
    if not isinstance(table, dict):
        raise SpecError(f"--set: {tables[-1]!r} has no keys", f"got {change!r}", _HINT)
    if "value" in table and "source" in table:
        raise SpecError("--set replaces a whole figure", f"got {change!r}", 'for example nodes.bandwidth="100 Gb/s"')
    return table


def _only(tables: list[Any], change: str) -> Any:
    """The one table of a list."""
    if len(tables) != 1:
        names = ", ".join(str(table.get("name")) for table in tables)
        raise SpecError("--set has to name one table", f"got {change!r}, wanted: the name of one of {names}", _HINT)
    return tables[0]


def _value(text: str, change: str, figure: bool) -> Any:
    """A number or a word; a number with a unit is a figure of a profile where a figure stands there.

    `1e1` is a whole number and `1.5e0` is none, as their values are.
    """
    if re.fullmatch(r"-?[0-9]{1,1000}", text):  # Python makes no number of more than 4300 digits
        return int(text)
    if text in ("true", "false"):
        return text == "true"
    if re.fullmatch(r"[0-9]+\.[0-9]+", text):
        return float(text)
    if _EXPONENT.fullmatch(text):
        number = Decimal(text)
        return int(number) if number == int(number) else float(number)
    if figure and re.match(r"-?[0-9]", text):
        return {"value": text, "source": f"--set {change}"}
    return text


def sweep_of(text: str) -> tuple[str, range] | None:
    """(place, values) of `nodes.count=3..12`; None where it is no sweep. SpecError for no points or too many."""
    match = _RANGE.fullmatch(text.strip())
    if not match:
        return None
    values = range(int(match["first"]), int(match["last"]) + 1)
    if not 1 <= len(values) <= MOST_POINTS:
        raise SpecError(
            f"--sweep: {text!r} has {len(values)} points", f"wanted: 1 to {MOST_POINTS}", "e.g. nodes.count=3..12"
        )
    return match["place"], values
