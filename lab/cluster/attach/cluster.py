"""A cluster that exists, attached: the `Cluster` interface over guarded hosts; what was put there is removed again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, NoReturn, cast

from lab.arch import Arch
from lab.attach.discover import Census, spec_of, take_census
from lab.attach.guard import Existing, Guard, NotPermitted
from lab.attach.guarded import GuardedHost
from lab.attach.permit import Permit
from lab.attach.units import UnitDaemon, Units
from lab.ceph import conf, keyring
from lab.ceph.client import RadosClient
from lab.ceph.daemon import Daemon, Wanted
from lab.cluster import Cluster
from lab.deploy.packages import Deployer, Deployment, OsdPlan
from lab.errors import CephTrouble, CleanupFailed, SpecError, Unavailable
from lab.host import Host
from lab.inventory import CephAccess, Inventory, Role
from lab.providers.ssh.lab import SshLab
from lab.runs import Run
from lab.spec import Node

_AT_ONCE = 16
_OP_TIMEOUTS = {"rados_mon_op_timeout": "60", "rados_osd_op_timeout": "120"}
"""A wrong answer must be an error within a test's patience, never a hang; as in the lab's own clusters."""

_NO_SIZING = conf.Sizing(0, 0, 0, "the attached cluster's daemons are sized by whoever made it")


class OwnOptions(dict[str, str]):
    """The options that the lab gives its clusters, of which a cluster that exists has none."""

    def __missing__(self, key: str) -> str:
        raise Unavailable(f"the attached cluster was not given {key} by the lab", hint="choose another --lab")


@dataclass(frozen=True)
class Sealed:
    """The entity that clients are, without its key: a scenario that wants to make keys of it is refused."""

    name: str
    caps: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        raise NotPermitted("the use of the administrator's key")

    def render(self) -> str:
        raise NotPermitted("the use of the administrator's key")


@dataclass
class AttachedCluster(Cluster):
    """What differs where the machines and the cluster were there before. program_name: whom programs are limited to."""

    permit: Permit = field(default_factory=Permit)
    census: Census | None = None
    inventory: Inventory | None = None
    program_name: str = ""

    # Clients: on the inventory's client machines only.

    def _client_names(self) -> list[str]:
        assert self.inventory is not None
        return [machine.name for machine in self.inventory.with_role(Role.CLIENT)]

    @property
    def client(self) -> RadosClient:
        """The client that the lab itself uses, on the inventory's first client machine."""
        return self.client_on(self._client_names()[0])

    def load_nodes(self) -> list[str]:
        """Every client machine."""
        return self._client_names()

    def host_with(self, arch: Arch) -> Host:
        """The first client machine of an architecture; Unavailable where there is none."""
        for name in self._client_names():
            if self.hosts[name].arch is arch:
                return self.hosts[name]
        raise Unavailable(f"the attached cluster has no {arch} client machine", hint="give one the role client")

    def new_client(self, node: str, *, options: Mapping[str, str] | None = None) -> RadosClient:
        if node not in self._client_names():
            raise Unavailable(f"{node} is no client machine of the attached cluster", hint="give it the role client")
        host = self.hosts[node]
        access = _access(self.inventory)
        return RadosClient(host, guarded_conf(host), name=access.name, patience=self.patience, options=options)

    @property
    def client_name(self) -> str:
        """Whom a scenario's own programs are: limited by Ceph itself to the pools on the list."""
        if not self.program_name:
            raise NotPermitted("a program that talks to Ceph, as no pool is on the list")
        return self.program_name

    # Nothing is added to it, taken from it, or kept.

    def add_node(self, node: Node) -> Host:
        self._refuse(f"adding machine {node.name}")

    def add_osd(self, plan: OsdPlan) -> Daemon:
        self._refuse(f"making osd.{plan.id}")

    def move_osd(self, osd_id: int, target: str) -> Daemon:
        self._refuse(f"moving osd.{osd_id} to {target}")

    def respec(self, nodes: Sequence[Node]) -> None:
        self._refuse("changing which machines it has")

    def forget_daemon(self, name: str) -> None:
        self._refuse(f"forgetting {name}")

    def power_off(self) -> None:
        self._refuse("switching it off")

    def keep(self) -> None:
        """It stays whatever happens; what is removed at the end is what the run put there."""

    def save(self) -> None:
        """Nothing: another process attaches anew."""

    def write_client_files(self) -> None:
        """Nothing: whoever has the cluster has them."""

    def _refuse(self, what: str) -> NoReturn:
        raise NotPermitted(what)


