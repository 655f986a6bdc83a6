"""What TLS costs: CPU time of the gateway or the balancer for a GET, with TLS and without it."""

from dataclasses import replace

from cephlab.lab.cluster.gateway import Gateway
from cephlab.lab.history.history import Basis, Bound
from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.telemetry.demand import Role
from cephlab.lab.telemetry.statistics import ratio_of_means
from cephlab.lab.workloads.s3_load_program import FILL, FINAL
from cephlab.lab.workloads.s3load import S3Load, constant
from cephlab.suites.limits import RECORDED
from cephlab.suites.object.stand import BALANCED, balancer, gateways, loaded, near, spent

OBJECTS, SIZE_BYTES = 60, 262_144
ROUNDS = 3


def run(stage: Stage) -> None:
    """Read the same objects alternately with TLS and without it, from a gateway and from the balancer."""
    cluster = stage.cluster
    load = S3Load(
        bucket="tls",
        objects=OBJECTS,
        sizes=constant(SIZE_BYTES),
        seed=stage.rng.randrange(1 << 31),
        phases=(FILL,),
    )
    door, front = gateways(cluster)[host_arch()], balancer(cluster)
    loaded(stage, "the filling", near(cluster), [door], load)
    for where in (door, front):
        costs: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(ROUNDS):
            for tls, values in costs.items():
                values.append(cpu_s(stage, where, load, tls=tls))
        name = where.daemon.kind
        for tls, values in costs.items():
            words = f"CPU of {name} for a GET of {SIZE_BYTES} bytes, {'TLS' if tls else 'plain'}"
            stage.recorder.figure(words, sum(values) / ROUNDS, "s", RECORDED)
        change = ratio_of_means(costs[True], costs[False])
        stage.recorder.figure(
            f"CPU of {name} with TLS / without",
            change.mean,
            "",
            Bound("recorded only: no paper has a figure for it", basis=Basis.NOTED),
            interval=change.ends,
        )


def cpu_s(stage: Stage, where: Gateway, load: S3Load, *, tls: bool) -> float:
    """CPU seconds that a daemon spends per GET of the load, including its health checks in that time."""
    what = f"{'TLS' if tls else 'plain'} reads from {where.daemon.kind}"
    reads = replace(load, phases=(FINAL,))
    taken, _, result = spent(
        stage.cluster,
        {Role.GATEWAY: [where.daemon]},
        lambda: loaded(stage, what, near(stage.cluster), [where], reads, tls=tls),
    )
    return taken[Role.GATEWAY] / len(result.operations)


SCENARIOS = (
    Scenario(
        name="object.tls",
        goal="Objects read over TLS, from the gateway or the balancer, are the same as without TLS.",
        method="Reads objects alternately with TLS and without; compares CPU time of the daemon that terminates TLS.",
        run=run,
        check="figures",
        topology=BALANCED,
    ),
)
