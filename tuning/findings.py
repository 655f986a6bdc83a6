"""Findings of a publication about databases over caches, as data: what was compared, at which end of which axis."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pydantic import ConfigDict, with_config

from cephlab.lab.spec.specfile import load_model

SHIPPED = Path(__file__).with_name("findings")
AXES = ("threads", "rows", "block_bytes")


class End(StrEnum):
    """Which of the measured values of an axis."""

    LOWEST = "lowest"
    HIGHEST = "highest"


class Metric(StrEnum):
    """Of each second of a run: transactions, 95th percentile of their latency, share of accesses that hit the cache."""

    TPS = "tps"
    P95_MS = "p95_ms"
    HITS = "hits"


class Direction(StrEnum):
    """Whether one side did more or less than the other."""

    MORE = "more"
    LESS = "less"


@dataclass(frozen=True)
class ComparedSide:
    """One side of a comparison. An axis that is None is the same on both; evicts: whether the cache evicted."""

    cache: str
    threads: End | None = None
    rows: End | None = None
    block_bytes: End | None = None
    evicts: bool | None = None

    def end(self, axis: str) -> End | None:
        return {"threads": self.threads, "rows": self.rows, "block_bytes": self.block_bytes}[axis]


@dataclass(frozen=True)
class PaperFinding:
    """One finding. where: section and conditions. wanted: how `of` compares to `beside`; least, most: range of `of`.

    beyond: why no measurement can be compared with it.
    """

    name: str
    where: str
    metric: Metric = Metric.TPS
    of: ComparedSide | None = None
    beside: ComparedSide | None = None
    wanted: Direction | None = None
    least: float | None = None
    most: float | None = None
    beyond: str = ""

    def __post_init__(self) -> None:
        ranged = self.least is not None or self.most is not None
        compared = self.wanted is not None and self.beside is not None
        ways = sum((bool(self.beyond), self.of is not None and ranged, self.of is not None and compared))
        if ways != 1:
            raise ValueError(f"{self.name}: exactly one of beyond; of with wanted and beside; of with least or most")


@with_config(ConfigDict(extra="forbid"))  # an unknown key is a typing error; holds for the classes above, too
@dataclass(frozen=True)
class PaperFindings:
    """All of one publication. note: what a reader has to know to compare them with other figures."""

    title: str
    findings: tuple[PaperFinding, ...]
    note: str = ""


def load_findings(path: Path) -> PaperFindings:
    """Read one file; SpecError names file, key, got and wanted."""
    return load_model(path, PaperFindings, what="a file of findings", hint="docs/dmcache.md says what they are")
