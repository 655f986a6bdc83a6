"""Preconditions a disk: it writes until it writes no slower any more, and says how steady that is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean

SOURCE = "SNIA Solid State Storage Performance Test Specification, steady state"
WINDOW = 5
"""Rounds that are looked at together."""
SPREAD, SLOPE = 0.20, 0.10
"""Of the mean of the window: the most between its best and its worst round, and along the line through all."""
MOST_ROUNDS = 25


@dataclass(frozen=True)
class Steady:
    """rate: mean of the last rounds; rounds: how many there were; reached: whether they were steady."""

    rate: float
    rounds: int
    reached: bool

    @property
    def words(self) -> str:
        """For the source of a figure."""
        how = "until it was steady" if self.reached else "without becoming steady"
        return f"after {self.rounds} rounds {how}"


def steady(rates: Sequence[float]) -> bool:
    """Whether the last rounds of so many differ little, and fall or rise little."""
    if len(rates) < WINDOW:
        return False
    last = rates[-WINDOW:]
    middle, average = (WINDOW - 1) / 2, mean(last)
    slope = sum((at - middle) * rate for at, rate in enumerate(last)) / sum((at - middle) ** 2 for at in range(WINDOW))
    return max(last) - min(last) <= SPREAD * average and abs(slope) * (WINDOW - 1) <= SLOPE * average


def until_steady(write: Callable[[], float]) -> Steady:
    """Write round after round until it is steady, or was tried often enough. write: one round; returns its rate."""
    rates: list[float] = []
    while not steady(rates) and len(rates) < MOST_ROUNDS:
        rates.append(write())
    return Steady(mean(rates[-WINDOW:]), len(rates), steady(rates))
