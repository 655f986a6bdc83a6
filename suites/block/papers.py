"""The papers' own fio and rados bench settings by name, scaled in size and time to the cluster that is there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from lab import pools
from lab.scenario import Scenario, Stage, Tier
from lab.telemetry.place import client_name
from lab.workloads.fio import FioJob
from lab.workloads.radosbench import BenchJob, run_all
from suites.block.scale import scale_of
from suites.block.stand import CLIENTS, LEAST_OPERATIONS, PG_NUM, TOPOLOGY, job, note, note_run, run_jobs, written

GIB = 1 << 30
BENCH_BYTES = 512 << 20
"""What rados bench may write in all: a lab's disks in memory hold three copies of it."""


@dataclass(frozen=True)
class Setting:
    """One published setting. source: paper and place. options: ceph options of the client; more: fio's own.

    size_bytes, seconds: as published; volumes: images that are loaded at once.
    """

    name: str
    source: str
    pattern: str
    block_bytes: int
    depth: int
    size_bytes: int
    seconds: float
    jobs: int = 1
    volumes: int = 1
    options: Mapping[str, str] = field(default_factory=lambda: {"rbd_cache": "false"})
    more: Mapping[str, str] = field(default_factory=dict)


_ALTRA = "Ceph on Ampere Altra, appendix 12.6"
_KUNPENG = "Ceph NVMe-oF gateway on Arm, fio rbd config"
_OLTP = "dm-cache and cache tiering for OLTP, CBT configuration (librbd fio)"
_PVE = "Proxmox VE Ceph benchmark 2020, appendix 5"
_SYNC = {"sync": "1"}

SETTINGS = (
    Setting("altra-single-write", _ALTRA, "randwrite", 4096, 16, 200 * GIB, 300, more=_SYNC),
    Setting("altra-single-read", _ALTRA, "randread", 4096, 16, 200 * GIB, 300, more=_SYNC),
    Setting("altra-multi-write", _ALTRA, "randwrite", 4096, 8, 200 * GIB, 600, volumes=3),
    Setting("altra-multi-read", _ALTRA, "randread", 4096, 16, 200 * GIB, 600, volumes=3),
    Setting("kunpeng-write", _KUNPENG, "randwrite", 4096, 128, 100 * GIB, 60),
    Setting("kunpeng-read", _KUNPENG, "randread", 4096, 128, 100 * GIB, 60),
    *(
        Setting(f"oltp-{pattern}-{size >> 10}k", _OLTP, pattern, size, 32, 128 * GIB, 300, volumes=2)
        for pattern in ("randread", "randwrite")
        for size in (4 << 20, 128 << 10, 4096)
    ),
    *(
        Setting(f"pve-vm-{pattern}-{size >> 10}k", _PVE, pattern, size, 1, 9 * GIB, 600, more=_SYNC)
        for pattern in ("write", "read")
        for size in (4096, 4 << 20)
    ),
)


def run(stage: Stage, setting: Setting) -> None:
    """The setting on images that the cluster has room for, each volume from a node of its own."""
    scale = scale_of(stage)
    with written(stage, setting.volumes, scale.image_bytes(setting.size_bytes, setting.volumes)) as images:
        jobs = [
            (
                client_name(number % CLIENTS),
                scaled(stage, setting, job(stage, one, setting.pattern, setting.block_bytes, 1)),
            )
            for number, one in enumerate(images)
        ]
        results = run_jobs(stage.cluster, jobs)
    for number, found in enumerate(results):
        note_run(stage.recorder, f"{setting.name}, volume {number + 1}", found, setting.depth * setting.jobs)
    together = sum(found.iops for found in results)
    why = f"{setting.source}; {scale.words(setting.size_bytes, setting.volumes, setting.seconds)}"
    note(stage.recorder, f"{setting.name}: all volumes", together, "operations/s", why=why)


def scaled(stage: Stage, setting: Setting, base: FioJob) -> FioJob:
    """The lab's job with the paper's settings. Large operations are fewer: they run until there are enough."""
    return replace(
        base,
        depth=setting.depth,
        jobs=setting.jobs,
        runtime_s=scale_of(stage).seconds(setting.seconds),
        options=setting.options,
        more={**base.more, **setting.more},
    )


def rados_bench(stage: Stage) -> None:
    """Three clients write 4 MiB objects with 16 in flight each, then read them in order."""
    seconds, share = int(scale_of(stage).seconds(600)), BENCH_BYTES // CLIENTS
    with pools.pool(stage.cluster, "pve", pg_num=PG_NUM) as pool:
        for mode in ("write", "seq"):
            jobs = [
                (client_name(number), BenchJob(pool, mode, seconds, 16, 4 << 20, f"client{number}", most_bytes=share))
                for number in range(CLIENTS)
            ]
            results = run_all(stage.cluster, jobs)
            made = sum(result.operations for result in results)
            stage.recorder.witness(f"objects of {mode}", got=made, least=LEAST_OPERATIONS // 2)
            rate = sum(result.bytes_per_s for result in results)
            note(stage.recorder, f"pve-rados-bench: {mode}", rate, "B/s", why=f"{_PVE}; scaled to {seconds} s")


def scenario(setting: Setting) -> Scenario:
    volumes = f" on {setting.volumes} images" if setting.volumes > 1 else ""
    return Scenario(
        name=f"block.paper[setting={setting.name}]",
        goal=f"The published setting {setting.name} runs, and its figures fit each other.",
        method=f"{setting.source}: {setting.pattern} of {setting.block_bytes} B at depth {setting.depth}{volumes}.",
        run=partial(run, setting=setting),
        check="figures",
        tier=Tier.FULL,
        topology=TOPOLOGY,
    )


SCENARIOS = (
    *(scenario(setting) for setting in SETTINGS),
    Scenario(
        name="block.paper[setting=pve-rados-bench]",
        goal="The published rados bench runs with three clients, and reads what it wrote.",
        method=f"{_PVE}: 4 MiB, 16 in flight for each of three clients, write, then seq.",
        run=rados_bench,
        check="figures",
        tier=Tier.FULL,
        topology=TOPOLOGY,
    ),
)
