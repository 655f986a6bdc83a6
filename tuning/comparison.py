"""Compares a database on caches with a publication: curves over threads, and a verdict on each of its findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, with_config

from cephlab.lab.history.history import Event
from cephlab.lab.report.page import Agreement, Beside, Judged
from cephlab.lab.report.series import Line, line_chart
from cephlab.lab.spec.specfile import load_model
from cephlab.lab.telemetry.demand import Interval
from cephlab.lab.telemetry.statistics import interval, ratio_of_means

PAPER = Path(__file__).with_name("findings") / "incerta-oltp.toml"
TITLE = "The 2015 paper: a database on caches"
AXES = ("threads", "rows", "block_bytes")


class End(StrEnum):
    """Which of an axis's measured values."""

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

    beyond: why no measurement can be compared with it. here: why a lab's runs are shown but do not decide. anywhere:
    whether `here` comes from the suite's own sizes and runs, so that it holds on a profile's machines too. by_run:
    whether a value is the mean of a run and not a second, because several runs of one setting differ by more.
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
    here: str = ""
    anywhere: bool = False
    by_run: bool = False

    def __post_init__(self) -> None:
        ranged = self.least is not None or self.most is not None
        parts = {"beyond": self.beyond, "of": self.of, "range": ranged, "wanted": self.wanted, "beside": self.beside}
        parts_given = {name for name, part in parts.items() if part}
        if parts_given not in ({"beyond"}, {"of", "range"}, {"of", "wanted", "beside"}):
            raise ValueError(f"{self.name}: exactly one of: beyond; of with wanted and beside; of with least or most")
        if self.anywhere and not self.here:
            raise ValueError(f"{self.name}: anywhere needs here, the reason")


@with_config(ConfigDict(extra="forbid"))  # an unknown key is a typing error; holds for the classes above, too
@dataclass(frozen=True)
class PaperFindings:
    """All findings of one publication. note: what a reader has to know to compare them with other figures."""

    title: str
    findings: tuple[PaperFinding, ...]
    note: str = ""


def load_findings(path: Path) -> PaperFindings:
    """Read one file; SpecError names file, key, got and wanted."""
    return load_model(path, PaperFindings, what="a file of findings", hint="docs/dmcache.md says what they are")


NAMES = {"none": "no cache", "writeback": "dm-cache", "tier": "cache tier"}
CURVES = {Metric.TPS: "transactions a second", Metric.P95_MS: "95th percentile of a second's latency, ms"}
_LEAST_COUNTS = 2
_LEAST_VALUES = 2


def compared(events: Sequence[Event]) -> Beside | None:
    """Compare the runs of one history or several with the paper; None where there is no run."""
    groups: dict[str, list[OltpRun]] = {}
    for run in runs(events):
        groups.setdefault(run.scenario, []).append(run)
    if not groups:
        return None
    paper = load_findings(PAPER)
    return Beside(
        title=TITLE,
        source=paper.title,
        note=paper.note,
        plots=tuple(
            line_chart(f"{name}: over threads", lines, axis="threads")
            for name, group in groups.items()
            if (lines := tuple(_curves(group)))
        ),
        judged=tuple(verdict for finding in paper.findings for verdict in judge(finding, groups)),
    )


def together(events: Sequence[Event], others: Iterable[tuple[str, Sequence[Event]]]) -> list[Event]:
    """Events of one archive and of others. Scenarios get the archive's name, so that archives are never mixed."""
    return [
        *events,
        *(replace(event, scenario=f"{event.scenario} of {name}") for name, more in others for event in more),
    ]


def _curves(group: Sequence[OltpRun]) -> Iterator[Line]:
    """Lines over threads, for caches that ran with several counts of threads."""
    order = [*NAMES, *sorted({run.cache for run in group} - set(NAMES))]
    ordered = sorted(group, key=lambda run: (order.index(run.cache), run.threads))
    for metric, panel in CURVES.items():
        for cache, same in groupby(ordered, key=lambda run: run.cache):
            points = [
                (float(threads), interval(values).mean)
                for threads, at in groupby(same, key=lambda run: run.threads)
                if (values := _values(metric, list(at)))
            ]
            if len(points) >= _LEAST_COUNTS:
                yield Line(panel, NAMES.get(cache, cache), tuple(points))


def judge(finding: PaperFinding, groups: Mapping[str, Sequence[OltpRun]]) -> Iterator[Judged]:
    """One verdict for each scenario with the runs that a finding needs; one CANNOT_SAY where there is none."""
    if finding.beyond:
        yield Judged(finding.name, finding.where, Agreement.CANNOT_SAY, finding.beyond)
        return
    verdicts = [verdict for name, group in groups.items() if (verdict := _judged(finding, name, group)) is not None]
    if verdicts:
        yield from verdicts
    else:
        yield Judged(finding.name, finding.where, Agreement.CANNOT_SAY, f"missing: {_needed(finding)}")


