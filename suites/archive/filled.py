"""Cycles of filling, reading, writing and a mix until the disks are 85 % full: the cost of an operation by then."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean

from cephlab.lab.base.clock import Deadline
from cephlab.lab.base.numbers import percent
from cephlab.lab.ceph.daemon import Daemon
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.gateway import Gateway
from cephlab.lab.faults.full import used_ratio
from cephlab.lab.history.history import Basis, Bound, Recorder
from cephlab.lab.report.series import Line, record_series
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.spec.clusterspec import MIB
from cephlab.lab.telemetry.demand import Role
from cephlab.lab.telemetry.statistics import ratio_of_means
from cephlab.lab.workloads.s3_load_program import FILL, FINAL, RUN
from cephlab.lab.workloads.s3load import Over, S3Load, S3Result, constant
from cephlab.suites.archive.stand import (
    ALIKE,
    EC_4_2,
    SMALL_BYTES,
    UNIT_BYTES,
    allow_fuller,
    opened,
    osds_of,
    taken_bytes,
)
from cephlab.suites.object.stand import loaded, near, spent

FULL = 0.85
PAPERS_FULL = 0.8
"""Up to this share the paper saw almost no variation."""
MOST_COST = 1 / (1 - 0.298)
"""The paper's largest decline: 29.8 % fewer GETs, once metadata had spilled over."""
MIX = {"get": 70.0, "put": 20.0, "list": 5.0, "delete": 5.0}
"""Operations of the paper's mixed phase, in percent."""
PHASES = {"read": {"get": 1.0}, "write": {"put": 1.0}, "mixed": MIX}
ASKED = {"read": 2.0, "write": 0.5, "mixed": 1.0}
"""Operations of a round, relative to the course: a write takes OSDs and a gateway several times as long as a read."""
ROUNDS = 4
"""Rounds of each phase in each cycle, for an interval."""
LARGE_BYTES = 4 * MIB
"""The paper's objects have 128 MB, which a gateway stores as RADOS objects of this size."""
SMALL = 40
WORKERS = 4
LOOK_S, MOST_LOOKS = 2.0, 10
"""OSDs look at their disks every 1.4 s at most (osd_heartbeat_interval of the lab)."""


@dataclass(frozen=True)
class Course:
    """The length of a run. cycles: until FULL; asked: operations in a round of the mix."""

    cycles: int
    asked: int


COURSES = {Tier.QUICK: Course(3, 90), Tier.FULL: Course(12, 200)}


def run(stage: Stage) -> None:
    """Fill a share of the disks, read, write, mix; repeat until the disks are full enough; read everything back."""
    cluster, course = stage.cluster, COURSES[stage.tier]
    doors = opened(cluster)
    allow_fuller(cluster)
    began, fills, shares = used_ratio(cluster), [], []
    costs: dict[str, list[list[float]]] = {phase: [] for phase in PHASES}
    seeds = {phase: stage.rng.randrange(1 << 31) for phase in PHASES}
    for number in range(course.cycles):
        fills += filled(stage, doors, number, began + (FULL - began) * (number + 1) / course.cycles)
        share, with_idle = at_rest(cluster)
        shares.append(share)
        stage.recorder.step(f"cycle {number + 1}: {percent(share, '.0f')} full")
        for phase, mix in PHASES.items():
            load = asking(mix, seeds[phase], round(course.asked * ASKED[phase]), f"{phase}-{number}-")
            costs[phase].append(costs_s(stage, doors[:1], load, with_idle))
    stage.recorder.witness("share used in the end", got=shares[-1], least=PAPERS_FULL)
    for phase, values in costs.items():
        judge(stage.recorder, phase, values, shares)
    draw(stage.recorder, costs, shares)
    for number, load in enumerate(fills):
        loaded(
            stage, f"the last reading of {load.bucket}", near(cluster), doors[::-1] if number % 2 else doors[:1], load
        )


def filled(stage: Stage, doors: Sequence[Gateway], number: int, target: float) -> list[S3Load]:
    """Put small objects through all gateways, and large ones through the native one until a share is used.

    Returns the loads that read them back.
    """
    cluster = stage.cluster
    small = S3Load(
        bucket=f"small-{number}-",
        objects=SMALL,
        sizes=constant(SMALL_BYTES),
        workers=WORKERS,
        seed=stage.rng.randrange(1 << 31),
        phases=(FILL,),
    )
    loaded(stage, f"small objects of cycle {number + 1}", near(cluster), doors, small)
    cluster.settle()
    missing = (target - used_ratio(cluster)) * total_bytes(cluster)
    count = max(1, round(missing / taken_bytes([LARGE_BYTES], UNIT_BYTES, EC_4_2)))
    large = replace(small, bucket=f"large-{number}-", objects=count, sizes=constant(LARGE_BYTES))
    loaded(stage, f"large objects of cycle {number + 1}", near(cluster), doors[:1], large)
    return [replace(load, phases=(FINAL,)) for load in (large, small)]


