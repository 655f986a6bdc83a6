"""How often a cost that did not change would be called a regression against earlier runs, and what is found."""

import math
import random
from collections.abc import Callable

import pytest

from cephlab.lab.checks.regression import SAME, STORED, judge
from cephlab.lab.checks.verdict import Outcome
from cephlab.lab.telemetry.compare import CPU_SPREAD
from cephlab.lab.telemetry.regression import CONFIDENCE
from cephlab.lab.telemetry.usual import LEAST_HOURS, MOST_HOURS, rise

Speed = Callable[[random.Random], float]


def as_usual(_rng: random.Random) -> float:
    return 1.0


def twice_as_often_fast(rng: random.Random) -> float:
    return rng.choice((1.0, 1.0, 1.5))


def rarely_slow(rng: random.Random) -> float:
    return 1.5 if rng.random() < 0.1 else 1.0


def fails(rng: random.Random, hours: int, spread: float, speed: Speed, factor: float = 1.0) -> bool:
    """Whether a run after so many hours is a regression. spread: what the reference work does not show."""

    def run(times: float) -> tuple[float, float]:
        slower = speed(rng)
        return slower * times * math.exp(rng.gauss(0, spread)), math.log(slower) + rng.gauss(0, 0.02)

    before = [run(1.0) for _ in range(hours)]
    after, pace = run(factor)
    moved = pace - sum(each for _, each in before) / hours
    ratio = rise([[cost] for cost, _ in before], after, CPU_SPREAD, moved, confidence=CONFIDENCE)
    return judge(ratio.value, ratio.low, ratio.high, STORED) is Outcome.FAIL


@pytest.mark.slow
@pytest.mark.parametrize("speed", [as_usual, twice_as_often_fast, rarely_slow])
@pytest.mark.parametrize("spread", [0.06, 0.2])
@pytest.mark.parametrize("hours", [LEAST_HOURS, MOST_HOURS])
def test_an_unchanged_cost_fails_at_most_once_in_a_hundred(hours: int, spread: float, speed: Speed) -> None:
    """3000 draws: 1 % is 30, and 43 is the 99th percentile of a rule that errs once in a hundred."""
    rng = random.Random(7)
    assert sum(fails(rng, hours, spread, speed) for _ in range(3000)) <= 43


@pytest.mark.slow
def test_half_as_much_again_is_found_after_six_hours_and_a_quarter_after_sixteen() -> None:
    rng = random.Random(7)
    assert sum(fails(rng, LEAST_HOURS, 0.06, as_usual, 1.5) for _ in range(300)) >= 280
    assert sum(fails(rng, MOST_HOURS, 0.06, as_usual, 1.25) for _ in range(300)) >= 210
    assert sum(fails(rng, LEAST_HOURS, 0.06, as_usual, SAME) for _ in range(300)) <= 30
