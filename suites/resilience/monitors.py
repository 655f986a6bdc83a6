"""Monitors that are lost: some, most, or all with their stores; and a split between the architectures."""

from __future__ import annotations

from lab import clock
from lab.arch import host_arch
from lab.ceph.client import RadosClient
from lab.cluster import Cluster
from lab.errors import CephTrouble
from lab.faults import inflict, layout_of
from lab.faults.daemons import KillDaemon, KillTogether, down
from lab.faults.network import Partition
from lab.scenario import Scenario, Stage, Tier, Topology
from lab.spec import Capability
from lab.telemetry.counters import ask_socket
from suites.resilience.rebuild import rebuild_from_osds
from suites.resilience.trial import EXPECTED, RETURN_S, THREE, linger, loaded

HOLD_S = (2.0, 4.0)
ASKED_S = 5
"""How long a client asks monitors that have no quorum; an answer takes a hundredth of a second otherwise."""
NOTICE_S = 30.0
"""Within this a monitor gives up a quorum that is gone: mon_lease of 5 s, twice, and as long again when busy."""
MIXED = Topology(native=2, foreign=1, mons=3, lone_client=True)
"""Monitors of both architectures, the majority of this machine's own."""


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
    socket = host.directory / "run" / f"{survivor}.asok"
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
    with loaded(stage, restarted=True):
        before = known(cluster)
        rebuild_from_osds(cluster)
        cluster.wait(lambda status: status.all_up, what="every OSD up", timeout_s=RETURN_S)
        recorder.observe("pools and OSDs that the monitors know", got=known(cluster), wanted=before)
    recorder.witness("monitors made anew", got=len(layout_of(cluster).daemons("mon")), least=3)


def known(cluster: Cluster) -> dict[str, list[str]]:
    """Names of pools, and OSDs with their identities."""
    dump = cluster.client.mon("osd dump")
    return {
        "pools": sorted(pool["pool_name"] for pool in dump["pools"]),
        "osds": sorted(f"{entry['osd']} {entry['uuid']}" for entry in dump["osds"]),
    }


def split(stage: Stage) -> None:
    """Cut the nodes of the other architecture off from those of this one."""
    cluster, recorder = stage.cluster, stage.recorder
    hosts = sorted(cluster.hosts.values(), key=lambda host: host.name)
    rest = tuple(host.name for host in hosts if host.arch is host_arch())
    away = tuple(host.name for host in hosts if host.arch is not host_arch())
    with loaded(stage), inflict(Partition(away, rest), cluster, recorder):
        lost = [name for name in layout_of(cluster).daemons("osd") if cluster.host_of(name).name in away]
        sign = down(cluster, lost)
        recorder.witness(sign.what, got=sign.got, least=sign.least)
        linger(stage.rng, *HOLD_S)


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
        method="Loses every packet between nodes of different architecture under a load until OSDs are called down.",
        run=split,
        check="recorded",
        tier=Tier.FULL,
        topology=MIXED,
        needs=frozenset({Capability.CUT_LINKS}),
        expects=EXPECTED,
    ),
)
