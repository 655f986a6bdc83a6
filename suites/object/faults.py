"""S3 under faults: the OSD of a bucket index is down, and gateways and balancers die, hang or are cut off."""

import json
from collections.abc import Callable
from dataclasses import replace

from cephlab.lab.base.clock import SYSTEM, Deadline
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.gateway import INDEX_POOL, Gateway, speaking_s3
from cephlab.lab.faults import Fault, inflict
from cephlab.lab.faults.daemons import KillDaemon, PauseDaemon
from cephlab.lab.faults.network import Partition
from cephlab.lab.history.history import Basis, Bound, Recorder
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.services.haproxy import HAPROXY, notices_s
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.clusterspec import Capability
from cephlab.lab.workloads.s3_load_program import RUN
from cephlab.lab.workloads.s3load import S3Load, S3Operation, S3Result
from cephlab.suites.limits import copying, until_noticed
from cephlab.suites.migration.trial import PEERING_S
from cephlab.suites.object.stand import (
    APART,
    BALANCED,
    BALANCERS,
    DOWN,
    GATEWAYS,
    UP,
    balancer,
    ended,
    gateways,
    near,
    now_s,
    read_back,
    running_load,
    truthful,
    until_all,
)
from cephlab.suites.resilience.trial import EXPECTED

MIX = {"get": 40.0, "put": 30.0, "list": 20.0, "delete": 10.0}
"""More lists than in the paper: lists read the index only."""
BEFORE_S, HOLD_S, AFTER_S = 2.0, 5.0, 3.0
ASKED_S = 5.0
"""Time in which a busy machine can query a balancer's statistics twice."""
UNAVAILABLE = "503"
"""HAProxy's answer when no gateway is up."""
LEAST_AFTER = 10
LOAD = S3Load(mix=MIX, bucket="struck", objects=40, workers=8, runtime_s=0.0)
CUTS = frozenset({Capability.CUT_LINKS, Capability.OWN_NETWORK})
"""On the loopback interface of one machine, a balancer's packets do not carry the address of its node."""
AT_A_RATE = replace(LOAD, workers=160, rate=20.0)
"""As many workers as requests are due in 8 s, so that workers waiting for one balancer do not delay the other."""


def struck(
    stage: Stage,
    doors: list[Gateway],
    fault: Callable[[], Fault],
    meanwhile: Callable[[], None] = lambda: None,
    load: S3Load = LOAD,
) -> tuple[S3Result, float, float]:
    """Run a load while a fault is inflicted. Returns the result, and when the fault began and ended.

    meanwhile: called while the fault holds.
    """
    cluster = stage.cluster
    load = replace(load, seed=stage.rng.randrange(1 << 31))
    with running_load(cluster, doors, load, BEFORE_S) as running:
        began_s = now_s(near(cluster))
        with inflict(fault(), cluster, stage.recorder):
            meanwhile()
            Deadline.after(HOLD_S).pause(HOLD_S)
        cluster.wait_healthy()
        for front in speaking_s3(cluster, HAPROXY.kind):
            until_all(cluster, front, UP)
        ended_s = now_s(near(cluster))
        result = ended(cluster, running, AFTER_S)
    truthful(stage.recorder, "the load", result)
    read_back(stage.recorder, result)
    later = [op for op in result.of(RUN) if op.began_s > ended_s]
    stage.recorder.witness("requests after the fault", got=len(later), least=LEAST_AFTER)
    return result, began_s, ended_s


def index_down(stage: Stage) -> None:
    """Kill the primary OSD of a shard of the bucket index: requests wait, and none fails."""
    cluster = stage.cluster
    doors = list(gateways(cluster).values())
    result, *_ = struck(stage, doors, lambda: KillDaemon(index_leader(cluster)))
    stage.recorder.observe("errors of the load", got=result.errors, wanted={}, of=len(result.operations))
    stage.recorder.figure("longest response", result.percentile_s(100), "s", response_bound(stage))


def response_bound(stage: Stage) -> Bound:
    """How long a request may wait for a dead OSD, by the cluster's settings and what the machines copy meanwhile."""
    stored = LOAD.objects * max(most for _, most, _ in LOAD.sizes)
    return until_noticed(stage.cluster, PEERING_S, copying(stage, stored))


def index_leader(cluster: Cluster) -> str:
    """The primary OSD of the first shard of the load's bucket index."""
    argv = ("bucket", "stats", "--bucket", "struck0", "--format", "json")
    ident = json.loads(cluster.tool(cluster.client.host.name, "radosgw-admin", *argv))["id"]
    return f"osd.{pools.locate(cluster, INDEX_POOL, f'.dir.{ident}.0')['acting_primary']}"


