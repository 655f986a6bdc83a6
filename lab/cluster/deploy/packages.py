"""Deployer `packages`: starts daemons directly from the image, as vstart does, with many steps in parallel."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from cephlab.lab.base import clock
from cephlab.lab.base.progress import Progress
from cephlab.lab.ceph import conf, keyring
from cephlab.lab.ceph.client import RadosClient
from cephlab.lab.ceph.daemon import Daemon, start_monitors
from cephlab.lab.ceph.offline import run_tool
from cephlab.lab.providers.host import Host, has_own_kernel, preloading
from cephlab.lab.services import SERVICES, daemons_on, service_of
from cephlab.lab.services.osd import SHIM_NAME
from cephlab.lab.spec.clusterspec import ClusterSpec, Node, Osd

_MKFS_PATIENCE_S = 120.0
_LOOK_S = 0.25
_GRACE = "mon_mgr_beacon_grace"
_GRACE_S, _YOUNG_GRACE_S = 30.0, 8.0
"""Ceph's default, and what monitors get while their machine has been up for less than that."""
_MARGIN_S = 2.0
"""The clocks of two guests do not run alike."""


@dataclass(frozen=True)
class Deployment:
    """The result of a deployment. `Cluster` adds verbs. patience: factor on every timeout."""

    fsid: str
    mon_addresses: Mapping[str, str]
    options: Mapping[str, str]
    sizing: conf.Sizing
    patience: float
    admin: keyring.Entity
    daemons: dict[str, Daemon] = field(default_factory=dict)


