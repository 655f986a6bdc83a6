"""What the scenarios stand on: the cluster, written images, and fio runs that are witnessed to be real."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lab import pools
from lab.cluster import Cluster
from lab.history import Recorder
from lab.pulled import described
from lab.scenario import Stage, Tier, Topology
from lab.telemetry.place import client_name
from lab.workers import Workers
from lab.workloads import fio, image
from lab.workloads.fio import FioJob, FioResult
from lab.workloads.image import BlockImage

CLIENTS = 3
TOPOLOGY = Topology(native=3, foreign=0, measured=CLIENTS)
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
def written(stage: Stage, count: int = 1, size_bytes: int = IMAGE_BYTES) -> Iterator[list[BlockImage]]:
    """A pool with images that were written twice over, one after the other from the first client."""
    cluster = stage.cluster
    with pools.pool(cluster, POOL, pg_num=PG_NUM) as pool:
        images = [BlockImage(pool, f"image{number}", size_bytes) for number in range(count)]
        for one in images:
            image.create(cluster, client_name(), one)
            image.precondition(cluster, client_name(), one)
            image.require_written(cluster, client_name(), one)
        yield images


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
        more={"ramp_time": f"{RAMP_S:g}", **({"norandommap": "1"} if random else {}), **more},
    )


def run_jobs(cluster: Cluster, jobs: Sequence[tuple[str, FioJob]]) -> list[FioResult]:
    """Run (node, job) at the same time; results in their order."""

    def one(pair: tuple[str, FioJob]) -> FioResult:
        node, wanted = pair
        return fio.run(cluster.hosts[node], wanted, timeout_s=(wanted.runtime_s + _MARGIN_S) * cluster.patience)

    with Workers(max_workers=len(jobs), thread_name_prefix="fio") as workers:
        return list(workers.map(one, jobs))


def note(
    recorder: Recorder,
    what: str,
    value: float,
    unit: str,
    *,
    why: str = SHARED,
    least: float | None = None,
    most: float | None = None,
    interval: tuple[float, float] | None = None,
) -> None:
    """Note a figure with its limit, or with why it has none. interval: where it lies; left out where it is exact."""
    low, high = interval or (value, value)
    recorder.record("figure", what=what, value=value, low=low, high=high, unit=unit, least=least, most=most, why=why)


def note_run(recorder: Recorder, what: str, result: FioResult, in_flight: int) -> None:
    """Note what a run of fio did, that it was real, and that its figures fit each other."""
    done = result.main
    recorder.witness(f"operations of {what}", got=result.operations, least=LEAST_OPERATIONS)
    note(recorder, f"{what}: throughput", result.iops, "operations/s")
    note(recorder, f"{what}: mean latency", done.latency_mean_s, "s")
    busy = result.iops * done.latency_mean_s / in_flight
    why = "Little's law: throughput x latency is what was kept in flight"
    note(
        recorder,
        f"{what}: requests in flight, share of those asked for",
        busy,
        "",
        least=1 - LITTLE,
        most=1 + LITTLE,
        why=why,
    )


def image_key(cluster: Cluster) -> str:
    """Key of the image that the first OSD runs, of a pulled one the engine's id."""
    arch = cluster.daemon(f"osd.{cluster.osd_ids()[0]}").host.arch
    pulled = described(cluster)
    if pulled is not None:
        return str(pulled["ids"][arch.value]).removeprefix("sha256:")
    found = cluster.lab.state.get("images", {}).get(arch.value, "")
    return str(found["key"] if isinstance(found, dict) else found)
