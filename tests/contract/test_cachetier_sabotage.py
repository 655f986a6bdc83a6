"""A tier that is removed without a flush: the suite goes red, and says what was lost."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from lab import tiers
from lab.checks import Outcome
from lab.cluster import Cluster, raise_cluster
from lab.history import History
from lab.home import Home
from lab.providers.base import Images
from lab.providers.local import LocalProvider
from lab.runs import Runs
from lab.scenario import Scenario, Stage, Topology, run_scenario, seeded
from lab.spec import DEFAULT_RELEASE
from lab.tiers import Drained, Pair
from lab.tierspec import TierLayout
from suites.cachetier import leaving
from suites.cachetier.stand import UNTHROTTLED

pytestmark = pytest.mark.real


@pytest.fixture
def cluster(images: Images, home: Home) -> Iterator[Cluster]:
    reason = LocalProvider().unavailable()
    if reason is not None:
        pytest.skip(str(reason))
    runs = Runs(home)
    run = runs.create("local")
    topology = Topology(cache_tier=TierLayout(servers=2), lone_client=True, options=UNTHROTTLED)
    try:
        with raise_cluster(LocalProvider(), topology.spec(DEFAULT_RELEASE), images, run) as raised:
            raised.wait_healthy()
            yield raised
    finally:
        runs.forget(run)


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
    recorder = History().recorder(scenario.name)
    verdict = run_scenario(scenario, Stage(cluster, recorder, seeded(1, scenario.name), tmp_path))
    assert verdict.outcome is Outcome.FAIL
    assert "although version" in verdict.reason, verdict
