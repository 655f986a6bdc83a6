"""Published settings at their own size where the hosts are the profile's machines, and one client beside several."""

import random
from contextlib import nullcontext
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import cast

import pytest

from cephlab.lab.checks.figures import figures
from cephlab.lab.checks.verdict import Outcome
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.pools import PoolKind
from cephlab.lab.history.history import History
from cephlab.lab.scenario.scenario import Stage, Tier
from cephlab.lab.workloads.fio import FioJob, FioResult
from cephlab.lab.workloads.image import BlockImage
from cephlab.lab.workloads.radosbench import BenchResult
from cephlab.suites.block import papers, radosbench, stand
from cephlab.suites.block import scale as block_scale
from cephlab.suites.block.clients import note_gain
from cephlab.suites.block.papers import SETTINGS
from cephlab.suites.block.radosbench import PUBLISHED, note_more, size_of
from cephlab.suites.block.scale import Scale, client_counts, pg_num, scale
from cephlab.suites.block.stand import NO_LIMIT, PG_NUM
from cephlab.tuning.profilefile import find_profile
from tests.suites.test_bias import IDLE, metered
from tests.suites.test_block_suite import result, stage_in


def images(count: int, device: str = "") -> list[tuple[BlockImage, str]]:
    return [(BlockImage("p", f"i{number}", 64 << 20), device) for number in range(count)]


def given_to_fio(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, targets: list[tuple[BlockImage, str]], **where: str
) -> list[tuple[str, FioJob]]:
    """What a setting runs: (node, job). where: lab and profile."""
    given: list[tuple[str, FioJob]] = []

    def run_jobs(_cluster: object, jobs: list[tuple[str, FioJob]]) -> list[FioResult]:
        given.extend(jobs)
        return [result(100.0, job.depth * job.jobs / 100.0) for _, job in jobs]

    monkeypatch.setattr(stand, "run_jobs", run_jobs)
    metered(monkeypatch, {})
    inside = stage_in(tmp_path, **where)
    hosts = {name: SimpleNamespace(emulated=False) for name in ("client", "client1", "client2")}
    cluster = SimpleNamespace(client_name="client.admin", hosts=hosts, **vars(inside.cluster))
    recorder, rng = History().recorder("block.paper"), random.Random(1)
    stage = Stage(cast("Cluster", cluster), recorder, rng, Path(), profile=inside.profile)
    setting = next(setting for setting in SETTINGS if setting.name == name)
    papers.loaded(stage, setting, targets, setting.loads[0])
    return given


def test_a_published_setting_is_run_as_published_where_the_machines_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = {"lab": "ssh", "profile": "ampere-altra-4n"}
    given = given_to_fio(monkeypatch, tmp_path, "altra-multi-write", images(72), **there)
    assert [node for node, _ in given[:4]] == ["client", "client1", "client2", "client"]
    wanted = {"--ramp_time=60", "--runtime=600", "--numa_cpu_nodes=0", "--numa_mem_policy=bind:0", "--iodepth=8"}
    assert len(given) == 72
    assert wanted <= set(given[0][1].argv(PurePosixPath("/out")))
    here = given_to_fio(monkeypatch, tmp_path, "altra-multi-write", images(6))
    assert not {"--ramp_time=60", "--runtime=600", "--numa_cpu_nodes=0"} & set(here[0][1].argv(PurePosixPath("/out")))


def test_a_single_client_goes_through_its_kernel_where_it_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = next(setting for setting in SETTINGS if setting.name == "altra-single-write")
    assert papers.through_kernel(stage_in(tmp_path, "uml"), setting)
    assert papers.through_kernel(stage_in(tmp_path, "ssh", "ampere-altra-4n"), setting)
    assert not papers.through_kernel(stage_in(tmp_path), setting)
    [(_, through)] = given_to_fio(monkeypatch, tmp_path, setting.name, images(1, "/dev/rbd0"))
    argv = set(through.argv(PurePosixPath("/out")))
    assert {"--ioengine=libaio", "--filename=/dev/rbd0", "--direct=1", "--sync=1"} <= argv
    assert not any(word.startswith(("--pool", "--rbdname", "--clientname")) for word in argv)


PUBLISHED_POOLS = {"altra": (2, 4096, 0.7), "kunpeng": (1, 16384, 0.0), "pve": (3, 512, 0.0)}
"""Copies, PGs, share of the raw capacity in use."""


def test_every_setting_has_the_pool_that_its_paper_had() -> None:
    for setting in SETTINGS:
        assert (setting.kind.size, setting.pgs, setting.fill) == PUBLISHED_POOLS[setting.name.partition("-")[0]]
    assert {s.volumes for s in SETTINGS if s.name.startswith("altra-multi")} == {72}
    assert {s.size_bytes for s in SETTINGS if s.name.startswith("kunpeng")} == {20 << 30}


def test_a_pool_has_as_many_pgs_as_published_where_the_machines_are(tmp_path: Path) -> None:
    there = stage_in(tmp_path, "ssh", "ampere-altra-4n")
    there.cluster.osd_ids = lambda arch=None: list(range(12))  # type: ignore[method-assign]
    assert pg_num(stage_in(tmp_path, "local", "ampere-altra-4n"), PoolKind("replicated", 2), 4096) == PG_NUM
    assert pg_num(there, PoolKind("replicated", 2), 4096) == 4096
    assert pg_num(there, PoolKind("replicated", 3)) == 512


