"""Scrub of a file system: its metadata by the MDS, its objects by their OSDs; and damage that it must find and mend."""

from cephlab.lab.base import clock
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.faults.scrub import deep_scrub, rados_json
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.services.mds import DATA_POOL, META_POOL
from cephlab.suites.cephfs.stand import rank, tell

SCRUB_S = 60.0


def scrub(cluster: Cluster, *how: str) -> list[dict[str, object]]:
    """Scrub the whole tree; what is damaged by then. how: more words, as `repair`."""
    options = ",".join(("recursive", "force", *how))
    tell(cluster, rank(0), "scrub", "start", "/", options)
    clock.wait(
        lambda: str(tell(cluster, rank(0), "scrub", "status")["status"]),
        lambda said: said.startswith("no active"),
        what="the end of the MDS's scrub",
        timeout_s=SCRUB_S * cluster.patience,
        interval_s=0.5,
    )
    damage: list[dict[str, object]] = tell(cluster, rank(0), "damage", "ls")
    return damage


def scrubbed(stage: Stage) -> None:
    """Observe that neither the MDS nor the OSDs find damage."""
    cluster = stage.cluster
    files = int(tell(cluster, rank(0), "perf", "dump")["mds"]["inodes"])
    stage.recorder.observe("damage that the MDS's scrub found", got=scrub(cluster), wanted=[], of=files)
    for pool in (META_POOL, DATA_POOL):
        pgs = deep_scrub(cluster, pool)
        damaged = rados_json(cluster, "list-inconsistent-pg", pool)
        stage.recorder.observe(f"PGs of {pool} whose copies differ", got=damaged, wanted=[], of=len(pgs))
