"""A tier that is removed without a flush: the suite goes red, and says what was lost."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from lab import tiers
from lab.checks import Outcome
from lab.cluster import Cluster
from lab.home import Home
from lab.providers.local import LocalProvider
from lab.scenario import Scenario, Topology
from lab.tiers import Drained, Pair
from lab.tierspec import TierLayout
from suites.cachetier import leaving
from suites.cachetier.stand import UNTHROTTLED
from tests.contract.raising import raised, verdict_of

pytestmark = pytest.mark.real


@pytest.fixture
def cluster(home: Home) -> Iterator[Cluster]:
    topology = Topology(cache_tier=TierLayout(servers=2), lone_client=True, options=UNTHROTTLED)
    with raised(LocalProvider(), topology, home) as cluster:
        yield cluster


def nothing(_cluster: Cluster, _pair: Pair) -> Drained:
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
