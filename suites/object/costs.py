"""What each operation costs gateways and OSDs, lists and deletes too, and whether a mix costs what its parts do."""

from collections.abc import Mapping, Sequence
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
from cephlab.suites.object.balanced import MIX
from cephlab.suites.object.stand import GATEWAYS, RECORDED, gateways, loaded, near, spent

SIZE_BYTES = 65_536
"""The small objects of the ten-billion-object paper."""
OBJECTS = 100
"""Of a bucket, and operations of a round, so that each is deleted once."""
ROUNDS = 5
IDLE_S = 3.0
KINDS = ("put", "get", "head", "list", "delete")
ROLES = (Role.GATEWAY, Role.PRIMARY)
APART = 2.0
"""A mix that costs this much more or less than its parts is another load than they are."""

Costs = Mapping[Role, Sequence[float]]
"""CPU seconds of an operation in each round."""


def run(stage: Stage) -> None:
    """Each operation alone, round by round, then the paper's mix of them."""
    door = gateways(stage.cluster)[host_arch()]
    idle = idle_shares(stage.cluster, door)
    alone = {kind: costs(stage, door, {kind: 1.0}, kind, idle) for kind in KINDS}
    mixed = costs(stage, door, MIX, "mix", idle)
    for kind, known in (*alone.items(), ("mix", mixed)):
        for role in ROLES:
            mean = interval(known[role])
            metric = f"CPU of {role.value} for one {kind}"
            stage.recorder.figure(metric, mean.mean, "s", RECORDED, interval=(mean.low, mean.high))
    for role in ROLES:
        parts = sum(MIX[kind] * fmean(alone[kind][role]) for kind in MIX) / sum(MIX.values())
        judge(stage.recorder, role, ratio_of_means(mixed[role], [parts] * ROUNDS))


def judge(recorder: Recorder, role: Role, ratio: Interval) -> None:
    """Hold a mix to its parts."""
    recorder.figure(
        f"CPU of {role.value} for the mix / for its parts",
        ratio.mean,
        "",
        Bound("a mix is its parts", 1 / APART, APART, basis=Basis.SHAPE),
        interval=(ratio.low, ratio.high),
    )


def daemons(cluster: Cluster, door: Gateway) -> dict[Role, list[Daemon]]:
    """The gateway, and all OSDs."""
    return {Role.GATEWAY: [door.daemon], Role.PRIMARY: [cluster.daemon(f"osd.{osd}") for osd in cluster.osd_ids()]}


def idle_shares(cluster: Cluster, door: Gateway) -> dict[Role, float]:
    """CPU seconds a second of each role without a load."""
    taken, took_s, _ = spent(cluster, daemons(cluster, door), lambda: Deadline.after(IDLE_S).pause(IDLE_S))
    return {role: taken[role] / took_s for role in ROLES}


def costs(
    stage: Stage, door: Gateway, mix: Mapping[str, float], name: str, idle: Mapping[Role, float]
) -> dict[Role, list[float]]:
    """What an operation of a mix costs beyond idling, in each of some rounds on buckets of their own."""
    found: dict[Role, list[float]] = {role: [] for role in ROLES}
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
        taken, took_s, done = spent(stage.cluster, players, partial(asked, stage, door, load, name))
        for role in ROLES:
            found[role].append(max(0.0, taken[role] - idle[role] * took_s) / len(done.operations))
    return found


def asked(stage: Stage, door: Gateway, load: S3Load, name: str) -> S3Result:
    return loaded(stage, f"a round of {name}", near(stage.cluster), [door], replace(load, phases=(RUN,)))


SCENARIOS = (
    Scenario(
        name="object.costs",
        goal="What a PUT, GET, HEAD, LIST and DELETE cost gateway and OSDs is known; a mix costs its parts.",
        method="Does each alone on objects of 64 KiB in rounds, then the paper's mix; CPU without what idling takes.",
        run=run,
        check="figures",
        tier=Tier.FULL,
        topology=GATEWAYS,
    ),
)
