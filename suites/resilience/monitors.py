"""Monitors that are lost: some, most, or all with their stores; and a split between the architectures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lab import clock
from lab.arch import host_arch
from lab.ceph import conf
from lab.ceph.adminsocket import ask_socket
from lab.ceph.client import RadosClient
from lab.cluster import Cluster
from lab.errors import CephTrouble
from lab.faults import inflict, layout_of
from lab.faults.daemons import KillDaemon, KillTogether
from lab.faults.network import Partition
from lab.scenario import Scenario, Stage, Tier, Topology
from lab.spec import Capability
from lab.workloads.recorded import RecordedLoad
from suites.resilience.beyond import beyond
from suites.resilience.rebuild import rebuild_from_osds
from suites.resilience.trial import EXPECTED, RETURN_S, THREE, goes_on, linger, loaded, returned, under_way

HOLD_S = (2.0, 4.0)
ASKED_S = 5
"""How long a client asks monitors that have no quorum; an answer takes a hundredth of a second otherwise."""
NOTICE_S = 30.0
"""Within this a monitor gives up a quorum that is gone: mon_lease of 5 s, twice, and as long again when busy."""
MARK = "cephlab/before-the-loss"
MIXED = Topology(native=2, foreign=1, mons=3, clients=True)
"""Monitors and clients of both architectures, the majority of the monitors this machine's own."""


def minority(stage: Stage) -> None:
    """Kill one of three monitors: the others answer, and clients notice nothing."""
    cluster = stage.cluster
    victim = stage.rng.choice(layout_of(cluster).daemons("mon"))
    with loaded(stage), inflict(KillDaemon(victim), cluster, stage.recorder):
        linger(stage.rng, *HOLD_S)
        answered = answers(stage, cluster)
        stage.recorder.observe(f"a new client is answered while {victim} is away", got=answered, wanted=True)


def majority(stage: Stage) -> None:
    """Kill two of three monitors: nobody decides any more, but clients that are at work go on."""
    cluster, recorder = stage.cluster, stage.recorder
    victims = stage.rng.sample(layout_of(cluster).daemons("mon"), 2)
    (survivor,) = set(layout_of(cluster).daemons("mon")) - set(victims)
    with loaded(stage) as load, inflict(KillTogether(tuple(victims)), cluster, recorder):
        alone(cluster, survivor)
        answered = answers(stage, cluster)
        recorder.observe(f"a new client is answered while {' and '.join(victims)} are away", got=answered, wanted=False)
        before = load.completed()
        linger(stage.rng, *HOLD_S)
        recorder.witness("operations served without a quorum", got=load.completed() - before, least=1)


def alone(cluster: Cluster, survivor: str) -> None:
    """Wait until a monitor has noticed that it has no quorum; until then it answers, as its lease allows it to."""
    host = cluster.host_of(survivor)
    socket = conf.socket_path(host, survivor)
    clock.wait(
        lambda: ask_socket(host, socket, "mon_status", patience=cluster.patience)["quorum"],
        lambda quorum: not quorum,
        what=f"{survivor} noticing that it has no quorum",
        timeout_s=NOTICE_S * cluster.patience,
    )


def answers(stage: Stage, cluster: Cluster) -> bool:
    """Whether the monitors answer somebody who comes anew."""
    client: RadosClient | None = None
    try:
        client = cluster.new_client(cluster.client.host.name, options={"rados_mon_op_timeout": str(ASKED_S)})
        client.call("about", connect_s=round(ASKED_S * cluster.patience))
        client.mon("osd stat")
    except CephTrouble as error:
        stage.recorder.record("refused", what=error.what, detail=error.detail)
        return False
    finally:
        if client is not None:
            client.close()
    return True


