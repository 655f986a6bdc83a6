"""Published fio and rados bench settings by name: as published on a profile's machines, in a lab scaled down."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product

from cephlab.lab.base.errors import Unavailable
from cephlab.lab.blockstack import devices
from cephlab.lab.ceph.client import CephCommandFailed
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.pools import REPLICATED, PoolKind
from cephlab.lab.history.history import Bound
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.spec.clusterspec import GIB, Capability
from cephlab.lab.telemetry.statistics import interval_of
from cephlab.lab.workloads.fio import FioResult
from cephlab.lab.workloads.image import BlockImage
from cephlab.lab.workloads.radosbench import BenchJob, BenchResult
from cephlab.suites import gains
from cephlab.suites.bias import Bias
from cephlab.suites.block.depth import GAIN, GAINED, note_curve
from cephlab.suites.block.expected import Expected, expect, unpredicted
from cephlab.suites.block.radosbench import all_read, bench_judged, summed, until_read
from cephlab.suites.block.scale import SHARE, Scale, pg_num, scale_of
from cephlab.suites.block.stand import (
    ANYWHERE,
    CLIENTS,
    LEAST_OPERATIONS,
    NO_LIMIT,
    POOL,
    RAMP_S,
    client_node,
    job,
    note_bound,
    note_run,
    run_judged,
    scenario_of_load,
    write_all,
    written,
)
from cephlab.tuning.workload import FLOWS, Shape

BENCH_BYTES = 512 << 20
"""Most bytes that rados bench may write: the in-memory disks of a lab hold three copies of it."""


@dataclass(frozen=True)
class FioSetting:
    """One published setting. source: the paper and the place in it; options: of the Ceph client; more: fio options.

    size_bytes, seconds, ramp_s, pgs: as published, pgs 0 if not published; volumes: images under load at the same time;
    jobs, depths: every pair of them is run. kind: the pool's copies. fill: the share of raw capacity that was in use.
    numa: fio is bound to the first NUMA node; krbd: the paper's image is a kernel block device, with libaio.
    curve: the paper's figure is a curve over the depths.
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
    pgs: int = 0
    ramp_s: float = RAMP_S
    fill: float = 0.0
    numa: bool = False
    krbd: bool = False
    curve: bool = False

    @property
    def loads(self) -> tuple[tuple[int, int], ...]:
        """(jobs, depth) of each run."""
        return tuple(product(self.jobs, self.depths))

    def shapes(self, volumes: int) -> list[Shape]:
        """Each load for the model, which has no words for a mix. volumes: images under load."""
        kind = self.kind
        copies = {"k": kind.k, "m": kind.m} if kind.erasure else {"replicas": kind.size}
        return [
            Shape(self.pattern, self.block_bytes, volumes * jobs, depth, **copies)
            for jobs, depth in self.loads
            if self.pattern in FLOWS
        ]

    @property
    def written_for_one(self) -> float:
        """Bytes on disks per byte of an image."""
        return self.kind.size / max(1, self.kind.k)

    def image_bytes(self, scale: Scale) -> int:
        """Size of each image of a run."""
        count = scale.volumes(self.volumes)
        return scale.image_bytes(self.size_bytes, count, self.written_for_one, self.fill or SHARE)

    def words(self, scale: Scale) -> str:
        """How a run differs from the published setting."""
        scaled = scale.words(self.size_bytes, self.volumes, self.seconds, self.image_bytes(scale))
        return scaled if scale.at_length or not self.fill else f"{scaled}, the rest empty"


_ALTRA = "Ceph on Ampere Altra, appendix 12.6"
_KUNPENG = "Ceph NVMe-oF gateway on Arm, fio rbd config"
_KUNPENG_48 = "Ceph NVMe-oF gateway on Arm, case 1"
_PVE = "Proxmox VE Ceph benchmark 2020, appendix 5"
_SYNC = {"sync": "1"}
_PVE_JOBS, _PVE_DEPTHS = (1, 4), (1, 32)
_PVE_GUESTS = 6
_ALTRA_PROCESSES = 72
_DEPTHS = (1, 2, 4, 8, 16, 32, 64, 128)
"""For the paper's `iodepth=xxx`: its figure for one client is a curve over depths that the text does not name."""
TWO_COPIES, ONE_COPY = PoolKind("replicated", 2), PoolKind("replicated", 1)

