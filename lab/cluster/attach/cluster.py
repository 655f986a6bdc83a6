"""Attaches to an existing cluster: a `Cluster` over guarded hosts. What a run creates there is removed at its end."""

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath

from cephlab.lab.base.errors import CephTrouble, CleanupFailed, SpecError, Unavailable
from cephlab.lab.base.progress import Progress
from cephlab.lab.base.runs import Run
from cephlab.lab.ceph import conf, keyring
from cephlab.lab.ceph.client import RadosClient
from cephlab.lab.ceph.daemon import Daemon, Wanted
from cephlab.lab.cluster.attach.discover import Census, spec_of, take_census
from cephlab.lab.cluster.attach.exporters import Watcher, candidates, watching
from cephlab.lab.cluster.attach.guard import Existing, Guard, NotPermitted
from cephlab.lab.cluster.attach.guarded import GuardedHost, own_folder
from cephlab.lab.cluster.attach.permit import Permit
from cephlab.lab.cluster.attach.units import SystemdUnits, UnitDaemon
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.gateway import Endpoint, load_keys
from cephlab.lab.providers.host import Host
from cephlab.lab.providers.ssh import SshProvider
from cephlab.lab.providers.ssh.lab import SshLab
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.inventory import CephAccess, Inventory, Machine, Role

_AT_ONCE = 16
S3_HINT = "add a table [s3] with endpoints and keys, see docs/attach.md"
_TELLS_A_KEY = re.compile(r"\s*(keyring|keyfile|key)\s*=")
_OP_TIMEOUTS = {"rados_mon_op_timeout": "60", "rados_osd_op_timeout": "120"}
"""A hang must become an error before the test times out, as in the lab's own clusters."""


@dataclass
class AttachedCluster(Cluster):
    """An existing cluster. Its clients run only on the inventory's client machines.

    program_name: the cephx entity to which programs are limited; empty if the list names no pool. watcher: a Prometheus
    on this machine that scrapes the cluster's exporters.
    """

    guarded_hosts: Mapping[str, Host]
    unit_daemons: Mapping[str, Daemon]
    census: Census
    inventory: Inventory
    program_name: str
    guard: Guard
    patience: float = 1.0
    watcher: Watcher | None = None

    @property
    def hosts(self) -> Mapping[str, Host]:
        return self.guarded_hosts

    @property
    def daemons(self) -> Mapping[str, Daemon]:
        return self.unit_daemons

    def load_nodes(self) -> list[str]:
        """Every client machine."""
        return [machine.name for machine in self.inventory.with_role(Role.CLIENT)]

    def host_with(self, arch: Arch) -> Host:
        """The first client machine of an architecture; Unavailable if there is none."""
        for name in self.load_nodes():
            if self.hosts[name].arch is arch:
                return self.hosts[name]
        hint = f"give an {arch} machine the role client"
        raise Unavailable(f"the attached cluster has no {arch} client machine", hint=hint)

    def new_client(self, node: str, *, options: Mapping[str, str] | None = None) -> RadosClient:
        if node not in self.load_nodes():
            raise Unavailable(f"{node} is not a client machine of the attached cluster", hint="give it the role client")
        host = self.hosts[node]
        assert isinstance(host, GuardedHost)
        name = _access(self.inventory).name
        where = guarded_conf(host.directory.parent)
        return RadosClient(host, where, name=name, patience=self.patience, options=options, start=host.start_agent)

    @property
    def client_name(self) -> str:
        """The run's own cephx entity, which Ceph itself limits to the pools on the list."""
        if not self.program_name:
            raise NotPermitted("a program that talks to Ceph, because the list has no pool")
        return self.program_name

    def s3_endpoints(self, buckets: Sequence[str]) -> list[Endpoint]:
        """The S3 endpoints in the inventory, for loads that make these buckets.

        Unavailable if the inventory has none; NotPermitted for a bucket that is not on the list.
        """
        access = self.inventory.s3
        if access is None:
            what = f"{self.inventory.source.name} gives no S3 endpoint of the attached cluster"
            raise Unavailable(what, "s3: missing", S3_HINT)
        for bucket in buckets:
            self.guard.bucket(bucket)
        keys = load_keys(access.keys)
        return [Endpoint(address, *keys) for address in access.endpoints]

    def daemons_changed(self) -> None:
        """Save nothing: another process attaches again by itself."""


def guarded_conf(folder: PurePosixPath) -> PurePosixPath:
    """ceph.conf of the guard's clients, in the lab's folder. `conf.conf_path` is for programs."""
    return folder / "guarded" / "ceph.conf"


@contextmanager
def attach_cluster(
    inventory: Inventory, permit: Permit, run: Run, *, progress: Progress, prometheus: str = ""
) -> Iterator[AttachedCluster]:
    """Connect to the machines and ask the cluster what it has. Leaving the block removes what was created there.

    prometheus: the Prometheus program of this machine that stores the exporters' series; empty: nothing is stored.
    SpecError, with nothing changed, if inventory, list and cluster do not match, or no exporter answers.
    """
    access = _access(inventory)
    if not inventory.with_role(Role.CLIENT):
        raise SpecError(f"{inventory.source} names no client", "no machine has role client", "give a machine that role")
    lab = SshLab(run, inventory.machines)

    def enter(machine: Machine) -> None:
        host = lab.add_machine(machine)
        host.make_directory(own_folder(host))

    with ExitStack() as undo:
        undo.callback(lab.close)
        with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
            list(pool.map(enter, inventory.machines))
        clients = [lab.hosts[machine.name] for machine in inventory.with_role(Role.CLIENT)]
        for host in clients:
            _put_guarded(host, access)
        client = RadosClient(clients[0], guarded_conf(clients[0].directory), name=access.name)
        undo.callback(client.close)
        census = take_census(client, inventory)
        refuse_misfit(permit, census, inventory)
        watcher = None
        if prometheus:
            asked = candidates(inventory.machines, census.placed)
            watcher = undo.enter_context(watching(asked, prometheus, run.directory / "prometheus", progress))
        name = f"client.cephlab-{run.id}" if permit.pools and permit.hosts else ""
        cluster = _cluster(run, inventory, permit, census, lab, name)
        cluster.watcher = watcher
        programs = [cluster.hosts[host.name] for host in clients]
        undo.enter_context(_limited(client, programs, permit, name, access.conf.read_text()))
        progress(f"attached to {census.fsid}: {len(census.daemons)} daemons of {census.release}")
        undo.callback(cluster.close_clients)
        yield cluster


