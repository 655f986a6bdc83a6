"""The cost of a deep scrub to clients of slow disks, with Ceph's defaults and slowed down as in the paper."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from cephlab.lab.base import clock
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.gateway import DATA_POOL, Gateway
from cephlab.lab.cluster.pools import pgs_of
from cephlab.lab.faults.scrub import request_scrub, scrub_stamps
from cephlab.lab.history.history import Basis, Bound, Recorder
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.spec.clusterspec import MIB, DiskLimits
from cephlab.lab.telemetry.statistics import ratio_of_means
from cephlab.lab.workloads.s3_load_program import FILL, RUN
from cephlab.lab.workloads.s3load import S3Load, S3Result, constant
from cephlab.suites.archive.stand import SMALL_BYTES, ArchiveTopology, opened, options_of
from cephlab.suites.object.stand import loaded, near

OBJECTS = 800
PUT_OBJECTS = 100
"""In a bucket for PUTs: few, so that the scrubbed data does not grow much from round to round."""
ROUNDS = 3
ROUND_S = 8.0
WORKERS = 8
READ_IOPS = 40
"""A third of one of the paper's disks, so that disks are the limit and not a lab's two cores."""
CACHE_BYTES = 8 * MIB
"""Cache of each OSD: so small that reads reach its disk."""
NONE, DEFAULT, LOWERED = "none", "default", "lowered"
OWN = {"osd_scrub_sleep": "0", "osd_scrub_chunk_max": "25", "osd_requested_scrub_priority": "120"}
"""Ceph's defaults for a requested scrub."""
SLOWED = {"osd_scrub_sleep": "1", "osd_scrub_chunk_max": "5", "osd_requested_scrub_priority": "1"}
"""Five objects, then a pause of a second. The paper gives no figures."""
SETTINGS: Mapping[str, Mapping[str, str]] = {NONE: OWN, DEFAULT: OWN, LOWERED: SLOWED}
QUIET_S = 240.0

SLOW = ArchiveTopology(
    foreign=0,
    disk_limits=DiskLimits(read_iops=READ_IOPS, write_iops=200),
    db_bytes=1024 * MIB,
    options=(
        *options_of(4096),
        # Nautilus' queue; mClock of later releases gives scrubs a share of its own and ignores the pause.
        ("osd_op_queue", "wpq"),
        ("bluestore_cache_size", str(CACHE_BYTES)),
        ("bluestore_default_buffered_write", "false"),
    ),
)


def run(stage: Stage) -> None:
    """Run the same load alternately: without a scrub, during one with Ceph's defaults, during a slowed one."""
    cluster = stage.cluster
    doors = opened(cluster)[:1]
    load = S3Load(
        bucket="scrubbed",
        objects=OBJECTS,
        sizes=constant(SMALL_BYTES),
        workers=WORKERS,
        runtime_s=ROUND_S,
        seed=stage.rng.randrange(1 << 31),
        phases=(FILL,),
    )
    loaded(stage, "the filling", near(cluster), doors, load)
    rates: dict[str, dict[str, list[float]]] = {kind: {name: [] for name in SETTINGS} for kind in ("get", "put")}
    for _ in range(ROUNDS):
        for name in SETTINGS:
            for kind, known in rates.items():
                turns = beside(stage, turn_of(stage, load, kind), doors, name)
                known[name].append(len(turns.of(RUN, kind)) / turns.seconds)
    for kind, known in rates.items():
        judge(stage.recorder, kind, known)


def turn_of(stage: Stage, load: S3Load, kind: str) -> S3Load:
    """GETs of the filled objects, or PUTs into a bucket of their own."""
    if kind == "get":
        return replace(load, phases=(RUN,))
    bucket = f"put-{stage.rng.randrange(1 << 31)}-"
    return replace(load, bucket=bucket, objects=PUT_OBJECTS, mix={"put": 1.0}, phases=(RUN,), unfilled=True)


def beside(stage: Stage, load: S3Load, doors: Sequence[Gateway], settings: str) -> S3Result:
    """A round during a scrub with these settings, which starts before the round and outlasts it."""
    cluster = stage.cluster
    tune(cluster, SETTINGS[settings])
    before = scrub_stamps(cluster, DATA_POOL)
    if settings != NONE:
        request_scrub(cluster, "deep-scrub", list(before))
        clock.wait(partial(scrubbing, cluster), bool, what="a deep scrub", timeout_s=QUIET_S * cluster.patience)
    result = loaded(stage, f"a round, scrub: {settings}", near(cluster), doors, load)
    if settings != NONE:
        left = unscrubbed(cluster, before)
        stage.recorder.witness(f"PGs not yet scrubbed when the round ended, {settings}", got=left, least=1)
        tune(cluster, OWN)
        clock.wait(
            lambda: unscrubbed(cluster, before),
            lambda left: not left,
            what="the end of the deep scrub",
            timeout_s=QUIET_S * cluster.patience,
        )
    return result


def tune(cluster: Cluster, settings: Mapping[str, str]) -> None:
    """Set options of all OSDs."""
    for name, value in settings.items():
        cluster.client.mon("config set", who="osd", name=name, value=value)


def scrubbing(cluster: Cluster) -> int:
    """Number of the objects' PGs that are being scrubbed."""
    cluster.check_daemons()
    return sum("scrubbing" in pg.state for pg in pgs_of(cluster, DATA_POOL))


def unscrubbed(cluster: Cluster, before: Mapping[str, str]) -> int:
    """Number of the objects' PGs whose deep scrub since `before` has not ended."""
    cluster.check_daemons()
    now = scrub_stamps(cluster, DATA_POOL)
    return sum(now[pgid] == stamp for pgid, stamp in before.items())


def judge(recorder: Recorder, kind: str, rates: Mapping[str, Sequence[float]]) -> None:
    """Judge that a scrub with Ceph's defaults leaves clients less, and a slowed one leaves them more again."""
    hurt, eased = ratio_of_means(rates[DEFAULT], rates[NONE]), ratio_of_means(rates[LOWERED], rates[DEFAULT])
    recorder.figure(
        f"{kind} a second beside a deep scrub / without",
        hurt.mean,
        "",
        Bound("scrub and clients share slow disks", most=1.0, basis=Basis.SHAPE),
        interval=hurt.ends,
    )
    recorder.figure(
        f"{kind} a second beside a slowed deep scrub / beside one by Ceph's settings",
        eased.mean,
        "",
        Bound("a scrub that pauses leaves more to clients", least=1.0, basis=Basis.SHAPE),
        interval=eased.ends,
    )


SCENARIOS = (
    Scenario(
        name="archive.deep-scrub",
        goal="A deep scrub slows down the clients of slow disks, and less so once the scrub itself is slowed down.",
        method="Loads disks of 40 reads a second alternately without a scrub, during one, and during one that pauses.",
        run=run,
        check="figures",
        tier=Tier.FULL,
        topology=SLOW,
    ),
)
