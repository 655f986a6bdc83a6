"""What daemons keep after a load, per operation: memory, threads, open files, disk and log."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cephlab.lab.base.clock import SYSTEM
from cephlab.lab.ceph.memory import Footprint, MemoryUse, ThreadTime, footprint, pools_of, size_of, threads_here
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.own import own
from cephlab.lab.history.history import Basis, Bound, Recorder
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.scenario.topology import ANY_ARCH
from cephlab.lab.spec.clusterspec import MIB
from cephlab.lab.telemetry import counters
from cephlab.lab.telemetry.counters import flatten
from cephlab.lab.workloads import radosbench
from cephlab.lab.workloads.radosbench import BenchJob
from cephlab.suites.baseline.rated import osd_memory

POOL = "growth"
PG_NUM = 8
BLOCK_BYTES = 4096
WRITES: Mapping[Tier, int] = {Tier.QUICK: 600, Tier.FULL: 6000}
READ_S: Mapping[Tier, int] = {Tier.QUICK: 2, Tier.FULL: 20}
MOST_WRITE_S = 120
ROUNDS = 3
"""Rounds of the same load. The first does not count: caches fill, threads start, an emulator translates code."""

OPERATION_BYTES = 8 << 10
"""Most memory that an OSD may keep per operation beyond its own accounts: twice the block. Sound OSDs kept 1.3 to
3.1 KiB, see docs/baseline.md."""
NOISE_BYTES = 24 * MIB
"""What an allocator may keep after a few thousand operations of any kind."""
OPERATION_LOG_BYTES = 512
LOG_BYTES = MIB
"""A sound daemon logs almost nothing about operations at its usual levels: 10 KiB in all, see docs/baseline.md."""
OPERATION_DISK_BYTES = 2 * BLOCK_BYTES
DISK_BYTES = 32 * MIB
"""In addition to the blocks themselves: logs of databases, which grow by whole files and are reclaimed later."""
USAGE_BYTES = 16 * MIB
SLOWEST, COMMIT_SLACK_MS = 4.0, 10.0
"""Two healthy OSDs on one machine took 4.66 and 4.65 ms."""
IDLE_LOOKS, IDLE_S = 3, 2.0
"""Number and length of spans without a load. In at least one of them a daemon has finished its work for the load."""
MOST_BUSY = 0.75
"""Share of a span. A spinning thread wants a processor all the time, and never gives one up by itself."""
FEW_BLOCKS = 2
"""Times in a span. An idle thread that only waits long for a processor, on a busy machine, blocks more often."""
MOST_THREADS = 16
MOST_FILES = 64
"""Clients are gone at each look. The lab's own clients stay: a few connections to each daemon."""


@dataclass(frozen=True)
class Held:
    """One look at a daemon. For an OSD: pools, the bytes that it reports as allocated; operations, so far.

    log_bytes: of its log and output; disk_bytes: of its store. None if unknown.
    """

    footprint: Footprint
    pools: Mapping[str, int] = field(default_factory=dict)
    operations: int = 0
    log_bytes: int | None = None
    disk_bytes: int | None = None

    @property
    def memory(self) -> MemoryUse:
        return MemoryUse(self.footprint.resident, self.pools)


def growth(stage: Stage) -> None:
    """Put the same load on a pool several times; judge what each daemon keeps between the first and the last round."""
    cluster = own(stage.cluster)  # daemons of an existing one are no processes that the lab can look into
    idle = counters.of_osds(cluster)
    with pools.pool(cluster, POOL, pg_num=PG_NUM):
        looks = []
        for number in range(ROUNDS):
            load(cluster, stage.tier, f"round{number}")
            looks.append(look(cluster))
        loaded = {osd: counters.since(now, idle[osd]) for osd, now in counters.of_osds(cluster).items()}
        busy = least_busy(cluster)
        cluster.settle()
        note_usage(stage.recorder, used_bytes(cluster), look(cluster))
    first, last = looks[0], looks[-1]
    for name in sorted(first):
        judge(stage.recorder, name, first[name], last[name])
    for osd in sorted(name for name in last if name.startswith("osd.")):
        resident = last[osd].footprint.resident / MIB
        bound = osd_memory(stage, cluster.daemon(osd).host)
        stage.recorder.figure(f"{osd}: resident memory", resident, "MiB", bound)
    for arch in cluster.spec.archs:
        note_commits(stage.recorder, {osd: commit_ms(loaded[osd]) for osd in cluster.osd_ids(arch)})
    for name, share in busy.items():
        bound = Bound("no client sends requests", most=MOST_BUSY, basis=Basis.CORRECTNESS)
        stage.recorder.figure(f"{name}: busiest thread without a load", share, "of the time", bound)