def at_rest(cluster: Cluster) -> tuple[float, float]:
    """Share of the disks in use, and CPU seconds a second that all OSDs take while there is no load."""
    cluster.settle()
    taken, took_s, share = spent(cluster, of_osds(cluster), partial(share_used, cluster))
    return share, taken[Role.PRIMARY] / took_s


def share_used(cluster: Cluster) -> float:
    """Share of its disk that the emptiest OSD uses, once the manager reports the same twice."""
    before = used_ratio(cluster)
    for _ in range(MOST_LOOKS):
        Deadline.after(LOOK_S).pause(LOOK_S)
        now = used_ratio(cluster)
        if now == before:
            break
        before = now
    return before


def total_bytes(cluster: Cluster) -> int:
    """Bytes of all disks of OSDs."""
    return 1024 * sum(int(entry["kb"]) for entry in cluster.client.mgr("osd df")["nodes"])


def asking(mix: dict[str, float], seed: int, asked: int, bucket: str) -> S3Load:
    """A mix on small objects, with a bucket for each round. All rounds have the same seed, so the same operations."""
    return S3Load(
        mix=mix,
        bucket=bucket,
        buckets=ROUNDS,
        objects=SMALL,
        sizes=constant(SMALL_BYTES),
        workers=WORKERS,
        seed=seed,
        phases=(FILL,),
        operations=asked,
        runtime_s=0.0,
    )


def costs_s(stage: Stage, doors: Sequence[Gateway], load: S3Load, idle: float) -> list[float]:
    """CPU seconds of all OSDs per operation, without their idle use, for the round in each bucket of a load.

    doors: the native gateway only. Rounds take longer through an emulated one, and idle use is more of them then.
    """
    loaded(stage, f"filling {load.bucket}", near(stage.cluster), doors, load)
    return [cost_s(stage, doors, load, number, idle) for number in range(1, load.buckets + 1)]


def cost_s(stage: Stage, doors: Sequence[Gateway], load: S3Load, number: int, idle: float) -> float:
    """As `costs_s`, for the round in one bucket, counted from 1."""
    cluster = stage.cluster
    over = dict.fromkeys(load.mix, Over(buckets=((number, number, 1.0),)))

    def asked() -> S3Result:
        what = f"{load.bucket}{number - 1}"
        return loaded(stage, what, near(cluster), doors, replace(load, phases=(RUN,), over=over))

    taken, took_s, result = spent(cluster, of_osds(cluster), asked)
    return max(0.0, taken[Role.PRIMARY] - idle * took_s) / len(result.operations)


def of_osds(cluster: Cluster) -> dict[Role, list[Daemon]]:
    """All OSDs as one role: each has shards of every object."""
    return {Role.PRIMARY: osds_of(cluster)}


def judge(recorder: Recorder, phase: str, costs: Sequence[Sequence[float]], shares: Sequence[float]) -> None:
    """Compare the cost of an operation in the last cycle with that in the first."""
    change = ratio_of_means(costs[-1], costs[0])
    why = "the paper's largest decline, 29.8 %, came with metadata on slow disks; here there is none"
    recorder.figure(
        f"OSDs' CPU for an operation, {phase}: {percent(shares[-1], '.0f')} full / {percent(shares[0], '.0f')} full",
        change.mean,
        "",
        Bound(why, most=MOST_COST, basis=Basis.SHAPE),
        interval=change.ends,
    )


def draw(recorder: Recorder, costs: dict[str, list[list[float]]], shares: Sequence[float]) -> None:
    """Draw the cost of each phase over the share in use."""
    means = {phase: [1e3 * fmean(values) for values in cycles] for phase, cycles in costs.items()}
    lines = [
        Line("OSDs' CPU for an operation, ms", phase, tuple(zip(shares, costs_ms, strict=True)))
        for phase, costs_ms in means.items()
    ]
    record_series(recorder, "cost against share used", lines, axis="share used", marks={})


SCENARIOS = (
    Scenario(
        name="archive.filled",
        goal="On disks that are 85 % full an operation costs OSDs about as much as on empty ones, and nothing is lost.",
        method="Fills EC 4+2 in cycles with small and large objects; in each reads, writes and mixes; reads all back.",
        run=run,
        check="figures",
        topology=ALIKE,
        spoils=True,
    ),
)
