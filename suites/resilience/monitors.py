"""Loss of one monitor, of most, or of all with their stores; and a network split between the architectures."""

import errno
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import PurePosixPath

from cephlab.lab.base import clock
from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.workers import each_at_once
from cephlab.lab.ceph import conf
from cephlab.lab.ceph.client import CephCommandFailed, RadosClient, RadosError
from cephlab.lab.ceph.daemon import Daemon, ask_socket
from cephlab.lab.ceph.objectstore import ObjectStore
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.own import OwnCluster, own
from cephlab.lab.faults import inflict, layout_of
from cephlab.lab.faults.daemons import KillDaemon, KillTogether, start_at_once
from cephlab.lab.faults.network import Partition
from cephlab.lab.providers.host import Host
from cephlab.lab.scenario.scenario import Stage, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.clusterspec import Capability
from cephlab.lab.workloads.recorded import RecordedLoad
from cephlab.suites.limits import copying
from cephlab.suites.resilience.trial import (
    EXPECTED,
    RETURN_S,
    goes_on,
    linger,
    loaded,
    returned,
    scenario_under_load,
    under_way,
)

HOLD_S = (2.0, 4.0)
ASKED_S = 5
"""How long a client waits for an answer without a quorum. With a quorum, it takes a hundredth of a second."""
NOTICE_S = 30.0
"""A monitor notices within this time that its quorum is gone: twice mon_lease (5 s); the rest is for a busy host."""
MARK = "cephlab/before-the-loss"
MIXED = Topology(native=2, foreign=1, mons=3, clients=True)
"""Monitors and clients of both architectures; the majority of the monitors is native."""


def minority(stage: Stage) -> None:
    """Kill one of three monitors: the others answer, and clients keep working."""
    cluster = stage.cluster
    victim = stage.rng.choice(layout_of(cluster).daemons("mon"))
    with loaded(stage) as load, inflict(KillDaemon(victim), cluster, stage.recorder):
        linger(stage.rng, *HOLD_S)
        goes_on(load, f"while {victim} is down")
        answered = answers(stage, cluster)
        stage.recorder.observe(f"a new client is answered while {victim} is down", got=answered, wanted=True)


def majority(stage: Stage) -> None:
    """Kill two of three monitors: the quorum is lost, but connected clients keep working."""
    cluster, recorder = own(stage.cluster), stage.recorder  # the third one is asked at a socket of its machine
    victims = stage.rng.sample(layout_of(cluster).daemons("mon"), 2)
    (survivor,) = set(layout_of(cluster).daemons("mon")) - set(victims)
    with loaded(stage) as load, inflict(KillTogether(tuple(victims)), cluster, recorder):
        wait_without_quorum(cluster, survivor)
        answered = answers(stage, cluster)
        recorder.observe(f"a new client is answered while {' and '.join(victims)} are down", got=answered, wanted=False)
        before = load.completed()
        linger(stage.rng, *HOLD_S)
        recorder.witness("operations served without a quorum", got=load.completed() - before, least=1)


def wait_without_quorum(cluster: Cluster, survivor: str) -> None:
    """Wait until a monitor has noticed that it has no quorum. Until then, its lease allows it to answer."""
    host = cluster.host_of(survivor)
    socket = conf.socket_path(host, survivor)
    clock.wait(
        lambda: ask_socket(host, socket, "mon_status", patience=cluster.patience)["quorum"],
        lambda quorum: not quorum,
        what=f"{survivor} to notice that it has no quorum",
        timeout_s=NOTICE_S * cluster.patience,
    )


def answers(stage: Stage, cluster: Cluster) -> bool:
    """Whether the monitors answer a new client. Any error but a timeout is raised: it says nothing about them."""
    options = {"rados_mon_op_timeout": str(ASKED_S)}
    try:
        with closing(cluster.new_client(cluster.client.host.name, options=options)) as client:
            client.call("about", connect_s=round(ASKED_S * cluster.patience))
            client.mon("osd stat")
    except (RadosError, CephCommandFailed) as error:
        number = error.errno if isinstance(error, RadosError) else -error.code
        if number != errno.ETIMEDOUT:
            raise
        stage.recorder.record("refused", what=error.what, detail=error.detail)
        return False
    return True


