"""Made series without drift, of the kinds that clusters show: noise that knows its past, bursts, steps, compaction."""

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

KINDS = ("ar0", "ar0.4", "ar0.8", "bursts", "step", "two steps", "bursts and step", "compaction")
"""`arX`: AR(1) of that correlation; the others have it at 0.4."""

_STEPS = {"step": 1, "two steps": 2, "bursts and step": 1}


def sound(kind: str, rng: np.random.Generator, count: int) -> Numbers:
    """A series of one of the KINDS. Its noise has a standard deviation of 1."""
    if kind.startswith("ar"):
        return correlated(rng, count, float(kind[2:]))
    series = correlated(rng, count, 0.4)
    if kind == "compaction":  # grows and is compacted, again and again
        return series + 10 * (np.arange(count) / count * 6.3 % 1)
    if "bursts" in kind:
        series = _with_bursts(rng, series)
    return _with_steps(rng, series, _STEPS.get(kind, 0))


def correlated(rng: np.random.Generator, count: int, by: float) -> Numbers:
    """Noise of standard deviation 1 whose neighbours are alike: AR(1)."""
    made: Numbers = rng.standard_normal(count + 50) * np.sqrt(1 - by**2)
    for place in range(1, len(made)):
        made[place] += by * made[place - 1]
    return made[50:]


def _with_bursts(rng: np.random.Generator, series: Numbers) -> Numbers:
    for _ in range(4):
        began = rng.integers(len(series))
        series[began : began + rng.integers(1, 8)] += rng.uniform(5, 15)
    return series


def _with_steps(rng: np.random.Generator, series: Numbers, count: int) -> Numbers:
    for _ in range(count):
        series[rng.integers(len(series) // 8, len(series) * 7 // 8) :] += rng.choice([-1, 1]) * rng.uniform(6, 15)
    return series