def pair(stage: Stage) -> tuple[list[Gateway], int]:
    """Both balancers, and the number of the one to break. Waits until a balancer reports all gateways up."""
    fronts = speaking_s3(stage.cluster, HAPROXY.kind)
    balancer(stage.cluster)
    return fronts, stage.rng.randrange(len(fronts))


def balancer_killed(stage: Stage) -> None:
    """Kill one of two balancers: requests to the other are not affected."""
    fronts, victim = pair(stage)
    result, began_s, ended_s = struck(stage, fronts, lambda: KillDaemon(fronts[victim].name))
    stage.recorder.figure(
        "share of requests that failed",
        sum(map(bool, (op.code for op in result.of(RUN)))) / len(result.of(RUN)),
        "",
        Bound("recorded only: these clients do not retry at the other balancer", basis=Basis.NOTED),
    )
    only_its_own(stage.recorder, result.of(RUN), victim, began_s, ended_s)


def only_its_own(
    recorder: Recorder, operations: list[S3Operation], victim: int, began_s: float, ended_s: float
) -> None:
    """Observe that only requests to the dead balancer failed, only while it was dead, and that the other served."""
    failed = [op for op in operations if op.code]
    recorder.witness("requests that failed", got=len(failed), least=1)
    # Certainly dead: from the end of the first failed request to the start of the last one.
    first_s, last_s = min((op.ended_s for op in failed), default=0.0), max((op.began_s for op in failed), default=0.0)
    beside = [op for op in operations if op.endpoint != victim and first_s < op.began_s and op.ended_s < last_s]
    served = sum(not op.code for op in beside)
    recorder.witness("requests that the other balancer served meanwhile", got=served, least=LEAST_AFTER)
    strangers = [f"{op.kind} {op.code}" for op in failed if op.endpoint != victim]
    recorder.observe("failed requests to the surviving balancer", got=strangers, wanted=[], of=len(operations))
    outside = [f"{op.kind} {op.code}" for op in failed if op.ended_s < began_s or op.began_s > ended_s]
    recorder.observe("failed requests while both balancers were up", got=outside, wanted=[], of=len(operations))


def balancer_hangs(stage: Stage) -> None:
    """Stop one of two balancers: its clients wait, and the clients of the other do not."""
    cluster = stage.cluster
    fronts, victim = pair(stage)
    stopped: list[float] = []

    def note() -> None:
        stopped.append(now_s(near(cluster)))

    result, *_ = struck(stage, fronts, lambda: PauseDaemon(fronts[victim].name), note, AT_A_RATE)
    stage.recorder.observe("errors of the load", got=result.errors, wanted={}, of=len(result.operations))
    beside_one_that_hangs(stage.recorder, result.of(RUN), victim, stopped[0])


def beside_one_that_hangs(recorder: Recorder, operations: list[S3Operation], victim: int, stopped_s: float) -> None:
    """Observe that only requests to the hung balancer waited until it continued."""
    delayed = [op for op in operations if op.endpoint == victim and waited_long(op)]
    recorder.witness("requests that waited for the hung balancer", got=len(delayed), least=LEAST_AFTER)
    others = [op for op in operations if op.endpoint != victim]
    passed_by(recorder, others, stopped_s, stopped_s + HOLD_S)


def balancer_cut_off(stage: Stage) -> None:
    """Cut one of two balancers off from all gateways: it refuses requests at once, and the other serves."""
    cluster = stage.cluster
    fronts, victim = pair(stage)
    away, rest = (fronts[victim].host.name,), tuple(gateway.host.name for gateway in speaking_s3(cluster))
    noticed: list[float] = []
    result, began_s, ended_s = struck(
        stage,
        fronts,
        lambda: Partition(away, rest),
        lambda: noticed.append(missed(stage, fronts[victim])),
        AT_A_RATE,
    )
    only_its_own(stage.recorder, result.of(RUN), victim, began_s, ended_s)
    refused_at_once(stage.recorder, result.of(RUN), victim, noticed[0])


def missed(stage: Stage, front: Gateway, of: str = "") -> float:
    """Wait until a balancer reports DOWN for every gateway, or for one; compare the time with its own settings.

    Returns the time of that report.
    """
    cluster, began_s = stage.cluster, SYSTEM.monotonic()
    until_all(cluster, front, DOWN, of)
    took_s = SYSTEM.monotonic() - began_s
    patience = 1.0 if front.host.arch is host_arch() else cluster.patience
    most_s = (notices_s(front.host, front.daemon.id) + ASKED_S) * patience
    why = f"settings of {front.name}: failed health checks and the pauses between them; {ASKED_S:g} s to query it"
    bound = Bound(why, most=most_s, basis=Basis.CORRECTNESS)
    stage.recorder.figure("until the balancer says that a gateway is down", took_s, "s", bound)
    return now_s(near(cluster))


