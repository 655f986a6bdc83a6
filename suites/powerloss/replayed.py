"""An OSD on a disk that keeps only flushed writes: its writes are logged and replayed up to the power cut."""

from collections.abc import Callable
from random import Random

from cephlab.lab.blockstack.logwrites import LoggedDevice, Replay, Survey, copy_device
from cephlab.lab.blockstack.slowosd import put_store_on
from cephlab.lab.ceph.daemon import Daemon
from cephlab.lab.ceph.disks import fsck
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.own import own
from cephlab.lab.cluster.pools import PoolKind
from cephlab.lab.history.history import Basis, Bound
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.clusterspec import GIB, Capability, Disk
from cephlab.suites.limits import copying, no_errors
from cephlab.suites.resilience.trial import EXPECTED, RETURN_S, linger, new_load, returned, under_way

OSD = "osd.0"
DISK_BYTES = 2 * GIB
"""Small, as the whole disk is copied and each fsck reads its free space."""
LOG, COPY = Disk("replay-log"), Disk("replay-copy", DISK_BYTES)
LONE = PoolKind("lone", 1)
"""One copy, so that acknowledged writes are on this disk and nowhere else."""

POINTS = {Tier.QUICK: 8, Tier.FULL: 60}
BEFORE_S = (3.0, 6.0)
LEAST_FLUSHES = 20
"""With fewer, the load wrote almost nothing: a second of it makes a few tens."""

TOPOLOGY = Topology(
    native=1,
    foreign=0,
    lone_client=True,
    client_disks=(LOG, COPY),
    disk_bytes=DISK_BYTES,
    options=(("mon_allow_pool_size_one", "true"), ("osd_pool_default_size", "1")),
)


def until_the_cut(survey: Survey) -> int:
    """Index of the mark that was set once the OSD was dead: the disk must have kept everything before it."""
    return survey.marks["cut"]


def replayed(stage: Stage, *, keep: Callable[[Survey], int] = until_the_cut) -> None:
    """Log an OSD's writes under load, kill it, replay them to many points, run fsck at each, and start from the last.

    keep: index in the log of the last point; the disk has kept all writes before it.
    """
    cluster, recorder = stage.cluster, stage.recorder
    no_errors(recorder, "clients wait for the only OSD")
    osd = cluster.daemon(OSD)
    host = osd.host
    for disk in (LOG, COPY):
        own(cluster).lab.move_disk(disk.name, host.name)
    copy = host.disk(COPY.name)
    with pools.pool(cluster, "powerloss", LONE, pg_num=8) as pool:
        load = new_load(stage, pool)
        load.prepare()
        cluster.stop(OSD)
        copy_device(host, host.disk(osd.disks[0]), copy)
        logged = LoggedDevice(host, "logged", host.disk(osd.disks[0]), host.disk(LOG.name))
        logged.create()
        put_store_on(osd, logged.path)
        cluster.start(OSD)
        cluster.wait_healthy(RETURN_S)
        with load.running():
            under_way(load)
            linger(stage.rng, *BEFORE_S)
            cluster.kill(OSD)
            logged.mark("cut")
            logged.remove()
            put_store_on(osd, copy)
            replay(stage, osd, Replay(host, host.disk(LOG.name), copy), keep)
            cluster.start(OSD)
            returned(stage, copying(stage, load.load.most_bytes, LONE))
        load.verify()
        load.clean()


def replay(stage: Stage, osd: Daemon, log: Replay, keep: Callable[[Survey], int]) -> None:
    """Replay onto the copy from point to point, and check the store at each: power may go at any of them."""
    survey = log.survey()
    last = keep(survey)
    recorder = stage.recorder
    # Clients had acknowledgements by then: an OSD that never flushes keeps none of those writes, and its log is empty.
    recorder.observe("whether the disk was flushed while writes were acknowledged", got=survey.flushes > 0, wanted=True)
    recorder.witness("flushes in the log", got=survey.flushes, least=LEAST_FLUSHES)
    why = "recorded only: it is the range of the crash points"
    recorder.figure("logged_bytes", survey.written_bytes, "bytes", Bound(why, basis=Basis.NOTED))
    torn: list[str] = []
    at = 0
    checkpoints = [*points(stage.rng, last, POINTS[stage.tier]), last]
    for point in checkpoints:
        log.forward(at, point)
        at = point
        checked = fsck(osd, deep=point == last, patience=stage.cluster.patience)
        if not checked.clean:
            torn.append(f"entry {point} of {survey.entries}: {checked.output}")
    recorder.witness("points at which the store was checked", got=len(checkpoints), least=POINTS[stage.tier])
    recorder.observe("points at which the store was not clean", got=torn, wanted=[], of=len(checkpoints))


def points(rng: Random, last: int, count: int) -> list[int]:
    """Random points, in order; some are in the middle of a transaction."""
    return sorted(rng.sample(range(1, last), max(0, min(count, last - 1))))


SCENARIOS = (
    Scenario(
        name="powerloss.replayed",
        goal="An OSD on a disk that loses unflushed writes keeps every acknowledged one, whenever the power fails.",
        method="Logs an OSD's writes (dm-log-writes) under load, kills it, replays points, fsck at each, starts it.",
        run=replayed,
        check="recorded",
        topology=TOPOLOGY,
        needs=frozenset({Capability.POWER_CUT, Capability.MOVE_DISK}),
        expects={**EXPECTED, r"POOL_NO_REDUNDANCY": "The pool has one copy on purpose."},
        spoils=True,
    ),
)
