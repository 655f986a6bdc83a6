"""Preconditions a disk: writes until the write rate is in steady state, and reports whether it got there.

Steady state as in SNIA's Solid State Storage Performance Test Specification.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean

WINDOW = 5
"""How many of the last rounds must be steady."""
SPREAD, SLOPE = 0.20, 0.10
"""Limits as fractions of the window's mean: best minus worst round, and change along the line fitted to all rounds."""
MOST_ROUNDS = 25


@dataclass(frozen=True)
class Steady:
    """rate: mean of the last rounds; rounds: how many there were; reached: whether the last ones were steady."""

    rate: float
    rounds: int
    reached: bool

    @property
    def words(self) -> str:
        """Text for the source of a figure."""
        how = "to steady state" if self.reached else "without steady state"
        return f"after {self.rounds} rounds {how}"


def steady(rates: Sequence[float]) -> bool:
    """Whether the rates of the last rounds differ little, and neither fall nor rise much."""
    if len(rates) < WINDOW:
        return False
    last = rates[-WINDOW:]
    middle, average = (WINDOW - 1) / 2, mean(last)
    slope = sum((at - middle) * rate for at, rate in enumerate(last)) / sum((at - middle) ** 2 for at in range(WINDOW))
    return max(last) - min(last) <= SPREAD * average and abs(slope) * (WINDOW - 1) <= SLOPE * average


def until_steady(write: Callable[[], float]) -> Steady:
    """Write in rounds until the rate is steady, at most MOST_ROUNDS. write: writes one round and returns its rate."""
    rates: list[float] = []
    while not steady(rates) and len(rates) < MOST_ROUNDS:
        rates.append(write())
    return Steady(mean(rates[-WINDOW:]), len(rates), steady(rates))
