"""What can be seen without touching anything: health, quorum, clocks, versions, and where every replica is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cephlab.lab.ceph.pgs import pgids
from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.scenario.topology import Topology

CLOCK_SKEW_S = 0.05
"""mon_clock_drift_allowed: what monitors themselves take for too much."""

_SHOWN = 3


def health(stage: Stage) -> None:
    """The state that a cluster should be in before anything is done to it."""
    observe, status = stage.recorder.observe, stage.cluster.status()
    observe("health", got=status.health, wanted="HEALTH_OK")
    observe("OSDs up and in", got=[status.osds_up, status.osds_in], wanted=[status.osds, status.osds])
    observe("every PG active+clean", got=status.clean, wanted=True)
    observe("a manager serves", got=status.mgr_available, wanted=True)
    stage.recorder.witness("PGs", got=status.pgs, least=1)


def quorum(stage: Stage) -> None:
    """Every monitor in quorum, their clocks together."""
    client, observe = stage.cluster.client, stage.recorder.observe
    status = client.mon("quorum_status")
    mons = [daemon.id for daemon in stage.cluster.daemons.values() if daemon.kind == "mon"]
    observe("monitors in quorum", got=sorted(status["quorum_names"]), wanted=sorted(mons))
    stage.recorder.witness("monitors that told", got=len(status["quorum_names"]), least=1)
    skews = client.mon("time-sync-status").get("time_skew_status", {})
    late = {name: entry["skew"] for name, entry in skews.items() if abs(float(entry["skew"])) > CLOCK_SKEW_S}
    if len(mons) > 1:  # a monitor alone has nobody to be compared with
        observe(f"monitors whose clock is off by more than {CLOCK_SKEW_S} s", got=late, wanted={}, of=len(skews))


def versions(stage: Stage) -> None:
    """One version, and every daemon of the architecture that its machine is."""
    client, observe = stage.cluster.client, stage.recorder.observe
    observe("versions among all daemons", got=len(client.mon("versions")["overall"]), wanted=1)
    seen = 0
    for kind, key in (("osd", "id"), ("mon", "name"), ("mgr", "name")):
        for entry in client.mon(f"{kind} metadata"):
            seen += 1
            name = f"{kind}.{entry[key]}"
            wanted = stage.cluster.daemon(name).host.arch.value
            observe(f"architecture that {name} reports", got=entry.get("arch"), wanted=wanted)
    stage.recorder.witness("daemons looked at", got=seen, least=1)


def replicas(stage: Stage) -> None:
    """Every PG of every pool has all its copies, no two of them on one machine."""
    cluster = stage.cluster
    pools = cluster.client.mon("osd dump")["pools"]
    short, shared, seen = [], [], 0
    for pool in pools:
        for pg in cluster.client.pgs(pgids(pool)):
            seen += 1
            acting = [osd for osd in pg.acting if f"osd.{osd}" in cluster.daemons]
            machines = [cluster.host_of(f"osd.{osd}").name for osd in acting]
            short += [pg.pgid] if len(acting) != pool["size"] else []
            shared += [pg.pgid] if len(set(machines)) != len(machines) else []
    stage.recorder.witness("PGs looked at", got=seen, least=1)
    _none(stage, "PGs without all their copies", short)
    _none(stage, "PGs with two copies on one machine", shared)


def _none(stage: Stage, what: str, pgs: Sequence[str]) -> None:
    stage.recorder.observe(what, got=len(pgs), wanted=0, first=list(pgs[:_SHOWN]))


LOOKS: Mapping[str, tuple[Callable[[Stage], Any], str, str]] = {
    "health": (health, "It is healthy as it stands.", "Reads the status once."),
    "quorum": (quorum, "Every monitor takes part, and their clocks agree.", "Reads quorum and time-sync status."),
    "versions": (versions, "All daemons are one version, of their machine's architecture.", "Reads their metadata."),
    "replicas": (replicas, "Every PG has all its copies, each on another machine.", "Asks every PG's primary."),
}

SCENARIOS = tuple(
    Scenario(
        name=f"standing.{name}",
        goal=goal,
        method=method,
        run=look,
        check="witnessed",
        topology=Topology(native=2, foreign=0),
    )
    for name, (look, goal, method) in LOOKS.items()
)
