"""A cache that is dropped without a flush, and a database that does not flush its commits: the suite goes red."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from cephlab.lab.base.home import Home
from cephlab.lab.blockstack.dmcache import CacheDevice, CacheStatus, DmCacheMode
from cephlab.lab.blockstack.mariadb import MariaDb
from cephlab.lab.checks import Outcome
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.providers.guest.provider import uml
from cephlab.lab.scenario.scenario import Scenario
from cephlab.suites.dmcache.correctness import flush_and_detach
from cephlab.suites.dmcache.power import cut_power
from cephlab.suites.dmcache.stand import TOPOLOGY
from tests.contract.raising import raised, verdict_of

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def cluster(home: Home) -> Iterator[Cluster]:
    with raised(uml(), TOPOLOGY, home) as cluster:
        yield cluster


def test_a_cache_that_is_dropped_without_a_flush(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CacheDevice, "flush", lambda cache, _timeout_s: _claims_clean(cache.status()))
    scenario = Scenario(
        "dmcache.hasty", "", "", partial(flush_and_detach, kind=DmCacheMode.WRITEBACK), check="witnessed"
    )
    verdict = verdict_of(scenario, cluster, tmp_path)
    assert verdict.outcome is Outcome.FAIL
    assert "the image, without its cache" in verdict.reason, verdict


def _claims_clean(status: CacheStatus) -> CacheStatus:
    return CacheStatus(**{**vars(status), "dirty": 0})


def test_commits_that_are_acknowledged_before_they_are_written(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = MariaDb.options

    def careless(database: MariaDb) -> Mapping[str, str]:
        # The log is written once in a while and not for each commit.
        lax = {"innodb-flush-log-at-trx-commit": "0", "innodb-flush-log-at-timeout": "60"}
        return {**honest(database), **lax}

    monkeypatch.setattr(MariaDb, "options", careless)
    scenario = Scenario("dmcache.careless", "", "", partial(cut_power, kind=DmCacheMode.WRITEBACK), check="witnessed")
    verdict = verdict_of(scenario, cluster, tmp_path)
    assert verdict.outcome is Outcome.FAIL
    assert any("committed transactions that are gone" in line for line in verdict.derivation), verdict
