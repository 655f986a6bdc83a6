"""A disk that keeps only what was flushed: an OSD's writes are logged, and replayed up to the moment of the cut."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import PurePosixPath
from random import Random

from cephlab.lab.blockstack.logwrites import LoggedDevice, Replay, Survey, copy_device
from cephlab.lab.ceph.daemon import Daemon
from cephlab.lab.ceph.fsck import fsck
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.own import own
from cephlab.lab.cluster.pools import PoolKind
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.clusterspec import Capability, Disk
from cephlab.suites.limits import no_errors
from cephlab.suites.resilience.trial import EXPECTED, RETURN_S, linger, new_load, returned, under_way

OSD = "osd.0"
LOG, COPY = Disk("replay-log"), Disk("replay-copy")
LONE = PoolKind("lone", 1)
"""One copy, so that nothing but this disk can give back what was acknowledged."""

POINTS = {Tier.QUICK: 8, Tier.FULL: 60}
BEFORE_S = (3.0, 6.0)
LEAST_FLUSHES = 20
"""Fewer would mean that the load hardly wrote; a second of it makes some tens."""

TOPOLOGY = Topology(
    native=1,
    foreign=0,
    lone_client=True,
    client_disks=(LOG, COPY),
    options=(("mon_allow_pool_size_one", "true"), ("osd_pool_default_size", "1")),
)

EXPECTS = {
    **EXPECTED,
    r"POOL_NO_REDUNDANCY": "The pool has one copy on purpose.",
}


def until_the_cut(survey: Survey) -> int:
    """All that a disk must have kept: what stands before the mark that was set when the OSD was dead."""
    return survey.marks["cut"]


def replayed(stage: Stage, *, keep: Callable[[Survey], int] = until_the_cut) -> None:
    """Log an OSD's writes under load, kill it, replay its disk to many points with fsck, and go on from the last.

    keep: the index in the log up to which the disk that the OSD goes on with has kept its writes.
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
        goes_on_with(osd, logged.path)
        cluster.start(OSD)
        cluster.wait_healthy(RETURN_S)
        with load.running():
            under_way(load)
            linger(stage.rng, *BEFORE_S)
            cluster.kill(OSD)
            logged.mark("cut")
            logged.remove()
            goes_on_with(osd, copy)
            replay(stage, osd, Replay(host, host.disk(LOG.name), copy), keep)
            cluster.start(OSD)
            returned(cluster, recorder)
        load.verify()
        load.clean()


def goes_on_with(osd: Daemon, device: PurePosixPath) -> None:
    """The OSD, which does not run, finds its store on another device from now on."""
    osd.host.run(["ln", "-sfn", str(device), str(osd.host.directory / osd.name / "block")])


def replay(stage: Stage, osd: Daemon, log: Replay, keep: Callable[[Survey], int]) -> None:
    """Take the copy forward from point to point, each as good a moment for a power cut as any, and check the store."""
    survey = log.survey()
    last = keep(survey)
    recorder = stage.recorder
    recorder.witness("flushes in the log", got=survey.flushes, least=LEAST_FLUSHES)
    recorder.figure("logged_bytes", survey.written_bytes, "bytes")
    torn: list[str] = []
    at = 0
    moments = [*points(stage.rng, last, POINTS[stage.tier]), last]
    for point in moments:
        log.forward(at, point)
        at = point
        checked = fsck(osd, deep=point == last, patience=stage.cluster.patience)
        if not checked.clean:
            torn.append(f"entry {point} of {survey.entries}: {checked.said}")
    recorder.witness("moments at which the store was checked", got=len(moments), least=POINTS[stage.tier])
    recorder.observe("moments at which the store would not have been clean", got=torn, wanted=[], of=len(moments))


def points(rng: Random, last: int, count: int) -> list[int]:
    """Moments in order, some of them in the middle of a transaction."""
    return sorted(rng.sample(range(1, last), min(count, last - 1)))


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        name="powerloss.replayed",
        goal="An OSD on a disk that loses all it did not flush has every acknowledged write, at whatever moment.",
        method="Logs its writes (dm-log-writes) under load, kills it, replays points with fsck, goes on from the last.",
        run=partial(replayed),
        check="recorded",
        topology=TOPOLOGY,
        needs=frozenset({Capability.POWER_CUT, Capability.MOVE_DISK}),
        expects=EXPECTS,
        spoils=True,
    ),
)
