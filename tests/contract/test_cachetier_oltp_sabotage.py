"""A database whose cache tier is removed without a flush: the suite goes red, and says what is gone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cephlab.lab.base.home import Home
from cephlab.lab.checks import Outcome
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.providers.guest.provider import uml
from cephlab.lab.scenario.scenario import Scenario
from cephlab.suites.cachetier import oltp as brought
from cephlab.suites.cachetier import stand, tiers
from cephlab.suites.cachetier.database import TOPOLOGY
from cephlab.suites.cachetier.tiers import PoolPair
from tests.contract.raising import raised, verdict_of

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]


@pytest.fixture
def cluster(home: Home) -> Iterator[Cluster]:
    with raised(uml(), TOPOLOGY, home) as cluster:
        yield cluster


def nothing(_cluster: Cluster, _pair: PoolPair) -> str:
    """A flush that does nothing and complains of nothing."""
    return ""


def test_a_tier_that_is_left_without_a_flush_takes_transactions_with_it(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiers, "flush_evict", nothing)
    # What is left in the cache would turn it red by itself; whether the database's own loss is seen is asked here.
    monkeypatch.setattr(stand, "cached", lambda _cluster, _pair: [])
    scenario = Scenario("cachetier.hasty-oltp", "", "", brought.flushed, check="figures")
    verdict = verdict_of(scenario, cluster, tmp_path)
    assert verdict.outcome is Outcome.FAIL
    seen = ("the database on the base alone", "committed transactions that are gone", "CHECK TABLE from the base alone")
    assert any(what in line for line in verdict.derivation for what in seen), verdict
