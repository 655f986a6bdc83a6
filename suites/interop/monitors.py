"""Monitors of both architectures in one quorum: one fails, the others serve, and the lost one catches up on return."""

import errno
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from random import Random

from cephlab.lab.base import clock
from cephlab.lab.base.errors import try_all
from cephlab.lab.ceph import conf
from cephlab.lab.ceph.client import RadosClient, RadosError
from cephlab.lab.ceph.offline import run_tool
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.suites.expected import MON_TERMINATED
from cephlab.suites.interop.mirror import Mirror

# Elections at the pace of native monitors. With the defaults an emulated monitor takes a minute per outage.
TOPOLOGY = Topology(native=2, foreign=1, mons=3, options=(("mon_election_timeout", "2"), ("mon_lease", "2")))
PG_NUM = 4
COMMITS = 10  # changes that the stopped monitor misses
OBJECT_BYTES = 64 << 10
LAST_KEY = f"interop/{COMMITS - 1}"
QUORUM_S = 60.0
IDS_S = 15.0

EXPECTED = {
    r"log_channel\(cluster\) log \[WRN\] : Health check (failed|update): .*\(MON_DOWN\)": (
        "The scenario stopped that monitor."
    ),
    r"\[WRN\] : (Health detail: HEALTH_WARN \d/\d mons? down|\[WRN\] MON_DOWN: | +mon\.\S+ \(rank \d\) .* is down)": (
        "A new leader repeats the health details about the monitor that the scenario stopped."
    ),
    **MON_TERMINATED,
    r"log_channel\(cluster\) log \[WRN\] : Health check (failed|update): .*\(MON_CLOCK_SKEW\)": (
        "An emulated monitor answers its first clock probes late."
    ),
}


@dataclass(frozen=True)
class Loss:
    """The architectures of the leader and of the monitor that the scenario stops.

    A barred monitor may not lead even when the leader is lost. So the scenario stops the leader itself only if no other
    monitor is barred, that is, if the leader is the first in the map.
    """

    leader: Arch
    victim: Arch


def outages(stage: Stage, losses: tuple[Loss, ...], *, wipe: bool = False) -> None:
    """For each loss, choose a leader and stop a monitor, write and read meanwhile, and compare the stores.

    wipe: the stopped monitor also loses its store.
    """
    cluster = stage.cluster
    with pools.pool(cluster, "quorum", pg_num=PG_NUM) as pool, chosen_leaders(cluster):
        mirror = Mirror(cluster.client, pool)
        for number, loss in enumerate(losses, 1):
            lead(cluster, first_of(cluster, loss.leader))
            outage(stage, mirror, first_of(cluster, loss.victim), number, wipe=wipe)
        names = cluster.client.mon("quorum_status")["quorum_names"]
        archs = {cluster.daemon(f"mon.{name}").host.arch for name in names}
        stage.recorder.witness("architectures in the quorum", got=len(archs), least=2)
        mirror.verify(cluster.client, stage.recorder, "after every outage")


def outage(stage: Stage, mirror: Mirror, victim: str, number: int, *, wipe: bool) -> None:
    cluster, recorder = stage.cluster, stage.recorder
    # Each outage has a new value, so that a value from an earlier outage cannot pass for what this one missed.
    value = f"{victim} in outage {number}"
    recorder.record("outage", monitor=victim, arch=cluster.daemon(victim).host.arch.value, leader=leader(cluster))
    cluster.stop(victim)
    rest = sorted(name.partition(".")[2] for name in monitors(cluster) if name != victim)
    in_quorum(cluster, rest)
    before = committed(cluster, f"mon.{rest[0]}")
    serve(cluster, mirror, stage.rng, value)
    missed = committed(cluster, f"mon.{rest[0]}")["paxos"] - before["paxos"]
    recorder.witness(f"commits that {victim} missed", got=missed, least=COMMITS)
    mirror.verify(cluster.client, recorder, f"while {victim} is away")
    recorder.record("store", monitor=victim, kept=not wipe)
    if wipe:
        wiped(stage, victim)
    start(cluster, victim)
    if wipe:
        with_ticks(stage, victim)
    agree(stage, victim)
    with only(cluster, victim) as client:
        answer = client.command("mon", "config-key get", key=LAST_KEY).decode()
    recorder.observe(f"value set during the outage, read from {victim}", got=answer, wanted=value)


def lost_leader(stage: Stage) -> None:
    """Make a foreign monitor the first in the map, so that it leads, and stop it."""
    cluster = stage.cluster
    wanted = first_of(cluster, THERE)
    for name in in_order(cluster)[: in_order(cluster).index(wanted)]:
        to_the_end(stage, name)
    stage.recorder.observe("the first monitor in the map", got=in_order(cluster)[0], wanted=wanted)
    outages(stage, (Loss(leader=THERE, victim=THERE),))
    stage.recorder.observe("the leader at the end", got=leader(cluster), wanted=wanted)


