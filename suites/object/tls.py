"""What TLS costs: CPU of the gateway or the balancer for a GET, with it and without."""

from dataclasses import replace

from cephlab.lab.cluster.gateway import Gateway
from cephlab.lab.history.history import Basis, Bound
from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.telemetry.demand import Role
from cephlab.lab.telemetry.statistics import ratio_of_means
from cephlab.lab.workloads.s3_load_program import FILL, FINAL
from cephlab.lab.workloads.s3load import S3Load, constant
from cephlab.suites.object.stand import BALANCED, RECORDED, balancer, gateways, loaded, near, spent

OBJECTS, SIZE_BYTES = 60, 262_144
ROUNDS = 3


def run(stage: Stage) -> None:
    """The same objects with TLS and without in turn, from a gateway and from the balancer."""
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
        spent: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(ROUNDS):
            for tls, values in spent.items():
                values.append(cpu_s(stage, where, load, tls=tls))
        name = where.daemon.kind
        for tls, values in spent.items():
            words = f"CPU of {name} for a GET of {SIZE_BYTES} bytes, {'TLS' if tls else 'plain'}"
            stage.recorder.figure(words, sum(values) / ROUNDS, "s", RECORDED)
        change = ratio_of_means(spent[True], spent[False])
        stage.recorder.figure(
            f"CPU of {name} with TLS / without",
            change.mean,
            "",
            Bound("no paper has a figure: recorded only", basis=Basis.SHAPE),
            interval=(change.low, change.high),
        )


def cpu_s(stage: Stage, where: Gateway, load: S3Load, *, tls: bool) -> float:
    """CPU seconds that a daemon spends on a GET of the load; what it spends on health checks meanwhile is in it."""
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
        goal="Objects are the same by TLS at the gateway and at the balancer, and its cost is known.",
        method="Reads the same objects with TLS and without in turn; the CPU of the daemon that ends TLS is compared.",
        run=run,
        check="figures",
        topology=BALANCED,
    ),
)
