"""What changed over hours: each sampled series by its slope, beside its steps, its gaps and what stood still."""

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
from cephlab.lab.history.history import Event

if TYPE_CHECKING:
    from cephlab.lab.checks.trend import Trend

GAP = 3.0
"""Two samples further apart than so many of the usual distances have a gap between them."""

LEAST_GAP_S = 10.0
"""On a busy machine one look takes seconds, however short the distance that was asked for."""

STILL = 3
"""So many samples in a row at or below a series' `least` are no accident."""

_HOUR_S = 3600.0


def drift(events: Sequence[Event]) -> Verdict:
    """Judge events of kind `sampled` by those of kind `reading`, beside observations and witnesses.

    sampled: {series, unit, worse, per_hour, share, least, steps, why}. worse: `up` or `down`; per_hour: how much it may
    change that way in an hour, of its median where `share`, else in its unit, None where that is not judged; least:
    standing at or below it is a failure, None for none; steps: whether a lasting jump is to be expected. reading:
    {at_s, values}, values: series -> number, None where it could not be read; what a reading was not to have is left
    out.
    Inconclusive: a gap, an interval that holds both, steps that add up to more than the series may drift. What settles
    is judged by its later half, and what never leaves a band as wide as its allowance passes.
    """
    declared = [event.data for event in events if event.kind == "sampled"]
    if not declared:
        return Verdict(Outcome.INCONCLUSIVE, "no series was declared")
    samples = [event.data for event in events if event.kind == "reading"]
    verdicts = [judge_series(data, samples) for data in declared]
    if any(event.kind == "observation" for event in events):
        verdicts.append(observations(events))
    return merge([*verdicts, witnesses(events)])


def judge_series(data: Mapping[str, Any], samples: Sequence[Mapping[str, Any]]) -> Verdict:
    """One series."""
    name = data["series"]
    pairs = [(float(sample["at_s"]), sample["values"][name]) for sample in samples if name in sample["values"]]
    pairs.sort(key=itemgetter(0))
    known = [(at_s, float(value)) for at_s, value in pairs if value is not None and math.isfinite(value)]
    if not known:
        return _cannot_tell(f"{name}: nothing was sampled")
    still = _stood_still(known, data["least"])
    if still is not None:
        line = f"{name}: stood at {data['least']:g} {data['unit']} or below from {still:.0f} s on"
        return Verdict(Outcome.FAIL, line, (line,))
    gap = _gap([at_s for at_s, _ in pairs], [at_s for at_s, _ in known])
    if gap:
        return _cannot_tell(f"{name}: {gap}")
    return _by_slope(data, [at_s / _HOUR_S for at_s, _ in known], [value for _, value in known])


def _by_slope(data: Mapping[str, Any], at_h: Sequence[float], values: Sequence[float]) -> Verdict:
    """By its slope; where that leaves it open, by whether it leaves its allowance at all, and by its later half."""
    scale = float(median(values)) if data["share"] else 1.0
    if scale <= 0:
        return _cannot_tell(f"{data['series']}: its median is {scale:g}, of which no share can be told")
    scaled, half, allowed = [value / scale for value in values], len(values) // 2, data["per_hour"]
    whole, trended = _of_slope(data, at_h, scaled, scale)
    if allowed is None:
        return whole
    if whole.outcome is not Outcome.INCONCLUSIVE:
        return _with_steps(data, whole, trended, at_h, scale)
    if max(scaled) - min(scaled) <= allowed * (at_h[-1] - at_h[0]):
        line = f"{data['series']}: all of it lies between {min(values):.6g} and {max(values):.6g} {data['unit']}"
        return Verdict(Outcome.PASS, line, (line, *whole.derivation))
    later, trended = _of_slope(data, at_h[half:], scaled[half:], scale)
    if later.outcome is Outcome.INCONCLUSIVE:
        return whole
    later = Verdict(later.outcome, f"{later.reason} (its later half)", (*later.derivation, *whole.derivation))
    return _with_steps(data, later, trended, at_h[half:], scale)


def _of_slope(
    data: Mapping[str, Any], at_h: Sequence[float], scaled: Sequence[float], scale: float
) -> tuple[Verdict, Trend]:
    from cephlab.lab.checks.trend import trend  # numpy and scipy, for which every command would wait half a second

    trended, allowed = trend(at_h, scaled), data["per_hour"]
    bound = {"least": None, "most": allowed}
    if data["worse"] == "down":
        bound = {"least": None if allowed is None else -allowed, "most": None}
    if allowed is None and not math.isfinite(trended.slope):
        trended = replace(trended, slope=0.0)  # without a limit it is written down, however few samples there are
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
    """A pass is none where jumps that nobody expected add up to more than the series may drift in its time."""
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
    """When a series began to stand still for STILL samples, in seconds; None where it never did."""
    low = [least is not None and value <= least for _, value in known]
    return next((known[i][0] for i in range(len(low) - STILL + 1) if all(low[i : i + STILL])), None)


def _gap(asked_s: Sequence[float], known_s: Sequence[float]) -> str:
    """The longest gap of a series in words, if it has one."""
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
