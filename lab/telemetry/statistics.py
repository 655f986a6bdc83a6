"""Statistics of batches: Student's t intervals, when to stop, whether cost is linear in load, the knee of a curve."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cephlab.lab.base.numbers import percent, t_quantile
from cephlab.lab.telemetry.demand import Interval

CONFIDENCE = 0.95
LEAST_BATCHES = 5
"""With fewer batches, the t quantile alone makes the interval too wide to be useful."""

LEAST_OF_A_MEAN = 2
"""A single value has no spread."""


def interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Mean with its two-sided t interval; of a single value it is infinite."""
    if not len(values):
        raise ValueError("an interval needs at least one value")
    stddev = float(np.std(values, ddof=1)) if len(values) >= LEAST_OF_A_MEAN else math.nan
    return interval_of(float(np.mean(values)), stddev, len(values), confidence)


def interval_of(mean: float, stddev: float, count: int, confidence: float = CONFIDENCE) -> Interval:
    """As `interval`, from a mean that another program computed. stddev: of the single values."""
    if count < LEAST_OF_A_MEAN:
        return Interval(mean, -math.inf, math.inf, count, confidence)
    half = t_quantile(count - 1, confidence) * stddev / math.sqrt(count)
    return Interval(mean, mean - half, mean + half, count, confidence)


def ratio_of(over: Interval, under: Interval) -> Interval:
    """One mean divided by another, from their worst ends: wider than the exact interval of the ratio.

    A mean below 0 is noise, so nothing is known of its ratio.
    """
    value = over.mean / under.mean if under.mean > 0 else math.inf
    low = max(0.0, over.low) / under.high if under.high > 0 else 0.0
    high = over.high / under.low if under.low > 0 else math.inf
    low, high = (-math.inf, math.inf) if value < 0 else (low, high)
    return Interval(value, low, high, min(over.samples, under.samples), over.confidence)


def ratio_of_means(over: Sequence[float], under: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Mean of `over` / mean of `under` with its interval; the upper end is infinite if `under` may be 0.

    A mean below 0 is noise, so nothing is known of its ratio.
    Source: Fieller, Some problems in interval estimation, Journal of the Royal Statistical Society B 16 (1954).
    """
    mean, base = float(np.mean(over)), float(np.mean(under))
    left = len(over) + len(under) - 2
    value = mean / base if base > 0 else math.inf
    endless = Interval(value, -math.inf if value < 0 else 0.0, math.inf, left + 2, confidence)
    if len(over) < LEAST_OF_A_MEAN or len(under) < LEAST_OF_A_MEAN or base <= 0 or mean < 0:
        return endless
    quantile = t_quantile(left, confidence)
    var, var_base = (float(np.var(values, ddof=1)) / len(values) for values in (over, under))
    doubt = quantile**2 * var_base / base**2
    if doubt >= 1:
        return endless
    half = quantile / base * math.sqrt(var * (1 - doubt) + value**2 * var_base)
    low, high = (value - half) / (1 - doubt), (value + half) / (1 - doubt)
    return Interval(value, max(0.0, low), high, left + 2, confidence)


def width(interval: Interval) -> float:
    """Half the interval as a share of the mean; infinite if the mean is 0."""
    return (interval.high - interval.mean) / abs(interval.mean) if interval.mean else math.inf


@dataclass(frozen=True)
class Stop:
    """When to stop. narrow: wanted half width as a share of the mean; budget_s: seconds of load at most."""

    narrow: float = 0.03
    budget_s: float = 60.0
    least: int = LEAST_BATCHES

    def reason(self, values: Sequence[float], spent_s: float) -> str | None:
        """Why to stop, or None. values: the main cost of each batch so far."""
        if len(values) >= self.least:
            share, wanted = width(interval(values)), percent(self.narrow)
            if share <= self.narrow:
                return f"narrow enough: within {percent(share)} after {len(values)} batches ({wanted} wanted)"
            if spent_s >= self.budget_s:
                return f"the budget of {self.budget_s:g} s is used up: within {percent(share)} ({wanted} wanted)"
        return None


LINEAR = 0.10
"""An operation is linear in load if its costs at both loads differ by less than this. The same step is used to judge
regressions."""


def linearity(low: Sequence[float], high: Sequence[float], *, low_load: str, high_load: str) -> str:
    """Whether an operation costs the same at two loads, in words, from Welch's interval of high / low on logarithms.

    Linear: the whole interval is within LINEAR of 1. Not linear: it does not contain 1. Otherwise it is open, and so it
    is if a batch has no cost above 0: the cost at rest is subtracted.
    """
    low_mean, high_mean = interval(low).mean, interval(high).mean
    words = f"{low_mean * 1e6:.0f} us at {low_load}, {high_mean * 1e6:.0f} us at {high_load}"
    if min(len(low), len(high)) < LEAST_OF_A_MEAN:
        return f"cannot tell whether it is linear in load: {words}, and a single batch has no spread"
    if min((*low, *high)) <= 0:
        return f"cannot tell whether it is linear in load: {words}, and a batch that costs nothing has no ratio"
    from scipy import stats  # takes a second to import, so other commands should not wait for it

    bounds = stats.ttest_ind(np.log(high), np.log(low), equal_var=False).confidence_interval(CONFIDENCE)
    least, most = math.exp(bounds.low) - 1, math.exp(bounds.high) - 1
    change, low_end, high_end = (percent(share, "+.0f") for share in (high_mean / low_mean - 1, least, most))
    words += f": {change} [{low_end} .. {high_end}]"
    if least > -LINEAR and most < LINEAR:
        return f"linear in load within {percent(LINEAR, '.0f')}: {words}"
    if least > 0 or most < 0:
        return f"not linear in load: {words}"
    return f"cannot tell whether it is linear in load: {words}"


_LEAST_POINTS = 4
"""Three points always bend somewhere."""


def knee(loads: Sequence[float], rates: Sequence[float]) -> float | None:
    """The load at the knee of a rising, concave curve (Satopaa et al. 2011, Kneedle); None if it has none."""
    from kneed import KneeLocator  # imports all of scipy.signal

    # Noise would make dents, and each dent would count as a knee.
    risen = [max(rates[: number + 1]) for number in range(len(rates))]
    if len(loads) < _LEAST_POINTS or risen[0] == risen[-1]:
        return None
    # It takes a curve for concave and increasing. Where the curve begins below a straight line, its first knee is the
    # first load, at which nothing has bent yet.
    knees = KneeLocator(list(loads), risen, online=True).all_knees
    return next((float(bend) for bend in knees if bend > loads[0]), None)
