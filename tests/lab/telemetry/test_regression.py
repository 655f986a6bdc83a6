"""The interval of a ratio: what widens it, and which covariates enter it."""

import math
import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from cephlab.lab.checks.regression import judge
from cephlab.lab.checks.verdict import Outcome
from cephlab.lab.telemetry.demand import LARGEST
from cephlab.lab.telemetry.demandfile import Batch
from cephlab.lab.telemetry.regression import Ratio, covariates, paired, ratio

T_4 = 3.746947
"""Student's t of 4 degrees of freedom at 99 %: two-sided, 98 %."""
Compared = Callable[..., Ratio]
BATCH = Batch(1000, 2, 16, {})


def costs(seed: int, count: int) -> list[float]:
    rng = random.Random(seed)
    return [math.exp(rng.gauss(0, 0.1)) for _ in range(count)]


def beside(*names: str, count: int) -> dict[str, list[float]]:
    """Covariates that explain nothing, and yet each of them moves the result."""
    return {name: costs(len(name), count) for name in names}


def test_an_end_that_is_infinite_is_the_largest_number_of_a_history() -> None:
    assert Ratio(1.0, 0.5, math.inf).ends == (0.5, LARGEST)
    assert Ratio(1.0, 0.5, 2.0).ends == (0.5, 2.0)


def test_a_covariate_without_a_logarithm_is_left_out() -> None:
    assert covariates([replace(BATCH, batching={"switches": 0.0})]) == {}
    assert covariates([replace(BATCH, batching={"syncs": math.e})]) == {"syncs": [1.0]}


def test_the_pace_is_the_geometric_mean_of_all_reference_work() -> None:
    paces = covariates([replace(BATCH, reference={"memory": math.e, "hash": math.e**4})])
    assert paces == {"pace": [pytest.approx(2.5)]}


def test_the_spread_between_deployments_enters_twice() -> None:
    change = ratio([1.0] * 3, [2.0] * 3, spread=0.1)
    assert change.value == pytest.approx(2.0)
    half = T_4 * math.sqrt(2 * 0.1**2)
    assert (change.low, change.high) == pytest.approx((2 * math.exp(-half), 2 * math.exp(half)))


@pytest.mark.parametrize(("each", "kept"), [(4, 0), (5, 2), (6, 2)])
def test_the_last_covariates_are_dropped_while_too_few_batches_remain(each: int, kept: int) -> None:
    """Two groups and six degrees of freedom take eight batches; each covariate takes one more."""
    names = ("one", "three")
    sides = costs(1, each), costs(2, each)
    change = ratio(*sides, (beside(*names, count=each), beside(*names[::-1], count=each)))
    assert change == ratio(*sides, (beside(*names[:kept], count=each), beside(*names[:kept], count=each)))
    assert (change == ratio(*sides)) is (kept == 0)


def test_of_two_covariates_the_first_is_kept() -> None:
    before, after = costs(1, 4), costs(2, 5)
    names = ("one", "three")
    change = ratio(before, after, (beside(*names, count=4), beside(*names, count=5)))
    assert change == ratio(before, after, (beside("one", count=4), beside("one", count=5)))
    assert change != ratio(before, after)


def test_a_covariate_of_one_side_alone_is_none() -> None:
    before, after = costs(1, 8), costs(2, 8)
    single, both = beside("one", count=8), beside("one", "three", count=8)
    for compared in (ratio, paired):
        assert compared(before, after, (single, both)) == compared(before, after, (both, single))
        assert compared(before, after, (single, both)) == compared(before, after, (single, single))


@pytest.mark.parametrize(("starts", "enters"), [(6, False), (7, True)])
def test_a_pair_takes_covariates_only_with_enough_starts(starts: int, enters: bool) -> None:
    sides = costs(1, starts), costs(2, starts)
    change = paired(*sides, ({"one": costs(3, starts)}, {"one": costs(4, starts)}))
    assert (change != paired(*sides)) is enters


def test_two_starts_of_a_pair_have_an_interval() -> None:
    change = paired([1.0, 1.0], [1.1, 1.2])
    assert 0 < change.low < 1.1 < change.value < 1.2 < change.high < math.inf


@pytest.mark.parametrize("jitter", [0.0, 1e-14, 1e-9, 1e-7, 1e-5])
@pytest.mark.parametrize("compared", [ratio, paired])
def test_a_covariate_that_is_constant_on_each_side_hides_no_rise(compared: Compared, jitter: float) -> None:
    """Commits that double with the cost explain it as well as the step does: nothing can be told."""
    before, after = costs(1, 10), [2 * cost for cost in costs(2, 10)]
    old, new = ([mean + jitter * cost for cost in costs(3, 10)] for mean in (0.0, math.log(2)))
    change = compared(before, after, ({"syncs": old}, {"syncs": new}))
    assert (change.low, change.high) == (0.0, math.inf)
    assert judge(change.value, change.low, change.high) is Outcome.INCONCLUSIVE


@pytest.mark.parametrize("compared", [ratio, paired])
def test_a_covariate_that_never_changes_changes_nothing(compared: Compared) -> None:
    before, after, same = costs(1, 10), costs(2, 10), {"syncs": [0.3] * 10}
    with_it, alone = compared(before, after, (same, same)), compared(before, after)
    assert (with_it.value, with_it.low, with_it.high) == pytest.approx((alone.value, alone.low, alone.high))


@pytest.mark.parametrize("compared", [ratio, paired])
def test_a_ratio_follows_its_costs_and_not_their_unit_or_order(compared: Compared) -> None:
    before, after = costs(1, 10), costs(2, 10)
    own, mirrored = compared(before, after), compared(after, before)
    scaled = compared([8 * cost for cost in before[::-1]], [16 * cost for cost in after[::-1]])
    assert own.low < own.value < own.high
    assert (1 / mirrored.high, 1 / mirrored.value, 1 / mirrored.low) == pytest.approx((own.low, own.value, own.high))
    assert (scaled.low, scaled.value, scaled.high) == pytest.approx((2 * own.low, 2 * own.value, 2 * own.high))
