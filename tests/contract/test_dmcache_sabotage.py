"""A cache that is dropped without a flush, and a database that does not flush its commits: the suite goes red."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from lab.arch import Arch
from lab.blockstack.dmcache import CacheDevice, CacheStatus, Mode
from lab.blockstack.mariadb import MariaDb
from lab.checks import Outcome, Verdict
from lab.cluster import Cluster, raise_cluster
from lab.history import History
from lab.home import Home
from lab.images.store import ImageStore
from lab.providers.guest.provider import uml
from lab.runs import Runs
from lab.scenario import Scenario, Stage, run_scenario, seeded
from lab.spec import DEFAULT_RELEASE
from suites.dmcache.correctness import flush_and_detach
from suites.dmcache.power import cut_power
from suites.dmcache.stand import TOPOLOGY
from tests.contract.conftest import skip_guests

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
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


def verdict_of(scenario: Scenario, cluster: Cluster, scratch: Path) -> Verdict:
    recorder = History().recorder(scenario.name)
    return run_scenario(scenario, Stage(cluster, recorder, seeded(1, scenario.name), scratch))


def test_a_cache_that_is_dropped_without_a_flush(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CacheDevice, "flush", lambda cache, _timeout_s: _claims_clean(cache.status()))
    scenario = Scenario("dmcache.hasty", "", "", partial(flush_and_detach, kind=Mode.WRITEBACK), check="witnessed")
    verdict = verdict_of(scenario, cluster, tmp_path)
    assert verdict.outcome is Outcome.FAIL
    assert "the image, without its cache" in verdict.reason, verdict


def _claims_clean(found: CacheStatus) -> CacheStatus:
    return CacheStatus(**{**vars(found), "dirty": 0})


def test_commits_that_are_acknowledged_before_they_are_written(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = MariaDb.options

    def careless(database: MariaDb) -> Mapping[str, str]:
        # The log is written once in a while and not for each commit.
        lax = {"innodb-flush-log-at-trx-commit": "0", "innodb-flush-log-at-timeout": "60"}
        return {**honest(database), **lax}

    monkeypatch.setattr(MariaDb, "options", careless)
    scenario = Scenario("dmcache.careless", "", "", partial(cut_power, kind=Mode.WRITEBACK), check="witnessed")
    verdict = verdict_of(scenario, cluster, tmp_path)
    assert verdict.outcome is Outcome.FAIL
    assert any("committed transactions that are gone" in line for line in verdict.derivation), verdict
