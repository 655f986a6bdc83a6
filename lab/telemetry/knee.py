"""Where a curve of throughput against load bends: more load beyond it buys latency and little else."""

from __future__ import annotations

from collections.abc import Sequence

from kneed import KneeLocator

_LEAST_POINTS = 4
"""Three points always bend somewhere."""


def knee(loads: Sequence[float], rates: Sequence[float]) -> float | None:
    """The load at the knee of a rising, concave curve (Satopaa et al. 2011, Kneedle); None where it has none."""
    if len(loads) < _LEAST_POINTS:
        return None
    # Noise would make dents, and each dent a knee of its own.
    risen = [max(rates[: number + 1]) for number in range(len(rates))]
    bend = KneeLocator(list(loads), risen, curve="concave", direction="increasing").knee
    return None if bend is None else float(bend)
