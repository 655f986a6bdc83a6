"""Intervals of means and ratios, when to stop measuring, and whether a cost or a rate bends with load."""

import math
import random

import pytest

from cephlab.lab.telemetry.demand import Interval
from cephlab.lab.telemetry.statistics import Stop, interval, knee, linearity, ratio_of, ratio_of_means, width


def test_an_interval_is_students() -> None:
    estimate = interval([1.0, 2.0, 3.0])
    # t(0.975, 2) = 4.3027 (Student's table), standard error 1 / sqrt(3).
    assert estimate.mean == 2.0
    assert estimate.high - estimate.mean == pytest.approx(4.3027 / math.sqrt(3), rel=1e-4)
    assert width(estimate) == pytest.approx((estimate.high - 2) / 2)


def test_two_batches_have_an_interval_and_of_the_confidence_that_is_asked_for() -> None:
    # t(0.95, 1) = 6.3138 (Student's table), standard error 1.
    estimate = interval([1.0, 3.0], 0.9)
    assert (estimate.low, estimate.high) == pytest.approx((2 - 6.3138, 2 + 6.3138), rel=1e-4)
    assert (estimate.mean, estimate.samples, estimate.confidence) == (2.0, 2, 0.9)


def test_one_batch_has_no_interval() -> None:
    assert interval([2.0]) == Interval(2.0, -math.inf, math.inf, 1)
    assert interval([2.0], 0.9) == Interval(2.0, -math.inf, math.inf, 1, 0.9)
    with pytest.raises(ValueError, match="at least one value"):
        interval([])


def test_nothing_is_no_share_of_a_mean_of_nothing() -> None:
    assert width(Interval(0.0, -1.0, 1.0, 3)) == math.inf
    assert width(Interval(-2.0, -3.0, -1.0, 3)) == 0.5


def test_measuring_ends_when_narrow_or_when_the_budget_is_spent() -> None:
    stop = Stop(narrow=0.05, budget_s=30, least=3)
    assert stop.reason([1.0, 1.0], 99) is None
    assert "narrow enough" in (stop.reason([1.0, 1.01, 0.99], 6) or "")
    assert stop.reason([1.0, 2.0, 3.0], 6) is None
    assert "budget of 30 s is used up" in (stop.reason([1.0, 2.0, 3.0], 30) or "")


def test_usually_five_batches_within_three_percent_are_enough_and_a_minute_is_the_most() -> None:
    assert Stop().reason([1.0] * 4, 99) is None
    assert Stop().reason([1.0] * 5, 0) == "narrow enough: within 0.0 % after 5 batches (3.0 % wanted)"
    assert Stop().reason([1.0, 2.0] * 3, 59.9) is None
    assert "budget of 60 s" in (Stop().reason([1.0, 2.0] * 3, 60) or "")
    assert Stop(narrow=0.0).reason([1.0] * 5, 0) is not None


def test_a_ratio_of_means_has_fiellers_interval_and_no_upper_end_over_what_may_be_nothing() -> None:
    # By hand: means 20 and 10, variances of the means 1/3 each, t of 4 degrees of freedom 2.7764.
    ratio = ratio_of_means((19.0, 20.0, 21.0), (9.0, 10.0, 11.0))
    assert (ratio.mean, ratio.low, ratio.high) == pytest.approx((2.0, 1.6858, 2.4197), abs=1e-3)
    assert ratio_of_means((10.0, 11.0), (0.0, 10.0)).high == math.inf
    assert ratio_of_means((10.0, 11.0), (0.0, 10.0)).ends == (0.0, 1e9)
    assert ratio.ends == (ratio.low, ratio.high)
    assert (ratio.samples, ratio.confidence) == (6, 0.95)
    # The same with a mean of 30, whose ratio squared is not its double.
    ratio = ratio_of_means((29.0, 30.0, 31.0), (9.0, 10.0, 11.0))
    assert (ratio.mean, ratio.low, ratio.high) == pytest.approx((3.0, 2.5595, 3.5987), abs=1e-3)
    assert ratio_of_means((0.0, 10.0), (10.0, 11.0)).low == 0.0
    # Means 0.2 and 0.1, variances of the means 1e-6 each, t of 2 degrees of freedom 4.3027, of 90 % 2.9200.
    ratio = ratio_of_means((0.199, 0.201), (0.099, 0.101))
    assert (ratio.mean, ratio.low, ratio.high) == pytest.approx((2.0, 1.9073, 2.1001), abs=1e-4)
    narrower = ratio_of_means((0.199, 0.201), (0.099, 0.101), 0.9)
    assert (narrower.low, narrower.high, narrower.confidence) == pytest.approx((1.9364, 2.0670, 0.9), abs=1e-4)
    # Half of the interval of the mean below is 1.22 times that mean.
    assert ratio_of_means((10.0, 11.0), (7.154, 12.846)).ends == (0.0, 1e9)


@pytest.mark.parametrize(
    ("over", "under", "ratio"),
    [((10.0,), (5.0, 5.0), 2.0), ((10.0, 10.0), (5.0,), 2.0), ((1.0, 2.0), (0.0, 0.0), math.inf)],
)
def test_a_ratio_of_means_of_too_little_has_no_ends(
    over: tuple[float, ...], under: tuple[float, ...], ratio: float
) -> None:
    assert ratio_of_means(over, under, 0.9) == Interval(ratio, 0.0, math.inf, len(over) + len(under), 0.9)


