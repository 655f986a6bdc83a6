"""Judges what changed over hours: the slope, the steps and the gaps of each sampled series, and whether it stalled."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from operator import itemgetter
from statistics import median
from typing import TYPE_CHECKING, Any

from cephlab.lab.checks.figures import judge_figure
from cephlab.lab.checks.observations import observations
from cephlab.lab.checks.verdict import Outcome, Verdict, merge
from cephlab.lab.checks.witnessed import witnesses
from cephlab.lab.history.history import Event, data_of

if TYPE_CHECKING:
    from cephlab.lab.checks.trend import Trend

GAP = 3.0
"""There is a gap between two samples that are more than this many usual sampling intervals apart."""

LEAST_GAP_S = 10.0
"""No gap is shorter than this: on a busy machine taking one sample takes seconds, however short the interval."""

STILL = 3
"""This many samples in a row at or below the `least` of a series are no coincidence."""

_HOUR_S = 3600.0


def drift(events: Sequence[Event]) -> Verdict:
    """Judge the series declared by `sampled` events by their `reading` events; also observations and witnesses.

    sampled: {series, unit, worse, per_hour, share, least, steps, why}. worse: `up` or `down`. per_hour: how much it may
    change in that direction per hour, as a share of its median if `share`, else in its unit; None: not judged. least:
    a series that stays at or below it fails; None: no such limit. steps: whether a lasting jump is expected.
    reading: {at_s, values}. values: series -> number, None if it could not be read. A series that was not due is
    absent.
    Inconclusive: a gap, an interval across the limit, steps that add up to more than the series may drift. A series
    that settles is judged by its second half. A series of enough samples that stays within a band as wide as its
    allowance passes.
    """
    declared = data_of(events, "sampled")
    if not declared:
        return Verdict(Outcome.INCONCLUSIVE, "no series was declared")
    samples = data_of(events, "reading")
    verdicts = [judge_series(data, samples) for data in declared]
    if any(event.kind == "observation" for event in events):
        verdicts.append(observations(events))
    return merge([*verdicts, witnesses(events)])


def judge_series(data: Mapping[str, Any], samples: Sequence[Mapping[str, Any]]) -> Verdict:
    """Judge one series."""
    name = data["series"]
    pairs = [(float(sample["at_s"]), sample["values"][name]) for sample in samples if name in sample["values"]]
    pairs.sort(key=itemgetter(0))
    known = [(at_s, float(value)) for at_s, value in pairs if value is not None and math.isfinite(value)]
    if not known:
        return _cannot_tell(f"{name}: nothing was sampled")
    still = _stood_still(known, data["least"])
    if still is not None:
        line = f"{name}: stayed at or below {data['least']:g} {data['unit']} from {still:.0f} s on"
        return Verdict(Outcome.FAIL, line, (line,))
    gap = _gap([at_s for at_s, _ in pairs], [at_s for at_s, _ in known])
    if gap:
        return _cannot_tell(f"{name}: {gap}")
    return _by_slope(data, [at_s / _HOUR_S for at_s, _ in known], [value for _, value in known])


def _by_slope(data: Mapping[str, Any], at_h: Sequence[float], values: Sequence[float]) -> Verdict:
    """Judge by the slope; if inconclusive, by whether the series leaves its allowance, then by its second half.

    So a larger allowance can turn a pass into inconclusive, never into a failure: once the slope of the whole series
    passes, the jumps of the whole series count, and its first half may have some. That is on purpose: between samples,
    a jump that stays and a quick rise that ends look alike, and only the first must not pass.
    """
    scale = float(median(values)) if data["share"] else 1.0
    if scale <= 0:
        return _cannot_tell(f"{data['series']}: its median is {scale:g}, so a share of it means nothing")
    scaled, half, allowed = [value / scale for value in values], len(values) // 2, data["per_hour"]
    whole, trended = _of_slope(data, at_h, scaled, scale)
    if allowed is None:
        return whole
    if whole.outcome is not Outcome.INCONCLUSIVE:
        return _with_steps(data, whole, trended, at_h, scale)
    if math.isfinite(trended.slope) and max(scaled) - min(scaled) <= allowed * (at_h[-1] - at_h[0]):
        line = f"{data['series']}: all values lie between {min(values):.6g} and {max(values):.6g} {data['unit']}"
        return Verdict(Outcome.PASS, line, (line, *whole.derivation))
    later, trended = _of_slope(data, at_h[half:], scaled[half:], scale)
    if later.outcome is Outcome.INCONCLUSIVE:
        return whole
    later = Verdict(later.outcome, f"{later.reason} (its second half)", (*later.derivation, *whole.derivation))
    return _with_steps(data, later, trended, at_h[half:], scale)


def _of_slope(
    data: Mapping[str, Any], at_h: Sequence[float], scaled: Sequence[float], scale: float
) -> tuple[Verdict, Trend]:
    from cephlab.lab.checks.trend import trend  # numpy and scipy would delay every command by half a second

    trended, allowed = trend(at_h, scaled), data["per_hour"]
    bound = {"least": None, "most": allowed}
    if data["worse"] == "down":
        bound = {"least": None if allowed is None else -allowed, "most": None}
    if allowed is None and not math.isfinite(trended.slope):
        trended = replace(trended, slope=0.0)  # without a limit it is only recorded, however few the samples
    verdict = judge_figure(
        {
            "metric": f"{data['series']}: change an hour",
            "value": trended.slope,
            "low": trended.low,
            "high": trended.high,
            "unit": "of its median" if data["share"] else data["unit"],
            "why": data["why"],
            "derivation": _seen(trended, at_h, scale),
            **bound,
        }
    )
    return verdict, trended


def _with_steps(
    data: Mapping[str, Any], verdict: Verdict, trended: Trend, at_h: Sequence[float], scale: float
) -> Verdict:
    """A pass becomes inconclusive if unexpected jumps add up to more than the series may drift in its time."""
    stepped = sum(step.size for step in trended.steps) * (-1 if data["worse"] == "down" else 1)
    allowed = data["per_hour"] * (at_h[-1] - at_h[0])
    if data["steps"] or verdict.outcome is not Outcome.PASS or stepped <= allowed:
        return verdict
    text = f"cannot tell: {data['series']} jumped by {stepped * scale:.6g} {data['unit']} and stayed there"
    return Verdict(Outcome.INCONCLUSIVE, text, (text, *verdict.derivation))


def _seen(trended: Trend, at_h: Sequence[float], scale: float) -> list[str]:
    hours = at_h[-1] - at_h[0]
    steps = ", ".join(f"{step.size * scale:+.6g} at {step.at_h * _HOUR_S:.0f} s" for step in trended.steps)
    worth = f"{len(at_h)} samples over {hours:.3g} h are worth {trended.independent:.0f} independent ones"
    return [f"{worth}; median {scale:.6g}" if scale != 1.0 else worth, *([f"steps: {steps}"] if steps else [])]


def _stood_still(known: Sequence[tuple[float, float]], least: float | None) -> float | None:
    """When a series first stayed at or below `least` for STILL samples, in seconds; None if it never did."""
    low = [least is not None and value <= least for _, value in known]
    return next((known[i][0] for i in range(len(low) - STILL + 1) if all(low[i : i + STILL])), None)


def _gap(asked_s: Sequence[float], known_s: Sequence[float]) -> str:
    """The longest gap of a series in words; empty if it has none."""
    ends = (asked_s[0], *known_s, asked_s[-1])
    usual = median(later - at_s for at_s, later in pairwise(asked_s)) if len(asked_s) > 1 else 0.0
    began, ended = max(pairwise(ends), key=lambda pair: pair[1] - pair[0])
    if usual > 0 and ended - began > max(GAP * usual, LEAST_GAP_S):
        return f"a gap of {ended - began:.0f} s from {began:.0f} s on"
    missing = len(asked_s) - len(known_s)
    return f"{missing} of {len(asked_s)} samples are missing" if missing > len(asked_s) // 10 else ""


def _cannot_tell(line: str) -> Verdict:
    text = f"cannot tell: {line}"
    return Verdict(Outcome.INCONCLUSIVE, text, (text,))
