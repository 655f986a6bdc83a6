"""A database whose cache tier is removed without a flush: the suite goes red, and says what is gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import tiers
from lab.arch import Arch
from lab.checks import Outcome
from lab.cluster import Cluster, raise_cluster
from lab.history import History
from lab.home import Home
from lab.images.store import ImageStore
from lab.providers.guest.provider import uml
from lab.runs import Runs
from lab.scenario import Scenario, Stage, run_scenario, seeded
from lab.spec import DEFAULT_RELEASE
from lab.tiers import Pair
from suites.cachetier import brought
from suites.cachetier.database import TOPOLOGY
from tests.contract.conftest import skip_guests

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]


@pytest.fixture
def cluster(home: Home) -> Iterator[Cluster]:
    skip_guests("uml")
    provider = uml()
    spec = TOPOLOGY.spec(DEFAULT_RELEASE)
    reason = provider.unavailable(spec)
    if reason is not None:
        pytest.skip(str(reason))
    images = {Arch.X86_64: ImageStore(home).get(DEFAULT_RELEASE, Arch.X86_64, TOPOLOGY.role_sets)}
    runs = Runs(home)
    run = runs.create("uml")
    try:
        with raise_cluster(provider, spec, images, run) as raised:
            raised.wait_healthy()
            yield raised
    finally:
        runs.forget(run)


def nothing(_cluster: Cluster, _pair: Pair) -> str:
    """A flush that does nothing and complains of nothing."""
    return ""


def test_a_tier_that_is_left_without_a_flush_takes_transactions_with_it(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiers, "flush_evict", nothing)
    # What is left in the cache would turn it red by itself; whether the database's own loss is seen is asked here.
    monkeypatch.setattr(brought, "cached", lambda _cluster, _pair: [])
    scenario = Scenario("cachetier.hasty-oltp", "", "", brought.flushed, check="figures")
    recorder = History().recorder(scenario.name)
    verdict = run_scenario(scenario, Stage(cluster, recorder, seeded(1, scenario.name), tmp_path))
    assert verdict.outcome is Outcome.FAIL
    seen = ("the database on the base alone", "committed transactions that are gone", "CHECK TABLE from the base alone")
    assert any(what in line for line in verdict.derivation for what in seen), verdict
