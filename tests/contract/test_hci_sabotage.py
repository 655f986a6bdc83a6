"""A disk that takes no flush down, and one that caches what it should not: the power cuts go red."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from lab.checks import Outcome
from lab.cluster import Cluster
from lab.home import Home
from lab.hypervisor.command import Cache
from lab.providers.local import LocalProvider
from lab.scenario import Scenario
from suites.hci.power import TOPOLOGY, cut_power
from tests.contract.raising import raised, skip_guests, verdict_of

pytestmark = [pytest.mark.real, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def cluster(home: Home) -> Iterator[Cluster]:
    skip_guests("qemu")
    with raised(LocalProvider(), TOPOLOGY, home) as cluster:
        yield cluster


@pytest.mark.parametrize(("cache", "told"), [(Cache.UNSAFE, Cache.WRITEBACK), (Cache.WRITEBACK, Cache.NONE)])
def test_a_disk_that_keeps_less_than_its_owner_was_told(
    cluster: Cluster, tmp_path: Path, cache: Cache, told: Cache
) -> None:
    scenario = Scenario("hci.untold", "", "", partial(cut_power, cache=cache, told=told), check="witnessed")
    verdict = verdict_of(scenario, cluster, tmp_path)
    assert verdict.outcome is Outcome.FAIL
    assert "promised blocks that are gone" in verdict.reason, verdict