@dataclass(frozen=True)
class Deployer:
    """Installs Ceph on existing hosts. shims: emulated host -> its libaio substitute, a file on this machine."""

    spec: ClusterSpec
    hosts: Mapping[str, Host]
    shims: Mapping[str, Path]
    sizing: conf.Sizing
    patience: float
    progress: Progress
    identities: Mapping[str, str] = field(default_factory=dict)
    """Hosts that replaced another host: name -> name in Ceph."""

    def deploy(self, deployment: Deployment | None = None, *, abort: Callable[[], None] | None = None) -> RadosClient:
        """Start every daemon of the spec; returns the lab's client once all have been started.

        deployment: gets the daemons as they are made. abort: called when a step fails or is interrupted. It should end
        the work of the other threads, because they are waited for next. Raises DaemonDied as soon as a daemon dies.
        """
        pool = ThreadPoolExecutor(max_workers=16, thread_name_prefix="deploy")
        try:
            return self._deploy(deployment or self.plan(), pool)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            if abort is not None:
                abort()
            raise
        finally:
            pool.shutdown()

    def _deploy(self, deployment: Deployment, pool: ThreadPoolExecutor) -> RadosClient:
        with ExitStack() as undo:
            plans = plan_osds(self.spec.nodes)
            entities = self.entities(deployment, plans)
            _all([pool.submit(self.prepare_host, deployment, host) for host in self.hosts.values()], deployment)
            monmap = self.build_monmap(deployment)
            # OSD stores need only the monitor map, so they are made while the monitors start.
            stores = {plan.id: pool.submit(self.make_store, deployment, plan, monmap, entities) for plan in plans}
            mons = [pool.submit(self.make_mon, node, monmap, entities) for node in self.spec.mons]
            _all(mons, deployment)
            start = partial(self._start, deployment)
            start_monitors([mon.result() for mon in mons], start, self.client_host(), patience=self.patience)
            client = self.client()
            undo.callback(client.close)
            _all([pool.submit(self.connect, client, entities)], deployment)
            self.progress("monitors have a quorum")
            self.confine_managers(client)
            names = [(node, daemon) for node in self.spec.nodes for daemon in daemons_on(node)]
            kinds = dict.fromkeys(service_of(daemon).kind for _, daemon in names)
            for kind in kinds:
                SERVICES[kind].tell_managers(client)
            self.admit_osds(client, plans)
            started = [pool.submit(self._start_osd, deployment, plan, stores[plan.id]) for plan in plans]
            self._spare_managers(deployment, client)
            nodes = [node for node in self.spec.nodes if node.mgr]
            managers = [
                pool.submit(self.start_service, deployment, node, f"mgr.{node.name}", entities) for node in nodes
            ]
            _all([*managers, *started], deployment)
            for kind in kinds:
                SERVICES[kind].prepare(client)
            others = [pool.submit(self.start_service, deployment, node, name, entities) for node, name in names]
            _all(others, deployment)
            undo.pop_all()
        return client

    def client(self, **arguments: Any) -> RadosClient:
        """A client on the client host, not connected. arguments: more arguments of RadosClient."""
        host = self.client_host()
        return RadosClient(host, conf.conf_path(host), patience=self.patience, **arguments)

    def connect(self, client: RadosClient, entities: Mapping[str, keyring.Entity]) -> None:
        """Wait until the monitors have a quorum and know every key."""
        client.call("about", connect_s=self.connect_s)

    @property
    def connect_s(self) -> int:
        """Seconds until a client stops looking for a quorum."""
        return int(60 * self.patience)

    def admit_osds(self, client: RadosClient, plans: Iterable[OsdPlan]) -> None:
        """Register these OSDs with the monitors."""
        for plan in plans:
            client.mon("osd new", uuid=plan.uuid, id=plan.id)

    def plan(self, options: Mapping[str, str] | None = None) -> Deployment:
        """A deployment with nothing running yet. options: by default those of the lab; options of the spec win."""
        if options is None:
            osd_hosts = sum(1 for node in self.spec.nodes if node.osds)
            options = conf.cluster_options(self.sizing, hosts=osd_hosts, patience=self.patience)
        # A key made by the image's own tool shows which type of key the release uses.
        argv = ["ceph-authtool", "--gen-print-key"]
        sample_key = run_tool(self.client_host(), argv, timeout_s=60 * self.patience).stdout.strip()
        return Deployment(
            fsid=str(uuid.uuid4()),
            mon_addresses={node.name: self.hosts[node.name].address for node in self.spec.mons},
            options={**options, **self.spec.options},
            sizing=self.sizing,
            patience=self.patience,
            admin=keyring.admin_entity(sample_key),
        )

    def client_host(self) -> Host:
        """The host of the lab's own client: native if possible, and without daemons if possible."""
        known = {node.name: node.has_daemons for node in self.spec.nodes}
        hosts = [host for host in self.hosts.values() if host.name in known]
        return min(hosts, key=lambda host: (host.emulated, known[host.name]))

    def prepare_host(self, deployment: Deployment, host: Host) -> None:
        """Create the directories, ceph.conf, the administrator's keyring and, if emulated, the AIO shim on a host."""
        for name in ("run", "log", "crash"):
            host.make_directory(host.directory / name)
        self.push_conf(deployment, host)
        host.push(keyring.render([deployment.admin]), host.directory / "keyring", mode=0o600)
        if host.name in self.shims:
            host.push(self.shims[host.name], host.directory / SHIM_NAME, mode=0o755)

    def push_conf(self, deployment: Deployment, host: Host) -> None:
        """Write a host's ceph.conf for the current spec."""
        own = conf.host_options(host, self.identities.get(host.name), pulled=self.spec.image is not None)
        sections = {"global": own}
        for node in self.spec.nodes:
            for daemon in daemons_on(node) if node.name == host.name else ():
                service, ident = service_of(daemon), daemon.partition(".")[2]
                sections[service.entity(ident)] = dict(service.section(host, ident))
        text = conf.render(deployment.fsid, deployment.mon_addresses, deployment.options, sections)
        host.push(text, conf.conf_path(host))

    def make_osd(self, deployment: Deployment, client: RadosClient, plan: OsdPlan) -> Daemon:
        """Add one OSD to a running cluster: key, id, store, daemon (not started)."""
        entity = self.new_entity(deployment, plan.name)
        client.command("mon", "auth import", payload=keyring.render([entity]))
        client.mon("osd new", uuid=plan.uuid, id=plan.id)
        monmap = client.command("mon", "mon getmap")
        self.make_store(deployment, plan, monmap, {entity.name: entity})
        return deployment.daemons[plan.name]

    def prime_osd(self, daemon: Daemon) -> None:
        """Fill an OSD's directory from the labels of its disks, as after moving them from another node."""
        data = daemon.host.directory / daemon.name
        device = daemon.host.disk(daemon.disks[0])
        argv = ["ceph-bluestore-tool", "prime-osd-dir", "--dev", str(device), "--path", str(data)]
        run_tool(daemon.host, argv, timeout_s=_MKFS_PATIENCE_S * self.patience, env=preloading(daemon.preload))
        self.link_disks(daemon)

    def link_disks(self, daemon: Daemon) -> None:
        """Link an OSD's directory to its disks, whose paths may have changed."""
        data = daemon.host.directory / daemon.name
        for link, disk in zip(("block", "block.db", "block.wal"), daemon.disks, strict=False):
            daemon.host.run(["ln", "-sfn", str(daemon.host.disk(disk)), str(data / link)])

    def entities(self, deployment: Deployment, plans: Iterable[OsdPlan]) -> dict[str, keyring.Entity]:
        """Every cephx entity of the cluster, by name."""
        names = ["mon.", *(f"mgr.{node.name}" for node in self.spec.nodes if node.mgr), *(plan.name for plan in plans)]
        names += [daemon for node in self.spec.nodes for daemon in daemons_on(node)]
        entities = [self.new_entity(deployment, name) for name in names if service_of(name).caps]
        return {entity.name: entity for entity in (deployment.admin, *entities)}

    def new_entity(self, deployment: Deployment, daemon: str) -> keyring.Entity:
        """The entity of a daemon, with a fresh key of the cluster's type."""
        return service_of(daemon).new_entity(daemon.partition(".")[2], deployment.admin.key)

    def build_monmap(self, deployment: Deployment) -> bytes:
        """Make the monitor map with the image's own monmaptool."""
        host = self.client_host()
        path = host.directory / "monmap"
        argv = ["monmaptool", "--create", "--clobber", "--fsid", deployment.fsid]
        for name, address in deployment.mon_addresses.items():
            argv += ["--addv", name, conf.mon_host([address])]
        run_tool(host, [*argv, *self.monmap_argv(), str(path)], timeout_s=60 * self.patience)
        return host.read(path)

    def monmap_argv(self) -> list[str]:
        """Options of monmaptool besides the list of monitors."""
        return ["--enable-all-features"]

    def start_mon(
        self, deployment: Deployment, node: Node, monmap: bytes, entities: Mapping[str, keyring.Entity]
    ) -> None:
        """Make a monitor and start it."""
        self._start(deployment, self.make_mon(node, monmap, entities))

    def make_mon(self, node: Node, monmap: bytes, entities: Mapping[str, keyring.Entity]) -> Daemon:
        """Make a monitor's store, with every key in it."""
        host = self.hosts[node.name]
        data = host.directory / f"mon.{node.name}"
        map_path, seed = host.directory / "monmap", host.directory / "mon.keyring"
        host.push(monmap, map_path)
        host.push(keyring.render(list(entities.values())), seed, mode=0o600)
        host.make_directory(data)
        argv = ["ceph-mon", "--mkfs", "-i", node.name, "-c", str(conf.conf_path(host))]
        argv += ["--monmap", str(map_path), "--keyring", str(seed)]
        daemon = self.daemon(host, f"mon.{node.name}")
        run_tool(host, argv, timeout_s=_MKFS_PATIENCE_S * self.patience, log=daemon.log)
        host.remove(seed)
        return daemon

    def confine_managers(self, client: RadosClient) -> None:
        """Bind the modules of each manager to its node's address. By default they listen on every address."""
        for node in self.spec.nodes:
            if node.mgr:
                where = f"mgr/prometheus/{node.name}/server_addr"
                address = self.hosts[node.name].address
                client.mon("config set", who="mgr", name=where, value=address, force=True)

    def start_service(
        self, deployment: Deployment, node: Node, name: str, entities: Mapping[str, keyring.Entity]
    ) -> None:
        """Start a daemon that has no store, after making its directory and key."""
        host, service = self.hosts[node.name], service_of(name)
        ident = name.partition(".")[2]
        data = service.data(host, ident)
        host.make_directory(data)
        if service.caps:
            host.push(keyring.render([entities[service.entity(ident)]]), data / "keyring", mode=0o600)
        service.configure(host, ident, self.peers())
        self._start(deployment, self.daemon(host, name))

    def peers(self) -> dict[str, Host]:
        """Host of every manager and of every daemon of the spec beyond the core: daemon -> host."""
        managers = {f"mgr.{name}": self.hosts[name] for name in (node.name for node in self.spec.nodes if node.mgr)}
        return managers | {name: self.hosts[node.name] for node in self.spec.nodes for name in daemons_on(node)}

    def daemon(self, host: Host, name: str, *, disks: tuple[str, ...] = ()) -> Daemon:
        """A daemon on a host, not started. Copies to the host the files that it needs outside its directory."""
        service, ident = service_of(name), name.partition(".")[2]
        return Daemon(
            name, host, service.argv(host, ident), env=service.env(host), preload=service.preload(host), disks=disks
        )

    def make_store(
        self, deployment: Deployment, plan: OsdPlan, monmap: bytes, entities: Mapping[str, keyring.Entity]
    ) -> None:
        """Make an OSD's BlueStore with programs of the OSD's own architecture."""
        host = self.hosts[plan.node]
        data = host.directory / plan.name
        map_path = host.directory / f"{plan.name}.monmap"
        host.push(monmap, map_path)
        host.push(keyring.render([entities[plan.name]]), data / "keyring", mode=0o600)
        host.push(plan.device_class.encode() + b"\n", data / "crush_device_class")
        argv = ["ceph-osd", "--mkfs", "-i", str(plan.id), "-c", str(conf.conf_path(host)), "--no-mon-config"]
        argv += ["--monmap", str(map_path), "--osd-uuid", plan.uuid]
        for part, disk in plan.osd.parts:
            argv += [f"--bluestore-{part.replace('.', '-')}-path", str(host.disk(disk))]
        daemon = self.daemon(host, plan.name, disks=plan.osd.disks)
        patience_s = _MKFS_PATIENCE_S * self.patience
        run_tool(host, argv, timeout_s=patience_s, env=preloading(daemon.preload), log=daemon.log)
        deployment.daemons[plan.name] = daemon

    def _spare_managers(self, deployment: Deployment, client: RadosClient) -> None:
        """Shorten mon_mgr_beacon_grace until the machines of the monitors have been up for longer than that.

        A monitor subtracts the grace from its machine's uptime as an unsigned number. If the uptime is shorter, it
        calls every manager unresponsive (MgrMonitor::tick; seen with 18.2.7). A grace that the spec sets cannot be
        shortened, because ceph.conf overrides the options of the monitors, so its time is waited for.
        """
        hosts = [self.hosts[node.name] for node in self.spec.mons if has_own_kernel(self.hosts[node.name])]
        own = deployment.options.get(_GRACE)
        await_age(hosts, float(own or _YOUNG_GRACE_S), patience=self.patience)
        young_s = _GRACE_S + _MARGIN_S - min(map(_uptime_s, hosts), default=math.inf)
        if own or young_s < 0:
            return
        client.mon("config set", who="mon", name=_GRACE, value=f"{_YOUNG_GRACE_S:g}")
        client.later(young_s, "config rm", who="mon", name=_GRACE)

    def _start_osd(self, deployment: Deployment, plan: OsdPlan, store: Future[None]) -> None:
        store.result()
        self._start(deployment, deployment.daemons[plan.name])

    def _start(self, deployment: Deployment, daemon: Daemon) -> None:
        deployment.daemons[daemon.name] = daemon
        daemon.start()
        self.progress(f"{daemon.name} started")


