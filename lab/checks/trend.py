"""Estimates the slope of a series robustly: its interval allows for autocorrelation, and steps are not drift."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cephlab.lab.base.numbers import t_quantile

Numbers = NDArray[np.float64]

CONFIDENCE = 0.98
"""Two-sided, as for regressions: one false drift in a hundred."""

LEAST_SAMPLES = 30
"""With fewer, an autocorrelation cannot be estimated."""
MOST_SAMPLES = 400
"""Longer series are averaged into at most this many stretches, because every pair of samples is compared."""

MOST_STEPS = 3
"""A series with more steps is treated as drift or noise."""
STEP_SIGMAS = 4.0
"""A step is larger than this many standard deviations of the noise around it."""
STEP_GAIN = 30.0
"""How much a step must explain, in variances of the mean. With known noise and one unknown break, 12 would be exceeded
once in a hundred times (Andrews, Econometrica 61 (1993), table I). Here the noise is estimated, so this is set by
simulation (tests/lab/checks/test_trend.py)."""
_EDGE = 20
"""A step closer to either end than 1/_EDGE of the series cannot be told from noise."""

_CLIP = 3.0
_ROUNDING = 1e-12
_MAD_TO_SIGMA = 1.4826
_RANK_EFFICIENCY = math.pi / 3
"""Variance of a rank estimate of a slope over that of least squares, for normal noise (Sen 1968)."""
_MOST_AR = 0.97


@dataclass(frozen=True)
class Step:
    """A lasting jump. at_h: hours, as in the series; size: in the unit of the series."""

    at_h: float
    size: float


@dataclass(frozen=True)
class Trend:
    """slope, low, high: change of the series per hour, and its interval, infinite if too little is known.

    steps: jumps that are not part of the slope. independent: how many independent samples the series is worth.
    """

    slope: float
    low: float
    high: float
    steps: tuple[Step, ...] = ()
    independent: float = 0.0


def trend(at_h: Sequence[float], values: Sequence[float]) -> Trend:
    """The slope of a series. at_h: hours, rising; values: one for each entry of at_h.

    It is the median of the slopes between every two samples with no step between them, weighted by their distance
    (Jaeckel, Annals of Mathematical Statistics 43 (1972); unweighted it is that of Sen, JASA 63 (1968)). The interval
    is Student's t with the effective number of samples: n (1 - r) / (1 + r) (Santer et al., Journal of Geophysical
    Research 105 (2000)), r the lag-one autocorrelation, or fewer by Newey and West, Econometrica 55 (1987).
    """
    times, series = _thinned(np.asarray(at_h, dtype=float), np.asarray(values, dtype=float))
    if len(times) < LEAST_SAMPLES:
        return Trend(math.nan, -math.inf, math.inf)
    cuts = _cuts(times, series)
    parts = np.searchsorted(np.asarray(cuts), np.arange(len(times)), side="right")
    slope = _slope(times, series, parts)
    levels = [float(np.median((series - slope * times)[parts == part])) for part in range(len(cuts) + 1)]
    sizes = ((cut, levels[i + 1] - levels[i]) for i, cut in enumerate(cuts))
    steps = tuple(Step(float(times[cut]), size) for cut, size in sizes if size)
    rest = _clipped(series - slope * times - np.asarray(levels)[parts])
    shrink = _inflation(rest)
    independent = len(times) / shrink
    left = independent - 2 - len(cuts)
    if left < 1:
        return Trend(slope, -math.inf, math.inf, steps, independent)
    spread = sum(float(np.sum((own - own.mean()) ** 2)) for own in (times[parts == p] for p in range(len(cuts) + 1)))
    variance = float(rest @ rest) / (len(times) - 2 - len(cuts)) * shrink * _RANK_EFFICIENCY / spread
    half = t_quantile(left, CONFIDENCE) * math.sqrt(variance)
    return Trend(slope, slope - half, slope + half, steps, independent)


def _thinned(times: Numbers, series: Numbers) -> tuple[Numbers, Numbers]:
    """Means of stretches of equal length if there are more than MOST_SAMPLES samples."""
    size = math.ceil(len(times) / MOST_SAMPLES)
    if size <= 1:
        return times, series
    whole = len(times) // size * size
    return times[:whole].reshape(-1, size).mean(axis=1), series[:whole].reshape(-1, size).mean(axis=1)


def _slope(times: Numbers, series: Numbers, parts: NDArray[np.intp]) -> float:
    """The weighted median of the slopes between samples of the same part."""
    left, right = np.triu_indices(len(times), 1)
    same = parts[left] == parts[right]
    apart = (times[right] - times[left])[same]
    slopes = (series[right] - series[left])[same] / apart
    order = np.argsort(slopes)
    weight = np.cumsum(apart[order])
    return float(slopes[order][int(np.searchsorted(weight, weight[-1] / 2))])


def _cuts(times: Numbers, series: Numbers) -> list[int]:
    """Where new levels begin: as many jumps as each explain enough, given a common slope and the other jumps.

    Jumps are added one by one, each where it explains most, and moved once the others are known, since a jump up and
    the jump back down are visible only together.
    """
    count = len(times)
    edge = max(3, count // _EDGE)
    jumps = (np.arange(count)[:, None] >= np.arange(edge, count - edge)[None, :]).astype(float)
    line = np.column_stack([np.ones(count), times])
    clipped = _clipped(series, around=_running_median(series))
    chosen: list[int] = []
    accepted: list[int] = []
    for _ in range(MOST_STEPS):
        chosen.append(_best(clipped, np.column_stack([line, jumps[:, chosen]]), jumps))
        for place in range(len(chosen) if len(chosen) > 1 else 0):
            others = chosen[:place] + chosen[place + 1 :]
            chosen[place] = _best(clipped, np.column_stack([line, jumps[:, others]]), jumps)
        if _all_stand(clipped, line, jumps[:, chosen]):
            accepted = list(chosen)
    return sorted({edge + number for number in accepted})


def _best(series: Numbers, design: Numbers, jumps: Numbers) -> int:
    """The jump that explains most of what a design leaves unexplained."""
    basis = np.linalg.qr(design)[0]
    free = jumps - basis @ (basis.T @ jumps)
    power = np.einsum("ij,ij->j", free, free)
    power[power < 1e-9 * len(series)] = np.inf
    return int(np.argmax((free.T @ series) ** 2 / power))


def _all_stand(series: Numbers, line: Numbers, jumps: Numbers) -> bool:
    """Whether every jump is large compared with the noise that remains."""
    design = np.column_stack([line, jumps])
    fitted, _, rank, _ = np.linalg.lstsq(design, series, rcond=None)
    rest = _clipped(series - design @ fitted)
    variance = float(rest @ rest) / max(1, len(series) - int(rank))
    of_fitted = np.diag(np.linalg.pinv(design.T @ design))[2:]
    sizes = fitted[2:]
    gains = sizes**2 / of_fitted
    large = np.abs(sizes) > STEP_SIGMAS * math.sqrt(variance)
    return bool(np.all(large & (gains > STEP_GAIN * variance * _inflation(rest))))


def _running_median(series: Numbers) -> Numbers:
    """The level from which outliers are measured while slope and steps are still unknown."""
    width = max(5, len(series) // 10 | 1)
    padded = np.pad(series, width // 2, mode="edge")
    return np.asarray(np.median(np.lib.stride_tricks.sliding_window_view(padded, width), axis=1))


def _clipped(series: Numbers, around: Numbers | None = None) -> Numbers:
    """Clip outliers to three standard deviations, from the median absolute deviation.

    If that is 0, or only what rounding left of 0, most samples lie on a line and nothing is known of the noise: clip
    nothing.
    """
    middle = np.zeros_like(series) if around is None else around
    rest = series - middle
    sigma, largest = _MAD_TO_SIGMA * float(np.median(np.abs(rest - np.median(rest)))), float(np.max(np.abs(rest)))
    return middle + np.clip(rest, -_CLIP * sigma, _CLIP * sigma) if sigma > _ROUNDING * largest else series


def _inflation(rest: Numbers) -> float:
    """The factor by which autocorrelation raises the variance of a mean; never below 1."""
    count, power = len(rest), float(rest @ rest)
    if power <= 0:
        return 1.0
    longest = max(1, math.isqrt(count))
    lags = [float(rest[lag:] @ rest[:-lag]) / power for lag in range(1, longest + 1)]
    # An estimate from residuals of a line is too small by about this much (Marriott and Pope, Biometrika 41 (1954)).
    first = min(_MOST_AR, lags[0] + (2 + 4 * lags[0]) / count)
    windowed = 1 + 2 * sum((1 - lag / (longest + 1)) * value for lag, value in enumerate(lags, 1))
    return max(1.0, (1 + first) / (1 - first), windowed)
