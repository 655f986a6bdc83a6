"""Compares a measurement with those of earlier runs, by how much these differ from one hour to another."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cephlab.lab.base.numbers import how_many, t_quantile
from cephlab.lab.checks.regression import FOUND, STORED, judge
from cephlab.lab.checks.verdict import Outcome
from cephlab.lab.telemetry.compare import (
    ALONE,
    CPU_SPREAD,
    LEAST_AMOUNT,
    TRAFFIC_SPREAD,
    CostChange,
    at_least,
    compare,
    few,
)
from cephlab.lab.telemetry.demand import OSD_ROLES, Resource
from cephlab.lab.telemetry.demandfile import Measurement
from cephlab.lab.telemetry.describe import NAMES
from cephlab.lab.telemetry.plan import WORKING
from cephlab.lab.telemetry.regression import CONFIDENCE, Ratio, covariates

HOUR_S = 3600.0
LEAST_HOURS = 6
"""Different hours that earlier runs must come from before a rise above them can fail. How much costs vary from hour to
hour is estimated from them, and from fewer the interval is too wide to find anything (docs/regression.md)."""
MOST_HOURS = 16
"""Only the first hours are compared with: a mean that moved along would follow a slow drift, and never show it."""


@dataclass(frozen=True)
class Earlier:
    """A measurement of an earlier run. run: name of its archive; began_s: when it began, in seconds since 1970."""

    run: str
    began_s: float
    measured: Measurement


@dataclass(frozen=True)
class Since:
    """What changed since earlier runs. hours: how many different ones they are of, 0 if the machine's pace is not
    known; runs: names of the archives; changes: those that count; why_none: why there are none."""

    hours: int
    runs: tuple[str, ...]
    changes: tuple[CostChange, ...]
    why_none: str

    @property
    def words(self) -> str:
        """What was compared with, for a reader."""
        hours = f" of {how_many(self.hours, 'hour')}" if self.hours else ""
        ends = self.runs[0] if len(self.runs) == 1 else f"{self.runs[0]} to {self.runs[-1]}"
        return f"compared with {how_many(len(self.runs), 'earlier run')}{hours}: {ends}"

    @property
    def judged(self) -> tuple[CostChange, ...]:
        """The changes that can be told. The others must not decide: a slow hour has them too."""
        certain = (Outcome.PASS, Outcome.FAIL) if self.hours >= LEAST_HOURS else (Outcome.PASS,)
        return tuple(change for change in self.changes if change.outcome in certain)

    @property
    def untold(self) -> str:
        """In words, the changes that cannot be told; empty without any."""
        rest = [change.line for change in self.changes if change not in self.judged]
        few = "" if self.hours >= LEAST_HOURS else f" with fewer than {LEAST_HOURS} hours"
        return f"not judged{few}: {'; '.join(rest)}" if rest else ""


Hours = Sequence[Sequence[Earlier]]


def since(earlier: Sequence[Earlier], now: Measurement) -> Since | None:
    """The changes of costs since earlier runs of the same operation, release and machine; None without such runs.

    Runs of the same image are taken if they are of enough hours, else those of every image. With too few hours the
    newest run alone is compared with, as a stored baseline is.
    """
    if not earlier:
        return None
    same = [run for run in earlier if run.measured.demand.image == now.demand.image]
    hours = by_hour(same) if len(by_hour(same)) >= LEAST_HOURS else by_hour(earlier)
    paced = [[run for run in hour if _pace(run.measured) is not None] for hour in hours]
    pace = _pace(now)
    known = [hour for hour in paced if hour][:MOST_HOURS] if pace is not None else []
    if pace is not None and len(known) >= LEAST_HOURS:
        runs = tuple(run.run for hour in known for run in hour)
        return Since(len(known), runs, tuple(_changes(known, now, pace)), "none of its costs is above 0 in every run")
    newest = max(same or earlier, key=lambda run: run.began_s)
    (compared,) = compare([newest.measured], [now])
    counted = tuple(change for change in compared.changes if change.outcome is not None)
    return Since(len(known), (newest.run,), counted, compared.verdict.reason)


def by_hour(earlier: Sequence[Earlier]) -> list[list[Earlier]]:
    """Runs in the order of their beginnings, those together that began within an hour: they met the same machine."""
    hours: list[list[Earlier]] = []
    for run in sorted(earlier, key=lambda each: each.began_s):
        if not hours or run.began_s - hours[-1][0].began_s >= HOUR_S:
            hours.append([])
        hours[-1].append(run)
    return hours


def _pace(measured: Measurement) -> float | None:
    """Mean logarithm of the CPU time of the reference work during the load; None if not every batch has it."""
    paces = covariates(measured.batches).get("pace")
    return float(np.mean(paces)) if paces else None


def _changes(hours: Hours, now: Measurement, pace: float) -> Iterator[CostChange]:
    """The CPU time of the OSDs, and each kind of traffic that surely rose. pace: that of now."""
    paces = [[earlier_pace for run in hour if (earlier_pace := _pace(run.measured)) is not None] for hour in hours]
    moved = pace - float(np.mean([np.mean(of_hour) for of_hour in paces]))
    cpu = [[_cpu(run.measured) for run in hour] for hour in hours]
    yield from _change("CPU of OSDs", cpu, _cpu(now), Resource.CPU_USER_S, (CPU_SPREAD, moved))
    for role in WORKING:
        for resource, least in LEAST_AMOUNT.items():
            demands = [now.demand, *(run.measured.demand for hour in hours for run in hour)]
            if all(resource in demand.costs.get(role, {}) for demand in demands):
                known = [[run.measured.demand.of(role, resource) for run in hour] for hour in hours]
                amounts, after = [at_least(hour, least) for hour in known], max(least, now.demand.of(role, resource))
                what = f"{NAMES[resource]} by {role}{'' if amounts == known else few(resource)}"
                yield from _change(what, amounts, after, resource, (TRAFFIC_SPREAD, 0.0))


def _cpu(measured: Measurement) -> float:
    return sum(measured.demand.cpu_s(role) for role in OSD_ROLES)


def _change(
    what: str, before: Sequence[Sequence[float]], after: float, resource: Resource, doubts: tuple[float, float]
) -> Iterator[CostChange]:
    if min((after, *(value for hour in before for value in hour))) <= 0:
        return
    whole = resource is Resource.CPU_USER_S
    ratio = rise(before, after, *doubts, confidence=CONFIDENCE if whole else ALONE)
    least = STORED if whole else FOUND
    outcome = judge(ratio.value, ratio.low, ratio.high, least)
    if whole or outcome is Outcome.FAIL:
        usual = after / ratio.value
        yield CostChange(what, usual, after, ratio, outcome, resource, least)


def rise(before: Sequence[Sequence[float]], after: float, spread: float, moved: float, *, confidence: float) -> Ratio:
    """after / usual, where the costs before are grouped by hours; the interval is that of one more hour.

    spread: the least standard deviation of a logarithm that is believed; moved: by how much the logarithm of the pace
    of the machine differs from the usual one, which the result is uncertain by.
    Source: prediction interval of a normal sample, e.g. Montgomery, Design and Analysis of Experiments, chapter 2.
    """
    means = [float(np.mean(np.log(hour))) for hour in before]
    step = math.log(after) - float(np.mean(means))
    if len(means) < 2:
        return Ratio.of_logarithms(step, -math.inf, math.inf)
    variance = max(float(np.var(means, ddof=1)), spread**2) * (1 + 1 / len(means)) + moved**2
    half = t_quantile(len(means) - 1, confidence) * math.sqrt(variance)
    return Ratio.of_logarithms(step, step - half, step + half)
