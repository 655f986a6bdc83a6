"""A disk that takes no flush down, and one that caches what it should not: the power cuts go red."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from cephlab.lab.base.home import Home
from cephlab.lab.checks import Outcome
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.providers.local import LocalProvider
from cephlab.lab.scenario.scenario import Scenario
from cephlab.suites.hci.hypervisor.command import CacheMode
from cephlab.suites.hci.power import TOPOLOGY, cut_power
from tests.contract.raising import raised, skip_guests, verdict_of

pytestmark = [pytest.mark.real, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def cluster(home: Home) -> Iterator[Cluster]:
    skip_guests("qemu")
    with raised(LocalProvider(), TOPOLOGY, home) as cluster:
        yield cluster


@pytest.mark.parametrize(
    ("cache", "told"), [(CacheMode.UNSAFE, CacheMode.WRITEBACK), (CacheMode.WRITEBACK, CacheMode.NONE)]
)
def test_a_disk_that_keeps_less_than_its_owner_was_told(
    cluster: Cluster, tmp_path: Path, cache: CacheMode, told: CacheMode
) -> None:
    scenario = Scenario("hci.untold", "", "", partial(cut_power, cache=cache, told=told), check="witnessed")
    verdict = verdict_of(scenario, cluster, tmp_path)
    assert verdict.outcome is Outcome.FAIL
    assert "guaranteed blocks that are lost" in verdict.reason, verdict