def test_a_ratio_of_intervals_is_of_their_worst_ends() -> None:
    under = Interval(0.5, 0.25, 2.0, 9)
    assert ratio_of(Interval(6.0, 5.0, 7.0, 4, 0.9), under) == Interval(12.0, 2.5, 28.0, 4, 0.9)
    assert ratio_of(Interval(6.0, -5.0, 7.0, 4), under).low == 0.0
    assert ratio_of(under, Interval(0.0, -1.0, 1.0, 4)) == Interval(math.inf, 0.25, math.inf, 4)
    assert ratio_of(under, Interval(0.0, 0.0, 0.0, 4)) == Interval(math.inf, 0.0, math.inf, 4)


def test_a_ratio_of_means_covers_as_often_as_it_says() -> None:
    source = random.Random(7)
    covered = 0
    for _ in range(400):
        over, under = ([source.gauss(mean, 3.0) for _ in range(8)] for mean in (30.0, 20.0))
        ratio = ratio_of_means(over, under)
        covered += ratio.low <= 1.5 <= ratio.high
    assert 0.92 <= covered / 400 <= 0.98


@pytest.mark.slow
@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        ([1e-4, 1.01e-4, 1e-4], [1.02e-4, 1.03e-4, 1.02e-4], "linear in load within 10 %"),
        ([1e-4, 1.01e-4, 1e-4], [2e-4, 2.01e-4, 2e-4], "not linear in load"),
        ([2e-4, 2.01e-4, 2e-4], [1e-4, 1.01e-4, 1e-4], "not linear in load"),
        ([1e-4, 1.01e-4, 1e-4], [1.12e-4, 1.1e-4, 1.11e-4], "not linear in load"),
        ([1.12e-4, 1.1e-4, 1.11e-4], [1e-4, 1.01e-4, 1e-4], "not linear in load"),
        ([1e-4, 1.5e-4, 0.7e-4], [1e-4, 1.6e-4, 0.7e-4], "cannot tell"),
        ([1e-4, 1.2e-4, 0.9e-4], [1e-4, 1.15e-4, 0.95e-4], "cannot tell"),
    ],
)
def test_linearity_is_told_by_the_interval_of_the_ratio(low: list[float], high: list[float], words: str) -> None:
    sentence = linearity(low, high, low_load="depth 4", high_load="depth 16")
    assert sentence.startswith(words)
    assert "depth 4" in sentence


@pytest.mark.slow
def test_a_single_batch_says_nothing_about_linearity() -> None:
    shown = "100 us at depth 1, 150 us at depth 8, and a single batch has no spread"
    for low, high in (([1e-4], [1.4e-4, 1.6e-4]), ([0.9e-4, 1.1e-4], [1.5e-4])):
        assert linearity(low, high, low_load="depth 1", high_load="depth 8").endswith(f"in load: {shown}")


@pytest.mark.slow
def test_linearity_is_told_with_welchs_interval() -> None:
    """The two spreads differ a hundredfold; pooled, the interval would be a third as wide."""
    low, high = ([1e-4 * math.exp(value) for value in values] for values in ((-0.001, 0.001), (0.3, 0.5)))
    sentence = linearity(low, high, low_load="depth 4", high_load="depth 16")
    shown = "100 us at depth 4, 150 us at depth 16: +50 % [-58 % .. +431 %]"
    assert sentence == f"cannot tell whether it is linear in load: {shown}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rates", "bends_at"),
    [
        ([10.0, 20.0, 21.0, 22.0], 2.0),
        ([10.0, 20.0, 21.0], None),
        ([10.0, 10.0, 10.0, 10.0], None),
        ([10.0, 20.0, 30.0, 40.0], None),
        ([10.0, 20.0, 19.0, 21.0, 20.0, 22.0], 2.0),
        ([10.0, 20.0, 20.0, 20.0], 2.0),
        ([10.0, 10.0, 20.0, 21.0, 22.0], 3.0),
        ([10.0, 11.0, 13.0, 20.0], None),
        ([10.0, 10.0, 11.0, 30.0, 31.0, 32.0], 4.0),
    ],
)
def test_a_knee_is_where_a_rising_curve_bends(rates: list[float], bends_at: float | None) -> None:
    assert knee(range(1, len(rates) + 1), rates) == bends_at


def test_nothing_is_known_of_the_ratio_of_a_mean_below_nothing() -> None:
    below = Interval(-2.0, -3.0, -1.0, 4)
    for ratio in (ratio_of(below, Interval(1.0, 0.9, 1.1, 4)), ratio_of_means((-2.1, -1.9), (1.0, 1.01))):
        assert (ratio.low, ratio.high) == (-math.inf, math.inf)
        assert ratio.mean < 0
        assert ratio.ends == (-1e9, 1e9)


@pytest.mark.parametrize("cost", [0.0, -1e-6])
def test_a_batch_that_costs_nothing_says_nothing_about_linearity(cost: float) -> None:
    for low, high in (([cost, cost], [1e-4, 1.1e-4]), ([1e-4, 1.1e-4], [1e-4, cost])):
        assert linearity(low, high, low_load="1", high_load="2").startswith("cannot tell")
