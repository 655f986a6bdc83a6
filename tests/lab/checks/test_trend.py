"""The slope of made series: how often a sound one is called drifting, and how often a drift is found."""

import numpy as np
import pytest

from cephlab.lab.checks.trend import LEAST_SAMPLES, MOST_SAMPLES, Trend, trend
from tests.made_series import KINDS, correlated, sound

SERIES = 25
"""Of each kind; docs/measured/stress.md has the figures of thousands."""


def trends(kind: str, count: int, drift: float = 0.0, number: int = SERIES) -> list[Trend]:
    """Of so many series over one hour that drift by `drift` standard deviations."""
    rng = np.random.default_rng(23)
    hours = np.arange(count) / count
    return [trend(list(hours), list(sound(kind, rng, count) + drift * hours)) for _ in range(number)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_sound_series_is_seldom_called_drifting(kind: str) -> None:
    """At 98 % one side is wrong once in a hundred; three of 25 hardly ever."""
    assert sum(each.low > 0 for each in trends(kind, 100)) <= 2


@pytest.mark.parametrize(
    ("kind", "drift"), [("ar0", 2.0), ("ar0.4", 3.0), ("ar0.8", 8.0), ("step", 6.0), ("bursts", 10.0)]
)
def test_a_drift_is_found(kind: str, drift: float) -> None:
    found = trends(kind, 100, drift, 15)
    assert sum(each.low > 0 for each in found) >= 13
    assert sum(each.low <= drift <= each.high for each in found) >= 13


def test_intervals_narrow_with_samples_and_widen_with_correlation() -> None:
    def width(kind: str, count: int) -> float:
        return float(np.median([each.high - each.low for each in trends(kind, count, number=8)]))

    assert width("ar0.4", 200) < 0.8 * width("ar0.4", 80)
    assert width("ar0.8", 100) > 1.8 * width("ar0.4", 100)


def test_a_step_is_told_where_it_is() -> None:
    hours = np.arange(100) / 100
    made = trend(list(hours), list(np.where(hours >= 0.6, 50.0, 0.0) + np.sin(np.arange(100) * 2.1)))
    (step,) = made.steps
    assert abs(step.at_h - 0.6) < 1e-9
    assert abs(step.size - 50) < 3
    assert made.low < 0 < made.high


def test_a_staircase_is_no_sound_series() -> None:
    """Memory grows in pieces: many steps one way are drift, however flat each piece is."""
    hours = np.arange(200) / 200
    rng = np.random.default_rng(1)
    for pieces in (6, 10, 25):
        made = trend(list(hours), list(np.floor(hours * pieces) * 10 + rng.standard_normal(200)))
        assert made.low + sum(step.size for step in made.steps) > 0.5 * pieces * 10


def test_what_never_changes_has_an_exact_slope() -> None:
    flat = trend([i / 60 for i in range(60)], [7.0] * 60)
    assert (flat.slope, flat.low, flat.high, flat.steps) == (0, 0, 0, ())


def test_too_few_samples_say_nothing() -> None:
    few = trend(list(range(LEAST_SAMPLES - 1)), list(range(LEAST_SAMPLES - 1)))
    assert few.low == -np.inf
    assert few.high == np.inf


def test_a_long_series_is_averaged_first() -> None:
    count = MOST_SAMPLES * 7 + 3
    hours = np.arange(count) / count
    long = trend(list(hours), list(3 * hours + correlated(np.random.default_rng(2), count, 0.5)))
    assert long.low < 3 < long.high
    assert long.independent <= MOST_SAMPLES
