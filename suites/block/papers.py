"""The papers' own fio and rados bench settings by name, scaled in size and time to the cluster."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product

from cephlab.lab.cluster import pools
from cephlab.lab.cluster.pools import REPLICATED, PoolKind
from cephlab.lab.history.history import Basis, Bound
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.telemetry.statistics import interval_of
from cephlab.lab.workloads.fio import FioResult
from cephlab.lab.workloads.image import BlockImage
from cephlab.lab.workloads.radosbench import BenchJob, run_all
from cephlab.suites.block.expected import expect
from cephlab.suites.block.stand import (
    CLIENTS,
    IMAGE_BYTES,
    LEAST_OPERATIONS,
    NO_LIMIT,
    PG_NUM,
    client_node,
    job,
    note_bound,
    note_run,
    run_jobs,
    scenario_of_load,
    written,
)
from cephlab.suites.machines import are_machines_of, profile_of
from cephlab.tuning.profile import Profile
from cephlab.tuning.profilefile import THIS_MACHINE
from cephlab.tuning.workload import FLOWS, Shape

COPIES = 3
SHARE = 0.05
"""Of the cluster's capacity, for all images of a setting: far from full, where Ceph slows down."""

LEAST_SHARE_OF_TIME = 0.01
LEAST_S = 3.0
"""On a lab: this share of the paper's time, but LEAST_S at least. Its figures are only noted, and settle in seconds."""

LAB_VOLUMES = 6
"""Most images on a lab: two for each client machine, which shares two cores with all OSDs."""

_OBJECT_BYTES = 4 << 20