def commit_ms(counted: Mapping[str, float]) -> float:
    """Mean time in which an OSD made a batch of writes durable. counted: what its counters changed by."""
    return 1000 * counted.get("bluestore.kv_commit_lat.sum", 0.0) / counted.get("bluestore.kv_commit_lat", 1.0)


def note_commits(recorder: Recorder, times_ms: Mapping[int, float]) -> None:
    """Judge that no OSD commits much more slowly than the quickest. times_ms: of OSDs of one architecture.

    Their disks are equal, and each has all objects.
    """
    if len(times_ms) < 2:
        return
    bound = Bound(
        f"{SLOWEST:g} times the quickest OSD of its architecture and {COMMIT_SLACK_MS:g} ms",
        most=SLOWEST * min(times_ms.values()) + COMMIT_SLACK_MS,
        basis=Basis.SHAPE,
    )
    for osd, time_ms in times_ms.items():
        recorder.figure(f"osd.{osd}: mean time of a commit", time_ms, "ms", bound)


def used_bytes(cluster: Cluster) -> dict[str, int]:
    """What the manager says that each OSD uses of its disk."""
    return {str(node["name"]): 1024 * int(node["kb_used"]) for node in cluster.client.mgr("osd df")["nodes"]}


def note_usage(recorder: Recorder, used: Mapping[str, int], held: Mapping[str, Held]) -> None:
    """Judge that each OSD reports the space that it uses, by which Ceph knows when a disk is full.

    used: as the manager has it; held: with what the OSDs' own counters say.
    """
    for osd, reported in sorted(used.items()):
        counted = held[osd].disk_bytes or 0
        why = f"its own counters say {counted / MIB:.1f} MiB; its database may grow or shrink in between"
        low, high = (counted - USAGE_BYTES) / MIB, (counted + USAGE_BYTES) / MIB
        bound = Bound(why, least=low, most=high, basis=Basis.CORRECTNESS)
        recorder.figure(f"{osd}: space reported as used", reported / MIB, "MiB", bound)


def least_busy(cluster: Cluster) -> dict[str, float]:
    """For each daemon on this machine: the share of time that its busiest thread spun, in the quietest span."""
    here = [daemon for daemon in cluster.daemons.values() if daemon.started().pid]
    shares: dict[str, list[float]] = {daemon.name: [] for daemon in here}
    for _ in range(IDLE_LOOKS):
        before = {daemon.name: (SYSTEM.monotonic(), threads_here(daemon)) for daemon in here}
        SYSTEM.sleep(IDLE_S)
        for daemon in here:
            began, threads = before[daemon.name]
            now = threads_here(daemon)
            shares[daemon.name].append(busiest(threads, now) / (SYSTEM.monotonic() - began))
    return {name: min(of_spans) for name, of_spans in shares.items()}


def busiest(before: Mapping[int, ThreadTime], now: Mapping[int, ThreadTime]) -> float:
    """Seconds for which the busiest thread wanted a processor, among threads that hardly ever blocked."""
    pairs = [(before.get(thread, ThreadTime()), then) for thread, then in now.items()]
    spinning = [(was, then) for was, then in pairs if then.blocks - was.blocks <= FEW_BLOCKS]
    return max((then.wanted_s - was.wanted_s for was, then in spinning), default=0.0)


