"""An aarch64 OSD with large pages together with an x86_64 OSD: both hold the same data, and memory stays bounded."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from cephlab.lab.base.clock import SYSTEM
from cephlab.lab.ceph.memory import MemoryUse, memory_use
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import Basis, Bound, Recorder
from cephlab.lab.report.series import Line, record_series
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import GIB, MIB, PAGE_BYTES, Capability
from cephlab.lab.telemetry import counters
from cephlab.lab.workloads import radosbench
from cephlab.lab.workloads.radosbench import BenchJob
from cephlab.suites.interop import recovery
from cephlab.suites.interop.mirror import Mirror
from cephlab.suites.interop.recovery import PAIRS
from cephlab.suites.interop.scrub import observe_copies

PG_NUM = 8
PAGES = {"16k": 16 << 10, "64k": 64 << 10}

TARGET_BYTES = GIB
CACHE_BYTES = 64 * MIB
GROWTH_BYTES = TARGET_BYTES // 16
"""Most memory by which an OSD may grow in the second half of the load, which repeats the first: the cache size."""

SIZES = (1, 4095, 4097, (16 << 10) + 1, (64 << 10) - 1, (64 << 10) + 1, (1 << 20) + 1)
"""Around the sizes of pages and of BlueStore's allocation unit."""
CROSSING_BYTES = 3000
"""An overwrite of this size crosses a page's end and fits into a page of every size."""

SMALL_BYTES = 4 << 10
WRITES = 4096
"""Writes in each half: one for each 16 KiB page in GROWTH_BYTES, so that losing a page with each write would show."""
MOST_WRITE_S, READ_S, REST_S = 300, 30, 15.0
HALVES = ("first", "second")
UNJUDGED = Bound("recorded only: the growth and the size at the end have limits", basis=Basis.NOTED)

Moments = Mapping[str, Mapping[int, MemoryUse]]
"""Memory of each OSD at the moments of a load, in order."""

TOPOLOGY = {
    name: Topology(
        native=1,
        foreign=1,
        page_bytes=size,
        options=(("osd_memory_target", str(TARGET_BYTES)), ("bluestore_cache_size", str(CACHE_BYTES))),
    )
    for name, size in PAGES.items()
}


def run(stage: Stage, page_bytes: int) -> None:
    """Observe the page sizes, exchange data, restart an OSD, then watch memory under small writes and reads."""
    observe_pages(stage, page_bytes)
    both_ways(stage)
    recovery.restart(stage, Arch.AARCH64, PAIRS)
    watch_memory(stage, page_bytes)


def observe_pages(stage: Stage, page_bytes: int) -> None:
    """Observe the page size that each node's kernel reports, and that all OSDs have the same allocation unit."""
    for host in stage.cluster.hosts.values():
        wanted = page_bytes if host.arch is Arch.AARCH64 else PAGE_BYTES[host.arch][0]
        page_size = int(host.run(["getconf", "PAGESIZE"]).stdout)
        stage.recorder.observe(f"bytes in a page of {host.name} ({host.arch})", got=page_size, wanted=wanted)
    metadata = stage.cluster.client.mon("osd metadata")
    units = {str(entry["id"]): int(entry["bluestore_min_alloc_size"]) for entry in metadata}
    stage.recorder.observe("BlueStore's allocation units", got=len(set(units.values())), wanted=1, units=units)