@dataclass(frozen=True)
class Scale:
    """capacity_bytes: of the data disks, 0 for a lab's; at_length: run as long as published."""

    capacity_bytes: float = 0.0
    at_length: bool = False

    def image_bytes(self, published: int, volumes: int) -> int:
        """Size of each image in whole objects: as published where it fits, at least a lab's."""
        room = int(self.capacity_bytes * SHARE / COPIES / volumes)
        return max(IMAGE_BYTES, min(published, room) // _OBJECT_BYTES * _OBJECT_BYTES)

    def volumes(self, published: int) -> int:
        return published if self.at_length else min(published, LAB_VOLUMES)

    def seconds(self, published_s: float) -> float:
        """Length of a run in place of the published one."""
        return published_s if self.at_length else max(LEAST_S, published_s * LEAST_SHARE_OF_TIME)

    def words(self, published: int, volumes: int, published_s: float) -> str:
        """The number, size and time that a run uses, beside the published ones."""
        count, seconds = self.volumes(volumes), self.seconds(published_s)
        size = self.image_bytes(published, count)
        fewer = f"{count} of {volumes} images, " if count < volumes else ""
        return f"{fewer}{size >> 20} of {published >> 20} MiB, {seconds:g} of {published_s:g} s"


def scale_of(stage: Stage) -> Scale:
    """The scale of a run: that of the named profile where the cluster runs on its machines, else a lab's."""
    profile = profile_of(stage)
    if profile is None or not are_machines_of(stage.cluster.provider, profile):
        return Scale()
    return scale(profile)


def scale(profile: Profile) -> Scale:
    """The scale for a profile's machines. This machine is shared, so it keeps a lab's time."""
    capacity = sum(machine.count * machine.weight for machine in profile.nodes)
    return Scale(capacity, at_length=profile.name != THIS_MACHINE)


GIB = 1 << 30
BENCH_BYTES = 512 << 20
"""Most that rados bench may write: a lab's disks in memory hold three copies of it."""


@dataclass(frozen=True)
class FioSetting:
    """One published setting. source: paper and place in it; options: of the Ceph client; more: fio's own options.

    size_bytes, seconds: as published; volumes: images under load at once; jobs, depths: every pair of them is run.
    """

    name: str
    source: str
    pattern: str
    block_bytes: int
    depths: tuple[int, ...]
    size_bytes: int
    seconds: float
    jobs: tuple[int, ...] = (1,)
    volumes: int = 1
    options: Mapping[str, str] = field(default_factory=lambda: {"rbd_cache": "false"})
    more: Mapping[str, str] = field(default_factory=dict)
    kind: PoolKind = REPLICATED

    @property
    def loads(self) -> tuple[tuple[int, int], ...]:
        """(jobs, depth) of each run."""
        return tuple(product(self.jobs, self.depths))


_ALTRA = "Ceph on Ampere Altra, appendix 12.6"
_KUNPENG = "Ceph NVMe-oF gateway on Arm, fio rbd config"
_KUNPENG_48 = "Ceph NVMe-oF gateway on Arm, case 1"
_PVE = "Proxmox VE Ceph benchmark 2020, appendix 5"
_SYNC = {"sync": "1"}
_PVE_JOBS, _PVE_DEPTHS = (1, 4), (1, 32)
_PVE_GUESTS = 6

SETTINGS = (
    FioSetting("altra-single-write", _ALTRA, "randwrite", 4096, (16,), 200 * GIB, 300, more=_SYNC),
    FioSetting("altra-single-read", _ALTRA, "randread", 4096, (16,), 200 * GIB, 300, more=_SYNC),
    FioSetting("altra-multi-write", _ALTRA, "randwrite", 4096, (8,), 200 * GIB, 600, volumes=3),
    FioSetting("altra-multi-read", _ALTRA, "randread", 4096, (16,), 200 * GIB, 600, volumes=3),
    FioSetting("kunpeng-write", _KUNPENG, "randwrite", 4096, (128,), 100 * GIB, 60),
    FioSetting("kunpeng-read", _KUNPENG, "randread", 4096, (128,), 100 * GIB, 60),
    FioSetting("kunpeng-48-write", _KUNPENG_48, "randwrite", 4096, (128,), 100 * GIB, 60, volumes=48),
    FioSetting("kunpeng-48-read", _KUNPENG_48, "randread", 4096, (128,), 100 * GIB, 60, volumes=48),
    *(
        FioSetting(
            f"pve-{guests}-{pattern}-{size >> 10}k",
            f"{_PVE}.{places}",
            pattern,
            size,
            _PVE_DEPTHS,
            9 * GIB,
            600,
            jobs=_PVE_JOBS,
            volumes=volumes,
            more=_SYNC,
        )
        for guests, places, patterns, volumes in (
            ("vm", "1 and 5.2", ("write", "read"), 1),
            ("multi-vm", "3", ("randwrite", "randread"), _PVE_GUESTS),
        )
        for pattern in patterns
        for size in (4096, 4 << 20)
    ),
)

SHARED_IMAGE = "--image-shared"
"""Without the exclusive lock. Each fio job opens the image by itself, and with the lock writers would take turns, which
the jobs inside one guest do not."""


def run(stage: Stage, setting: FioSetting) -> None:
    """Run a setting on images that fit into the cluster, spread over the client nodes."""
    scale = scale_of(stage)
    count = scale.volumes(setting.volumes)
    options = (SHARED_IMAGE,) if max(setting.jobs) > 1 else ()
    with written(stage, count, scale.image_bytes(setting.size_bytes, count), *options, kind=setting.kind) as images:
        for jobs, depth in setting.loads:
            loaded(stage, setting, images, jobs, depth)


def loaded(stage: Stage, setting: FioSetting, images: Sequence[BlockImage], jobs: int, depth: int) -> None:
    """Run one load on all images at once, and note its figures."""
    scale, requests = scale_of(stage), []
    for number, target in enumerate(images):
        base = job(stage, target, setting.pattern, setting.block_bytes, depth)
        scaled = replace(
            base,
            jobs=jobs,
            runtime_s=scale.seconds(setting.seconds),
            options=setting.options,
            more={**base.more, **setting.more},
        )
        requests.append((client_node(stage.cluster, number % CLIENTS), scaled))
    results = run_jobs(stage.cluster, requests)
    name = setting.name if len(setting.loads) == 1 else f"{setting.name}, numjobs={jobs}, iodepth={depth}"
    for number, result in enumerate(results):
        note_run(stage.recorder, f"{name}, volume {number + 1}", result, depth * jobs)
    known = setting.pattern in FLOWS
    shape = Shape(setting.pattern, setting.block_bytes, len(images) * jobs, depth) if known else None
    note_all(stage, setting, results, name, shape)


def note_all(stage: Stage, setting: FioSetting, results: Sequence[FioResult], name: str, shape: Shape | None) -> None:
    """Note the rate of all volumes: held to the model at the setting's own load where the hosts are the profile's.

    shape: that load; None for a mix, which the model does not predict.
    """
    sides = [(done.iops, done.iops_stddev) for result in results for done in (result.read, result.write)]
    samples = min((done.iops_samples for result in results for done in (result.main,)), default=0)
    rate = interval_of(sum(iops for iops, _ in sides), math.sqrt(sum(stddev**2 for _, stddev in sides)), samples)
    bound = expect(stage, [shape]).bounds(0)[0] if shape else NO_LIMIT
    words = scale_of(stage).words(setting.size_bytes, setting.volumes, setting.seconds)
    bound = replace(bound, why=f"{setting.source}; {words}; {bound.why}")
    note_bound(stage.recorder, f"{name}: all volumes", rate, "operations/s", bound)


def rados_bench(stage: Stage) -> None:
    """Let three clients write 4 MiB objects with 16 in flight each, then read them in order."""
    seconds, share = int(scale_of(stage).seconds(600)), BENCH_BYTES // CLIENTS
    with pools.pool(stage.cluster, "pve", pg_num=PG_NUM) as pool:
        for mode in ("write", "seq"):
            jobs = [
                (
                    client_node(stage.cluster, number),
                    BenchJob(pool, mode, seconds, 16, 4 << 20, f"client{number}", most_bytes=share),
                )
                for number in range(CLIENTS)
            ]
            results = run_all(stage.cluster, jobs)
            operations = sum(result.operations for result in results)
            stage.recorder.witness(f"objects of {mode}", got=operations, least=LEAST_OPERATIONS // 2)
            rate = sum(result.bytes_per_s for result in results)
            stage.recorder.figure(
                f"pve-rados-bench: {mode}", rate, "B/s", Bound(f"{_PVE}; scaled to {seconds} s", basis=Basis.PROFILE)
            )


def scenario(setting: FioSetting) -> Scenario:
    volumes = f" on {setting.volumes} images" if setting.volumes > 1 else ""
    jobs = f"numjobs {_either(setting.jobs)}, " if max(setting.jobs) > 1 else ""
    depths = _either(setting.depths)
    return scenario_of_load(
        name=f"block.paper[setting={setting.name}]",
        goal=f"The published setting {setting.name} runs, and its figures fit each other.",
        method=f"{setting.source}: {setting.pattern} of {setting.block_bytes} B, {jobs}at depth {depths}{volumes}.",
        run=partial(run, setting=setting),
        sees=(f"{re.escape(setting.name)}.*: all volumes",),
        tier=Tier.FULL,
    )


def _either(numbers: Sequence[int]) -> str:
    return "|".join(map(str, numbers))


SCENARIOS = (
    *(scenario(setting) for setting in SETTINGS),
    scenario_of_load(
        name="block.paper[setting=pve-rados-bench]",
        goal="The published rados bench runs with three clients and reads back what it wrote.",
        method=f"{_PVE}: 4 MiB, 16 in flight for each of three clients, write, then seq.",
        run=rados_bench,
        tier=Tier.FULL,
    ),
)
