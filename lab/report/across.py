"""Tables of scenarios by the architectures of two roles, for example of the client and of the primary."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cephlab.lab.archive.archive import Record

_VARIANT = re.compile(r"^(?P<base>[^\[]+)\[(?P<parts>[^\]]*)\]$")
_ARCHS = {"x86_64", "aarch64"}

Cell = tuple[tuple[str, Record], ...]
"""One cell of a matrix: its variants, labelled by their other parameters."""


@dataclass(frozen=True)
class Matrix:
    """A table of variants. corner: what its rows and its columns are."""

    name: str
    caption: str
    corner: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]


@dataclass(frozen=True)
class _Variant:
    """A record of a scenario. down, across: the architectures of its two roles; label: its other parameters."""

    record: Record
    down: str
    across: str
    label: str


_Scenarios = dict[str, list[_Variant]]


def matrices(records: Sequence[Record]) -> Iterator[Matrix]:
    """Scenarios with two architectures in their names, e.g. `x[client=x86_64,primary=aarch64,pool=ec21]`.

    Those without other parameters share a table, with a row each: a table for each of them would fill pages.
    """
    for (down, across), scenarios in _by_roles(records).items():
        plain = {name: variants for name, variants in scenarios.items() if not any(each.label for each in variants)}
        if len(plain) == 1:
            plain = {}
        for name, variants in scenarios.items():
            if name not in plain:
                yield _of_one(name, down, across, variants)
        if plain:
            yield _of_several(down, across, plain)


def _by_roles(records: Sequence[Record]) -> dict[tuple[str, str], _Scenarios]:
    roles: dict[tuple[str, str], _Scenarios] = {}
    for record in records:
        match = _VARIANT.match(record.scenario)
        parts = dict(part.split("=", 1) for part in match["parts"].split(",") if "=" in part) if match else {}
        named = [key for key, value in parts.items() if value in _ARCHS]
        if match and len(named) >= 2:
            down, across, *_ = named
            label = ", ".join(value for key, value in parts.items() if key not in (down, across))
            variant = _Variant(record, parts[down], parts[across], label)
            roles.setdefault((down, across), {}).setdefault(match["base"], []).append(variant)
    return roles


def _of_one(name: str, down: str, across: str, variants: Sequence[_Variant]) -> Matrix:
    columns = tuple(sorted({each.across for each in variants}, reverse=True))
    lines = sorted({each.down for each in variants}, reverse=True)
    return Matrix(
        name,
        f"{name} by {down} and {across}",
        f"{down} ↓ \N{NO-BREAK SPACE} {across} →",
        columns,
        tuple((line, tuple(_cell(variants, line, column) for column in columns)) for line in lines),
    )


def _of_several(down: str, across: str, scenarios: _Scenarios) -> Matrix:
    pairs = sorted({(each.down, each.across) for variants in scenarios.values() for each in variants}, reverse=True)
    return Matrix(
        f"{down} and {across}",
        f"scenarios by {down} and {across}",
        f"{down} → {across}",
        tuple(" → ".join(pair) for pair in pairs),
        tuple((name, tuple(_cell(variants, *pair) for pair in pairs)) for name, variants in scenarios.items()),
    )


def _cell(variants: Sequence[_Variant], down: str, across: str) -> Cell:
    return tuple((each.label, each.record) for each in variants if (each.down, each.across) == (down, across))
