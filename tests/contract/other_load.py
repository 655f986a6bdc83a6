"""A second cephlab process for a contract test: it loads a cluster over ssh from several machines until killed."""

import sys
from pathlib import Path

from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import Runs
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.attach.cluster import attach_cluster
from cephlab.lab.cluster.attach.permit import Permit
from cephlab.lab.spec.inventory import load_inventory
from cephlab.lab.workloads import fioserver
from cephlab.lab.workloads.fio import FioJob

POOL = "orphaned"
IMAGE_BYTES = 32 << 20
SECONDS = 600.0


def main(inventory: str, home: str, *nodes: str) -> None:
    """Attach as a run, say its id, and write until killed."""
    run = Runs(Home(Path(home))).create("ssh")
    print(run.id, flush=True)
    permit = Permit(pools=frozenset({POOL}), hosts=frozenset(nodes))
    with attach_cluster(load_inventory(Path(inventory)), permit, run, progress=lambda _line: None) as cluster:
        pools.create(cluster, POOL)
        jobs = []
        for node in nodes:
            cluster.client.rbd_create(POOL, node, IMAGE_BYTES)
            job = FioJob("orphan", POOL, node, "randwrite", 4096, 2, IMAGE_BYTES, SECONDS, client=cluster.client_name)
            jobs.append((cluster.hosts[node], job))
        fioserver.run(jobs, timeout_s=SECONDS)


if __name__ == "__main__":
    main(*sys.argv[1:])