@dataclass(frozen=True)
class OsdPlan:
    """An OSD to make."""

    id: int
    uuid: str
    node: str
    osd: Osd
    device_class: str

    @property
    def name(self) -> str:
        return f"osd.{self.id}"


def plan_osds(nodes: Iterable[Node]) -> list[OsdPlan]:
    """Plan the OSDs of all nodes, numbered in order."""
    pairs = [(node, osd) for node in nodes for osd in node.osds]
    return [plan_osd(node, osd, index) for index, (node, osd) in enumerate(pairs)]


def plan_osd(node: Node, osd: Osd, osd_id: int) -> OsdPlan:
    """Plan an OSD of a node with a given id."""
    block = next(disk for disk in node.disks if disk.name == osd.block)
    return OsdPlan(osd_id, str(uuid.uuid4()), node.name, osd, block.device_class.value)


def await_age(hosts: Iterable[Host], age_s: float, *, patience: float = 1.0, time: clock.Clock = clock.SYSTEM) -> None:
    """Wait until machines have been up for age_s seconds by their own clocks; NotReached if that takes too long."""
    for host in hosts:
        clock.Deadline.after(2 * age_s * patience, time).wait(
            partial(_uptime_s, host),
            lambda uptime_s: uptime_s > age_s,
            what=f"an uptime of {age_s:g} s on {host.name}",
            interval_s=0.5,
        )


def _uptime_s(host: Host) -> float:
    return float(host.run(["cat", "/proc/uptime"]).stdout.split()[0])


def _all(futures: Iterable[Future[Any]], deployment: Deployment) -> None:
    """Wait for every step. The first step that fails, or the first daemon that dies, ends the wait with its error."""
    pending = set(futures)
    while pending:
        finished, pending = wait_for(pending, timeout=_LOOK_S, return_when=FIRST_EXCEPTION)
        for future in finished:
            future.result()
        for daemon in list(deployment.daemons.values()):
            daemon.check()
