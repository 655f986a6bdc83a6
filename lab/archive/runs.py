"""Compares verdicts, figures and series of two runs, and within one run the figures of both architectures."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cephlab.lab.archive.archive import Archive, Ending
from cephlab.lab.base.numbers import how_many, percent
from cephlab.lab.checks.verdict import Outcome, Verdict
from cephlab.lab.spec.arch import Arch
from cephlab.lab.telemetry.demand import Interval
from cephlab.lab.telemetry.regression import Ratio
from cephlab.lab.telemetry.statistics import LEAST_OF_A_MEAN, interval, ratio_of, ratio_of_means

EQUAL = 0.10
"""A figure is equal on two architectures if the whole interval of their ratio is within this distance of 1."""
POWER_UNITS = ("W", "ops/J")
"""Power is only shown: two architectures need not use the same power for the same work."""

_SERIES = "series"
"""Kind of the events, repeated here because lab/report/series.py, which draws them, imports this folder."""
_PREDICTED = ("prediction", "requirement")
"""Kinds of events that name the demands they are based on."""
_TIME = "s"
"""Axis of a chart over the time of a scenario."""
TENTHS = 10
_BETTER, _WORSE = (Ending.PASS, Ending.INCONCLUSIVE), (Ending.FAIL, Ending.ERROR)
_SWAPPED = {Arch.X86_64.value: Arch.AARCH64.value, Arch.AARCH64.value: Arch.X86_64.value}
_ARCH = re.compile("|".join(_SWAPPED))


@dataclass(frozen=True)
class EndingChange:
    """A scenario whose ending changed. None: the run does not have it."""

    scenario: str
    before: Ending | None
    after: Ending | None
    reason: str


@dataclass(frozen=True)
class FigureRatio:
    """One figure on two sides, in its unit. ratio: after / before; low, high: interval of the ratio.

    If neither side has an interval, low and high are the ratio itself and exact is True. outcome: None: shown only.
    """

    scenario: str
    metric: str
    unit: str
    before: float
    after: float
    ratio: float
    low: float
    high: float
    exact: bool
    outcome: Outcome | None = None
    why: str = ""


@dataclass(frozen=True)
class RunsCompared:
    """conditions: how the runs differ, in words; same: number of scenarios with the same ending.

    series: lines that both runs have, as the ratio of their points at equal positions on the axis. For a chart over
    time it is the ratio of their means in each tenth of the scenario, since no two runs have samples at the same times.
    """

    conditions: tuple[str, ...]
    same: int
    endings: tuple[EndingChange, ...]
    figures: tuple[FigureRatio, ...]
    series: tuple[FigureRatio, ...]
    verdict: Verdict


def compare_runs(before: Archive, after: Archive) -> RunsCompared:
    """What changed from one run to another. A figure alone does not affect the verdict: its scenario judged it."""
    changes = tuple(_endings(before, after))
    names = {record.scenario for record in before.records} & {record.scenario for record in after.records}
    same = len(names) - sum(1 for change in changes if change.scenario in names)
    left, right = ({_key(event): event for event in _figures(run)} for run in (before, after))
    figures = tuple(_ratio(*key, [left[key]], [right[key]]) for key in left if key in right)
    series = tuple(_series(before, after))
    return RunsCompared(tuple(_conditions(before, after)), same, changes, figures, series, _judge(changes, same))


def _series(before: Archive, after: Archive) -> Iterator[FigureRatio]:
    """Each line that both runs have: the geometric mean of the ratios of its points, with its interval."""
    left, right = _lines(before), _lines(after)
    for key in left:
        if key not in right:
            continue
        both = [(left[key][x], right[key][x]) for x in sorted(left[key].keys() & right[key].keys())]
        logs = [math.log(new) - math.log(old) for old, new in both if old > 0 and new > 0]
        if len(logs) < LEAST_OF_A_MEAN:
            continue
        spread = interval(logs)
        ratio = Ratio.of_logarithms(spread.mean, spread.low, spread.high)
        old, new = (sum(side) / len(both) for side in zip(*both, strict=True))
        points = f"mean of {how_many(len(logs), 'point')}"
        yield FigureRatio(*key, points, old, new, ratio.value, ratio.low, ratio.high, exact=False)


def _lines(run: Archive) -> dict[tuple[str, str], dict[float, float]]:
    """(scenario, chart with panel and label) -> points of a line, as recorded by `record_series`."""
    lines: dict[tuple[str, str], dict[float, float]] = {}
    for event in run.events:
        if event.kind != _SERIES:
            continue
        drawn_lines = event.data["lines"]
        end = max((float(x) for line in drawn_lines for x, _ in line["points"]), default=0.0)
        for line in drawn_lines:
            name = f"{event.data['title']}: {line['panel']}, {line['label']}"
            points = [(float(x), float(y)) for x, y in line["points"]]
            lines[event.scenario, name] = _tenths(points, end) if event.data["axis"] == _TIME else dict(points)
    return lines


def _tenths(points: Sequence[tuple[float, float]], end: float) -> dict[float, float]:
    """Number of a tenth of the time until `end` -> mean of the points in it."""
    held: dict[float, list[float]] = {}
    for at_s, value in points:
        held.setdefault(float(min(TENTHS - 1, int(TENTHS * at_s / end))) if end else 0.0, []).append(value)
    return {tenth: sum(values) / len(values) for tenth, values in held.items()}


def _endings(before: Archive, after: Archive) -> Iterator[EndingChange]:
    left, right = ({record.scenario: record for record in run.records} for run in (before, after))
    for name in {**left, **right}:
        old, new = left.get(name), right.get(name)
        if old is None or new is None or old.ending is not new.ending:
            record = new or old
            ends = (old.ending if old else None, new.ending if new else None)
            yield EndingChange(name, *ends, record.reason if record else "")


def _judge(changes: Sequence[EndingChange], same: int) -> Verdict:
    """Fail if a scenario newly fails; inconclusive if a pass is gone, or if no scenario is in both runs."""
    lost = [change for change in changes if change.before is Ending.PASS]
    worse = [change for change in changes if change.before in _BETTER and change.after in _WORSE]
    both = same + sum(1 for change in changes if change.before and change.after)
    if worse:
        return Verdict(
            Outcome.FAIL, f"{how_many(len(worse), 'scenario fails', 'scenarios fail')} now and did not before"
        )
    if not both:
        return Verdict(Outcome.INCONCLUSIVE, "no scenario is in both runs")
    if lost:
        lost_words = how_many(len(lost), "scenario that passed before does", "scenarios that passed before do")
        return Verdict(Outcome.INCONCLUSIVE, f"{lost_words} not pass now")
    scenarios = how_many(both, "scenario is", "scenarios are")
    return Verdict(Outcome.PASS, f"{scenarios} in both runs, and all that passed before still pass")


def _conditions(before: Archive, after: Archive) -> Iterator[str]:
    for what, old, new in zip(_CONDITIONS, _facts(before), _facts(after), strict=True):
        if old != new:
            yield f"{what}: {old} before, {new} after"


_CONDITIONS = (
    *("commit", "release", "Ceph", "provider", "tier", "seed", "architectures", "machine"),
    *("profile", "changes to the profile", "demands"),
)
_AGE = re.compile(r"^measured here [^:]+: ")
"""Age of a demand file when a run began (`tuning/demandsets.py`)."""


def _facts(run: Archive) -> tuple[str, ...]:
    manifest, clusters = run.manifest, run.manifest["clusters"]
    host = manifest["host"]

    def distinct(values: Iterator[str]) -> str:
        return ", ".join(sorted(set(values))) or "none"

    return (
        str(manifest.get("commit") or "unknown"),
        str(manifest["release"]),
        distinct(image["ceph_version"] for cluster in clusters for image in cluster["images"].values()),
        distinct(str(cluster["provider"]) for cluster in clusters),
        str(manifest["tier"]),
        str(manifest["seed"]),
        distinct(str(node["arch"]) for cluster in clusters for node in cluster["hosts"].values()),
        f"{host['arch']}, {host['cores']} cores, {host['system']}",
        str(manifest.get("profile") or "none"),
        ", ".join(manifest.get("changes", ())) or "none",
        distinct(_AGE.sub("", str(event.data["demands"])) for event in run.events if event.kind in _PREDICTED),
    )


def parity(run: Archive) -> tuple[FigureRatio, ...]:
    """Each figure that a run has for both architectures. before: x86_64; after: aarch64.

    A figure belongs to an architecture if its name or that of its scenario contains the architecture, or the name of
    a machine with it. Values of several machines are combined. Emulated machines get no verdict.
    """
    hosts = _hosts(run)
    named: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for event in _figures(run):
        scenario, metric, unit = _key(event)
        named.setdefault((scenario, _with_archs(metric, hosts), unit), []).append(event)
    emulated = {str(host["arch"]) for host in hosts.values() if host["emulated"]}
    return tuple(_parity(named, emulated))


def _parity(named: Mapping[tuple[str, str, str], list[Mapping[str, Any]]], emulated: set[str]) -> Iterator[FigureRatio]:
    for key, events in named.items():
        scenario, metric, unit = key
        first = _ARCH.search(f"{scenario} {metric}")
        other = named.get((_swapped(scenario), _swapped(metric), unit))
        if first is None or first[0] != Arch.X86_64.value or other is None:
            continue
        ratio = _ratio(scenario, metric, unit, events, other)
        if emulated:
            yield _judged(ratio, None, f"{', '.join(sorted(emulated))} is emulated: shown only")
        elif unit in POWER_UNITS:
            yield _judged(ratio, None, "power differs by architecture: shown only")
        elif ratio.exact:
            yield _judged(ratio, Outcome.INCONCLUSIVE, "a single value on each side has no interval")
        else:
            yield _judged(ratio, *_within(ratio))


def _within(ratio: FigureRatio) -> tuple[Outcome, str]:
    if max(1 - ratio.low, ratio.high - 1) <= EQUAL:
        return Outcome.PASS, f"equal within {percent(EQUAL, '.0f')}"
    if ratio.high < 1 - EQUAL or ratio.low > 1 + EQUAL:
        return Outcome.FAIL, f"differs by more than {percent(EQUAL, '.0f')}"
    return Outcome.INCONCLUSIVE, "the interval crosses the limit"


def _judged(ratio: FigureRatio, outcome: Outcome | None, why: str) -> FigureRatio:
    return FigureRatio(**{**vars(ratio), "outcome": outcome, "why": why})


def _figures(run: Archive) -> list[Mapping[str, Any]]:
    return [{**event.data, "scenario": event.scenario} for event in run.events if event.kind == "figure"]


def _key(figure: Mapping[str, Any]) -> tuple[str, str, str]:
    return str(figure["scenario"]), str(figure["metric"]), str(figure["unit"])


def _ratio(
    scenario: str, metric: str, unit: str, before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]
) -> FigureRatio:
    """after / before: for several values from their spread, otherwise from their own intervals."""
    old, new = ([float(figure["value"]) for figure in side] for side in (before, after))
    mean_old, mean_new = (sum(values) / len(values) for values in (old, new))
    value = 1.0 if mean_new == mean_old else mean_new / mean_old if mean_old else math.inf
    if min(len(old), len(new)) >= LEAST_OF_A_MEAN:
        spread = ratio_of_means(new, old)
        return FigureRatio(scenario, metric, unit, mean_old, mean_new, value, spread.low, spread.high, exact=False)
    sides = [
        Interval(mean, min(float(f["low"]) for f in side), max(float(f["high"]) for f in side), len(side))
        for mean, side in ((mean_old, before), (mean_new, after))
    ]
    exact = all(side.low == side.high for side in sides)
    spread = ratio_of(sides[1], sides[0])
    ends = (value, value) if exact else (spread.low, spread.high)
    return FigureRatio(scenario, metric, unit, mean_old, mean_new, value, *ends, exact=exact)


def _hosts(run: Archive) -> dict[str, Mapping[str, Any]]:
    """Machines by name, without those whose architecture differs between clusters."""
    named: dict[str, list[Mapping[str, Any]]] = {}
    for cluster in run.manifest["clusters"]:
        for name, host in cluster["hosts"].items():
            named.setdefault(str(name), []).append(host)
    return {name: hosts[0] for name, hosts in named.items() if len({str(host["arch"]) for host in hosts}) == 1}


def _with_archs(metric: str, hosts: Mapping[str, Mapping[str, Any]]) -> str:
    """A metric with the names of machines replaced by their architectures. Such a name may have hyphens and dots."""
    names = "|".join(map(re.escape, sorted(hosts, key=len, reverse=True)))
    named = re.compile(rf"(?<![\w-])(?:{names})(?![\w-])") if names else None
    return named.sub(lambda name: str(hosts[name[0]]["arch"]), metric) if named else metric


def _swapped(text: str) -> str:
    return _ARCH.sub(lambda match: _SWAPPED[match[0]], text)