def _cluster(
    run: Run, inventory: Inventory, permit: Permit, census: Census, lab: SshLab, program_name: str
) -> AttachedCluster:
    spec = spec_of(census, inventory)
    attached: list[AttachedCluster] = []

    def pool_names() -> Mapping[int, str]:
        return {pool["poolnum"]: pool["poolname"] for pool in attached[0].client.mon("osd lspools")}

    guard = Guard(permit, Existing(census.pools, census.profiles, census.rules), pool_names)
    hosts: dict[str, Host] = {name: GuardedHost(host, guard, program_name) for name, host in lab.hosts.items()}
    units = {
        machine.name: SystemdUnits(lab.hosts[machine.name], census.fsid, sudo=machine.sudo)
        for machine in inventory.machines
    }
    daemons: dict[str, Daemon] = {
        daemon: UnitDaemon(
            daemon,
            hosts[machine],
            (),
            wanted=Wanted.RUNNING,
            units=keeping(units[machine], daemon),
            permitted=guard.daemon,
        )
        for daemon, machine in census.placed.items()
    }
    cluster = AttachedCluster(run, spec, SshProvider(), hosts, daemons, census, inventory, program_name, guard)
    attached.append(cluster)
    return cluster


def keeping(units: SystemdUnits, daemon: str) -> SystemdUnits | None:
    """The units of a machine if systemd runs the daemon there, else None. SpecError if two units could be it."""
    try:
        if daemon not in units.all():
            return None
    except Unavailable:
        return None
    units.refuse_rival(daemon)
    return units


def refuse_misfit(permit: Permit, census: Census, inventory: Inventory) -> None:
    """SpecError if the list names a pool that exists, or a daemon that does not exist or would not be restored."""
    daemons = {daemon.name for daemon in census.daemons}
    wrong = [
        f"pools: got {name!r}, which already exists; wanted: names that are free"
        for name in sorted(permit.pools & census.pools)
    ]
    wrong += [
        f"daemons: got {name!r}, wanted: one of {', '.join(sorted(daemons))}"
        for name in sorted(permit.daemons - daemons)
    ]
    wrong += [
        f"daemons: got {name!r}, whose weight or primary affinity is not 1; a scenario would leave it at 1"
        for name in sorted(permit.daemons & set(census.changed_weights))
    ]
    if wrong:
        raise SpecError(f"--may-break does not fit the cluster of {inventory.source.name}", "\n".join(wrong))


def _access(inventory: Inventory) -> CephAccess:
    if inventory.ceph is None:
        raise SpecError(f"{inventory.source} does not say how to reach Ceph", "[ceph] is missing", "add a table [ceph]")
    return inventory.ceph


def _put_guarded(host: Host, access: CephAccess) -> None:
    """Copy the cluster's own ceph.conf and keyring to a host, for the guard's clients."""
    path = guarded_conf(host.directory)
    keys = path.with_name("keyring")
    host.make_directory(path.parent)
    host.push(access.keyring.read_bytes(), keys, mode=0o600)
    host.push(with_section(access.conf.read_text(), access.name, keys), path, mode=0o600)


def with_section(text: str, name: str, keys: PurePosixPath) -> bytes:
    """A ceph.conf with a section for an entity: its keyring, and timeouts that end a hang."""
    settings = {"keyring": str(keys), "admin_socket": "", "log_file": "", **_OP_TIMEOUTS}
    lines = [f"[{name}]", *(f"{key} = {value}" for key, value in settings.items())]
    return ("\n".join([text.rstrip("\n"), *lines]) + "\n").encode()


def limited_conf(text: str, name: str, keys: PurePosixPath) -> bytes:
    """A ceph.conf that makes every program use the keyring of one entity, and no other keyring."""
    ours = [line for line in text.splitlines() if not _TELLS_A_KEY.match(line)]
    return with_section("\n".join([*ours, "[global]", f"keyring = {keys}"]), name, keys)


@contextmanager
def _limited(client: RadosClient, hosts: Sequence[Host], permit: Permit, name: str, text: str) -> Iterator[None]:
    """Create the run's own cephx entity, which Ceph limits to the pools on the list. Remove it after the block."""
    if not name:
        yield
        return
    caps = [f"allow rwx pool={pool}" for pool in sorted(permit.pools)]
    wanted = ["mon", "profile rbd", "mgr", "allow r", "osd", ", ".join(caps)]
    granted = client.mon("auth get-or-create", entity=name, caps=wanted)
    keys = keyring.Entity(name, str(granted[0]["key"]), {})
    try:
        for host in hosts:
            where = host.directory / "keyring"
            host.push(keyring.render([keys]), where, mode=0o600)
            host.push(limited_conf(text, name, where), conf.conf_path(host), mode=0o600)
        yield
    finally:
        try:
            client.mon("auth rm", entity=name)
        except CephTrouble as error:
            left = f"{name} is still in the cluster; remove it with `ceph auth rm {name}`: {error}"
            raise CleanupFailed([left]) from error
