"""A disk that takes no flush down, and one that caches what it should not: the power cuts go red."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from lab.checks import Outcome
from lab.cluster import Cluster, raise_cluster
from lab.history import History
from lab.home import Home
from lab.hypervisor.command import Cache
from lab.images.store import ImageStore
from lab.providers.local import LocalProvider
from lab.runs import Runs
from lab.scenario import Scenario, Stage, run_scenario, seeded
from lab.spec import DEFAULT_RELEASE
from suites.hci.power import TOPOLOGY, cut_power
from tests.contract.conftest import skip_guests

pytestmark = [pytest.mark.real, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def cluster(home: Home) -> Iterator[Cluster]:
    skip_guests("qemu")
    provider, spec = LocalProvider(), TOPOLOGY.spec(DEFAULT_RELEASE)
    reason = provider.unavailable(spec)
    if reason is not None:
        pytest.skip(str(reason))
    images = {arch: ImageStore(home).get(DEFAULT_RELEASE, arch, TOPOLOGY.role_sets) for arch in spec.archs}
    runs = Runs(home)
    run = runs.create("local")
    try:
        with raise_cluster(provider, spec, images, run) as raised:
            raised.wait_healthy()
            yield raised
    finally:
        runs.forget(run)


@pytest.mark.parametrize(("cache", "told"), [(Cache.UNSAFE, Cache.WRITEBACK), (Cache.WRITEBACK, Cache.NONE)])
def test_a_disk_that_keeps_less_than_its_owner_was_told(
    cluster: Cluster, tmp_path: Path, cache: Cache, told: Cache
) -> None:
    scenario = Scenario("hci.untold", "", "", partial(cut_power, cache=cache, told=told), check="witnessed")
    recorder = History().recorder(scenario.name)
    verdict = run_scenario(scenario, Stage(cluster, recorder, seeded(1, scenario.name), tmp_path))
    assert verdict.outcome is Outcome.FAIL
    assert "promised blocks that are gone" in verdict.reason, verdict
