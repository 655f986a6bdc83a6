"""Judges measured figures: by their whole interval if they have a limit; without a limit they are only recorded."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from cephlab.lab.base.numbers import six_digits
from cephlab.lab.checks.observations import observations
from cephlab.lab.checks.verdict import Outcome, Verdict, merge
from cephlab.lab.checks.witnessed import witnesses
from cephlab.lab.history.history import Event, data_of


def figures(events: Sequence[Event]) -> Verdict:
    """Judge events of kind `figure` (lab/archive/schemas/figure-1.json), observations and witnesses.

    Inconclusive: an interval across a limit, a number that is not finite, no witness that the load was real, no figure.
    """
    measured = data_of(events, "figure")
    if not measured:
        return Verdict(Outcome.INCONCLUSIVE, "nothing was measured")
    verdicts = [judge_figure(data) for data in measured]
    if any(event.kind == "observation" for event in events):
        verdicts.append(observations(events))
    return merge([*verdicts, witnesses(events)])


def judge_figure(data: Mapping[str, Any]) -> Verdict:
    """Judge one figure by its own bounds."""
    least, most = data["least"], data["most"]
    metric, value, limit = figure_parts(data)
    line = f"{metric}: {value}; {limit}"
    steps = tuple(data["derivation"])
    if not _sound(data):
        # A comparison with NaN is always false, so NaN would pass every limit below.
        text = f"cannot tell, not a finite number: {line}"
        return Verdict(Outcome.INCONCLUSIVE, text, (text, *steps))
    if (least is not None and data["high"] < least) or (most is not None and data["low"] > most):
        return Verdict(Outcome.FAIL, line, (line, *steps))
    if (least is not None and data["low"] < least) or (most is not None and data["high"] > most):
        text = f"cannot tell: {line}"
        return Verdict(Outcome.INCONCLUSIVE, text, (text, *steps))
    return Verdict(Outcome.PASS, line, (line, *steps))


def figure_parts(data: Mapping[str, Any]) -> tuple[str, str, str]:
    """(metric, value with its interval and unit, limit and its reason) of a figure, as text for a reader."""
    return str(data["metric"]), _number(data), _limit(data)


def _sound(data: Mapping[str, Any]) -> bool:
    """Whether its numbers can be judged. An interval may be infinite, as that of a single sample is."""
    whole = [data[key] for key in ("value", "least", "most") if data[key] is not None]
    return all(map(math.isfinite, whole)) and not any(math.isnan(data[key]) for key in ("low", "high"))


_SCALES: Mapping[str, Sequence[tuple[str, float]]] = {
    "bytes/s": (("GB/s", 1e9), ("MB/s", 1e6)),
    "bytes": (("TB", 1e12), ("GiB", 2.0**30), ("MiB", 2.0**20)),
    "s": (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)),
}
"""Unit of a figure -> units to show to a reader, the largest first."""


def _number(data: Mapping[str, Any]) -> str:
    value, low, high = data["value"], data["low"], data["high"]
    unit, size = _scale(data)
    spread = "" if low == high == value else f" [{six_digits(low / size)} .. {six_digits(high / size)}]"
    return f"{six_digits(value / size)}{spread} {unit}".rstrip()


def _limit(data: Mapping[str, Any]) -> str:
    unit, size = _scale(data)
    sides = ((data["least"], "at least"), (data["most"], "at most"))
    bounds = [f"{word} {six_digits(bound / size)}" for bound, word in sides if bound is not None]
    words = f"{' and '.join(bounds)} {unit}".rstrip() + " wanted" if bounds else "no limit"
    return f"{words}: {data['why']}" if data["why"] else words


def _scale(data: Mapping[str, Any]) -> tuple[str, float]:
    """(unit to show, its size in the unit of the figure). The interval and the limit are shown in the same unit."""
    scales = _SCALES.get(data["unit"], ())
    return next(((unit, size) for unit, size in scales if abs(data["value"]) >= size), (data["unit"], 1.0))
