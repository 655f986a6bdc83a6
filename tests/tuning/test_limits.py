"""Limits from predictions, and verdicts by interval: each side of each limit, and the limit itself."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest

from cephlab.lab.checks.verdict import Outcome, Verdict
from cephlab.lab.telemetry.demand import Interval
from cephlab.tuning.limits import (
    Limit,
    judge,
    latency_limit,
    recovery_limit,
    supported_factor,
    throughput_limit,
    trusted_factor,
)
from cephlab.tuning.model import predict
from cephlab.tuning.profile import Profile
from cephlab.tuning.recovery import recovery_time
from cephlab.tuning.references import FigureKind
from cephlab.tuning.workload import Shape
from tests.model_parts import demand, disks, machine, profile


@pytest.mark.parametrize(
    ("low", "high", "measured", "outcome"),
    [
        (100.0, None, (100.0, 110.0), Outcome.PASS),
        (100.0, None, (90.0, 100.0), Outcome.INCONCLUSIVE),
        (100.0, None, (90.0, 99.9), Outcome.FAIL),
        (None, 100.0, (90.0, 100.0), Outcome.PASS),
        (None, 100.0, (100.0, 110.0), Outcome.INCONCLUSIVE),
        (None, 100.0, (100.1, 110.0), Outcome.FAIL),
        (90.0, 110.0, (90.0, 110.0), Outcome.PASS),
        (90.0, 110.0, (89.0, 100.0), Outcome.INCONCLUSIVE),
        (90.0, 110.0, (100.0, 111.0), Outcome.INCONCLUSIVE),
        (90.0, 110.0, (80.0, 89.0), Outcome.FAIL),
        (90.0, 110.0, (111.0, 120.0), Outcome.FAIL),
        (None, None, (1.0, 2.0), Outcome.PASS),
    ],
)
def test_an_interval_is_inside_outside_or_over_the_limit(
    low: float | None, high: float | None, measured: tuple[float, float], outcome: Outcome
) -> None:
    limit = Limit("rate", "ops/s", "because", low, high)
    assert judge(limit, Interval(sum(measured) / 2, *measured, samples=2)).outcome is outcome


def test_one_sample_has_no_interval() -> None:
    limit = Limit("rate", "ops/s", "because", 100.0, 200.0)
    verdict = judge(limit, Interval(150.0, 150.0, 150.0, samples=1))
    said = "rate: 150 ops/s, wanted at least 100 and at most 200 ops/s; one sample has no interval"
    assert verdict == Verdict(Outcome.INCONCLUSIVE, said, ("measured: 150 ops/s (150 to 150)",))


def test_a_verdict_says_what_was_measured_and_what_was_wanted() -> None:
    made = predict([demand(primary_s=0.001, replicas_s=0.001)], profile(), Shape("randwrite", 4096, 50, 20))
    limit = throughput_limit(made, 2.0)
    verdict = judge(limit, Interval(1000.0, 900.0, 1100.0, samples=3))
    assert verdict.reason == f"throughput of {made.shape}: 1,000 ops/s, wanted at least {limit.low:,.6g} ops/s"
    assert verdict.derivation[-1] == "measured: 1,000 ops/s (900 to 1,100)"
    assert verdict.derivation[:-1] == tuple(limit.derivation.lines())
    over = judge(Limit("m", "s", "", high=1.0), Interval(1.0, 0.5, 1.5, samples=2))
    said = "m: 1 s, wanted at most 1 s"
    facts = ("measured: 1 s (0.5 to 1.5)",)
    assert over == Verdict(Outcome.INCONCLUSIVE, f"{said}; the interval crosses the limit", facts)
    inside = judge(Limit("m", "s", "", high=1.5), Interval(1.0, 0.5, 1.5, samples=2))
    assert inside == Verdict(Outcome.PASS, "m: 1 s, wanted at most 1.5 s", facts)


def test_limits_are_open_on_the_side_that_harms_nobody() -> None:
    made = predict([demand(primary_s=0.001, replicas_s=0.001)], profile(), Shape("randwrite", 4096, 50, 20))
    at_least, at_most = throughput_limit(made, 2.0), latency_limit(made, 3.0)
    assert at_least.low == pytest.approx(made.ops / 2)
    assert (at_least.high, at_least.unit) == (None, "ops/s")
    assert at_least.why.startswith("test should do ")
    assert at_least.why.endswith("the model is trusted to a factor of 2")
    assert at_least.derivation.lines()[-1].startswith("limit: ")
    assert at_most.high == pytest.approx(made.latency_s * 3)
    assert (at_most.low, at_most.unit) == (None, "s")
    assert at_most.metric == f"mean latency of {made.shape}"
    assert at_most.why == f"test should take {made.latency_s * 1e3:.3g} ms with 1000 in flight"
    alone = latency_limit(replace(made, latency_s=0.12345), 1.0)
    assert alone.why.startswith("test should take 123 ms")
    assert at_most.derivation.lines()[-1].startswith("limit: ")
    assert len(at_most.derivation.lines()) == len(made.derivation.lines()) + 1


def test_recovery_has_the_most_that_it_may_take() -> None:
    made = recovery_time(profile(machine(disk=(disks(seq_write=1e9, seq_read=1e9),))), 1e12)
    limit = recovery_limit(made, 1.5)
    assert (limit.metric, limit.low, limit.unit) == ("time to recover", None, "s")
    assert limit.high == pytest.approx(made.seconds * 1.5)
    assert limit.why == f"copying should take {made.seconds:,.0f} s, limited by {made.limit}"
    assert limit.derivation.lines()[-1].startswith("limit: ")


def test_the_worst_of_the_ratios_is_trusted_and_never_less_than_the_least() -> None:
    assert trusted_factor([0.25, 3.0]) == 4.0
    assert trusted_factor([3.0, 0.5]) == 3.0
    assert trusted_factor([1.0]) == 1.25
    assert trusted_factor([1.1], least=1.0) == pytest.approx(1.1)
    assert trusted_factor([1.1], least=2.0) == 2.0
    assert trusted_factor([]) == 2.0


@dataclass(frozen=True)
class Reference:
    """Figures stand for those of a publication."""

    figures: tuple[SimpleNamespace, ...]


@pytest.mark.parametrize(("ratios", "factor"), [([], 2.0), ([1.5, None], 2.0), ([1.5, 0.25], 4.0)])
def test_a_prediction_is_trusted_as_far_as_publications_bear_it_out(
    monkeypatch: pytest.MonkeyPatch, ratios: list[float | None], factor: float
) -> None:
    kinds, mine = (FigureKind.THROUGHPUT,), [demand()]

    def find(name: str) -> Profile:
        raise AssertionError(name)

    def validated(demands: object, references: object, finder: object) -> SimpleNamespace:
        assert (demands, references, finder) == ([*mine, "shipped"], (Reference((figure,)),), find)
        return SimpleNamespace(comparisons=[SimpleNamespace(ratio=ratio) for ratio in ratios])

    figure, other = (SimpleNamespace(kind=kind) for kind in (FigureKind.THROUGHPUT, FigureKind.RECOVERY))
    monkeypatch.setattr("cephlab.tuning.limits.validate", validated)
    published = (Reference((figure, other)), Reference((other,)))
    monkeypatch.setattr("cephlab.tuning.limits.load_references", lambda: published)
    monkeypatch.setattr("cephlab.tuning.limits.with_shipped", lambda demands: [*demands, "shipped"])
    assert supported_factor(mine, kinds, find) == factor
