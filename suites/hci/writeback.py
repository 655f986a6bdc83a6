"""What librbd's cache does for QEMU without a guest: cache mode `writeback` against `none` with `qemu-img bench`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import Basis, Bound
from cephlab.lab.report.series import Line, record_series
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.telemetry import counters
from cephlab.lab.telemetry.statistics import ratio_of_means
from cephlab.lab.workloads.image import BlockImage
from cephlab.suites.hci import claims
from cephlab.suites.hci.hypervisor.command import CacheMode, drivers
from cephlab.suites.hci.papers import CACHES
from cephlab.suites.hci.stand import TOPOLOGY, guest_node, images, through_librbd, words_on

ROUNDS = 16
"""Runs in each cache mode, alternately. The rate of a run is one value, so the interval holds what runs differ by."""
BLOCK_BYTES = 4096
DEPTH = claims.FOUR_JOBS
"""In flight at once, for the paper's four jobs."""
SPARSE = 16 * DEPTH
"""Writes between two flushes: sixteen times as many as are in flight without a cache."""
_RUN_S = 300.0
_TOOK = re.compile(r"Run completed in ([0-9.]+) seconds")

OVERLAP = Bound(
    "writeback acknowledges a write before an OSD has it, so up to sixteen times as many are on their way at once",
    least=2.0,
    basis=Basis.SHAPE,
)
"""Measured: 7 to 11 times as many with the cache, and as many with the cache off (docs/measured/hci.md)."""
SYNCED = Bound("recorded only: short runs differ by more than the paper's gain of 36.5 %", basis=Basis.NOTED)
UNREAD = Bound(
    "librbd's default policy `writearound` answers no read, and the paper saw fewer reads with writeback",
    most=2.0,
    basis=Basis.SHAPE,
)
"""A cache that answers reads makes them several times as fast."""


@dataclass(frozen=True)
class BenchLoad:
    """One load of qemu-img. operations: of one run; flush_every: requests between two flushes, 0 for reads.

    what: in figures and the report.
    """

    what: str
    operations: int
    flush_every: int
    bound: Bound

    @property
    def size_bytes(self) -> int:
        return self.operations * BLOCK_BYTES

    def argv(self, cache: CacheMode, target: str) -> list[str]:
        argv = ["qemu-img", "bench", "-c", str(self.operations), "-d", str(DEPTH), "-s", str(BLOCK_BYTES)]
        argv += ["-w", f"--flush-interval={self.flush_every}"] if self.flush_every else []
        return [*argv, "-t", cache.value, "-f", "raw", target]


WRITES = (
    BenchLoad(f"a flush after {SPARSE} writes", 3200, SPARSE, OVERLAP),
    BenchLoad(f"a flush after {DEPTH} writes, as the paper's jobs do", 1600, DEPTH, SYNCED),
)
READS = (BenchLoad("reads", 6400, 0, UNREAD),)


def compared(stage: Stage, loads: Sequence[BenchLoad]) -> None:
    """Run each load in both cache modes alternately on one written image, and judge the ratio of their rates."""
    cluster = stage.cluster
    rates: dict[BenchLoad, dict[CacheMode, list[float]]] = {load: {cache: [] for cache in CACHES} for load in loads}
    with images(cluster, 1) as (image,):
        before_bytes = served_bytes(cluster)
        for number in range(ROUNDS):
            for load, of_load in rates.items():
                for cache in CACHES[:: -1 if number % 2 else 1]:
                    of_load[cache].append(rate(cluster, image, load, cache))
        done_bytes = served_bytes(cluster) - before_bytes
    least = ROUNDS * len(CACHES) * sum(load.size_bytes for load in loads)
    stage.recorder.witness("bytes that the OSDs wrote or read for clients meanwhile", got=done_bytes, least=least)
    for load, of_load in rates.items():
        note_ratio(stage, load, of_load, why_not=claims.EMULATED if cluster.hosts[guest_node(cluster)].emulated else "")


def served_bytes(cluster: Cluster) -> int:
    """What all OSDs have written and read for clients, by their own counters."""
    dump = counters.total(counters.of_osds(cluster).values())
    return int(dump["osd.op_in_bytes"] + dump["osd.op_out_bytes"])


def rate(cluster: Cluster, image: BlockImage, load: BenchLoad, cache: CacheMode) -> float:
    """Operations per second of one run, by its own clock: opening the image does not count."""
    host = cluster.hosts[guest_node(cluster)]
    argv = load.argv(cache, through_librbd(cluster, image))
    output = host.run(argv, env=drivers(host.root, host.arch), timeout_s=_RUN_S * cluster.patience).stdout
    duration = _TOOK.search(output)
    if duration is None or not float(duration[1]):
        raise LabBroken(
            "qemu-img did not say how long it took", output[-400:], "check the version of QEMU in the image"
        )
    return load.operations / float(duration[1])


def note_ratio(stage: Stage, load: BenchLoad, rates: Mapping[CacheMode, Sequence[float]], *, why_not: str) -> None:
    """Record the rates and their ratio, and draw them. why_not: why this machine cannot show it, empty if it can."""
    recorder = stage.recorder
    ratio = ratio_of_means(rates[CacheMode.WRITEBACK], rates[CacheMode.NONE])
    claims.note(recorder, f"rate with writeback over that with none, {load.what}", ratio, load.bound, why_not)
    panel = "operations per second"
    lines = [
        Line(panel, cache.value, tuple((float(at), value) for at, value in enumerate(rates[cache], 1)))
        for cache in CACHES
    ]
    words = words_on(stage.cluster, f"4 KiB, {DEPTH} in flight, through QEMU's rbd driver without a guest")
    record_series(recorder, f"qemu-img bench: {load.what}", lines, axis="round", marks={}, words=words)


SCENARIOS = tuple(
    Scenario(
        name=f"hci.writeback[op={pattern}]",
        goal=goal,
        method=f"Runs qemu-img bench on an image, {DEPTH} in flight, alternately with cache `none` and `writeback`.",
        run=partial(compared, loads=loads),
        check="figures",
        tier=Tier.FULL,
        topology=TOPOLOGY,
        sees=("rate with writeback over that with none, .*",),
    )
    for pattern, loads, goal in (
        ("write", WRITES, "With writeback QEMU has more writes acknowledged between two flushes than without."),
        ("read", READS, "With writeback QEMU does not read faster: librbd's default cache answers no read."),
    )
)
