"""Checks that change nothing: health, quorum, clocks, versions, and the machine of every replica."""

from cephlab.lab.ceph.pgs import pgids
from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.services import CORE, reported

CLOCK_SKEW_S = 0.05
"""Default of mon_clock_drift_allowed, beyond which monitors warn too."""

_SHOWN = 3


def health(stage: Stage) -> None:
    """Observe the state that a cluster should have before anything is done to it."""
    observe, status = stage.recorder.observe, stage.cluster.status()
    observe("health", got=status.health, wanted="HEALTH_OK")
    # HEALTH_OK says nothing of them. Whoever muted one knows of it, but what it reports is there all the same.
    muted = {check.code: check.message for check in status.checks if check.muted}
    observe("health checks that are raised and muted", got=muted, wanted={}, of=1)
    observe("OSDs up and in", got=[status.osds_up, status.osds_in], wanted=[status.osds, status.osds])
    observe("every PG active+clean", got=status.clean, wanted=True)
    observe("a manager is available", got=status.mgr_available, wanted=True)
    stage.recorder.witness("PGs", got=status.pgs, least=1)


def quorum(stage: Stage) -> None:
    """Observe that every monitor is in quorum, and that their clocks agree."""
    client, observe = stage.cluster.client, stage.recorder.observe
    status = client.mon("quorum_status")
    mons = [daemon.id for daemon in stage.cluster.daemons.values() if daemon.kind == "mon"]
    observe("monitors in quorum", got=sorted(status["quorum_names"]), wanted=sorted(mons))
    stage.recorder.witness("monitors that answered", got=len(status["quorum_names"]), least=1)
    skews = client.mon("time-sync-status").get("time_skew_status", {})
    late = {name: entry["skew"] for name, entry in skews.items() if abs(float(entry["skew"])) > CLOCK_SKEW_S}
    if len(mons) > 1:  # a single monitor cannot be compared with others
        stage.recorder.witness("monitors whose clocks were compared", got=len(skews), least=len(mons))
        observe(f"monitors whose clock is off by more than {CLOCK_SKEW_S} s", got=late, wanted={}, of=len(skews))


def versions(stage: Stage) -> None:
    """Observe that all daemons have one version, and the architecture of their machine."""
    client, observe = stage.cluster.client, stage.recorder.observe
    observe("number of versions among all daemons", got=len(client.mon("versions")["overall"]), wanted=1)
    metadata = reported(client)
    for name, entry in metadata.items():
        wanted = stage.cluster.daemon(name).host.arch.value
        observe(f"architecture that {name} reports", got=entry.get("arch"), wanted=wanted)
    core = [daemon for daemon in stage.cluster.daemons.values() if daemon.kind in CORE]
    stage.recorder.witness("daemons checked", got=len(metadata), least=len(core))


def replicas(stage: Stage) -> None:
    """Observe that every PG of every pool has all its copies, no two of them on one machine."""
    cluster = stage.cluster
    short, shared, looked_at = [], [], 0
    for pool in cluster.client.mon("osd dump")["pools"]:
        for pg in cluster.client.pgs(pgids(pool)):
            looked_at += 1
            acting = [osd for osd in pg.acting if f"osd.{osd}" in cluster.daemons]
            machines = {cluster.host_of(f"osd.{osd}").name for osd in acting}
            if len(acting) != pool["size"]:
                short.append(pg.pgid)
            if len(machines) != len(acting):
                shared.append(pg.pgid)
    stage.recorder.witness("PGs checked", got=looked_at, least=1)
    for title, pgs in (("PGs without all their copies", short), ("PGs with two copies on one machine", shared)):
        stage.recorder.observe(title, got=len(pgs), wanted=0, first=pgs[:_SHOWN])


SCENARIOS = tuple(
    Scenario(
        name=f"standing.{look.__name__}",
        goal=goal,
        method=method,
        run=look,
        check="witnessed",
        topology=Topology(native=2, foreign=0),
    )
    for look, goal, method in (
        (
            health,
            "The cluster is healthy as it stands, and not only because health checks are muted.",
            "Reads the status once; fails for each raised check, muted or not.",
        ),
        (quorum, "Every monitor is in quorum, and their clocks agree.", "Reads the quorum and the time-sync status."),
        (versions, "All daemons have one version and their machine's architecture.", "Reads their metadata."),
        (replicas, "Every PG has all its copies, each on another machine.", "Asks every PG's primary for its copies."),
    )
)
