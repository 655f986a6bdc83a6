"""Disks that flush too little or cache too much, and a cache that is off: power cuts and ratios of rates go red."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from cephlab.lab.base.home import Home
from cephlab.lab.checks import Outcome
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.providers.local import LocalProvider
from cephlab.lab.scenario.scenario import Scenario
from cephlab.lab.workloads.image import BlockImage
from cephlab.suites.hci import stand, writeback
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
    scenario = Scenario("hci.untold", "", "", partial(cut_power, cache=cache, claimed=told), check="witnessed")
    verdict = verdict_of(scenario, cluster, tmp_path)
    assert verdict.outcome is Outcome.FAIL
    assert "guaranteed blocks that are lost" in verdict.reason, verdict


@pytest.fixture(scope="module")
def lone(home: Home) -> Iterator[Cluster]:
    with raised(LocalProvider(), stand.TOPOLOGY, home) as cluster:
        yield cluster


def test_a_cache_that_is_off_although_qemu_asks_for_it(
    lone: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """QEMU sets rbd_cache itself, so what switches it off is the image's own setting, which comes last."""

    @contextmanager
    def uncached(cluster: Cluster, count: int) -> Iterator[list[BlockImage]]:
        with stand.images(cluster, count) as images:
            for image in images:
                cluster.tool(stand.NODE, "rbd", "config", "image", "set", image.spec, "rbd_cache", "false")
            yield images

    [scenario, _] = writeback.SCENARIOS
    monkeypatch.setattr(writeback, "images", uncached)
    verdict = verdict_of(scenario, lone, tmp_path)
    assert verdict.outcome is Outcome.FAIL
    assert "rate with writeback over that with none, a flush after 64 writes" in verdict.reason, verdict


def test_a_cache_that_answers_reads(lone: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cached(cluster: Cluster, image: BlockImage) -> str:
        return f"{stand.through_librbd(cluster, image)}:rbd_cache_policy=writeback"

    [_, scenario] = writeback.SCENARIOS
    monkeypatch.setattr(writeback, "through_librbd", cached)
    verdict = verdict_of(scenario, lone, tmp_path)
    assert verdict.outcome is Outcome.FAIL
    assert "rate with writeback over that with none, reads" in verdict.reason, verdict
