"""What the scenarios stand on: the cluster, written images, and fio runs that are witnessed to be real."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from cephlab.lab.cluster import pools
from cephlab.lab.cluster.attach.cluster import AttachedCluster
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.own import OwnCluster
from cephlab.lab.cluster.pulled import described
from cephlab.lab.history.history import Bound, Recorder
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.telemetry.demand import Interval
from cephlab.lab.telemetry.place import client_name
from cephlab.lab.telemetry.statistics import interval_of
from cephlab.lab.workloads import image, together
from cephlab.lab.workloads.fio import FioJob, FioResult
from cephlab.lab.workloads.image import BlockImage
from cephlab.suites.block.topology import MeasuredTopology

CLIENTS = 3
TOPOLOGY = MeasuredTopology(machines=CLIENTS)
ANYWHERE = replace(TOPOLOGY, anywhere=True)
scenario_of_load = partial(Scenario, check="figures", topology=ANYWHERE)
"""Makes a scenario that loads images or pools. What it says itself comes before these values."""

POOL = "block"
PG_NUM = 32
IMAGE_BYTES = 64 << 20
UNCACHED = {"rbd_cache": "false"}
RAMP_S = 1.0
SECONDS = {Tier.QUICK: 2.5, Tier.FULL: 8.0}
"""Of one point of a series, after the ramp."""

LEAST_OPERATIONS = 100
"""Of one run of fio: with fewer, its mean latency is that of a few outliers."""

LITTLE = 0.25
"""How far throughput x latency may be from the requests in flight (Little's law): fio's start and end take a part of a
short run, in which the queue is not full."""

SHARED = "speed of a machine that others share: written down, not judged"
_MARGIN_S = 60.0


@contextmanager
def written(stage: Stage, count: int = 1, size_bytes: int = IMAGE_BYTES, *more: str) -> Iterator[list[BlockImage]]:
    """A pool with images that were written twice over, one after the other from the first client.

    more: options of `rbd create`.
    """
    cluster = stage.cluster
    with pools.pool(cluster, POOL, pg_num=PG_NUM) as pool:
        images = [BlockImage(pool, f"image{number}", size_bytes) for number in range(count)]
        for target in images:
            image.create(cluster, client_node(cluster), target, *more)
            image.precondition(cluster, client_node(cluster), target)
            image.require_written(cluster, client_node(cluster), target)
        yield images


def client_node(cluster: Cluster, number: int = 0) -> str:
    """Name of the machine that a client runs on: as the lab lays them out, or as an inventory names them."""
    if not isinstance(cluster, AttachedCluster):
        return client_name(number)
    there = cluster.load_nodes()
    return there[number % len(there)]


def job(stage: Stage, of: BlockImage, pattern: str, block_bytes: int, depth: int, **more: str) -> FioJob:
    """A timed job on an image."""
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
    """Run (node, job) at the same time; results in their order."""
    timeout_s = (max(wanted.runtime_s for _, wanted in jobs) + _MARGIN_S) * cluster.patience
    return together.run([(cluster.hosts[node], wanted) for node, wanted in jobs], timeout_s=timeout_s).require()


NO_LIMIT = Bound(SHARED)


def note_bound(recorder: Recorder, what: str, measured: Interval, unit: str, bound: Bound) -> None:
    """Note a figure with a bound; its interval where it is judged, else the figure alone."""
    interval = (measured.low, measured.high) if bound.judges else None
    recorder.figure(what, measured.mean, unit, bound, interval=interval)


def note_run(
    recorder: Recorder,
    what: str,
    result: FioResult,
    in_flight: int,
    rate: Bound = NO_LIMIT,
    latency: Bound = NO_LIMIT,
) -> None:
    """Note what a run of fio did, that it was real, and that its figures fit each other.

    rate, latency: what its throughput and its mean latency are held to.
    """
    done, mean_s = result.main, result.latency_mean_s
    recorder.witness(f"operations of {what}", got=result.operations, least=LEAST_OPERATIONS)
    spread = interval_of(result.iops, done.iops_stddev, done.iops_samples)
    note_bound(recorder, f"{what}: throughput", spread, "operations/s", rate)
    note_bound(recorder, f"{what}: mean latency", beside(spread, mean_s), "s", latency)
    busy = result.iops * mean_s / in_flight
    why = "Little's law: throughput x latency is what was kept in flight"
    recorder.figure(
        f"{what}: requests in flight, share of those asked for", busy, "", Bound(why, least=1 - LITTLE, most=1 + LITTLE)
    )


def beside(rate: Interval, latency_s: float) -> Interval:
    """The interval of a mean latency by that of the rate beside it: their product is what is in flight (Little)."""
    low = latency_s * rate.mean / rate.high if rate.high > 0 else 0.0
    high = latency_s * rate.mean / rate.low if rate.low > 0 else math.inf
    return Interval(latency_s, low, high, rate.samples, rate.confidence)


def image_key(cluster: Cluster) -> str:
    """Key of the image that the first OSD runs; of a pulled one the engine's id. Empty on an attached cluster."""
    if not isinstance(cluster, OwnCluster):
        return ""
    arch = cluster.daemon(f"osd.{cluster.osd_ids()[0]}").host.arch
    pulled = described(cluster)
    if pulled is not None:
        return str(pulled["ids"][arch.value]).removeprefix("sha256:")
    known = cluster.lab.state.get("images", {}).get(arch.value, "")
    return str(known["key"] if isinstance(known, dict) else known)