def to_the_end(stage: Stage, monitor: str) -> None:
    """Remove a monitor and add it again with an empty store, which makes it the last in the map."""
    cluster = stage.cluster
    name, address = monitor.partition(".")[2], cluster.host_of(monitor).address
    cluster.stop(monitor)
    in_quorum(cluster, [mon.partition(".")[2] for mon in monitors(cluster) if mon != monitor])
    cluster.client.mon("mon remove", name=name)
    cluster.client.mon("mon add", name=name, addr=f"v2:{address}:{conf.MON_PORT}")
    wiped(stage, monitor)
    start(cluster, monitor)
    with_ticks(stage, monitor)


@contextmanager
def chosen_leaders(cluster: Cluster) -> Iterator[None]:
    """Inside the block monitors can be barred from leading. Without that the first in the map always leads."""
    cluster.client.mon("mon set election_strategy", strategy="disallow")
    try:
        yield
    finally:
        mon = cluster.client.mon
        try_all(
            [
                lambda: try_all(
                    partial(mon, "mon rm disallowed_leader", name=name) for name in barred_leaders(cluster)
                ),
                partial(mon, "mon set election_strategy", strategy="classic"),
                partial(all_in_quorum, cluster),
            ]
        )


def lead(cluster: Cluster, monitor: str) -> None:
    """Bar the monitors before this one in the map, and wait until it leads."""
    name = monitor.partition(".")[2]
    everyone = [mon.partition(".")[2] for mon in in_order(cluster)]
    for barred in barred_leaders(cluster):
        cluster.client.mon("mon rm disallowed_leader", name=barred)
    for better in everyone[: everyone.index(name)]:
        cluster.client.mon("mon add disallowed_leader", name=better)
    clock.wait(
        lambda: leader(cluster),
        lambda now: now == monitor,
        what=f"{monitor} leading",
        timeout_s=QUORUM_S * cluster.patience,
    )
    in_quorum(cluster, everyone)


def barred_leaders(cluster: Cluster) -> list[str]:
    text = str(cluster.client.mon("mon dump").get("disallowed_leaders: ", ""))
    return [name.strip() for name in text.split(",") if name.strip()]


def serve(cluster: Cluster, mirror: Mirror, rng: Random, value: str) -> None:
    """Write to the pool, and make changes that the monitors must commit. value: the value that the changes set."""
    mirror.full(f"during {value}", rng.randbytes(OBJECT_BYTES))
    for number in range(COMMITS):
        cluster.client.command("mon", "config-key set", key=f"interop/{number}", val=value)


def agree(stage: Stage, returned: str) -> None:
    """Wait until the returned monitor holds all that the leader had committed when it returned."""
    cluster = stage.cluster
    wanted = committed(cluster, leader(cluster))
    clock.wait(
        lambda: committed(cluster, returned),
        lambda now: all(now[store] >= version for store, version in wanted.items()),
        what=f"{returned} at {wanted}",
        timeout_s=QUORUM_S * cluster.patience,
    )


def wiped(stage: Stage, victim: str) -> None:
    """Replace the store of the stopped monitor with an empty one, as after the loss of its disk.

    What the monitor has once it is back, it has from the others only if nothing was left in its store.
    """
    cluster = stage.cluster
    daemon = cluster.daemon(victim)
    host = daemon.host
    store, monmap, seed = host.directory / victim, host.directory / "monmap", host.directory / "mon.keyring"
    host.push(cluster.client.command("mon", "mon getmap"), monmap)
    secret, before = host.read(store / "keyring"), commits(cluster, victim)
    host.remove(store)
    host.make_directory(store)
    try:
        host.push(secret, seed, mode=0o600)
        argv = ["ceph-mon", "--mkfs", "-i", daemon.id, "-c", str(conf.conf_path(host)), "--monmap", str(monmap)]
        run_tool(host, [*argv, "--keyring", str(seed)], timeout_s=QUORUM_S * cluster.patience, log=daemon.log)
    finally:
        host.remove(seed)
    stage.recorder.witness(f"commits in the store of {victim} before it was emptied", got=before, least=COMMITS)
    stage.recorder.observe(f"commits in the emptied store of {victim}", got=commits(cluster, victim), wanted=0)


def commits(cluster: Cluster, victim: str) -> int:
    """How many Paxos commits the store of a stopped monitor has."""
    daemon = cluster.daemon(victim)
    argv = ["ceph-monstore-tool", str(daemon.host.directory / victim), "dump-keys"]
    keys = run_tool(daemon.host, argv, timeout_s=QUORUM_S * cluster.patience, log=daemon.log).stdout.splitlines()
    return sum(prefix == "paxos" and name.isdecimal() for prefix, _, name in (key.partition(" / ") for key in keys))