def rebuilt(stage: Stage) -> None:
    """Remove the store of every monitor, and rebuild its data on OSDs, pools and PGs from the OSDs.

    Clients are restarted: the stores held the keys of their tickets, and without these keys clients waited for ever.
    """
    cluster, recorder = stage.cluster, stage.recorder
    cluster.client.mon("config-key set", key=MARK, val=stage.recorder.scenario)
    there = MARK in cluster.client.mon("config-key ls")
    recorder.observe("the old stores hold a key that OSDs do not have", got=there, wanted=True)
    with loaded(stage, restarted=True):
        before = pools_and_osds(cluster)
        rebuild_from_osds(cluster)
        cluster.wait(lambda status: status.all_up, what="every OSD up", timeout_s=RETURN_S)
        recorder.observe("pools and OSDs that the monitors know", got=pools_and_osds(cluster), wanted=before)
    # If an old store had survived, or had filled a new one, the key would still be there.
    lost = int(MARK not in cluster.client.mon("config-key ls"))
    recorder.witness("keys lost with the old stores", got=lost, least=1)


def pools_and_osds(cluster: Cluster) -> dict[str, list[str]]:
    """Names of pools, and OSD ids with their UUIDs."""
    dump = cluster.client.mon("osd dump")
    return {
        "pools": sorted(pool["pool_name"] for pool in dump["pools"]),
        "osds": sorted(f"{entry['osd']} {entry['uuid']}" for entry in dump["osds"]),
    }


def split(stage: Stage) -> None:
    """Split the network between the architectures while clients on both sides work on the same objects."""
    cluster, recorder = stage.cluster, stage.recorder
    hosts = sorted(cluster.hosts.values(), key=lambda host: host.name)
    rest = tuple(host.name for host in hosts if host.arch is host_arch())
    away = tuple(host.name for host in hosts if host.arch is not host_arch())
    here, there = (bare(cluster, side) for side in (rest, away))
    with loaded(stage) as load, beyond(stage, load.load.pool, there, away) as looker:
        seed = stage.rng.randrange(1 << 30)
        across = RecordedLoad(cluster, recorder, replace(load.load, name="across", nodes=(here, there), seed=seed))
        both = load.load.most_bytes + across.load.most_bytes
        across.prepare()
        with across.running():
            under_way(across)
            # The fault shows once the other side's OSDs are marked down: from then on their copies are stale.
            with inflict(Partition(away, rest), cluster, recorder):
                looker.look()
            returned(stage, copying(stage, both), "across_healthy_s")
            goes_on(across)
        across.verify()
        looker.look_again()


def bare(cluster: Cluster, side: Sequence[str]) -> str:
    """The machine without daemons on one side of the split."""
    return next(node for node in side if not layout_of(cluster).nodes[node])


_TOOL_S = 120.0


def rebuild_from_osds(cluster: Cluster) -> None:
    """Stop all daemons, remove the stores of all monitors, build a new one from the OSDs, start all daemons.

    https://docs.ceph.com/en/reef/rados/troubleshooting/troubleshooting-mon/#recovery-using-osds describes it.

    The manual says what is lost, because OSDs do not have it: options in the monitors' database, and the cluster log.
    The lab restores the one option that it had set there.
    """
    cluster = own(cluster)
    daemons = sorted(cluster.daemons.values(), key=lambda daemon: daemon.name)
    keys = _keys(cluster)
    cluster.close_clients()
    # Not Cluster.stop, which waits until the monitors have noticed that each daemon is down.
    each_at_once([partial(daemon.stop, patience=cluster.patience) for daemon in daemons])
    mons = [daemon for daemon in daemons if daemon.kind == "mon"]
    for mon in mons:
        mon.host.remove(mon.host.directory / mon.name / "store.db")
    content = _gather(cluster, [daemon for daemon in daemons if daemon.kind == "osd"])
    first = mons[0]
    _unpack(first.host, content, first.host.directory / "gathered")
    _rebuild(cluster, first, mons, keys)
    whole = _pack(first.host, first.host.directory / "gathered")
    for mon in mons:
        _unpack(mon.host, whole, mon.host.directory / mon.name)
    first.host.remove(first.host.directory / "gathered")
    start_at_once(cluster, [daemon.name for daemon in mons])
    cluster.deployer.confine_managers(cluster.client)
    start_at_once(cluster, [daemon.name for daemon in daemons])


