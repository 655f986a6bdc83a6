"""Scrub of a file system by the MDS and by OSDs, damage that it must find and repair, and purge of a deleted file."""

from functools import partial

from cephlab.lab.base import clock
from cephlab.lab.base.errors import LabBroken
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.faults.scrub import deep_scrub_all, rados_json
from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.services.mds import DATA_POOL, META_POOL
from cephlab.lab.spec.arch import Arch
from cephlab.suites.cephfs.stand import EXPECTED, PAIR, rank, served_by, tell
from cephlab.suites.cephfs.topics import OBJECT
from cephlab.suites.interop.walks.live import Line, lines
from cephlab.suites.interop.walks.scenarios import clients

SCRUB_S = 60.0
PURGE_S = 20.0


def scrub(cluster: Cluster, *how: str) -> list[dict[str, object]]:
    """Scrub the whole tree; returns the MDS's damage list. how: more options, for example `repair`."""
    options = ",".join(("recursive", "force", *how))
    started = tell(cluster, rank(0), "scrub", "start", "/", options)
    if started["return_code"]:
        raise LabBroken("the MDS did not start a scrub", str(started))
    clock.wait(
        lambda: str(tell(cluster, rank(0), "scrub", "status")["status"]),
        lambda status: status.startswith("no active"),
        what="the MDS scrub to end",
        timeout_s=SCRUB_S * cluster.patience,
        interval_s=0.5,
    )
    damage: list[dict[str, object]] = tell(cluster, rank(0), "damage", "ls")
    return damage


def scrubbed(stage: Stage) -> None:
    """Observe that neither the MDS nor the OSDs find damage."""
    cluster = stage.cluster
    files = int(tell(cluster, rank(0), "perf", "dump")["mds"]["inodes"])
    stage.recorder.observe("damage found by the MDS scrub", got=scrub(cluster), wanted=[], of=files)
    for pool, pgs in deep_scrub_all(cluster, (META_POOL, DATA_POOL)).items():
        damaged = rados_json(cluster, "list-inconsistent-pg", pool)
        stage.recorder.observe(f"PGs of {pool} whose copies differ", got=damaged, wanted=[], of=len(pgs))


def deleted(stage: Stage, side: Line) -> set[str]:
    """Write a file and delete it; returns the names of its objects."""
    client = stage.cluster.client
    before = set(client.list_objects(DATA_POOL))
    side.begin(f"purged{stage.rng.randrange(1 << 31)}")
    side.ask("write", {"path": "f", "seed": 1, "size": 9000, "offset": OBJECT - 4500})
    created = set(client.list_objects(DATA_POOL)) - before
    stage.recorder.witness("objects of a file to delete", got=len(created), least=2)
    side.ask("unlink", {"path": "f"})
    return created


def purged(stage: Stage, created: set[str]) -> None:
    """Wait until the objects of a deleted file are gone: they take space, and no directory leads to them."""
    left = clock.wait(
        lambda: sorted(created & set(stage.cluster.client.list_objects(DATA_POOL))),
        lambda names: not names,
        what="the removal of a deleted file's objects",
        timeout_s=PURGE_S * stage.cluster.patience,
        interval_s=0.2,
    )
    stage.recorder.observe("objects of a deleted file", got=left, wanted=[], of=len(created))


def mended(stage: Stage, mds: Arch) -> None:
    """Remove the backtrace of a file from its first object: scrub must find that, repair it, and then find nothing."""
    cluster = stage.cluster
    served_by(cluster, mds)
    with lines("cephfs", clients(cluster, {"name": cluster.client_name}), cluster.patience) as sides:
        side = sides[mds.other.value]
        created = deleted(stage, side)
        before = set(cluster.client.list_objects(DATA_POOL))
        side.begin(f"damaged{stage.rng.randrange(1 << 31)}")
        side.ask("write", {"path": "f", "seed": 1, "size": 5000, "offset": 0})
    [name] = set(cluster.client.list_objects(DATA_POOL)) - before
    tell(cluster, rank(0), "flush", "journal")  # this writes the backtrace
    cluster.tool(cluster.client.host.name, "rados", "-p", DATA_POOL, "rmxattr", name, "parent")
    inode = int(name.partition(".")[0], 16)
    damages = [(entry["damage_type"], entry["ino"]) for entry in scrub(cluster)]
    stage.recorder.observe("damage found by the MDS scrub", got=damages, wanted=[("backtrace", inode)])
    scrub(cluster, "repair")
    tell(cluster, rank(0), "flush", "journal")
    scrubbed(stage)
    attributes = cluster.tool(cluster.client.host.name, "rados", "-p", DATA_POOL, "listxattr", name).split()
    stage.recorder.observe("the file has its backtrace again", got="parent" in attributes, wanted=True)
    purged(stage, created)


SCENARIOS = tuple(
    Scenario(
        name=f"cephfs.scrub[mds={mds}]",
        goal="A deleted file leaves no object; a scrub finds a file that has lost its backtrace, and repairs it.",
        method=f"A client of {mds.other} writes and deletes a file, then writes another. Removes the backtrace of its "
        "object, scrubs, repairs, scrubs.",
        run=partial(mended, mds=mds),
        topology=PAIR,
        expects={**EXPECTED, r"_validate_inode_done scrub error on inode": "The scenario removed a backtrace."},
    )
    for mds in Arch
)
