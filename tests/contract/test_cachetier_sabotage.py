"""A tier that is removed without a flush: the suite goes red, and says what was lost."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from cephlab.lab.base.home import Home
from cephlab.lab.checks import Outcome
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.providers.local import LocalProvider
from cephlab.lab.scenario.scenario import Scenario
from cephlab.suites.cachetier import leaving, tiers
from cephlab.suites.cachetier.stand import UNTHROTTLED
from cephlab.suites.cachetier.tiers import Drained, PoolPair
from cephlab.suites.cachetier.tierspec import TieredTopology, TierLayout
from tests.contract.raising import raised, verdict_of

pytestmark = pytest.mark.real


@pytest.fixture
def cluster(home: Home) -> Iterator[Cluster]:
    topology = TieredTopology(layout=TierLayout(servers=2), lone_client=True, options=UNTHROTTLED)
    with raised(LocalProvider(), topology, home) as cluster:
        yield cluster


def nothing(_cluster: Cluster, _pair: PoolPair) -> Drained:
    """A drain that does nothing and says that all is well."""
    return Drained((), 0, 0.0)


def test_a_tier_that_is_removed_without_a_flush_has_lost_writes(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiers, "drain", nothing)
    # Images would have lost their headers, and their clients could not go on at all.
    monkeypatch.setattr(leaving, "KINDS", ("objects",))
    run = partial(leaving.under_load, leave=leaving.by_proxy)
    scenario = Scenario("cachetier.hasty", "", "", run, check="recorded")
    verdict = verdict_of(scenario, cluster, tmp_path)
    assert verdict.outcome is Outcome.FAIL
    assert "although version" in verdict.reason, verdict
