"""What the block scenarios share: the cluster to measure, written images, and fio runs with proof that they ran."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

from cephlab.lab.base.workers import Workers
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.attach.cluster import AttachedCluster
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.own import OwnCluster, described
from cephlab.lab.cluster.pools import REPLICATED, PoolKind
from cephlab.lab.history.history import Basis, Bound, Recorder
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.clusterspec import ClusterSpec
from cephlab.lab.spec.layout import CephSetup
from cephlab.lab.telemetry.demand import Interval
from cephlab.lab.telemetry.place import MeasuringLayout, client_name, measuring_spec
from cephlab.lab.telemetry.statistics import interval_of
from cephlab.lab.workloads import fioserver, image
from cephlab.lab.workloads.fio import FioJob, FioResult
from cephlab.lab.workloads.image import BlockImage
from cephlab.suites.bias import UNBIASED, Bias, watched
from cephlab.suites.machines import at_home


@dataclass(frozen=True)
class MeasuredTopology(Topology):
    """native: nodes with an OSD; machines: client machines; anywhere: an existing cluster can be used as well."""

    native: int = 3
    foreign: int = 0
    machines: int = 1
    anywhere: bool = field(default=False, compare=False)

    memory_disks: ClassVar[bool] = True
    unused: ClassVar[frozenset[str]] = frozenset(
        {
            "foreign",
            "mons",
            "osds_per_node",
            "separate_db",
            "clients",
            "lone_client",
            "role_sets",
            "disk_bytes",
            "any_arch",
        }
    )

    @property
    def client_machines(self) -> int:
        return self.machines

    @property
    def made(self) -> str:
        return "" if self.anywhere else "measured"

    def lay_out(self, release: str, image: str | None, *, in_memory: bool) -> ClusterSpec:
        return measuring_spec(
            host_arch(),
            MeasuringLayout(osds=self.native, clients=self.machines, in_memory=in_memory),
            CephSetup(release, image, dict(self.options)),
        )


CLIENTS = 3
TOPOLOGY = MeasuredTopology(machines=CLIENTS)
ANYWHERE = replace(TOPOLOGY, anywhere=True)
scenario_of_load = partial(Scenario, check="figures", topology=ANYWHERE)
"""Makes a scenario that loads images or pools. Arguments of the call override these defaults."""

POOL = "block"
PG_NUM = 32
IMAGE_BYTES = 64 << 20
UNCACHED = {"rbd_cache": "false"}
RAMP_S = 1.0
SECONDS = {Tier.QUICK: 2.5, Tier.FULL: 8.0}
"""Length of one point of a series, after the ramp."""

LEAST_OPERATIONS = 100
"""Least operations of one fio run. With fewer, a few outliers would determine the mean latency."""

LITTLE = 0.25
"""How far throughput x latency may be from the requests in flight (Little's law), beside the time in which a run ends:
fio waits for the last requests then, so the queue is not full for about one latency."""

SHARED = "recorded only: the speed of a shared machine"
_MARGIN_S = 60.0


@contextmanager
def written(
    stage: Stage,
    count: int = 1,
    size_bytes: int = IMAGE_BYTES,
    *more: str,
    kind: PoolKind = REPLICATED,
    pg_num: int = PG_NUM,
) -> Iterator[list[BlockImage]]:
    """A pool with images that the client machines have fully written twice. more: options of `rbd create`."""
    cluster = stage.cluster
    with pools.pool(cluster, POOL, kind, pg_num=pg_num) as pool:
        images = [BlockImage(pool, f"image{number}", size_bytes) for number in range(count)]
        write_all(cluster, images, *more)
        for target in images:
            image.require_written(cluster, client_node(cluster), target)
        yield images


def write_all(cluster: Cluster, images: Sequence[BlockImage], *more: str, passes: int = image.PASSES) -> None:
    """Create images and write them fully: real client machines all together, those of a lab one after another."""
    nodes = {client_node(cluster, number): number for number in range(len(images))}
    together = len(nodes) if isinstance(cluster, AttachedCluster) else 1
    for target in images:
        image.create(cluster, client_node(cluster), target, *more)

    def write(first: int) -> None:
        for target in images[first :: len(nodes)]:
            image.precondition(cluster, client_node(cluster, first), target, passes=passes)

    with Workers(max_workers=max(1, together), thread_name_prefix="written") as workers:
        list(workers.map(write, range(len(nodes))))


def client_node(cluster: Cluster, number: int = 0) -> str:
    """Name of the machine of client `number`, from the lab or the inventory; numbers wrap around after the last."""
    if isinstance(cluster, AttachedCluster):
        nodes = cluster.load_nodes()
    else:
        nodes = [name for name in map(client_name, range(CLIENTS)) if name in cluster.hosts]
    return nodes[number % len(nodes)]


def job(stage: Stage, of: BlockImage, pattern: str, block_bytes: int, depth: int, **more: str) -> FioJob:
    random = pattern.startswith("rand")
    return FioJob(
        name=f"{pattern}-{of.name}",
        pool=of.pool,
        target=of.name,
        pattern=pattern,
        block_bytes=block_bytes,
        depth=depth,
        size_bytes=of.size_bytes,
        runtime_s=SECONDS[stage.tier],
        seed=stage.rng.randrange(1 << 31),
        options=UNCACHED,
        client=stage.cluster.client_name,
        more={"ramp_time": f"{RAMP_S:g}", **({"norandommap": "1"} if random else {}), **more},
    )


def run_jobs(cluster: Cluster, jobs: Sequence[tuple[str, FioJob]]) -> list[FioResult]:
    """Run all (node, job) at the same time. Returns the results in their order."""
    timeout_s = (max(wanted.runtime_s for _, wanted in jobs) + _MARGIN_S) * cluster.patience
    return fioserver.run([(cluster.hosts[node], wanted) for node, wanted in jobs], timeout_s=timeout_s).require()


def run_judged(stage: Stage, what: str, jobs: Sequence[tuple[str, FioJob]]) -> tuple[list[FioResult], Bias]:
    """Run all (node, job) at the same time. Returns the results, and which way they may be off if they are judged."""
    with watched(stage, jobs, judged=at_home(stage)) as watch:
        results = run_jobs(stage.cluster, jobs)
    return results, watch.bias(what, sum(map(reread_bytes, (wanted for _, wanted in jobs), results)))


def reread_bytes(wanted: FioJob, result: FioResult) -> float:
    """Bytes that a job reads again and again. In sequence, each run and each of its processes begins at the first."""
    if wanted.pattern in ("write", "randwrite"):
        return 0.0
    sequential = not wanted.pattern.startswith("rand")
    return min(wanted.size_bytes, result.read.bytes / wanted.jobs) if sequential else wanted.size_bytes


NO_LIMIT = Bound(SHARED, basis=Basis.NOTED)


def note_bound(recorder: Recorder, what: str, measured: Interval, unit: str, bound: Bound) -> None:
    """Record a figure with a bound, and with its interval if the bound judges it."""
    interval = (measured.low, measured.high) if bound.judges else None
    recorder.figure(what, measured.mean, unit, bound, interval=interval)


def note_run(
    recorder: Recorder,
    what: str,
    result: FioResult,
    in_flight: int,
    bounds: tuple[Bound, Bound] = (NO_LIMIT, NO_LIMIT),
    bias: Bias = UNBIASED,
) -> None:
    """Record the figures of a fio run, that it did enough operations, and that rate and latency are consistent.

    bounds: for its throughput and its mean latency; bias: which way both may be off.
    """
    main, mean_s = result.main, result.latency_mean_s
    recorder.witness(f"operations of {what}", got=result.operations, least=LEAST_OPERATIONS)
    spread = interval_of(result.iops, main.iops_stddev, main.iops_samples)
    note_both(recorder, what, spread, beside(spread, mean_s), bounds, bias)
    in_queue = result.iops * mean_s
    ending = in_queue / result.operations if result.operations else 0.0  # the mean latency as a share of the run
    bound = Bound(
        "Little's law: throughput x latency equals the requests in flight, except while the last ones end",
        least=max(0.0, 1 - LITTLE - ending),
        most=1 + LITTLE,
        basis=Basis.CORRECTNESS,
    )
    recorder.figure(f"{what}: requests in flight, share of those asked for", in_queue / in_flight, "", bound)


def note_both(
    recorder: Recorder,
    what: str,
    rate: Interval,
    latency: Interval,
    bounds: tuple[Bound, Bound],
    bias: Bias,
) -> None:
    """Record a throughput and a mean latency with their bounds. bias: which way both may be off."""
    note_bound(recorder, f"{what}: throughput", bias.rate(rate), "operations/s", bias.told(bounds[0]))
    note_bound(recorder, f"{what}: mean latency", bias.latency(latency), "s", bias.told(bounds[1]))


def total(runs: Sequence[tuple[float, float, float]], samples: int) -> tuple[Interval, Interval]:
    """(operations per second, mean latency in seconds) of clients that ran together, with their intervals.

    runs: (operations per second, their standard deviation, mean latency) of each client; samples: the fewest of any
    client. The variance of a sum is the sum of the variances.
    """
    rate = sum(iops for iops, _, _ in runs)
    mean_s = sum(latency_s * iops for iops, _, latency_s in runs) / rate if rate else 0.0
    spread = interval_of(rate, math.sqrt(sum(stddev**2 for _, stddev, _ in runs)), samples)
    return spread, beside(spread, mean_s)


def beside(rate: Interval, latency_s: float) -> Interval:
    """The interval of a mean latency from that of its rate: their product is the requests in flight (Little's law)."""
    low = latency_s * rate.mean / rate.high if rate.high > 0 else 0.0
    high = latency_s * rate.mean / rate.low if rate.low > 0 else math.inf
    return Interval(latency_s, low, high, rate.samples, rate.confidence)


def image_key(cluster: Cluster) -> str:
    """Key of the first OSD's image; for a pulled image, the engine's ID. Empty on an attached cluster."""
    if not isinstance(cluster, OwnCluster):
        return ""
    arch = cluster.daemon(f"osd.{cluster.osd_ids()[0]}").host.arch
    pulled = described(cluster)
    if pulled is not None:
        return str(pulled["ids"][arch.value]).removeprefix("sha256:")
    known = cluster.lab.state.get("images", {}).get(arch.value, "")
    return str(known["key"] if isinstance(known, dict) else known)