altra = partial(FioSetting, source=_ALTRA, block_bytes=4096, size_bytes=200 * GIB, kind=TWO_COPIES, pgs=4096, fill=0.7)
"""Sections 5.1 and 12.5: two copies, 70 % of raw capacity in use, 4096 PGs."""
altra_single = partial(altra, seconds=300, depths=_DEPTHS, ramp_s=60.0, more=_SYNC, krbd=True, curve=True)
altra_multi = partial(altra, seconds=600, volumes=_ALTRA_PROCESSES, numa=True)
kunpeng = partial(
    FioSetting,
    block_bytes=4096,
    depths=(128,),
    size_bytes=20 * GIB,
    seconds=60,
    ramp_s=10.0,
    kind=ONE_COPY,
    pgs=16384,
    numa=True,
)
"""Tips 2 and 3: images of 20 GiB, one copy, 16384 PGs."""

SETTINGS = (
    altra_single("altra-single-write", pattern="randwrite"),
    altra_single("altra-single-read", pattern="randread"),
    altra_multi("altra-multi-write", pattern="randwrite", depths=(8,), ramp_s=60.0),
    altra_multi("altra-multi-read", pattern="randread", depths=(16,)),
    kunpeng("kunpeng-write", source=_KUNPENG, pattern="randwrite"),
    kunpeng("kunpeng-read", source=_KUNPENG, pattern="randread"),
    kunpeng("kunpeng-48-write", source=_KUNPENG_48, pattern="randwrite", volumes=48),
    kunpeng("kunpeng-48-read", source=_KUNPENG_48, pattern="randread", volumes=48),
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
            pgs=512,
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
"""Disables the exclusive lock. Each fio job opens the image by itself, and with the lock only one writer could work at
a time, unlike the jobs inside one guest."""

OF_KRBD = "it is fitted to librbd, not to the kernel's RBD client"
"""Why the model has no limit for a kernel block device."""

NUMA = {"numa_cpu_nodes": "0", "numa_mem_policy": "bind:0"}
"""NUMA binding of both papers. A lab has no NUMA node to spare."""
FILL_TOLERANCE = 0.02
"""How much less than the published share may be in use, because BlueStore frees space during the run."""


def run(stage: Stage, setting: FioSetting) -> None:
    """Run a setting on images that fit into the cluster, spread over the client nodes."""
    kernel = through_kernel(stage, setting)
    with laid_out(stage, setting) as images, ExitStack() as undo:
        paths = [undo.enter_context(mapped(stage, target, at)) if kernel else "" for at, target in enumerate(images)]
        targets, shapes = list(zip(images, paths, strict=True)), setting.shapes(len(images))
        expected = unpredicted(stage, shapes, OF_KRBD) if kernel else expect(stage, shapes) if shapes else Expected()
        results = [
            loaded(stage, setting, targets, load, expected.bounds(at)[0]) for at, load in enumerate(setting.loads)
        ]
    if setting.curve:
        limit = GAIN if kernel else gains.of_growth(stage, shapes[0], shapes[-1], GAIN)
        title = f"{setting.name}: {'krbd' if kernel else 'librbd'} against requests in flight"
        note_curve(
            stage.recorder, title, setting.depths, [(result, bias) for (result,), bias in results], expected, limit
        )


@contextmanager
def laid_out(stage: Stage, setting: FioSetting) -> Iterator[list[BlockImage]]:
    """The images, with as much other data as was in use. Unavailable if the cluster refuses the published pool."""
    scale = scale_of(stage)
    options = list(devices.KRBD_FEATURES) if setting.krbd else []
    options += [SHARED_IMAGE] if max(setting.jobs) > 1 else []
    pgs = pg_num(stage, setting.kind, setting.pgs)
    with ExitStack() as undo:
        try:
            topology = written(
                stage,
                scale.volumes(setting.volumes),
                setting.image_bytes(scale),
                *options,
                kind=setting.kind,
                pg_num=pgs,
            )
            images = undo.enter_context(topology)
        except CephCommandFailed as refused:
            raise Unavailable(
                f"the cluster refuses a pool with {setting.kind.size} copies and {pgs} PGs, as published",
                str(refused),
                "allow it with mon_max_pg_per_osd and mon_allow_pool_size_one",
            ) from refused
        fill(stage, setting)
        yield images


def fill(stage: Stage, setting: FioSetting) -> None:
    """Fill the capacity to the published share if the profile's machines run it, with one image for each client."""
    scale = scale_of(stage)
    if not (setting.fill and scale.at_length):
        return
    clients = len({client_node(stage.cluster, number) for number in range(setting.volumes)})
    size = scale.ballast_bytes(setting.fill, used(stage)[0], setting.written_for_one) // clients
    if size:
        write_all(stage.cluster, [BlockImage(POOL, f"ballast{number}", size) for number in range(clients)], passes=1)
    in_use, capacity = used(stage)
    least = setting.fill - FILL_TOLERANCE
    stage.recorder.witness("share of the raw capacity in use", got=round(in_use / capacity, 3), least=least)


def used(stage: Stage) -> tuple[float, float]:
    """Bytes of the cluster's disks: (in use, total)."""
    stats = stage.cluster.client.mon("df")["stats"]
    return float(stats["total_used_raw_bytes"]), float(stats["total_bytes"])


def through_kernel(stage: Stage, setting: FioSetting) -> bool:
    """Whether to use krbd: the setting wants it, and clients have their own kernel (a guest, or a real machine)."""
    has = Capability.OWN_KERNEL in stage.cluster.provider.capabilities() or scale_of(stage).at_length
    return setting.krbd and has


@contextmanager
def mapped(stage: Stage, target: BlockImage, number: int) -> Iterator[str]:
    """Map the image on the client machine that loads it; yields the device's path."""
    node = client_node(stage.cluster, number)
    device = devices.map_image(stage.cluster, node, target.pool, target.name)
    try:
        yield str(device)
    finally:
        devices.unmap_image(stage.cluster, node, device)


def loaded(
    stage: Stage,
    setting: FioSetting,
    targets: Sequence[tuple[BlockImage, str]],
    load: tuple[int, int],
    bound: Bound = NO_LIMIT,
) -> tuple[list[FioResult], Bias]:
    """Run one load on all images together, and record its figures.

    targets: (image, its device or empty); load: jobs and depth; bound: of the rate of all images.
    """
    (jobs, depth), scale, requests = load, scale_of(stage), []
    for number, (target, device) in enumerate(targets):
        base = job(stage, target, setting.pattern, setting.block_bytes, depth)
        numa = NUMA if setting.numa and scale.at_length else {}
        ramp = {"ramp_time": f"{scale.ramp_s(setting.ramp_s):g}"}
        scaled = replace(
            base,
            jobs=jobs,
            runtime_s=scale.seconds(setting.seconds),
            options=setting.options,
            more={**base.more, **ramp, **numa, **setting.more},
        )
        through = replace(scaled, engine="libaio", target=device) if device else scaled
        requests.append((client_node(stage.cluster, number), through))
    name = setting.name if len(setting.loads) == 1 else f"{setting.name}, numjobs={jobs}, iodepth={depth}"
    results, bias = run_judged(stage, name, requests)
    for number, result in enumerate(results):
        note_run(stage.recorder, f"{name}, volume {number + 1}", result, depth * jobs)
    note_all(stage, setting, results, name, bound, bias)
    return results, bias


def note_all(
    stage: Stage,
    setting: FioSetting,
    results: Sequence[FioResult],
    name: str,
    bound: Bound,
    bias: Bias,
) -> None:
    """Record the rate of all volumes, with the limit for that load. bias: which way the rate may be off."""
    sides = [(side.iops, side.iops_stddev) for result in results for side in (result.read, result.write)]
    samples = min((side.iops_samples for result in results for side in (result.main,)), default=0)
    rate = interval_of(sum(iops for iops, _ in sides), math.sqrt(sum(stddev**2 for _, stddev in sides)), samples)
    bound = replace(bound, why=f"{setting.source}; {setting.words(scale_of(stage))}; {bound.why}")
    note_bound(stage.recorder, f"{name}: all volumes", bias.rate(rate), "operations/s", bias.told(bound))


BENCH_BLOCK_BYTES, BENCH_DEPTH = 4 << 20, 16


def rados_bench(stage: Stage) -> None:
    """Write 4 MiB objects from three clients with 16 in flight each, then read them in order."""
    scale = scale_of(stage)
    seconds, share = int(scale.seconds(600)), 0 if scale.at_length else BENCH_BYTES // CLIENTS
    runs: list[list[BenchResult]] = []
    with pools.pool(stage.cluster, "pve", pg_num=pg_num(stage, REPLICATED, 512)) as pool:
        for mode in ("write", "seq"):
            limit_s = until_read(mode, seconds) if share else seconds
            jobs = [
                (
                    client_node(stage.cluster, number),
                    BenchJob(pool, mode, limit_s, BENCH_DEPTH, BENCH_BLOCK_BYTES, f"client{number}", most_bytes=share),
                )
                for number in range(CLIENTS)
            ]
            results, bias = bench_judged(stage, f"pve-rados-bench: {mode}", jobs)
            runs.append(results)
            operations = sum(result.operations for result in results)
            stage.recorder.witness(f"objects of {mode}", got=operations, least=LEAST_OPERATIONS // 2)
            shape = Shape(mode, BENCH_BLOCK_BYTES, CLIENTS, BENCH_DEPTH)
            bound = expect(stage, [shape]).bounds(0)[0]
            bound = replace(bound, why=f"{_PVE}; {seconds} of 600 s; {bound.why}")
            rate = bias.rate(summed(results)[0])
            note_bound(stage.recorder, f"pve-rados-bench: {mode}", rate, "operations/s", bias.told(bound))
    if share:
        all_read(stage.recorder, CLIENTS, *runs)


def scenario(setting: FioSetting) -> Scenario:
    volumes = f" on {setting.volumes} images" if setting.volumes > 1 else ""
    jobs = f"numjobs {_either(setting.jobs)}, " if max(setting.jobs) > 1 else ""
    depths = _either(setting.depths)
    grows = "; its rate grows with the requests in flight" if setting.curve else ""
    return scenario_of_load(
        name=f"block.paper[setting={setting.name}]",
        goal=f"The published setting {setting.name} runs, and its rate and latency are consistent{grows}.",
        method=f"Runs {setting.source}: {setting.pattern}, {setting.block_bytes} B, {jobs}depth {depths}{volumes}.",
        run=partial(run, setting=setting),
        sees=(f"{re.escape(setting.name)}.*: all volumes", *((GAINED,) if setting.curve else ())),
        topology=ONE_COPY_ALLOWED if setting.kind == ONE_COPY else ANYWHERE,
        tier=Tier.FULL,
    )


ONE_COPY_ALLOWED = replace(ANYWHERE, options=(("mon_allow_pool_size_one", "true"),))


def _either(numbers: Sequence[int]) -> str:
    return "|".join(map(str, numbers))


SCENARIOS = (
    *(scenario(setting) for setting in SETTINGS),
    scenario_of_load(
        name="block.paper[setting=pve-rados-bench]",
        goal="The published rados bench runs with three clients and reads back all that it wrote.",
        method=f"Runs {_PVE}: 4 MiB, 16 in flight for each of three clients, write, then seq.",
        run=rados_bench,
        tier=Tier.FULL,
    ),
)
