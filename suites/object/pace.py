"""Response times: open and closed loads while a gateway is stopped, and a gateway without tcp_nodelay."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from cephlab.lab.base import clock
from cephlab.lab.base.clock import Deadline
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.gateway import Gateway
from cephlab.lab.cluster.own import add_service, own, remove_service
from cephlab.lab.faults import inflict
from cephlab.lab.faults.daemons import PauseDaemon
from cephlab.lab.history.history import Basis, Bound, Recorder
from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.services.rgw import NO_DELAY, RGW
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.telemetry.statistics import ratio_of_means
from cephlab.lab.workloads.s3_load_program import FILL, RUN
from cephlab.lab.workloads.s3load import S3Load, S3Result
from cephlab.suites.limits import RECORDED
from cephlab.suites.object.stand import (
    GATEWAYS,
    ended,
    gateways,
    loaded,
    near,
    running_load,
    trusted,
    truthful,
)

STOPPED_S = 2.0
AROUND_S = 2.0
RATE = 25.0
WORKERS = {"closed": 8, "open": 96}
LEAST_RATIO = 3.0
"""A third of the requests of an open load are due while the gateway is stopped, so that their p90 is nearly the whole
stop. A closed load sends nothing in that time: its few workers are waiting."""
ROUNDS = 3
ROUND_S = 1.0
START_S = 60.0
DELAYED_RATIO = 1.5
"""The delayed acknowledgement is 40 ms on Linux, and a small GET in the lab takes a few milliseconds."""


def stopped(stage: Stage) -> None:
    """Stop the same gateway for the same time, under a closed load and under an open load."""
    p90 = {}
    for name, workers in WORKERS.items():
        load = S3Load(
            bucket=name,
            workers=workers,
            rate=RATE if name == "open" else 0.0,
            runtime_s=0.0,
            seed=stage.rng.randrange(1 << 31),
            phases=(FILL, RUN),
        )
        result = under_stop(stage, load)
        truthful(stage.recorder, f"the {name} load", result)
        trusted(stage.recorder, f"the {name} load", result)
        p90[name] = result.percentile_s(90)
        stage.recorder.figure(f"p90 of the {name} load", p90[name], "s", RECORDED)
    compare(stage.recorder, p90["open"], p90["closed"])


def compare(recorder: Recorder, opened_s: float, closed_s: float) -> None:
    """Compare the p90 of the open load with that of the closed load."""
    why = f"an open load's requests stay due while a gateway is stopped for {STOPPED_S:g} s; a closed load pauses"
    recorder.figure("p90 open / p90 closed", opened_s / closed_s, "", Bound(why, least=LEAST_RATIO, basis=Basis.SHAPE))


def under_stop(stage: Stage, load: S3Load) -> S3Result:
    """Run a load whose gateway is stopped for STOPPED_S seconds."""
    cluster = stage.cluster
    gateway = gateways(cluster)[host_arch()]
    with running_load(cluster, [gateway], load, AROUND_S) as running:
        with inflict(PauseDaemon(gateway.name), cluster, stage.recorder):
            Deadline.after(STOPPED_S).pause(STOPPED_S)
        return ended(cluster, running, AROUND_S)


def delayed(stage: Stage) -> None:
    """Send one GET at a time, alternately through two gateways of one machine, of which one lacks the option."""
    load = S3Load(bucket="delay", objects=4, workers=1, runtime_s=ROUND_S, seed=stage.rng.randrange(1 << 31))
    times: dict[str, list[float]] = {"with": [], "without": []}
    with pair(stage.cluster) as doors:
        loaded(stage, "the filling", near(stage.cluster), [doors["with"]], replace(load, phases=(FILL,)))
        for _ in range(ROUNDS):
            for name, door in doors.items():
                result = loaded(
                    stage, f"GETs {name} {NO_DELAY}", near(stage.cluster), [door], replace(load, phases=(RUN,))
                )
                operations = result.of(RUN)
                times[name].append(sum(op.response_s for op in operations) / len(operations))
    for name, means in times.items():
        stage.recorder.figure(
            f"GET of 4 KiB, one at a time, {name} {NO_DELAY}",
            sum(means) / ROUNDS,
            "s",
            RECORDED,
        )
    change = ratio_of_means(times["without"], times["with"])
    why = "without the option the second part of an answer waits for the client's delayed acknowledgement"
    stage.recorder.figure(
        f"response time without {NO_DELAY} / with it",
        change.mean,
        "",
        Bound(why, least=DELAYED_RATIO, basis=Basis.SHAPE),
        interval=change.ends,
    )


@contextmanager
def pair(cluster: Cluster) -> Iterator[dict[str, Gateway]]:
    """Two gateways of one native machine: one as the lab starts it, one without the option."""
    first = gateways(cluster)[host_arch()]
    ours = own(cluster)
    daemon = add_service(ours, first.host.name, f"{RGW.kind}.b")
    port = RGW.listens(daemon.id)
    try:
        daemon.stop(patience=cluster.patience)
        # The command line takes precedence over the configuration file.
        daemon.argv = (*daemon.argv, f"--rgw_frontends=beast endpoint={daemon.host.address}:{port}")
        daemon.start()
        clock.wait(
            lambda: RGW.missing(cluster.client, daemon.host, daemon.id),
            lambda missing: not missing,
            what=f"an answer from {daemon.name}",
            timeout_s=START_S * cluster.patience,
            interval_s=0.3,
        )
        yield {"with": first, "without": replace(first, daemon=daemon, port=port)}
    finally:
        remove_service(ours, daemon.name)


SCENARIOS = (
    Scenario(
        name="object.stopped",
        goal="A gateway stopped for two seconds delays all requests due in that time, and only an open load shows it.",
        method="Stops a gateway under a closed load, then an open one, which counts response times from the due time.",
        run=stopped,
        check="figures",
        topology=GATEWAYS,
    ),
    Scenario(
        name="object.no-delay",
        goal="A small GET does not wait for a delayed acknowledgement, because gateways run with tcp_nodelay.",
        method="Sends GETs one at a time, alternately to a gateway with the option and one without; compares times.",
        run=delayed,
        check="figures",
        topology=GATEWAYS,
    ),
)
