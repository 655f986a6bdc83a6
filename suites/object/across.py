"""Objects put through a gateway of one architecture read the same through the other, whatever the primary OSD is."""

from dataclasses import replace
from functools import partial
from itertools import product

from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.gateway import DATA_POOL
from cephlab.lab.history.history import Recorder
from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.spec.arch import Arch
from cephlab.lab.workloads.s3_load_program import FILL, FINAL, RUN
from cephlab.lab.workloads.s3fleet import Fleet, run_together
from cephlab.lab.workloads.s3load import PART_BYTES, S3Load
from cephlab.suites.object.stand import GATEWAYS, LOAD_S, client, gateways, loaded, near, truthful

SMALL = ((0, 0, 1.0), (1, 4096, 3.0), (4097, 65536, 3.0), ((4 << 20) - 1, (4 << 20) + 1, 1.0))
"""Includes sizes around the gateway's stripe size of 4 MiB."""
PARTS = ((PART_BYTES + 1, 2 * PART_BYTES + 1, 1.0),)
MIXED_S = 4.0
LEAD_S = 1.0
"""Time for telling both clients when to start."""
MIX = {"get": 50.0, "put": 20.0, "head": 10.0, "list": 5.0, "delete": 10.0, "multipart": 5.0}


def run(stage: Stage, primary: Arch) -> None:
    """Each client fills a bucket through each gateway; the other client reads it through the other gateway."""
    cluster = stage.cluster
    doors = gateways(cluster)
    seed = stage.rng.randrange(1 << 31)
    with pools.led_by(cluster, primary):
        for writer, gateway in product(Arch, Arch):
            parts = writer is gateway
            load = S3Load(
                bucket=f"{primary.debian}-{writer.debian}-{gateway.debian}",
                objects=3 if parts else 12,
                sizes=PARTS if parts else SMALL,
                fill_by="multipart" if parts else "put",
                seed=seed,
                phases=(FILL,),
            )
            route = f"put by {writer} through {gateway}, {primary} primary"
            loaded(stage, f"objects {route}", client(cluster, writer), [doors[gateway]], load)
            load = S3Load(**{**vars(load), "phases": (FINAL,)})
            loaded(stage, f"reads of objects {route}", client(cluster, writer.other), [doors[gateway.other]], load)
        stage.recorder.observe(
            "architectures of the objects' primary OSDs", got=leaders(cluster), wanted=[primary.value]
        )


def leaders(cluster: Cluster) -> list[str]:
    """Architectures of the primary OSDs of the pool that holds the objects."""
    return sorted({cluster.host_of(f"osd.{osd}").arch.value for osd in pools.primaries(cluster, DATA_POOL).values()})


def mixed(stage: Stage) -> None:
    """Mix all operations through both gateways alternately, so that reads follow writes through the other gateway."""
    load = S3Load(
        mix=MIX,
        sizes=(*SMALL[:3], (PART_BYTES, PART_BYTES + 1, 0.3)),
        bucket="mixed",
        buckets=2,
        objects=24,
        workers=6,
        runtime_s=MIXED_S,
        page=7,
        seed=stage.rng.randrange(1 << 31),
    )
    result = loaded(stage, "the mix", near(stage.cluster), list(gateways(stage.cluster).values()), load)
    kinds = {op.kind for op in result.of(RUN)}
    stage.recorder.witness("kinds of operations", got=len(kinds), least=4)
    stage.recorder.witness("gateways used", got=len({op.endpoint for op in result.of(RUN)}), least=2)


def together(stage: Stage) -> None:
    """Start a client of each architecture at the same moment, and merge their operations."""
    cluster = stage.cluster
    load = S3Load(mix={"get": 3.0, "put": 1.0}, workers=2, runtime_s=MIXED_S)
    loads = [
        (client(cluster, arch), replace(load, bucket=f"together-{arch.debian}", seed=stage.rng.randrange(1 << 31)))
        for arch in Arch
    ]
    fleet = run_together(
        loads,
        list(gateways(cluster).values()),
        lead_s=LEAD_S,
        timeout_s=LOAD_S * cluster.patience,
    )
    judge(stage.recorder, fleet, clients=len(loads))


def judge(recorder: Recorder, fleet: Fleet, clients: int) -> None:
    """Observe that no client was lost, that all ran at the same time, and that every answer was right."""
    lost = [f"{name}: {why}" for name, why in fleet.lost.items()]
    recorder.observe("clients that were lost", got=lost, wanted=[], of=clients)
    for name, late_s in fleet.late_s.items():
        recorder.witness(f"seconds that {name} ran together with the others", got=MIXED_S - late_s, least=1.0)
    recorder.record("clocks", ahead_s=dict(fleet.ahead_s))
    truthful(recorder, "all clients", fleet.whole)
    recorder.observe("errors of all clients", got=fleet.whole.errors, wanted={}, of=len(fleet.whole.operations))


SCENARIOS = (
    Scenario(
        name="object.together",
        goal="Clients of both architectures load the same gateways at the same time and get only right answers.",
        method="Starts a load on a client of each architecture at the same moment, merges operations, checks answers.",
        run=together,
        check="witnessed",
        sees=("seconds that .* ran together with the others", "errors of all clients"),
        topology=GATEWAYS,
    ),
    Scenario(
        name="object.mixed",
        goal="Reads, lists and HEAD requests through one gateway return what was written through another.",
        method="Runs PUT, GET, HEAD, LIST, DELETE and multipart uploads through two gateways; checks every answer.",
        run=mixed,
        check="witnessed",
        topology=GATEWAYS,
    ),
    *(
        Scenario(
            name=f"object.across[primary={primary}]",
            goal="Objects are the same for clients, gateways and primary OSDs of either architecture.",
            method="Each client fills a bucket through each gateway; the other client reads it through the other one.",
            run=partial(run, primary=primary),
            check="witnessed",
            topology=GATEWAYS,
        )
        for primary in Arch
    ),
)