def _keys(cluster: OwnCluster) -> bytes:
    """Keys and capabilities of monitors, managers and the administrator, which OSDs do not have."""
    wanted = ["mon.", cluster.deployment.admin.name]
    wanted += [name for name in sorted(cluster.daemons) if name.startswith("mgr.")]
    return b"\n".join(cluster.client.command("mon", "auth get", entity=name) for name in wanted)


def _gather(cluster: Cluster, osds: list[Daemon]) -> bytes:
    """Let each OSD in turn add its maps to a monitor store, which is carried from host to host as a tar."""
    content = b""
    for osd in osds:
        folder = osd.host.directory / "gathered"
        osd.host.remove(folder)
        osd.host.make_directory(folder)
        if content:
            _unpack(osd.host, content, folder)
        ObjectStore(osd, cluster.patience).tool("--op", "update-mon-db", "--mon-store-path", str(folder))
        content = _pack(osd.host, folder)
        osd.host.remove(folder)
    return content


def _rebuild(cluster: OwnCluster, first: Daemon, mons: list[Daemon], keys: bytes) -> None:
    """Turn the gathered data into a monitor store."""
    host = first.host
    secret = host.directory / "rebuild.keyring"
    host.push(keys, secret, mode=0o600)
    # In the order of mon_host, from which the tool takes the addresses.
    names = [name for name in cluster.deployment.mon_addresses if f"mon.{name}" in {mon.name for mon in mons}]
    argv = ["ceph-monstore-tool", str(host.directory / "gathered"), "rebuild", "--", "--keyring", str(secret)]
    argv += ["--mon-ids", *names]
    try:
        host.run(argv, env={"CEPH_CONF": str(conf.conf_path(host))}, timeout_s=_TOOL_S * cluster.patience)
    finally:
        host.remove(secret)


def _pack(host: Host, folder: PurePosixPath) -> bytes:
    """A tar of the store and of the file next to it that names its key-value backend."""
    return host.run(["tar", "--create", "--directory", str(folder), "."], timeout_s=_TOOL_S).stdout_bytes


def _unpack(host: Host, content: bytes, folder: PurePosixPath) -> None:
    host.make_directory(folder)
    host.run(["tar", "--extract", "--directory", str(folder)], stdin=content, timeout_s=_TOOL_S)


OBJECTS = 2
ROUNDS = 2
TRIED = 64
"""Names to try. With three OSDs, each is the primary of every third object."""
ANSWER_S = 3
"""Time to wait for an answer, before patience. An answer takes a hundredth of a second."""
CONNECT_S = 60


@dataclass(frozen=True)
class LookBeyond:
    """One read across the split. wrote: version acknowledged on the majority side; read: version read, or None."""

    name: str
    wrote: int
    read: int | None


def stale(looks: Iterable[LookBeyond]) -> list[str]:
    """Reads that returned an older version than was acknowledged before they started."""
    return [
        f"{look.name}: got {look.read}, {look.wrote} was acknowledged"
        for look in looks
        if look.read is not None and look.read < look.wrote
    ]


@dataclass
class Beyond:
    """A client on the minority side. away: nodes of that side; names: objects whose primary OSD was on them."""

    stage: Stage
    pool: str
    away: Sequence[str]
    names: Sequence[str]
    client: RadosClient

    def look(self) -> None:
        """Write on the majority side, then read on the other, several times. Observe that no read is stale."""
        looks = [self._look(name, version) for version in range(1, ROUNDS + 1) for name in self.names]
        recorder = self.stage.recorder
        elsewhere = len(self.names) - len(led_there(self.stage.cluster, self.pool, self.away, self.names))
        recorder.witness("objects with another primary on the majority side", got=elsewhere, least=OBJECTS)
        recorder.observe("stale values read across the split", got=stale(looks), wanted=[], of=len(looks))

    def look_again(self) -> None:
        """Read every object again after the split: whoever cannot read at all would have seen nothing stale either."""
        read = clock.wait(
            lambda: {name: self._read(name) for name in self.names},
            lambda values: None not in values.values(),
            what="an answer to the client on the minority side after the split",
            timeout_s=RETURN_S * self.stage.cluster.patience,
        )
        wanted = dict.fromkeys(self.names, ROUNDS)
        self.stage.recorder.observe("values read on the minority side after the split", got=read, wanted=wanted)

    def _look(self, name: str, version: int) -> LookBeyond:
        self.stage.cluster.client.write_full(self.pool, name, str(version).encode())
        look = LookBeyond(name, version, self._read(name))
        self.stage.recorder.record("look", **asdict(look))
        return look

    def _read(self, name: str) -> int | None:
        """The version that is read; None if there is no answer: the OSD waits for peers that it cannot reach."""
        try:
            return int(self.client.read(self.pool, name))
        except RadosError as error:
            if error.errno != errno.ETIMEDOUT:
                raise
            return None


