"""CPU cost of each S3 operation at gateways and OSDs, and whether a mix costs the sum of its parts."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from statistics import fmean

from cephlab.lab.base.clock import Deadline
from cephlab.lab.ceph.daemon import Daemon
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.gateway import Gateway
from cephlab.lab.history.history import Basis, Bound, Recorder
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.telemetry.demand import Interval, Role
from cephlab.lab.telemetry.statistics import interval, ratio_of_means
from cephlab.lab.workloads.s3_load_program import FILL, RUN
from cephlab.lab.workloads.s3load import Over, S3Load, S3Result, constant
from cephlab.suites.limits import RECORDED
from cephlab.suites.object.balanced import MIX
from cephlab.suites.object.stand import GATEWAYS, gateways, loaded, near, spent

SIZE_BYTES = 65_536
"""The small objects of the ten-billion-object paper."""
OBJECTS = 100
"""Objects in a bucket, and operations in a round, so that each object is deleted once."""
ROUNDS = 5
IDLE_S = 3.0
KINDS = ("put", "get", "head", "list", "delete")
ROLES = (Role.GATEWAY, Role.PRIMARY)
APART = 2.0
"""Limit on the cost of a mix divided by that of its parts, either way: beyond it the mix is a different load."""


def run(stage: Stage) -> None:
    """Measure each operation alone, round by round, then the paper's mix of them."""
    door = gateways(stage.cluster)[host_arch()]
    idle = idle_shares(stage.cluster, door)
    alone = {kind: costs(stage, door, {kind: 1.0}, kind, idle) for kind in KINDS}
    mixed = costs(stage, door, MIX, "mix", idle)
    for kind, known in (*alone.items(), ("mix", mixed)):
        for role in ROLES:
            mean = interval(known[role])
            metric = f"CPU of {role.value} for one {kind}"
            stage.recorder.figure(metric, mean.mean, "s", RECORDED, interval=mean.ends)
    for role in ROLES:
        parts = sum(MIX[kind] * fmean(alone[kind][role]) for kind in MIX) / sum(MIX.values())
        judge(stage.recorder, role, ratio_of_means(mixed[role], [parts] * ROUNDS))


def judge(recorder: Recorder, role: Role, ratio: Interval) -> None:
    """Compare the cost of a mix with that of its parts."""
    recorder.figure(
        f"CPU of {role.value} for the mix / for its parts",
        ratio.mean,
        "",
        Bound("a mix costs about the sum of its parts", 1 / APART, APART, basis=Basis.SHAPE),
        interval=ratio.ends,
    )


def daemons(cluster: Cluster, door: Gateway) -> dict[Role, list[Daemon]]:
    """The gateway, and all OSDs."""
    return {Role.GATEWAY: [door.daemon], Role.PRIMARY: [cluster.daemon(f"osd.{osd}") for osd in cluster.osd_ids()]}


def idle_shares(cluster: Cluster, door: Gateway) -> dict[Role, float]:
    """CPU seconds per second of each role without load."""
    cpu, took_s, _ = spent(cluster, daemons(cluster, door), lambda: Deadline.after(IDLE_S).pause(IDLE_S))
    return {role: cpu[role] / took_s for role in ROLES}


def costs(
    stage: Stage, door: Gateway, mix: Mapping[str, float], name: str, idle: Mapping[Role, float]
) -> dict[Role, list[float]]:
    """CPU seconds per operation of a mix, without idle CPU, in each round. Each round has its own buckets."""
    by_role: dict[Role, list[float]] = {role: [] for role in ROLES}
    for number in range(ROUNDS):
        load = S3Load(
            mix=mix,
            bucket=f"cost-{name}-{number}-",
            objects=OBJECTS,
            sizes=constant(SIZE_BYTES),
            operations=OBJECTS,
            runtime_s=0.0,
            seed=stage.rng.randrange(1 << 31),
            phases=(FILL,),
            over={"delete": Over(in_order=True)},
        )
        loaded(stage, f"filling for {name}", near(stage.cluster), [door], load)
        players = daemons(stage.cluster, door)
        cpu, took_s, result = spent(stage.cluster, players, partial(asked, stage, door, load, name))
        for role in ROLES:
            by_role[role].append(max(0.0, cpu[role] - idle[role] * took_s) / len(result.operations))
    return by_role


def asked(stage: Stage, door: Gateway, load: S3Load, name: str) -> S3Result:
    return loaded(stage, f"a round of {name}", near(stage.cluster), [door], replace(load, phases=(RUN,)))


SCENARIOS = (
    Scenario(
        name="object.costs",
        goal="A mix of S3 operations costs gateway and OSDs about as much CPU as its operations cost alone.",
        method="Measures each operation alone on 64 KiB objects in rounds, then the paper's mix; subtracts idle CPU.",
        run=run,
        check="figures",
        tier=Tier.FULL,
        topology=GATEWAYS,
    ),
)
