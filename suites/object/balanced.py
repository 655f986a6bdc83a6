"""HAProxy in front of gateways of both architectures: both serve, and if one dies only requests in flight fail."""

from collections.abc import Mapping, Sequence
from functools import partial

from cephlab.lab.faults import inflict
from cephlab.lab.faults.daemons import KillDaemon
from cephlab.lab.history.history import Recorder
from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.workloads.s3_load_program import RUN
from cephlab.lab.workloads.s3load import S3Load, S3Operation
from cephlab.suites.object.stand import (
    BALANCED,
    balancer,
    ended,
    gateways,
    loaded,
    near,
    now_s,
    read_back,
    running_load,
    statistics,
    truthful,
)

MIX = {"get": 70.0, "put": 20.0, "list": 5.0, "delete": 5.0}
"""The mixed phase of the ten-billion-object paper."""
LEAST_EACH = 3
RATE = 30.0
BEFORE_S, AFTER_S = 2.0, 4.0
SLACK_S = 0.1
"""Allowance for the time between the kill signal and the time recorded for it."""


def both_serve(stage: Stage, through: Arch) -> None:
    """Run a mix through a balancer, and read from its statistics how many requests each gateway got."""
    cluster = stage.cluster
    front = balancer(cluster, through)
    before = {row.gateway: row.sessions for row in statistics(front)}
    load = S3Load(mix=MIX, bucket=f"by-{through.debian}", workers=8, runtime_s=4.0, seed=stage.rng.randrange(1 << 31))
    result = loaded(stage, "the load", near(cluster), [front], load)
    sessions = {row.gateway: row.sessions - before[row.gateway] for row in statistics(front)}
    spread(stage.recorder, sessions, len(result.operations), [door.name for door in gateways(cluster).values()])


def spread(recorder: Recorder, sessions: Mapping[str, int], asked: int, there: Sequence[str]) -> None:
    """Observe that no gateway is left out. sessions: gateway -> requests, without health checks; there: all."""
    recorder.record("balanced", requests=dict(sessions))
    idle = sorted(name for name in there if sessions.get(name, 0) < LEAST_EACH)
    recorder.observe(f"gateways with fewer than {LEAST_EACH} of {asked} requests", got=idle, wanted=[], of=len(there))


def killed(stage: Stage) -> None:
    """Kill the gateway of the other architecture under a load at a fixed rate."""
    cluster = stage.cluster
    front = balancer(cluster)
    victim = gateways(cluster)[host_arch().other].name
    load = S3Load(mix=MIX, bucket="killed", workers=32, rate=RATE, runtime_s=0.0, seed=stage.rng.randrange(1 << 31))
    with running_load(cluster, [front], load, BEFORE_S) as running:
        struck_s = now_s(near(cluster))
        with inflict(KillDaemon(victim), cluster, stage.recorder):
            killed_s = now_s(near(cluster))
            result = ended(cluster, running, AFTER_S)
    truthful(stage.recorder, "the load", result)
    cost(stage.recorder, result.of(RUN), struck_s, killed_s)
    read_back(stage.recorder, result)
    cluster.wait_healthy()


def cost(recorder: Recorder, operations: list[S3Operation], struck_s: float, killed_s: float) -> None:
    """Observe that all failed requests were in flight between the kill and the proof that the gateway was dead."""
    failed = [op for op in operations if op.code]
    flying = [op for op in operations if op.began_s < killed_s and op.ended_s > struck_s]
    later = [op for op in operations if op.began_s > killed_s + SLACK_S]
    recorder.record("killed", failed=len(failed), in_flight=len(flying), after=len(later))
    recorder.witness("requests after the kill", got=len(later), least=RATE)
    strangers = [f"{op.kind} {op.code}" for op in failed if op not in flying]
    recorder.observe(
        "failed requests that were not in flight when the gateway was killed",
        got=strangers,
        wanted=[],
        of=len(operations),
    )


SCENARIOS = (
    *(
        Scenario(
            name=f"object.balanced[balancer={arch}]",
            goal="A balancer spreads S3 requests over gateways of both architectures, and every answer is right.",
            method="Loads HAProxy with the paper's mix, checks every body, and reads its statistics.",
            run=partial(both_serve, through=arch),
            check="witnessed",
            topology=BALANCED,
        )
        for arch in Arch
    ),
    # The last scenario on its cluster: for 30 s (osd_client_watch_timeout) Ceph still notifies a killed gateway of
    # each new bucket, and creating a bucket in that time waits for the answer.
    Scenario(
        name="object.killed",
        goal="When a gateway behind the balancer dies, only requests that were in flight fail.",
        method="Kills the gateway of the other architecture under a fixed-rate load; checks when failed requests ran.",
        run=killed,
        check="witnessed",
        topology=BALANCED,
    ),
)