@contextmanager
def beyond(stage: Stage, pool: str, node: str, away: Sequence[str]) -> Iterator[Beyond]:
    """Start a client on a node of the minority side, and read every object with it before the network is cut."""
    cluster = stage.cluster
    names = led_there(cluster, pool, away, [f"beyond.{number}" for number in range(TRIED)])[:OBJECTS]
    if len(names) < OBJECTS:
        detail = f"{len(names)} of {TRIED} names tried, wanted {OBJECTS}"
        raise LabBroken(f"OSDs of {', '.join(away)} are primary of too few objects in {pool}", detail)
    for name in names:
        cluster.client.write_full(pool, name, b"0")
    # Only monitors of its own side: the others would give it maps that its side cannot have.
    mons = [address for mon, address in own(cluster).deployment.mon_addresses.items() if mon in away]
    options = {
        "rados_osd_op_timeout": str(round(ANSWER_S * cluster.patience)),
        "mon_host": conf.mon_host(mons),
    }
    with closing(cluster.new_client(node, options=options)) as client:
        client.call("about", connect_s=round(CONNECT_S * cluster.patience))
        for name in names:
            client.read(pool, name)
        yield Beyond(stage, pool, away, names, client)


def led_there(cluster: Cluster, pool: str, away: Sequence[str], names: Sequence[str]) -> list[str]:
    """Those of some objects whose primary is on one of these nodes."""
    osds = {osd for osd in cluster.osd_ids() if cluster.host_of(f"osd.{osd}").name in away}
    return [name for name in names if pools.locate(cluster, pool, name)["acting_primary"] in osds]


LOST_TICKETS = {
    r"^cephx: .* could not decrypt ticket info": "The keys of old tickets were lost with the stores. Clients show them "
    "every 15 s until the scenario restarts them (clients-hang-on-rebuild in docs/track-record.md)."
}

SCENARIOS = (
    scenario_under_load(
        name="resilience.mon-minority",
        goal="With one of three monitors down, the others keep the quorum and clients keep working.",
        method="Kills a monitor under a recorded load, then connects a new client while it is down.",
        run=minority,
        tier=Tier.FULL,
    ),
    scenario_under_load(
        name="resilience.mon-majority",
        goal="With two of three monitors down, the quorum is lost, connected clients keep working, and Ceph recovers.",
        method="Kills two monitors at once under a recorded load, then checks that a new client gets no answer.",
        run=majority,
        tier=Tier.FULL,
    ),
    scenario_under_load(
        name="resilience.mon-store-rebuilt",
        goal="When all monitors lose their stores, the OSDs hold enough to rebuild them, and no data is lost.",
        method="Stops daemons, removes the stores, rebuilds them from the OSDs (update-mon-db, rebuild), starts all.",
        run=rebuilt,
        tier=Tier.FULL,
        spoils=True,
        expects={**EXPECTED, **LOST_TICKETS},
    ),
    scenario_under_load(
        name="resilience.split-architectures",
        goal="A network split between the architectures loses no acknowledged write, and the cluster heals by itself.",
        method="Drops packets between the architectures until OSDs are marked down, with clients on both sides.",
        run=split,
        tier=Tier.FULL,
        topology=MIXED,
        needs=frozenset({Capability.CUT_LINKS}),
    ),
)
