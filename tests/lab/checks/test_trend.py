"""The slope of made series: how often a sound one is called drifting, and how often a drift is found."""

import math
import statistics

import numpy as np
import pytest
from scipy.special import stdtrit

from cephlab.lab.checks.trend import LEAST_SAMPLES, MOST_SAMPLES, Step, Trend, trend
from tests.made_series import KINDS, correlated, sound

SERIES = 25
"""Of each kind; docs/measured/stress.md has the figures of thousands."""


def trends(kind: str, count: int, drift: float = 0.0, number: int = SERIES) -> list[Trend]:
    """Of so many series over one hour that drift by `drift` standard deviations."""
    rng = np.random.default_rng(23)
    hours = np.arange(count) / count
    return [trend(list(hours), list(sound(kind, rng, count) + drift * hours)) for _ in range(number)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_sound_series_is_seldom_called_drifting(kind: str) -> None:
    """At 98 % one side is wrong once in a hundred; three of 25 hardly ever."""
    assert sum(each.low > 0 for each in trends(kind, 100)) <= 2


@pytest.mark.parametrize(
    ("kind", "drift"), [("ar0", 2.0), ("ar0.4", 3.0), ("ar0.8", 8.0), ("step", 6.0), ("bursts", 10.0)]
)
def test_a_drift_is_found(kind: str, drift: float) -> None:
    intervals = trends(kind, 100, drift, 15)
    assert sum(each.low > 0 for each in intervals) >= 13
    assert sum(each.low <= drift <= each.high for each in intervals) >= 13


@pytest.mark.slow
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
    few = trend(list(range(29)), list(range(29)))
    assert math.isnan(few.slope)
    assert (few.low, few.high, few.steps, few.independent) == (-math.inf, math.inf, (), 0)
    assert math.isfinite(trend(list(range(30)), list(range(30))).high)


def test_a_long_series_is_averaged_first() -> None:
    count = MOST_SAMPLES * 7 + 3
    hours = np.arange(count) / count
    long = trend(list(hours), list(3 * hours + correlated(np.random.default_rng(2), count, 0.5)))
    assert long.low < 3 < long.high
    assert long.independent <= MOST_SAMPLES


def clipped_by_the_book(values: list[float]) -> list[float]:
    """Three standard deviations, by 1.4826 times the median absolute deviation."""
    middle = float(np.median(values))
    bound = 3 * 1.4826 * float(np.median([abs(value - middle) for value in values]))
    return [max(-bound, min(bound, value)) for value in values]


def variance_factor_by_the_book(rest: list[float]) -> float:
    """The larger of (1 + r) / (1 - r), r after Marriott and Pope, and Newey and West's with Bartlett's weights."""
    count, power = len(rest), sum(value * value for value in rest)
    correlations = [
        sum(rest[i] * rest[i + lag] for i in range(count - lag)) / power for lag in range(1, math.isqrt(count) + 1)
    ]
    first = min(0.97, correlations[0] + (2 + 4 * correlations[0]) / count)
    weights = [1 - (lag + 1) / (len(correlations) + 1) for lag in range(len(correlations))]
    windowed = 1 + 2 * sum(weight * value for weight, value in zip(weights, correlations, strict=True))
    return max(1.0, (1 + first) / (1 - first), windowed)


def by_the_book(times: list[float], series: list[float], cuts: list[int]) -> Trend:
    """As the docstring of `trend` has it, in plain loops; cuts: where a new level begins, which is given."""
    part = [sum(cut <= place for cut in cuts) for place in range(len(times))]
    slopes = sorted(
        ((series[j] - series[i]) / (times[j] - times[i]), times[j] - times[i])
        for i in range(len(times))
        for j in range(i + 1, len(times))
        if part[i] == part[j]
    )
    half, reached = sum(weight for _, weight in slopes) / 2, 0.0
    slope = slopes[-1][0]
    for candidate, weight in slopes:
        reached += weight
        if reached >= half:
            slope = candidate
            break
    flat = [value - slope * at_h for at_h, value in zip(times, series, strict=True)]
    levels = [float(np.median([v for v, p in zip(flat, part, strict=True) if p == each])) for each in sorted(set(part))]
    rest = clipped_by_the_book([value - levels[p] for value, p in zip(flat, part, strict=True)])
    factor = variance_factor_by_the_book(rest)
    worth, taken = len(times) / factor, 2 + len(cuts)
    means = [statistics.fmean(t for t, p in zip(times, part, strict=True) if p == each) for each in sorted(set(part))]
    spread = sum((t - means[p]) ** 2 for t, p in zip(times, part, strict=True))
    residual = sum(value * value for value in rest) / (len(times) - taken)
    error = math.sqrt(residual * factor * math.pi / 3 / spread)
    half = float(stdtrit(worth - taken, 0.99)) * error
    steps = tuple(Step(times[cut], levels[i + 1] - levels[i]) for i, cut in enumerate(cuts))
    return Trend(slope, slope - half, slope + half, steps, worth)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "count", "jump"),
    [("ar0", 60, 0), ("ar0.8", 90, 0), ("ar0.4", 80, 30), ("ar0", 80, 12), ("wave", 120, 0), ("smooth", 220, 0)],
)
def test_the_interval_is_that_of_the_books(kind: str, count: int, jump: float) -> None:
    """By the neighbour's correlation, by that of many in a wave beneath noise, by its limit where all is smooth."""
    rng = np.random.default_rng(11)
    hours = [place / 7 for place in range(count)]
    noise = {"wave": 1.0, "smooth": 0.01}
    series = sound("ar0" if kind in noise else kind, rng, count) * noise.get(kind, 1) + 0.4 * np.asarray(hours)
    series += 1.5 * np.sin(np.arange(count) / count * 15) * (kind in noise)
    series[3] += 40 * (kind != "smooth")  # an outlier, which is drawn in
    cuts = [count // 3] if jump else []
    series[count // 3 :] += jump
    made, book = trend(hours, list(series)), by_the_book(hours, list(series), cuts)
    assert made.independent == pytest.approx(book.independent)
    assert (made.slope, made.low, made.high) == pytest.approx((book.slope, book.low, book.high))
    assert [step.at_h for step in made.steps] == [step.at_h for step in book.steps]
    assert [step.size for step in made.steps] == pytest.approx([step.size for step in book.steps])


def test_a_perfect_line_has_an_exact_slope_and_all_its_samples_count() -> None:
    line = trend([place / 4 for place in range(LEAST_SAMPLES)], [2.0 * place for place in range(LEAST_SAMPLES)])
    assert (line.slope, line.low, line.high, line.independent) == (8, 8, 8, LEAST_SAMPLES)


def test_more_than_400_samples_are_averaged() -> None:
    for count, worth in ((400, 400), (401, 200)):
        assert trend(list(range(count)), list(range(count))).independent == worth


def test_a_series_is_computed_in_double_precision_whatever_it_comes_in() -> None:
    times = np.asarray([place / 7 for place in range(60)], dtype=np.float32)
    series = sound("ar0.4", np.random.default_rng(3), 60).astype(np.float32)
    assert trend(list(times), list(series)) == trend([float(at) for at in times], [float(value) for value in series])


def test_the_slope_is_the_median_by_weight_where_one_distance_outweighs_the_others() -> None:
    times = [*map(float, range(29)), 1000.0]
    series = [-float(place) for place in range(29)] + [3.0]
    assert trend(times, series).slope == by_the_book(times, series, []).slope


def test_outliers_are_left_where_most_samples_are_alike() -> None:
    made = trend([float(place) for place in range(60)], [7.0 + (place % 5 == 0) for place in range(60)])
    assert made.low < 0 < made.high


def test_two_steps_that_come_back_are_both_told() -> None:
    rng = np.random.default_rng(4)
    series = rng.standard_normal(120)
    series[40:80] += 20
    up, down = trend([place / 120 for place in range(120)], list(series)).steps
    assert (up.at_h, down.at_h) == (40 / 120, 80 / 120)
    assert (up.size, down.size) == pytest.approx((20, -20), abs=1)


@pytest.mark.parametrize(("size", "told"), [(2.5, 0), (8.0, 1)])
def test_a_jump_has_to_be_large_beside_the_noise(size: float, told: int) -> None:
    series = np.random.default_rng(9).standard_normal(150)
    series[75:] += size
    assert len(trend([place / 150 for place in range(150)], list(series)).steps) == told


def test_no_jump_is_told_in_the_first_and_the_last_twentieth() -> None:
    for began in (2, 4, 5, 50, 94, 95, 98):
        series = np.random.default_rng(9).standard_normal(100)
        series[began:] += 30
        places = [step.at_h for step in trend([float(place) for place in range(100)], list(series)).steps]
        assert all(5 <= place <= 94 for place in places)
        assert (began in places) == (5 <= began <= 94)


def test_stretches_are_averaged_from_the_beginning_and_what_is_left_over_is_dropped() -> None:
    count = 2 * MOST_SAMPLES - 1
    values = [float(place % 2) for place in range(count - 1)] + [1e9]
    made = trend([float(place) for place in range(count)], values)
    assert (made.slope, made.low, made.high, made.independent) == (0, 0, 0, MOST_SAMPLES - 1)


def test_a_series_that_is_worth_too_few_samples_has_a_slope_and_no_interval() -> None:
    times = [place / 30 for place in range(LEAST_SAMPLES)]
    wave = trend(times, [math.sin(at_h * 2) for at_h in times])
    assert math.isfinite(wave.slope)
    assert (wave.low, wave.high, wave.steps) == (-math.inf, math.inf, ())
    assert 0 < wave.independent < 3


@pytest.mark.parametrize(
    ("began", "sizes", "seed", "drift"),
    [
        ([40], [-30], 0, 200),
        ([30, 60], [-20, -20], 0, 100),
        ([27, 28], [-30, 30], 270, -60),
        ([17, 23, 48], [20, 20, -20], 57, -60),
        ([3], [30], 0, 0),
    ],
    ids=["beside a drift", "two beside a drift", "one sample", "three beside a drift", "at the edge"],
)
def test_steps_are_told_where_they_are(began: list[int], sizes: list[int], seed: int, drift: float) -> None:
    """Each was made so that a search that forgets the line, or does not move its first guesses, misses it."""
    count = 100 if began[-1] in (40, 60) else 60
    series = np.random.default_rng(seed).standard_normal(count) + drift * np.arange(count) / count
    for place, size in zip(began, sizes, strict=True):
        series[place:] += size
    made = trend([float(place) for place in range(count)], list(series))
    assert [step.at_h for step in made.steps] == began


def test_four_steps_are_no_steps_but_a_series_that_moves() -> None:
    series = np.random.default_rng(0).standard_normal(100)
    series[20:40] += 20
    series[60:80] += 20
    assert trend([place / 100 for place in range(100)], list(series)).steps == ()


def clipped_around_the_running_median(values: list[float]) -> list[float]:
    """As wide as a tenth of the series, an odd number and at least 5; the ends are held on."""
    width = max(5, len(values) // 10 + (len(values) // 10 + 1) % 2)
    around = [
        statistics.median(
            [values[min(max(place + shift, 0), len(values) - 1)] for shift in range(-(width // 2), width // 2 + 1)]
        )
        for place in range(len(values))
    ]
    rest = [value - middle for value, middle in zip(values, around, strict=True)]
    middle = statistics.median(rest)
    bound = 3 * 1.4826 * statistics.median([abs(value - middle) for value in rest])
    return [m + max(-bound, min(bound, value)) for m, value in zip(around, rest, strict=True)]


def stands_by_the_book(values: list[float], began: int) -> bool:
    """One jump beside a line, by least squares: above four standard deviations, and 30 variances of its mean."""
    series = np.asarray(clipped_around_the_running_median(values))
    count = len(series)
    design = np.column_stack([np.ones(count), np.arange(count), np.arange(count) >= began])
    inverse = np.linalg.inv(design.T @ design)
    fitted = inverse @ design.T @ series
    rest = series - design @ fitted
    middle = float(np.median(rest))
    bound = 3 * 1.4826 * float(np.median(np.abs(rest - middle)))
    rest = np.clip(rest, -bound, bound)
    variance = float(rest @ rest) / (count - 3)
    factor = variance_factor_by_the_book(list(map(float, rest)))
    size = float(fitted[2])
    return abs(size) > 4 * math.sqrt(variance) and size**2 / inverse[2, 2] > 30 * variance * factor


@pytest.mark.parametrize(
    ("kind", "unit", "began", "seed"),
    [("ar0", 1e-3, 30, 1), ("ar0", 1e3, 30, 2), ("ar0.8", 1e-3, 45, 3), ("ar0.8", 1e3, 45, 4), ("skewed", 1.0, 25, 5)],
)
def test_from_which_size_on_a_jump_is_told_is_that_of_the_books(kind: str, unit: float, began: int, seed: int) -> None:
    rng, count = np.random.default_rng(seed), 130
    noise = rng.exponential(size=count) if kind == "skewed" else sound(kind, rng, count)
    noise[[7, 60]] += 12, -12  # outliers, which are drawn in

    def series(size: float) -> list[float]:
        return [float(value) * unit for value in noise + size * (np.arange(count) >= began)]

    low, high = 0.0, 40.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (low, middle) if stands_by_the_book(series(middle), began) else (middle, high)
    for size, told in ((high * 0.9999, []), (high * 1.0001, [began])):
        assert [step.at_h for step in trend(list(range(count)), series(size)).steps] == told


def test_rare_events_on_a_line_are_not_taken_for_outliers_because_of_rounding() -> None:
    """Of samples that are nearly all on one line nobody knows the noise, whatever the line's slope is."""
    hours = np.arange(100) / 100
    events = np.where(np.arange(100) % 20 == 7, 5.0, 0.0)
    flat, falling = (trend(list(hours), list(0.1 + slope * hours + events)) for slope in (0.0, -0.7))
    assert (falling.low, falling.high) == pytest.approx((flat.low - 0.7, flat.high - 0.7))
    assert flat.low < 0 < flat.high