def load(cluster: Cluster, tier: Tier, run: str) -> None:
    """Do small writes, as many as the tier has, then read them."""
    writes = BenchJob(
        POOL, "write", MOST_WRITE_S, block_bytes=BLOCK_BYTES, run=run, most_bytes=WRITES[tier] * BLOCK_BYTES
    )
    for job in (writes, replace(writes, mode="rand", seconds=READ_S[tier])):
        radosbench.run(cluster, cluster.load_nodes()[0], job)


def look(cluster: Cluster) -> dict[str, Held]:
    """Look at every daemon, by name. OSDs first release memory that their allocator holds unused."""
    return {name: _held(cluster, name) for name in cluster.daemons}


def _held(cluster: Cluster, name: str) -> Held:
    daemon = cluster.daemon(name)
    log_bytes = size_of(daemon, daemon.log, daemon.output)
    if daemon.kind != "osd":
        store = size_of(daemon, daemon.host.directory / name)
        return Held(footprint(daemon), log_bytes=log_bytes, disk_bytes=store)
    cluster.client.command(name, "heap", heapcmd="release")
    counts = cluster.client.tell(name, "perf dump")
    operations = int(counts["osd"]["op"]) + int(counts["osd"]["subop"])
    pools = pools_of(cluster.client.tell(name, "dump_mempools"))
    return Held(footprint(daemon), pools, operations, log_bytes, allocated(counts))


def allocated(counts: Mapping[str, Any]) -> int:
    """Bytes of its disk that an OSD uses for data and for its database, from `perf dump`."""
    numbers = flatten(counts)
    return int(numbers["bluestore.allocated"] + numbers["bluefs.db_used_bytes"])


def judge(recorder: Recorder, name: str, first: Held, last: Held) -> None:
    """Judge what one daemon kept by its bounds."""
    kept, had = last.footprint, first.footprint
    count = last.operations - first.operations
    limit = NOISE_BYTES + count * OPERATION_BYTES
    grown = (last.memory.beyond - first.memory.beyond) / MIB
    facts = (f"{count} operations; resident {had.resident / MIB:.1f} MiB, then {kept.resident / MIB:.1f}",)
    why = f"{NOISE_BYTES // MIB} MiB for the allocator and {OPERATION_BYTES >> 10} KiB for each operation"
    recorder.figure(
        f"{name}: memory kept of the load",
        grown,
        "MiB",
        Bound(why, most=limit / MIB, derivation=facts, basis=Basis.CORRECTNESS),
    )
    for what, more, most in (
        ("threads", kept.threads - had.threads, MOST_THREADS),
        ("open files", kept.files - had.files, MOST_FILES),
    ):
        recorder.figure(
            f"{name}: {what} kept of the load", more, "", Bound("clients are gone", most=most, basis=Basis.CORRECTNESS)
        )
    for what, before, after, most_bytes in (
        ("log", first.log_bytes, last.log_bytes, LOG_BYTES + count * OPERATION_LOG_BYTES),
        ("disk", first.disk_bytes, last.disk_bytes, DISK_BYTES + count * OPERATION_DISK_BYTES),
    ):
        if before is not None and after is not None:
            why = f"{count} operations of {BLOCK_BYTES >> 10} KiB at most"
            bound = Bound(why, most=most_bytes / MIB, basis=Basis.CORRECTNESS)
            recorder.figure(f"{name}: {what} grown", (after - before) / MIB, "MiB", bound)
    if name.startswith("osd."):
        recorder.witness(f"operations of {name}", got=count, least=WRITES[Tier.QUICK])


SCENARIOS = (
    Scenario(
        name="baseline.growth",
        goal="No daemon keeps memory, threads, open files, disk or log of a past load or spins after it, no disk lags.",
        method=f"Runs {ROUNDS} equal rounds of 4 KiB writes and reads; compares what each daemon holds after the first "
        "and the last, and how long OSDs take to commit; then measures how much processor time their threads want.",
        run=growth,
        topology=ANY_ARCH,
        check="figures",
        sees=tuple(f"{kind}.*: memory kept of the load" for kind in ("mon", "mgr", "osd")),
    ),
)