def test_a_disk_is_filled_up_to_what_was_published(tmp_path: Path) -> None:
    altra = scale(find_profile("ampere-altra-4n", tmp_path))
    setting = next(setting for setting in SETTINGS if setting.name == "altra-multi-write")
    assert setting.image_bytes(altra) == 200 << 30
    in_images = 72 * (200 << 30) * 2
    ballast = altra.ballast_bytes(0.7, in_images, 2)
    assert in_images + 2 * ballast == pytest.approx(0.7 * altra.capacity_bytes, rel=1e-5)
    assert altra.ballast_bytes(0.7, altra.capacity_bytes, 2) == 0
    assert Scale().ballast_bytes(0.7, 0, 2) == 0
    assert setting.words(Scale()).endswith("the rest empty")


def test_a_setting_that_was_not_filled_is_inconclusive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was published of 70 % full disks is not held against empty ones."""
    made: list[BlockImage] = []
    monkeypatch.setattr(papers, "write_all", lambda _, images, **__: made.extend(images))
    recorder = History().recorder("block.paper")
    client = SimpleNamespace(mon=lambda _: {"stats": {"total_used_raw_bytes": 60e12, "total_bytes": 76.8e12}})
    inside = stage_in(tmp_path, "ssh", "ampere-altra-4n")
    cluster = SimpleNamespace(**vars(inside.cluster), hosts={"client": None}, client=client)
    stage = cast("Stage", SimpleNamespace(cluster=cluster, recorder=recorder, profile=inside.profile, changes=()))
    setting = next(setting for setting in SETTINGS if setting.name == "altra-multi-write")
    papers.fill(stage, setting)
    assert recorder.events()[0].data["got"] == pytest.approx(0.781)
    assert made == []
    client.mon = lambda _: {"stats": {"total_used_raw_bytes": 40e12, "total_bytes": 76.8e12}}
    papers.fill(stage, setting)
    assert sum(image.size_bytes for image in made) == pytest.approx((0.7 * 76.8e12 - 40e12) / 2, rel=1e-3)
    recorder.figure("rate", 1.0, "", NO_LIMIT)
    assert figures(recorder.events()).outcome is Outcome.INCONCLUSIVE


def test_sweeps_use_every_client_machine_and_published_sizes_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = stage_in(tmp_path, "ssh", "ampere-altra-4n")
    monkeypatch.setattr(block_scale, "AttachedCluster", SimpleNamespace)
    monkeypatch.setattr(there.cluster, "load_nodes", lambda: [f"load{n}" for n in range(6)], raising=False)
    assert client_counts(there, (1, 3)) == (1, 2, 4, 6)
    assert client_counts(stage_in(tmp_path), (1, 3)) == (1, 3)
    there.tier = Tier.FULL  # type: ignore[misc]
    assert size_of(there) == PUBLISHED
    altra = scale(find_profile("ampere-altra-4n", tmp_path))
    assert (altra.point_s(Tier.FULL), altra.point_ramp_s(Tier.FULL)) == (300, 60)


@pytest.mark.parametrize(
    ("together", "outcome"), [(260.0, Outcome.PASS), (50.0, Outcome.FAIL), (101.0, Outcome.INCONCLUSIVE)]
)
def test_one_client_that_loads_a_cluster_alone_is_red(together: float, outcome: Outcome) -> None:
    recorder = History().recorder("block.one-client")
    recorder.witness("operations", got=1000, least=100)
    several = [result(together / 3, 0.01, 3.0) for _ in range(3 * 2)]
    note_gain(recorder, 3, {1: [result(100.0, 0.01, 5.0) for _ in range(2)], 3: several})
    assert figures(recorder.events()).outcome is outcome


def test_rados_bench_by_several_clients_is_held_to_more_than_by_one() -> None:
    outcomes = []
    for three in (300, 100, 30):
        recorder = History().recorder("block.rados-bench")
        recorder.witness("operations", got=1000, least=100)
        alone = [BenchResult(1000, 10.0, 1 << 20, 0.1, 2.0)]
        note_more(recorder, "seq", (1, 3), [alone, [BenchResult(three * 10 // 3, 10.0, 1 << 20, 0.1, 2.0)] * 3])
        outcomes.append(figures(recorder.events()).outcome)
    assert outcomes == [Outcome.PASS, Outcome.INCONCLUSIVE, Outcome.FAIL]


@pytest.mark.parametrize(
    ("lab", "operations", "outcome"),
    [("ssh", 60, Outcome.FAIL), ("ssh", 600_000, Outcome.PASS), ("local", 60, Outcome.PASS)],
)
def test_the_published_rados_bench_is_held_to_the_model_where_the_hosts_are_the_profiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lab: str, operations: int, outcome: Outcome
) -> None:
    """6,078 MB/s were published of its writes, 1,520 operations a second."""
    recorder = History().recorder("block.paper")
    inside = stage_in(tmp_path, lab, "pve-epyc-3n")
    hosts = {name: SimpleNamespace(emulated=False) for name in ("client", "client1", "client2")}
    cluster = SimpleNamespace(**vars(inside.cluster), hosts=hosts, osd_ids=lambda: list(range(12)))
    stage = cast("Stage", SimpleNamespace(cluster=cluster, recorder=recorder, profile="pve-epyc-3n", changes=()))
    monkeypatch.setattr("cephlab.suites.block.papers.pools.pool", lambda *_, **__: nullcontext("pve"))
    done = BenchResult(operations, 60.0, operations << 22, 0.03, operations / 60 / 50)
    monkeypatch.setattr(radosbench, "run_all", lambda _, jobs: [done for _ in jobs])
    metered(monkeypatch, dict.fromkeys(hosts, IDLE))
    papers.rados_bench(stage)
    assert figures(recorder.events()).outcome is outcome