@dataclass(frozen=True)
class Held:
    """What runs show for a finding. least, most: the range that agrees with it; words: how it was measured.

    by_misses: the ratio of both sides if only accesses that miss a cache took time; None without two such caches.
    """

    measured: Interval
    least: float | None
    most: float | None
    words: str
    by_misses: float | None = None

    @property
    def opposite(self) -> bool:
        """Whether the whole interval contradicts the finding."""
        return agreement(self.measured, self.least, self.most) is Agreement.NOT_AGREED

    @property
    def cold(self) -> bool:
        """Whether misses explain that the interval contradicts the finding: one cache was colder than the other."""
        if self.by_misses is None or not self.opposite:
            return False
        low, high = (self.least is not None, self.most is not None)
        return (low and self.by_misses <= self.measured.high) or (high and self.by_misses >= self.measured.low)


def _judged(finding: PaperFinding, name: str, group: Sequence[OltpRun]) -> Judged | None:
    holds = held_in(finding, group)
    if holds is None:
        return None
    verdict = agreement(holds.measured, holds.least, holds.most)
    text = _text(holds.measured, "runs" if finding.by_run else "seconds")
    return Judged(finding.name, finding.where, verdict, f"{name}: {text}{holds.words}")


def held_in(finding: PaperFinding, group: Sequence[OltpRun]) -> Held | None:
    """What the runs of one scenario show for a finding; None where they lack one of its sides."""
    if finding.of is None:
        return None
    if finding.beside is None:
        left = _values(finding.metric, _narrowed(finding.of, finding.of, group)[0], by_run=finding.by_run)
        return Held(interval(left), finding.least, finding.most, "") if len(left) >= _LEAST_VALUES else None
    sides = _narrowed(finding.of, finding.beside, group)
    left, other = (_values(finding.metric, side, by_run=finding.by_run) for side in sides)
    if len(left) < _LEAST_VALUES or len(other) < _LEAST_VALUES:
        return None
    least, most = (1.0, None) if finding.wanted is Direction.MORE else (None, 1.0)
    turns = f" of {len(sides[0])} and {len(sides[1])} runs"
    words = f"{turns}, as a ratio: {_at(sides[0])} to {_at(sides[1])}"
    return Held(ratio_of_means(left, other), least, most, words, _by_misses(*sides))


def _by_misses(of: Sequence[OltpRun], beside: Sequence[OltpRun]) -> float | None:
    hits = [_values(Metric.HITS, side) for side in (of, beside)]
    if not all(hits):
        return None
    misses, others = (1 - sum(shares) / len(shares) for shares in hits)
    return others / misses if misses else None


def agreement(measured: Interval, least: float | None, most: float | None) -> Agreement:
    """AGREED when the whole interval is within the range, NOT_AGREED when it is outside."""
    if (least is None or measured.low > least) and (most is None or measured.high < most):
        return Agreement.AGREED
    if (least is not None and measured.high < least) or (most is not None and measured.low > most):
        return Agreement.NOT_AGREED
    return Agreement.CANNOT_SAY


def _narrowed(of: ComparedSide, beside: ComparedSide, group: Sequence[OltpRun]) -> tuple[list[OltpRun], list[OltpRun]]:
    """The runs of both sides, selected axis by axis; both empty where the group lacks them."""
    left, other = _matching(of, group), _matching(beside, group)
    for axis in AXES:
        if axis == "block_bytes" and of.cache != beside.cache:
            continue  # a side without blocks is compared with all block sizes
        values = ({getattr(run, axis) for run in side} for side in (left, other))
        chosen = _chosen(of.end(axis), beside.end(axis), *values)
        if chosen is None:
            return [], []
        left = [run for run in left if getattr(run, axis) == chosen[0]]
        other = [run for run in other if getattr(run, axis) == chosen[1]]
    return left, other


def _chosen(end: End | None, beside: End | None, left: set[int], other: set[int]) -> tuple[int, int] | None:
    """The values of an axis to compare: one that both sides have, or different ones for different ends; else None."""
    if not left or not other:
        return None
    if end != beside:
        apart = (_end(end, left), _end(beside, other))
        return apart if apart[0] != apart[1] else None
    common = left & other
    # A single count of threads cannot be the highest of several; it can stand for the lowest.
    if not common or (end is End.HIGHEST and len(common) < _LEAST_COUNTS):
        return None
    value = _end(end, common)
    return value, value


def _matching(side: ComparedSide, group: Sequence[OltpRun]) -> list[OltpRun]:
    return [
        run for run in group if run.cache == side.cache and (side.evicts is None or (run.evicted > 0) == side.evicts)
    ]