def refused_at_once(recorder: Recorder, operations: list[S3Operation], victim: int, noticed_s: float) -> None:
    """Observe that a balancer that has noticed that it reaches no gateway refuses requests without delay."""
    sent = [op for op in operations if op.endpoint == victim and noticed_s < op.began_s < noticed_s + HOLD_S - 1]
    recorder.witness("requests to the cut-off balancer after it noticed", got=len(sent), least=LEAST_AFTER)
    odd = [f"{op.kind} {op.code or 'served'}" for op in sent if op.code != UNAVAILABLE]
    recorder.observe("of these, requests that it did not refuse", got=odd, wanted=[], of=len(sent))
    waited = [f"{op.kind} {op.ended_s - op.began_s:.1f} s" for op in sent if waited_long(op)]
    recorder.observe("of these, requests that waited", got=waited, wanted=[], of=len(sent))


def waited_long(operation: S3Operation) -> bool:
    return operation.ended_s - operation.began_s > HOLD_S / 2


def gateway_out(stage: Stage, front: Gateway, victim: Gateway, fault: Fault) -> None:
    """A gateway no longer answers a balancer: the balancer stops using it, and no request fails."""
    noticed: list[float] = []
    result, *_ = struck(
        stage,
        [front],
        lambda: fault,
        lambda: noticed.append(missed(stage, front, victim.name)),
    )
    stage.recorder.observe("errors of the load", got=result.errors, wanted={}, of=len(result.operations))
    passed_by(stage.recorder, result.of(RUN), noticed[0], noticed[0] + HOLD_S)


def gateway_hangs(stage: Stage) -> None:
    """Stop the gateway of the other architecture."""
    victim = gateways(stage.cluster)[host_arch().other]
    gateway_out(stage, balancer(stage.cluster), victim, PauseDaemon(victim.name))


def gateway_cut_off(stage: Stage) -> None:
    """Cut the gateway of the other architecture off from the balancers, but not from Ceph."""
    victim = gateways(stage.cluster)[host_arch().other]
    gateway_out(stage, balancer(stage.cluster), victim, Partition((victim.host.name,), BALANCERS))


def passed_by(recorder: Recorder, operations: list[S3Operation], noticed_s: float, healed_s: float) -> None:
    """Observe that requests sent after the hang was noticed did not wait until it ended."""
    sent = [op for op in operations if noticed_s < op.began_s < healed_s - 1]
    recorder.witness("requests after the fault was noticed", got=len(sent), least=LEAST_AFTER)
    waited = [f"{op.kind} {op.response_s:.1f} s" for op in sent if op.ended_s > healed_s]
    recorder.observe("of these, requests that waited until it ended", got=waited, wanted=[], of=len(sent))


SCENARIOS = (
    Scenario(
        name="object.index-down",
        goal="While the primary OSD of a bucket index is down, requests wait and none fails.",
        method="Kills the OSD under a mix of operations through gateways of both architectures; reads all back.",
        run=index_down,
        check="figures",
        topology=GATEWAYS,
        expects=EXPECTED,
    ),
    Scenario(
        name="object.balancer-killed",
        goal="When a balancer dies, only requests to it fail, and requests to the other balancer are served.",
        method="Kills one of two HAProxys under load, starts it again, and checks every failed request.",
        run=balancer_killed,
        check="figures",
        topology=BALANCED,
    ),
    Scenario(
        name="object.balancer-hangs",
        goal="When a balancer hangs, only requests to it wait, and requests to the other balancer are served.",
        method="Stops one of two HAProxys with SIGSTOP under a fixed-rate load, and continues it after a while.",
        run=balancer_hangs,
        check="witnessed",
        tier=Tier.FULL,
        topology=BALANCED,
    ),
    Scenario(
        name="object.gateway-hangs",
        goal="A balancer stops using a gateway that hangs, and requests already sent to it are answered in the end.",
        method="Stops a gateway with SIGSTOP under load until HAProxy sends it nothing more, and some seconds longer.",
        run=gateway_hangs,
        check="figures",
        topology=BALANCED,
    ),
    Scenario(
        name="object.gateway-cut-off",
        goal="A balancer stops using a gateway that it cannot reach, and no request fails.",
        method="Cuts a gateway off from balancers under load until HAProxy sends it nothing, and for a while longer.",
        run=gateway_cut_off,
        check="figures",
        tier=Tier.FULL,
        topology=APART,
        needs=CUTS,
    ),
    Scenario(
        name="object.balancer-cut-off",
        goal="A balancer that reaches no gateway refuses requests at once, and requests to the other are served.",
        method="Drops packets between one of two HAProxys and all gateways under a fixed-rate load, then stops that.",
        run=balancer_cut_off,
        check="figures",
        tier=Tier.FULL,
        topology=APART,
        needs=CUTS,
    ),
)
