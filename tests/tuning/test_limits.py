"""Limits from predictions, and how far predictions are trusted."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest

from cephlab.tuning.limits import latency_limit, recovery_factor, recovery_limit, throughput_limit, trusted_factor
from cephlab.tuning.model import predict
from cephlab.tuning.profile import Profile
from cephlab.tuning.recovery import recovery_time
from cephlab.tuning.references import FigureKind
from cephlab.tuning.workload import Shape
from tests.model_parts import demand, disks, machine, profile


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
    mine = [demand()]

    def find(name: str) -> Profile:
        raise AssertionError(name)

    def validated(demands: object, references: object, finder: object) -> SimpleNamespace:
        assert (demands, references, finder) == ([*mine, "shipped"], (Reference((figure,)),), find)
        return SimpleNamespace(comparisons=[SimpleNamespace(ratio=ratio) for ratio in ratios])

    figure, other = (SimpleNamespace(kind=kind) for kind in (FigureKind.RECOVERY, FigureKind.THROUGHPUT))
    monkeypatch.setattr("cephlab.tuning.limits.validate", validated)
    published = (Reference((figure, other)), Reference((other,)))
    monkeypatch.setattr("cephlab.tuning.limits.load_references", lambda: published)
    monkeypatch.setattr("cephlab.tuning.limits.with_shipped", lambda demands: [*demands, "shipped"])
    assert recovery_factor(mine, find) == factor