def _end(end: End | None, values: Iterable[int]) -> int:
    return max(values) if end is End.HIGHEST else min(values)


def _values(metric: Metric, side: Sequence[OltpRun], *, by_run: bool = False) -> list[float]:
    """Every second of all runs, or the mean of each run."""
    of_runs = [seconds for run in side if (seconds := getattr(run, metric.value))]
    return [sum(run) / len(run) for run in of_runs] if by_run else [value for run in of_runs for value in run]


def _at(side: Sequence[OltpRun]) -> str:
    run = side[0]
    blocks = f", blocks of {run.block_bytes >> 10} KiB" if run.block_bytes else ""
    evicting = ", evicting" if run.evicted else ""
    return f"{NAMES.get(run.cache, run.cache)} (threads {run.threads}, rows {run.rows}{blocks}{evicting})"


def _text(measured: Interval, of: str) -> str:
    return f"{measured.mean:.3g} [{measured.low:.3g} .. {measured.high:.3g}] over {measured.samples} {of}"


def _needed(finding: PaperFinding) -> str:
    """Which runs are missing to judge a finding."""
    runs_of = []
    for side in (finding.of, finding.beside):
        if side is not None:
            words = [NAMES.get(side.cache, side.cache), *(f"{end} {axis}" for axis in AXES if (end := side.end(axis)))]
            if side.evicts is not None:
                words.append("evictions" if side.evicts else "no eviction")
            runs_of.append(f"{'several ' if finding.by_run else ''}runs with {', '.join(words)}")
    return " and ".join(runs_of)


WARM_S = 2
"""Seconds of each run that do not count, as buffer pool and cache are cold."""
KIND = "oltp"

Look = Mapping[str, Any]


@dataclass(frozen=True)
class OltpRun:
    """One run. scenario: with the archive's name, where there are several; cache: none, tier, or a mode of dm-cache.

    tps, p95_ms, hits: second by second; hits as a share of accesses, empty without a cache. evicted: how much the cache
    evicted; block_bytes: of dm-cache, else 0. reads, writes: requests to the image for one transaction.
    """

    scenario: str
    cache: str
    threads: int
    rows: int
    block_bytes: int
    tps: tuple[float, ...]
    p95_ms: tuple[float, ...]
    hits: tuple[float, ...]
    evicted: int
    reads: float
    writes: float


def runs(events: Sequence[Event]) -> list[OltpRun]:
    """Every run whose event names the cache; older histories do not name it."""
    ended = []
    looks: dict[tuple[str, str], list[Event]] = {}
    for event in events:
        if event.kind in _COUNTS:
            looks.setdefault((event.scenario, event.data["stand"]), []).append(event)
        elif event.kind == KIND and "cache" in event.data:
            # The next round has the same labels: the counters read so far belong to this run only.
            ended.append(_run(event, looks.pop((event.scenario, event.data["stand"]), [])))
    return ended


def _run(event: Event, looks: Sequence[Event]) -> OltpRun:
    data = event.data
    steady = [sample for sample in data["samples"] if sample["at_s"] > WARM_S]
    counts = [_COUNTS[look.kind](look.data) for look in looks]
    image_traffic = data.get("traffic", {}).get("rbd", {})
    return OltpRun(
        scenario=event.scenario,
        cache=data["cache"],
        threads=data["threads"],
        rows=data["rows"],
        block_bytes=data["block_bytes"],
        tps=tuple(sample["tps"] for sample in steady),
        # A second without a commit has no latency.
        p95_ms=tuple(sample["p95_ms"] for sample in steady if sample["p95_ms"] > 0),
        hits=tuple(_shares(counts[WARM_S:])),
        evicted=counts[-1][2] - counts[0][2] if counts else 0,
        reads=image_traffic.get("reads", 0.0),
        writes=image_traffic.get("writes", 0.0),
    )


def _shares(counts: Sequence[tuple[int, int, int]]) -> Iterator[float]:
    for (hits, misses, _), (more_hits, more_misses, _) in pairwise(counts):
        accesses = more_hits - hits + more_misses - misses
        if accesses > 0:
            yield (more_hits - hits) / accesses


def _of_dmcache(look: Look) -> tuple[int, int, int]:
    hits = look.get("read_hits", 0) + look.get("write_hits", 0)
    return hits, look.get("read_misses", 0) + look.get("write_misses", 0), look.get("demotions", 0)


def _of_tier(look: Look) -> tuple[int, int, int]:
    counters = look["counters"]
    passed = counters["tier_proxy_read"] + counters["tier_proxy_write"]
    return int(counters["op_cache_hit"]), int(passed), int(counters["tier_evict"])


_COUNTS: Mapping[str, Callable[[Look], tuple[int, int, int]]] = {"cache": _of_dmcache, "tier": _of_tier}
"""Kind of event -> (hits, misses, evictions) so far."""