def rebuilt(stage: Stage) -> None:
    """Every monitor loses its store; all that they knew of OSDs, pools and PGs is gathered from the OSDs.

    Clients that were at work are restarted: with the store went the keys that their tickets are of, and they were seen
    to wait on for as long as they were let.
    """
    cluster, recorder = stage.cluster, stage.recorder
    cluster.client.mon("config-key set", key=MARK, val=stage.recorder.scenario)
    recorder.observe("the old stores hold a key that OSDs do not know", got=MARK in stored_keys(cluster), wanted=True)
    with loaded(stage, restarted=True):
        before = known(cluster)
        rebuild_from_osds(cluster)
        cluster.wait(lambda status: status.all_up, what="every OSD up", timeout_s=RETURN_S)
        recorder.observe("pools and OSDs that the monitors know", got=known(cluster), wanted=before)
    # Had a store stayed, or had the others filled a new one, the key would be there still.
    gone = int(MARK not in stored_keys(cluster))
    recorder.witness("keys of the old stores that went with them", got=gone, least=1)


def stored_keys(cluster: Cluster) -> list[str]:
    """What the monitors store for others, by name."""
    found: list[str] = cluster.client.mon("config-key ls")
    return found


def known(cluster: Cluster) -> dict[str, list[str]]:
    """Names of pools, and OSDs with their identities."""
    dump = cluster.client.mon("osd dump")
    return {
        "pools": sorted(pool["pool_name"] for pool in dump["pools"]),
        "osds": sorted(f"{entry['osd']} {entry['uuid']}" for entry in dump["osds"]),
    }


def split(stage: Stage) -> None:
    """Cut the nodes of the other architecture off from those of this one, with clients of the same objects on each."""
    cluster, recorder = stage.cluster, stage.recorder
    hosts = sorted(cluster.hosts.values(), key=lambda host: host.name)
    rest = tuple(host.name for host in hosts if host.arch is host_arch())
    away = tuple(host.name for host in hosts if host.arch is not host_arch())
    here, there = (bare(cluster, side) for side in (rest, away))
    with loaded(stage) as load, beyond(stage, load.load.pool, there, away) as looker:
        seed = stage.rng.randrange(1 << 30)
        across = RecordedLoad(cluster, recorder, replace(load.load, name="across", nodes=(here, there), seed=seed))
        across.prepare()
        with across.running():
            under_way(across)
            # Its sign is that the OSDs of the other side were called down: from then on their copies grow stale.
            with inflict(Partition(away, rest), cluster, recorder):
                looker.look()
            returned(cluster, recorder, "across_healthy_s")
            goes_on(across)
        across.verify()


def bare(cluster: Cluster, side: Sequence[str]) -> str:
    """The machine without daemons among some."""
    return next(node for node in side if not layout_of(cluster).nodes[node])


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        name="resilience.mon-minority",
        goal="With one of three monitors gone, the cluster decides on and clients notice nothing.",
        method="Kills a monitor under a recorded load; a new client connects meanwhile.",
        run=minority,
        check="recorded",
        tier=Tier.FULL,
        topology=THREE,
        expects=EXPECTED,
    ),
    Scenario(
        name="resilience.mon-majority",
        goal="With two of three monitors gone nobody decides, clients at work go on, and all returns with the two.",
        method="Kills two monitors at once under a recorded load; a new client is not answered meanwhile.",
        run=majority,
        check="recorded",
        tier=Tier.FULL,
        topology=THREE,
        expects=EXPECTED,
    ),
    Scenario(
        name="resilience.mon-store-rebuilt",
        goal="When all monitors lose their stores, what the OSDs hold is enough to make them anew; no data is lost.",
        method="Stops all, removes the stores, gathers maps from the OSDs (update-mon-db, rebuild), starts all.",
        run=rebuilt,
        check="recorded",
        tier=Tier.FULL,
        topology=THREE,
        spoils=True,
        expects=EXPECTED,
    ),
    Scenario(
        name="resilience.split-architectures",
        goal="A network split between the architectures costs no acknowledged write, and heals by itself.",
        method="Loses every packet between nodes of different architecture until OSDs are down; clients on both sides.",
        run=split,
        check="recorded",
        tier=Tier.FULL,
        topology=MIXED,
        needs=frozenset({Capability.CUT_LINKS}),
        expects=EXPECTED,
    ),
)