class StandingLab:
    """The machines as a `Lab`: none is added, switched off or robbed of a disk."""

    def __init__(self, hosts: Mapping[str, Host]) -> None:
        self._hosts = hosts

    @property
    def hosts(self) -> Mapping[str, Host]:
        return self._hosts

    @property
    def state(self) -> dict[str, Any]:
        return {}

    def add_node(self, node: Node) -> Host:
        raise NotPermitted(f"adding machine {node.name}")

    def kill_node(self, name: str) -> None:
        raise NotPermitted(f"switching {name} off")

    def start_node(self, name: str) -> Host:
        raise NotPermitted(f"switching {name} on")

    def move_disk(self, disk: str, target: str) -> None:
        raise NotPermitted(f"moving disk {disk} to {target}")

    def close(self) -> None:
        raise NotPermitted("removing it")


def guarded_conf(host: Host) -> PurePosixPath:
    """ceph.conf of the guard's clients on a machine; `conf.conf_path` has that of limited programs."""
    return host.directory / "guarded" / "ceph.conf"


@contextmanager
def attach_cluster(
    inventory: Inventory, permit: Permit, run: Run, *, progress: Callable[[str], None]
) -> Iterator[AttachedCluster]:
    """Enter the machines, ask the cluster what there is, and give it; leaving the block removes what was put there.

    SpecError where inventory, list and cluster do not fit together; nothing was changed then.
    """
    access = _access(inventory)
    if not inventory.with_role(Role.CLIENT):
        raise SpecError(f"{inventory.source} names no client", "roles: no machine has client", "give one the role")
    lab = SshLab(run, inventory.machines)
    with ExitStack() as undo:
        undo.callback(lab.close)
        with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
            list(pool.map(lab.add_machine, inventory.machines))
        clients = [lab.hosts[machine.name] for machine in inventory.with_role(Role.CLIENT)]
        for host in clients:
            _put_guarded(host, access)
        client = RadosClient(clients[0], guarded_conf(clients[0]), name=access.name)
        undo.callback(client.close)
        census = take_census(client, inventory)
        refuse_misfit(permit, census, inventory)
        name = f"client.cephlab-{run.id}" if permit.pools and permit.hosts else ""
        undo.enter_context(_limited(client, clients, permit, name))
        cluster = _cluster(run, inventory, permit, census, lab)
        cluster.program_name = name
        progress(f"attached to {census.fsid}: {len(census.daemons)} daemons of {census.release}")
        undo.callback(cluster.close_clients)
        yield cluster


def _cluster(run: Run, inventory: Inventory, permit: Permit, census: Census, lab: SshLab) -> AttachedCluster:
    spec = spec_of(census, inventory)
    names: list[AttachedCluster] = []

    def pool_names() -> Mapping[int, str]:
        return {pool["poolnum"]: pool["poolname"] for pool in names[0].client.mon("osd lspools")}

    guard = Guard(permit, Existing(census.pools, census.profiles, census.rules), pool_names)
    hosts: dict[str, Host] = {name: GuardedHost(host, guard) for name, host in lab.hosts.items()}
    machines = {machine.name: machine for machine in inventory.machines}
    units = {name: Units(host, census.fsid, sudo=machines[name].sudo) for name, host in lab.hosts.items()}
    known = {name: _units_or_none(found) for name, found in units.items()}
    daemons: dict[str, Daemon] = {
        found.name: UnitDaemon(
            found.name,
            hosts[census.placed[found.name]],
            (),
            wanted=Wanted.RUNNING,
            units=_keeping(known[census.placed[found.name]], found.name),
            permitted=guard.daemon,
        )
        for found in census.daemons
    }
    sealed = cast("keyring.Entity", Sealed(_access(inventory).name))
    deployment = Deployment(census.fsid, census.mon_addresses, OwnOptions(), _NO_SIZING, 1.0, sealed, daemons)
    deployer = Deployer(spec, hosts, {}, _NO_SIZING, 1.0, lambda _line: None)
    made = AttachedCluster(
        run, spec, StandingLab(hosts), deployment, deployer, "ssh", permit=permit, census=census, inventory=inventory
    )
    names.append(made)
    return made


