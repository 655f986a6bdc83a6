"""Monitors that are lost: some, most, or all with their stores; and a split between the architectures."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

from cephlab.lab.base import clock
from cephlab.lab.base.errors import CephTrouble
from cephlab.lab.ceph import conf
from cephlab.lab.ceph.adminsocket import ask_socket
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.faults import inflict, layout_of
from cephlab.lab.faults.daemons import KillDaemon, KillTogether
from cephlab.lab.faults.network import Partition
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.clusterspec import Capability
from cephlab.lab.workloads.recorded import RecordedLoad
from cephlab.suites.resilience.beyond import beyond
from cephlab.suites.resilience.rebuild import rebuild_from_osds
from cephlab.suites.resilience.trial import RETURN_S, goes_on, linger, loaded, returned, scenario_under_load, under_way

HOLD_S = (2.0, 4.0)
ASKED_S = 5
"""How long a client asks monitors that have no quorum. With a quorum an answer takes a hundredth of a second."""
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
    """Kill two of three monitors: there is no quorum any more, but clients at work go on."""
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
    """Wait until a monitor has noticed that it has no quorum. Until then its lease lets it answer."""
    host = cluster.host_of(survivor)
    socket = conf.socket_path(host, survivor)
    clock.wait(
        lambda: ask_socket(host, socket, "mon_status", patience=cluster.patience)["quorum"],
        lambda quorum: not quorum,
        what=f"{survivor} noticing that it has no quorum",
        timeout_s=NOTICE_S * cluster.patience,
    )


def answers(stage: Stage, cluster: Cluster) -> bool:
    """Whether the monitors answer a new client."""
    options = {"rados_mon_op_timeout": str(ASKED_S)}
    try:
        with closing(cluster.new_client(cluster.client.host.name, options=options)) as client:
            client.call("about", connect_s=round(ASKED_S * cluster.patience))
            client.mon("osd stat")
    except CephTrouble as error:
        stage.recorder.record("refused", what=error.what, detail=error.detail)
        return False
    return True


def rebuilt(stage: Stage) -> None:
    """Every monitor loses its store; all that they knew of OSDs, pools and PGs is gathered from the OSDs.

    Clients at work are restarted. The store held the keys of their tickets, and without them they were seen to wait
    for ever.
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
    """Names of the keys in the monitors' key-value store."""
    return list(cluster.client.mon("config-key ls"))


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
    """The machine without daemons on a side."""
    return next(node for node in side if not layout_of(cluster).nodes[node])


SCENARIOS: tuple[Scenario, ...] = (
    scenario_under_load(
        name="resilience.mon-minority",
        goal="With one of three monitors gone, the cluster decides on and clients notice nothing.",
        method="Kills a monitor under a recorded load; a new client connects meanwhile.",
        run=minority,
        tier=Tier.FULL,
    ),
    scenario_under_load(
        name="resilience.mon-majority",
        goal="With two of three monitors gone nobody decides, clients at work go on, and all returns with the two.",
        method="Kills two monitors at once under a recorded load; a new client is not answered meanwhile.",
        run=majority,
        tier=Tier.FULL,
    ),
    scenario_under_load(
        name="resilience.mon-store-rebuilt",
        goal="When all monitors lose their stores, what the OSDs hold is enough to make them anew; no data is lost.",
        method="Stops all, removes the stores, gathers maps from the OSDs (update-mon-db, rebuild), starts all.",
        run=rebuilt,
        tier=Tier.FULL,
        spoils=True,
    ),
    scenario_under_load(
        name="resilience.split-architectures",
        goal="A network split between the architectures costs no acknowledged write, and heals by itself.",
        method="Loses every packet between nodes of different architecture until OSDs are down; clients on both sides.",
        run=split,
        tier=Tier.FULL,
        topology=MIXED,
        needs=frozenset({Capability.CUT_LINKS}),
    ),
)
