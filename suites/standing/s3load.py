"""S3 load from every client machine at once, each with its own bucket, through the existing endpoints."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from cephlab.lab.cluster.attach.cluster import AttachedCluster
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.gateway import gateway
from cephlab.lab.cluster.pools import PoolKind
from cephlab.lab.history.history import Recorder
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.workloads.s3_load_program import FILL, FINAL, RUN
from cephlab.lab.workloads.s3buckets import new_buckets, refused
from cephlab.lab.workloads.s3fleet import Fleet, run_together
from cephlab.lab.workloads.s3load import Entrance, S3Load

BUCKET = "standing-s3-"
"""Prefix of bucket names, followed by the number of the client machine and 0, for example standing-s3-1-0."""
MIX = {"get": 70.0, "put": 20.0, "list": 5.0, "delete": 5.0}
"""Percent of operations in the mixed phase of the ten-billion-object paper."""
SIZES = ((4096, 65_536, 9.0), (1 << 20, 4 << 20, 1.0))
SECONDS = {Tier.QUICK: 5.0, Tier.FULL: 60.0}
LEAD_S = 1.0
START_S = 120.0
LEAST_SHARE = 0.5
"""Least share of the run in which each client must work at the same time as all others."""


def run(stage: Stage) -> None:
    """Run a mix of operations from all client machines together; each must complete some, with only right answers."""
    cluster, seconds = stage.cluster, SECONDS[stage.tier]
    loads = [
        S3Load(
            mix=MIX,
            sizes=SIZES,
            bucket=f"{BUCKET}{number}-",
            runtime_s=seconds,
            seed=stage.rng.randrange(1 << 31),
            phases=(FILL, RUN, FINAL),
            own_buckets=True,
        )
        for number in range(len(cluster.load_nodes()))
    ]
    clients = [(cluster.hosts[node], load) for node, load in zip(cluster.load_nodes(), loads, strict=True)]
    timeout_s = (seconds + START_S) * cluster.patience
    with (
        entrances(cluster, [f"{load.bucket}0" for load in loads]) as doors,
        new_buckets(cluster, clients, doors, timeout_s=timeout_s) as foreign,
    ):
        fleet = run_together(clients, doors, lead_s=LEAD_S, timeout_s=timeout_s)
        foreign.update(refused(fleet, clients))
    judge(stage.recorder, fleet, len(clients), seconds)


@contextmanager
def entrances(cluster: Cluster, buckets: Sequence[str]) -> Iterator[Sequence[Entrance]]:
    """The endpoints of the inventory. For a cluster of the lab's own, a gateway that runs inside the block."""
    if isinstance(cluster, AttachedCluster):
        yield cluster.s3_endpoints(buckets)
        return
    with gateway(cluster, cluster.client.host.name, PoolKind("replicated", 2)) as door:
        yield [door]


def judge(recorder: Recorder, fleet: Fleet, clients: int, seconds: float) -> None:
    """Observe that no client was lost, that all ran at the same time, and that every answer was right."""
    lost = [f"{name}: {why}" for name, why in fleet.lost.items()]
    recorder.observe("clients that were lost", got=lost, wanted=[], of=clients)
    for name, result in fleet.results.items():
        recorder.record("s3_load", what=f"the client {name}", **result.told())
        recorder.witness(f"operations from {name}", got=len(result.of(RUN)), least=1)
        together_s = seconds - fleet.late_s[name]
        title = f"seconds of {name} at the same time as the others"
        recorder.witness(title, got=together_s, least=seconds * LEAST_SHARE)
        count = len(result.operations)
        recorder.observe(f"wrong answers to {name}", got=list(result.wrong), wanted=[], of=count)
        recorder.observe(f"errors of {name}", got=result.errors, wanted={}, of=count)
    if fleet.results:
        recorder.record("s3_load", what="all clients", **fleet.whole.told())


SCENARIOS = (
    Scenario(
        name="standing.s3-load",
        goal="All client machines can load S3 at once, and every answer is right.",
        method="Puts, gets, lists and deletes objects from every client machine at once, each in a new bucket.",
        run=run,
        sees=("operations from .*",),
        check="witnessed",
        topology=Topology(native=2, foreign=0),
    ),
)
