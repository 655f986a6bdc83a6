"""Load from every client machine at once, each on its own image."""

from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.workloads import fioserver
from cephlab.lab.workloads.fio import FioJob

POOL = "standing-load"
PG_NUM = 16
IMAGE_BYTES = 256 << 20
UNCACHED = {"rbd_cache": "false"}  # otherwise clients would write cached data after the load, when nobody measures
BLOCK_BYTES = 4096
DEPTH = 16
SECONDS = {Tier.QUICK: 5.0, Tier.FULL: 60.0}
START_S = 60.0  # an emulated client is slow to its first operation
LEAST_SHARE = 0.5  # of the time in which all should write together


def load(stage: Stage) -> None:
    """Write at random from all client machines together; each must complete writes without an error."""
    cluster, nodes, seconds = stage.cluster, stage.cluster.load_nodes(), SECONDS[stage.tier]
    with pools.pool(cluster, POOL, pools.PoolKind("replicated", 2), pg_num=PG_NUM):
        for node in nodes:
            cluster.client.rbd_create(POOL, node, IMAGE_BYTES)
        jobs = [(cluster.hosts[node], job(cluster, node, seconds, stage.rng.randrange(1 << 31))) for node in nodes]
        results = fioserver.run(jobs, timeout_s=(seconds + START_S) * cluster.patience)
        for node in nodes:
            cluster.client.rbd_remove(POOL, node)
    for place, result in results.results.items():
        node = results.on(place)
        stage.recorder.record("load", node=node, iops=result.write.iops, latency_s=result.write.latency_mean_s)
        stage.recorder.witness(f"writes from {node}", got=result.write.operations, least=1)
        stage.recorder.witness(f"seconds of writes from {node}", got=result.write.seconds, least=seconds * LEAST_SHARE)
        stage.recorder.observe(f"errors on {node}", got=result.write.errors, wanted=0)
    results.require()
    if results.everyone is not None:
        everyone = results.everyone.write
        stage.recorder.record("load of all", clients=len(nodes), iops=everyone.iops, latency_s=everyone.latency_mean_s)


def job(cluster: Cluster, node: str, seconds: float, seed: int) -> FioJob:
    return FioJob(
        name="standing",
        pool=POOL,
        target=node,
        pattern="randwrite",
        block_bytes=BLOCK_BYTES,
        depth=DEPTH,
        size_bytes=IMAGE_BYTES,
        runtime_s=seconds,
        seed=seed,
        options=UNCACHED,
        client=cluster.client_name,
    )


SCENARIOS = (
    Scenario(
        name="standing.load",
        goal="All client machines can load the cluster at once.",
        method="Runs random 4 KiB writes with fio on all client machines at once, each to its own RBD image.",
        run=load,
        sees=("writes from .*",),
        check="witnessed",
        topology=Topology(native=2, foreign=0),
    ),
)
