"""Lost monitors: some, most, or all with their stores; and a network split between the architectures."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

from cephlab.lab.base import clock
from cephlab.lab.base.errors import CephTrouble
from cephlab.lab.ceph import conf
from cephlab.lab.ceph.daemon import ask_socket
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.faults import inflict, layout_of
from cephlab.lab.faults.daemons import KillDaemon, KillTogether
from cephlab.lab.faults.network import Partition
from cephlab.lab.scenario.scenario import Stage, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.clusterspec import Capability
from cephlab.lab.workloads.recorded import RecordedLoad
from cephlab.suites.resilience.beyond import beyond
from cephlab.suites.resilience.rebuild import rebuild_from_osds
from cephlab.suites.resilience.trial import RETURN_S, goes_on, linger, loaded, returned, scenario_under_load, under_way

HOLD_S = (2.0, 4.0)
ASKED_S = 5
"""How long a client asks monitors without a quorum. With a quorum, an answer takes a hundredth of a second."""
NOTICE_S = 30.0
"""Within this a monitor notices that its quorum is gone: twice mon_lease of 5 s, and as long again when busy."""
MARK = "cephlab/before-the-loss"
MIXED = Topology(native=2, foreign=1, mons=3, clients=True)
"""Monitors and clients of both architectures; the majority of the monitors is native."""


def minority(stage: Stage) -> None:
    """Kill one of three monitors: the others answer, and clients go on."""
    cluster = stage.cluster
    victim = stage.rng.choice(layout_of(cluster).daemons("mon"))
    with loaded(stage), inflict(KillDaemon(victim), cluster, stage.recorder):
        linger(stage.rng, *HOLD_S)
        answered = answers(stage, cluster)
        stage.recorder.observe(f"a new client is answered while {victim} is away", got=answered, wanted=True)


def majority(stage: Stage) -> None:
    """Kill two of three monitors: the quorum is lost, but clients at work go on."""
    cluster, recorder = stage.cluster, stage.recorder
    victims = stage.rng.sample(layout_of(cluster).daemons("mon"), 2)
    (survivor,) = set(layout_of(cluster).daemons("mon")) - set(victims)
    with loaded(stage) as load, inflict(KillTogether(tuple(victims)), cluster, recorder):
        wait_without_quorum(cluster, survivor)
        answered = answers(stage, cluster)
        recorder.observe(f"a new client is answered while {' and '.join(victims)} are away", got=answered, wanted=False)
        before = load.completed()
        linger(stage.rng, *HOLD_S)
        recorder.witness("operations served without a quorum", got=load.completed() - before, least=1)


def wait_without_quorum(cluster: Cluster, survivor: str) -> None:
    """Wait until a monitor has noticed that it has no quorum. Until then, its lease lets it answer."""
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
    """Remove every monitor's store, and rebuild what it held of OSDs, pools and PGs from the OSDs.

    Clients at work are restarted: the store held the keys of their tickets, and without them they waited for ever.
    """
    cluster, recorder = stage.cluster, stage.recorder
    cluster.client.mon("config-key set", key=MARK, val=stage.recorder.scenario)
    there = MARK in cluster.client.mon("config-key ls")
    recorder.observe("the old stores hold a key that OSDs do not know", got=there, wanted=True)
    with loaded(stage, restarted=True):
        before = pools_and_osds(cluster)
        rebuild_from_osds(cluster)
        cluster.wait(lambda status: status.all_up, what="every OSD up", timeout_s=RETURN_S)
        recorder.observe("pools and OSDs that the monitors know", got=pools_and_osds(cluster), wanted=before)
    # If an old store had survived, or had filled a new one, the key would still be there.
    gone = int(MARK not in cluster.client.mon("config-key ls"))
    recorder.witness("keys lost with the old stores", got=gone, least=1)


def pools_and_osds(cluster: Cluster) -> dict[str, list[str]]:
    """Names of pools, and OSDs with their identities."""
    dump = cluster.client.mon("osd dump")
    return {
        "pools": sorted(pool["pool_name"] for pool in dump["pools"]),
        "osds": sorted(f"{entry['osd']} {entry['uuid']}" for entry in dump["osds"]),
    }


def split(stage: Stage) -> None:
    """Split the network between the architectures, with clients of the same objects on both sides."""
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
            # The fault's sign is that the OSDs of the other side are marked down: from then on their copies are stale.
            with inflict(Partition(away, rest), cluster, recorder):
                looker.look()
            returned(cluster, recorder, "across_healthy_s")
            goes_on(across)
        across.verify()


def bare(cluster: Cluster, side: Sequence[str]) -> str:
    """The machine without daemons on a side."""
    return next(node for node in side if not layout_of(cluster).nodes[node])


SCENARIOS = (
    scenario_under_load(
        name="resilience.mon-minority",
        goal="With one of three monitors gone, the others keep the quorum and clients go on.",
        method="Kills a monitor under a recorded load; a new client connects meanwhile.",
        run=minority,
        tier=Tier.FULL,
    ),
    scenario_under_load(
        name="resilience.mon-majority",
        goal="With two of three monitors gone, the quorum is lost, clients at work go on, and the cluster recovers.",
        method="Kills two monitors at once under a recorded load; a new client gets no answer meanwhile.",
        run=majority,
        tier=Tier.FULL,
    ),
    scenario_under_load(
        name="resilience.mon-store-rebuilt",
        goal="When all monitors lose their stores, the OSDs hold enough to rebuild them, and no data is lost.",
        method="Stops all, removes the stores, gathers maps from the OSDs (update-mon-db, rebuild), starts all.",
        run=rebuilt,
        tier=Tier.FULL,
        spoils=True,
    ),
    scenario_under_load(
        name="resilience.split-architectures",
        goal="A network split between the architectures costs no acknowledged write, and heals by itself.",
        method="Drops packets between the architectures until OSDs are down; clients on both sides.",
        run=split,
        tier=Tier.FULL,
        topology=MIXED,
        needs=frozenset({Capability.CUT_LINKS}),
    ),
)