def both_ways(stage: Stage) -> None:
    """Let each architecture write with its own OSD as primary, and read from the copy on each OSD."""
    cluster, recorder = stage.cluster, stage.recorder
    with pools.pool(cluster, "pages", PAIRS, pg_num=PG_NUM) as pool:
        mirror = Mirror(cluster.client, pool)
        for writer in Arch:
            mirror.client = cluster.client_for(writer)
            with pools.primary_on(cluster, writer, pool):
                for size in SIZES:
                    name = f"{writer}-{size}"
                    mirror.full(name, stage.rng.randbytes(size))
                    mirror.write(name, stage.rng.randbytes(CROSSING_BYTES), max(0, size - CROSSING_BYTES // 2))
        for holder in Arch:
            with pools.primary_on(cluster, holder, pool):
                mirror.verify(cluster.client_for(holder.other), recorder, f"read from the copy of {holder}")
        observe_copies(stage, pool, "after both had written", least=PG_NUM)


def watch_memory(stage: Stage, page_bytes: int) -> None:
    """Run two equal halves of small writes and reads. Record each OSD's memory before, between, after, and later."""
    cluster, recorder = stage.cluster, stage.recorder
    with pools.pool(cluster, "small", PAIRS, pg_num=PG_NUM) as pool:
        moments = {"before": look(cluster)}
        for half in HALVES:
            operations = _operations(cluster)
            load(cluster, pool, half)
            moments[half] = look(cluster)
            witness(
                recorder, half, {osd: now - operations[osd] for osd, now in _operations(cluster).items()}, page_bytes
            )
        SYSTEM.sleep(REST_S)
        moments["rested"] = look(cluster)
        for osd in cluster.osd_ids():
            cluster.client.command(f"osd.{osd}", "heap", heapcmd="release")
        moments["released"] = look(cluster)
    for osd in cluster.osd_ids():
        size = page_bytes if cluster.host_of(f"osd.{osd}").arch is Arch.AARCH64 else PAGE_BYTES[Arch.X86_64][0]
        judge(recorder, moments, osd, f"osd.{osd} with pages of {size >> 10} KiB")
    compare(cluster, recorder, moments)
    draw(cluster, recorder, moments)


def load(cluster: Cluster, pool: str, half: str) -> None:
    """Write WRITES new small objects, each on both OSDs, then read at random."""
    node = cluster.load_nodes()[0]
    small = BenchJob(pool, "write", MOST_WRITE_S, block_bytes=SMALL_BYTES, run=half, most_bytes=WRITES * SMALL_BYTES)
    for job in (small, replace(small, mode="rand", seconds=READ_S)):
        radosbench.run(cluster, node, job)


def look(cluster: Cluster) -> dict[int, MemoryUse]:
    return {osd: memory_use(cluster.client, cluster.daemon(f"osd.{osd}")) for osd in cluster.osd_ids()}


def _operations(cluster: Cluster) -> dict[int, int]:
    """The operations of each OSD since it started, as primary or as replica."""
    return {osd: int(dump["osd.op"] + dump["osd.subop"]) for osd, dump in counters.of_osds(cluster).items()}


def witness(recorder: Recorder, half: str, operations: Mapping[int, int], page_bytes: int) -> None:
    """Witness that there were enough operations for a page lost with each to exceed GROWTH_BYTES."""
    for osd, number in operations.items():
        recorder.witness(f"operations of osd.{osd} in the {half} half", got=number, least=GROWTH_BYTES // page_bytes)


def judge(recorder: Recorder, moments: Moments, osd: int, who: str) -> None:
    """Judge the growth and the size of one OSD by its bounds, and record its memory at each moment."""
    for moment, by_osd in moments.items():
        held_now = by_osd[osd]
        recorder.figure(f"{who}: resident, {moment}", held_now.resident / MIB, "MiB", UNJUDGED)
        recorder.figure(f"{who}: beyond its accounts, {moment}", held_now.beyond / MIB, "MiB", UNJUDGED)
    first, last = (moments[half][osd] for half in HALVES)
    why = "at most the size of its cache; a page lost with each operation would be more"
    accounted = f"of which in its own accounts: {(last.accounted - first.accounted) / MIB:.1f} MiB"
    bound = Bound(why, most=GROWTH_BYTES / MIB, derivation=(accounted,), basis=Basis.CORRECTNESS)
    recorder.figure(f"{who}: growth over the second half", (last.resident - first.resident) / MIB, "MiB", bound)
    why = "osd_memory_target"
    recorder.figure(
        f"{who}: resident at the end",
        last.resident / MIB,
        "MiB",
        Bound(why, most=TARGET_BYTES / MIB, basis=Basis.CORRECTNESS),
    )


def compare(cluster: Cluster, recorder: Recorder, moments: Moments) -> None:
    """Record the memory of the OSD with large pages relative to that of the other OSD."""
    (large,), (small,) = cluster.osd_ids(Arch.AARCH64), cluster.osd_ids(Arch.X86_64)
    why = "not judged: allocators and programs of the two architectures differ too"
    for moment, by_osd in moments.items():
        ratio = by_osd[large].resident / by_osd[small].resident
        recorder.figure(f"resident with large pages against 4 KiB, {moment}", ratio, "", Bound(why, basis=Basis.NOTED))


def draw(cluster: Cluster, recorder: Recorder, moments: Moments) -> None:
    lines = [
        Line(panel, f"osd.{osd} ({cluster.host_of(f'osd.{osd}').arch})", tuple(enumerate(values)))
        for osd in cluster.osd_ids()
        for panel, values in (
            ("resident, MiB", [by_osd[osd].resident / MIB for by_osd in moments.values()]),
            ("beyond its accounts, MiB", [by_osd[osd].beyond / MIB for by_osd in moments.values()]),
        )
    ]
    marks = {moment: float(number) for number, moment in enumerate(moments)}
    record_series(recorder, "memory of the OSDs over a load of small objects", lines, axis="looks", marks=marks)


SCENARIOS: tuple[Scenario, ...] = tuple(
    Scenario(
        name=f"interop.page-size[aarch64={name}]",
        goal=f"An aarch64 OSD with pages of {size >> 10} KiB agrees with an x86_64 one, and its memory stays bounded.",
        method="Writes and reads through both, restarts the aarch64 OSD, deep-scrubs; then compares memory after two "
        "equal halves of a load.",
        run=partial(run, page_bytes=size),
        check="figures",
        tier=Tier.FULL,
        topology=TOPOLOGY[name],
        needs=frozenset({Capability.PAGE_SIZE}),
        expects=recovery.EXPECTED,
    )
    for name, size in PAGES.items()
)