def with_ticks(stage: Stage, monitor: str) -> None:
    """Restart a monitor that gives new clients no id, and record that as a defect.

    A monitor with an emptied store can cancel its own tick, which asks the leader for ids (docs/track-record.md). Ceph
    has this defect on any architecture. Without the restart the run could not test what it is meant to test.
    """
    cluster = stage.cluster
    if gives_ids(cluster, monitor):
        return
    stage.recorder.record("defect", monitor=monitor, seen="it gives no id to a new client", done="restarted")
    cluster.stop(monitor)
    start(cluster, monitor)


def gives_ids(cluster: Cluster, monitor: str) -> bool:
    """Whether a new client that knows only this monitor can connect within many ticks."""
    with only(cluster, monitor) as client:
        try:
            client.call("about", connect_s=round(IDS_S * cluster.patience))
        except RadosError as error:
            if error.errno != errno.ETIMEDOUT:
                raise
            return False
    return True


def in_quorum(cluster: Cluster, names: list[str]) -> None:
    """Wait until exactly these monitors form the quorum."""
    cluster.wait(
        lambda status: sorted(status.quorum) == sorted(names), what=f"quorum of {', '.join(names)}", timeout_s=QUORUM_S
    )


def all_in_quorum(cluster: Cluster) -> None:
    in_quorum(cluster, [name.partition(".")[2] for name in monitors(cluster)])


def start(cluster: Cluster, monitor: str) -> None:
    """Start a monitor, and wait until all monitors are in the quorum."""
    cluster.start(monitor)
    all_in_quorum(cluster)


def monitors(cluster: Cluster) -> list[str]:
    return sorted(daemon.name for daemon in cluster.daemons.values() if daemon.kind == "mon")


def leader(cluster: Cluster) -> str:
    return f"mon.{cluster.client.mon('quorum_status')['quorum_leader_name']}"


def committed(cluster: Cluster, monitor: str) -> dict[str, int]:
    """The last committed versions in one monitor's own store, of Paxos and of the maps."""
    with only(cluster, monitor) as client:
        report = client.mon("report")
    maps = {name: int(report[f"{name}_last_committed"]) for name in ("monmap", "osdmap")}
    return {"paxos": int(report["paxos"]["last_committed"]), **maps}


def only(cluster: Cluster, monitor: str) -> closing[RadosClient]:
    """A client that knows only this monitor, so that answers come from this monitor's own store."""
    options = {"mon_host": conf.mon_host([cluster.host_of(monitor).address])}
    return closing(cluster.new_client(cluster.client.host.name, options=options))


def first_of(cluster: Cluster, arch: Arch) -> str:
    return next(name for name in in_order(cluster) if cluster.daemon(name).host.arch is arch)


def in_order(cluster: Cluster) -> list[str]:
    """The monitors in the map's order. The first leads unless it is barred."""
    return [f"mon.{entry['name']}" for entry in cluster.client.mon("mon dump")["mons"]]


HERE = host_arch()
THERE = HERE.other
QUICK_LOSSES = (Loss(leader=HERE, victim=HERE), Loss(leader=THERE, victim=HERE))
ALL_LOSSES = (*QUICK_LOSSES, Loss(leader=HERE, victim=THERE))
WIPED = (Loss(leader=HERE, victim=THERE), Loss(leader=THERE, victim=HERE))
monitors_scenario = partial(Scenario, check="witnessed", topology=TOPOLOGY, expects=EXPECTED)

SCENARIOS: tuple[Scenario, ...] = (
    monitors_scenario(
        name="interop.monitors-lost",
        run=partial(outages, losses=QUICK_LOSSES),
        tier=Tier.QUICK,
        goal="A quorum of both architectures, led by either, survives the loss of a monitor, which then catches up.",
        method="Lets a monitor of each architecture lead, stops one, commits and writes, starts it, compares stores.",
    ),
    monitors_scenario(
        name="interop.monitors-lost-each",
        run=partial(outages, losses=ALL_LOSSES),
        tier=Tier.FULL,
        goal="Whichever architecture leads or loses a monitor, the rest serves and the lost monitor catches up.",
        method="For each pair of leader and lost monitor, commits and writes during the outage; compares the stores "
        "after it.",
    ),
    monitors_scenario(
        name="interop.monitors-wiped",
        run=partial(outages, losses=WIPED, wipe=True),
        tier=Tier.FULL,
        goal="A monitor that lost its store gets it back from a leader of the other architecture.",
        method="Gives a stopped monitor an empty store and lets it synchronise fully, in both directions.",
    ),
    monitors_scenario(
        name="interop.monitors-lost-leader",
        run=lost_leader,
        tier=Tier.FULL,
        spoils=True,
        goal="A quorum survives the loss of a foreign leader, which then catches up and leads again.",
        method="Makes a foreign monitor the first in the map by removing and adding others; stops it, commits, and "
        "starts it again.",
    ),
)