def _units_or_none(units: Units) -> Units | None:
    try:
        units.all()
    except Unavailable:
        return None
    return units


def _keeping(units: Units | None, daemon: str) -> Units | None:
    return units if units is not None and daemon in units.all() else None


def refuse_misfit(permit: Permit, census: Census, inventory: Inventory) -> None:
    """SpecError where the list names what must not be touched, or what the cluster does not have."""
    daemons = {found.name for found in census.daemons}
    wrong = [
        f"pools: got {name!r}, which the cluster has already; wanted: names that are free"
        for name in sorted(permit.pools & census.pools)
    ]
    wrong += [
        f"daemons: got {name!r}, wanted: one of {', '.join(sorted(daemons))}"
        for name in sorted(permit.daemons - daemons)
    ]
    wrong += [
        f"daemons: got {name!r}, whose weight or primary affinity is not 1: a scenario would leave it at 1"
        for name in sorted(permit.daemons & set(census.changed_weights))
    ]
    if wrong:
        raise SpecError(f"the list does not fit the cluster of {inventory.source.name}", "\n".join(wrong))


def _access(inventory: Inventory | None) -> CephAccess:
    if inventory is None or inventory.ceph is None:
        where = inventory.source if inventory else "the inventory"
        raise SpecError(f"{where} does not say how to reach Ceph", "ceph: missing", "give it a table [ceph]")
    return inventory.ceph


def _put_guarded(host: Host, access: CephAccess) -> None:
    """The cluster's own ceph.conf and keyring, for the guard's clients."""
    folder = guarded_conf(host).parent
    host.make_directory(folder)
    host.push(access.keyring.read_bytes(), folder / "keyring", mode=0o600)
    host.push(with_section(access.conf.read_text(), access.name, folder / "keyring"), guarded_conf(host), mode=0o600)


def with_section(text: str, name: str, keys: PurePosixPath) -> bytes:
    """A ceph.conf as it is, with an entity's keyring, and with deadlines in place of hangs."""
    settings = {"keyring": str(keys), "admin_socket": "", "log_file": "", **_OP_TIMEOUTS}
    lines = [f"[{name}]", *(f"{key} = {value}" for key, value in settings.items())]
    return ("\n".join([text.rstrip("\n"), *lines]) + "\n").encode()


@contextmanager
def _limited(client: RadosClient, hosts: Sequence[Host], permit: Permit, name: str) -> Iterator[None]:
    """An entity of the run's own, which Ceph itself keeps to the pools on the list; gone afterwards."""
    if not name:
        yield
        return
    caps = [f"allow rwx pool={pool}" for pool in sorted(permit.pools)]
    wanted = ["mon", "profile rbd", "mgr", "allow r", "osd", ", ".join(caps)]
    made = client.mon("auth get-or-create", entity=name, caps=wanted)
    keys = keyring.Entity(name, str(made[0]["key"]), {})
    try:
        text = _without_keyrings(hosts[0].read(guarded_conf(hosts[0])).decode())
        for host in hosts:
            where = host.directory / "keyring"
            host.push(keyring.render([keys]), where, mode=0o600)
            host.push(with_section(text, name, where), conf.conf_path(host), mode=0o600)
        yield
    finally:
        try:
            client.mon("auth rm", entity=name)
        except CephTrouble as error:
            raise CleanupFailed(
                [f"{name} is left in the cluster, remove it by `ceph auth rm {name}`: {error}"]
            ) from error


def _without_keyrings(text: str) -> str:
    """A ceph.conf in which no other entity finds a key."""
    kept = [line for line in text.splitlines() if line.replace("_", " ").split("=")[0].strip() != "keyring"]
    return "\n".join(kept)
