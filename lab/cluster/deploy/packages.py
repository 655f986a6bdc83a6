"""Deployer `packages`: daemons straight from the image, as vstart does, everything that can be at once at once."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from lab import clock
from lab.ceph import conf, keyring
from lab.ceph.client import RadosClient
from lab.ceph.daemon import Daemon
from lab.ceph.offline import run_tool
from lab.host import Host, has_own_kernel, lacks_aio
from lab.spec import ClusterSpec, Disk, Node, Osd

MGR_SHADOW = Path(conf.__file__).with_name("mgr_python")
SHIM_NAME = "libcephlab-aio.so"
_MKFS_PATIENCE_S = 120.0
_LOOK_S = 0.25
_MGR_BEACON_GRACE_S = 30.0
"""Ceph's own mon_mgr_beacon_grace."""

Abort = Callable[[], None]


@dataclass(frozen=True)
class Deployment:
    """What stands after a deployment; `Cluster` gives it verbs. patience: factor on every timeout."""

    fsid: str
    mon_addresses: Mapping[str, str]
    options: Mapping[str, str]
    sizing: conf.Sizing
    patience: float
    admin: keyring.Entity
    daemons: dict[str, Daemon] = field(default_factory=dict)


@dataclass(frozen=True)
class Deployer:
    """Puts Ceph onto hosts that exist. shims: per emulated host, the libaio substitute on this machine."""

    spec: ClusterSpec
    hosts: Mapping[str, Host]
    shims: Mapping[str, Path]
    sizing: conf.Sizing
    patience: float
    progress: Callable[[str], None]
    identities: Mapping[str, str] = field(default_factory=dict)
    """Hosts that took the place of another: name -> the name that Ceph knows it by."""

    def deploy(self, deployment: Deployment | None = None, *, abort: Abort | None = None) -> RadosClient:
        """Bring every daemon of the spec up; returns the lab's client once all of them have been started.

        deployment: filled with the daemons as they come. abort: called when a step fails or is interrupted, before
        what still runs in other threads is waited for; it should end that. Raises DaemonDied as soon as one does.
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
            mons = [pool.submit(self.start_mon, deployment, node, monmap, entities) for node in self.spec.mons]
            _all(mons, deployment)
            client = RadosClient(self.client_host(), conf.conf_path(self.client_host()), patience=self.patience)
            undo.callback(client.close)
            _all([pool.submit(client.call, "about", connect_s=int(60 * self.patience))], deployment)
            self.progress("monitors have a quorum")
            self.confine_managers(client)
            aged = pool.submit(self._await_monitors, deployment)
            nodes = [node for node in self.spec.nodes if node.mgr]
            managers = [pool.submit(self._start_mgr, deployment, node, entities, aged) for node in nodes]
            for plan in plans:
                register_osd(client, plan)
            started = [pool.submit(self._start_osd, deployment, plan, stores[plan.id]) for plan in plans]
            _all([*managers, *started], deployment)
            undo.pop_all()
        return client

    def plan(self, options: Mapping[str, str] | None = None) -> Deployment:
        """A deployment with nothing running yet; the spec's own options win over those given (default: the lab's)."""
        if options is None:
            osd_hosts = sum(1 for node in self.spec.nodes if node.osds)
            options = conf.cluster_options(self.sizing, hosts=osd_hosts, patience=self.patience)
        return Deployment(
            fsid=str(uuid.uuid4()),
            mon_addresses={node.name: self.hosts[node.name].address for node in self.spec.mons},
            options={**options, **self.spec.options},
            sizing=self.sizing,
            patience=self.patience,
            admin=keyring.admin_entity(self._sample_key()),
        )

    def _sample_key(self) -> str:
        """A key as the image's own tool makes it."""
        argv = ["ceph-authtool", "--gen-print-key"]
        made = run_tool(self.client_host(), argv, timeout_s=60 * self.patience)
        return made.stdout.strip()

    def client_host(self) -> Host:
        """The host that the lab's own client runs on: native where there is one, and without daemons likewise."""
        known = {node.name: bool(node.osds or node.mon or node.mgr) for node in self.spec.nodes}
        hosts = [host for host in self.hosts.values() if host.name in known]
        return min(hosts, key=lambda host: (host.emulated, known[host.name]))

    def prepare_host(self, deployment: Deployment, host: Host) -> None:
        """Directories, ceph.conf, the administrator's keyring and, where emulated, the AIO shim."""
        for name in ("run", "log", "crash"):
            host.make_directory(host.directory / name)
        self.push_conf(deployment, host)
        host.push(keyring.render([deployment.admin]), host.directory / "keyring", mode=0o600)
        if host.name in self.shims:
            host.push(self.shims[host.name], host.directory / SHIM_NAME, mode=0o755)

    def push_conf(self, deployment: Deployment, host: Host) -> None:
        """Write a host's ceph.conf as it has to be now."""
        own = conf.host_options(host, self.identities.get(host.name), pulled=self.spec.image is not None)
        host.push(conf.render(deployment.fsid, deployment.mon_addresses, deployment.options, own), conf.conf_path(host))

    def make_osd(self, deployment: Deployment, client: RadosClient, plan: OsdPlan) -> Daemon:
        """Add one OSD to a running cluster: key, id, store, daemon (not started)."""
        entity = keyring.osd_entity(plan.id, deployment.admin.key)
        client.command("mon", "auth import", data=keyring.render([entity]))
        register_osd(client, plan)
        monmap = client.command("mon", "mon getmap")
        self.make_store(deployment, plan, monmap, {entity.name: entity})
        return deployment.daemons[plan.name]

    def osd_daemon(self, host: Host, osd_id: int, disks: tuple[str, ...]) -> Daemon:
        """An OSD's daemon on a host, whatever made its store."""
        return self._daemon(host, f"osd.{osd_id}", disks=disks)

    def prime_osd(self, daemon: Daemon) -> None:
        """Fill an OSD's directory from the labels of its disks, as after moving them from another node."""
        data = daemon.host.directory / daemon.name
        device = daemon.host.disk(daemon.disks[0])
        argv = ["ceph-bluestore-tool", "prime-osd-dir", "--dev", str(device), "--path", str(data)]
        run_tool(daemon.host, argv, timeout_s=_MKFS_PATIENCE_S * self.patience, preload=daemon.preload)
        self.link_disks(daemon)

    def link_disks(self, daemon: Daemon) -> None:
        """Point an OSD's directory to its disks, which may be found under other paths than before."""
        data = daemon.host.directory / daemon.name
        for link, disk in zip(("block", "block.db", "block.wal"), daemon.disks, strict=False):
            daemon.host.run(["ln", "-sfn", str(daemon.host.disk(disk)), str(data / link)])

    def entities(self, deployment: Deployment, plans: Iterable[OsdPlan]) -> dict[str, keyring.Entity]:
        """Every cephx entity of the cluster, by name."""
        sample = deployment.admin.key
        entities = [keyring.mon_entity(sample), deployment.admin]
        entities += [keyring.mgr_entity(node.name, sample) for node in self.spec.nodes if node.mgr]
        entities += [keyring.osd_entity(plan.id, sample) for plan in plans]
        return {entity.name: entity for entity in entities}

    def build_monmap(self, deployment: Deployment) -> bytes:
        """The monitor map, made once, by the image's own monmaptool."""
        host = self.client_host()
        path = host.directory / "monmap"
        argv = ["monmaptool", "--create", "--clobber", "--fsid", deployment.fsid]
        for name, address in deployment.mon_addresses.items():
            argv += ["--addv", name, f"[v2:{address}:3300]"]
        run_tool(host, [*argv, "--enable-all-features", str(path)], timeout_s=60 * self.patience)
        return host.read(path)

    def start_mon(
        self, deployment: Deployment, node: Node, monmap: bytes, entities: Mapping[str, keyring.Entity]
    ) -> None:
        """Make one monitor's store, seeded with every key, and start it."""
        host = self.hosts[node.name]
        data = host.directory / f"mon.{node.name}"
        map_path, seed = host.directory / "monmap", host.directory / "mon.keyring"
        host.push(monmap, map_path)
        host.push(keyring.render(list(entities.values())), seed, mode=0o600)
        host.make_directory(data)
        argv = ["ceph-mon", "--mkfs", "-i", node.name, "-c", str(conf.conf_path(host))]
        argv += ["--monmap", str(map_path), "--keyring", str(seed)]
        daemon = self._daemon(host, f"mon.{node.name}")
        run_tool(host, argv, timeout_s=_MKFS_PATIENCE_S * self.patience, log=daemon.log)
        host.remove(seed)
        deployment.daemons[daemon.name] = daemon
        daemon.start()
        self.progress(f"{daemon.name} started")

    def confine_managers(self, client: RadosClient) -> None:
        """Modules listen on every address of the machine unless told otherwise before they start."""
        for node in self.spec.nodes:
            if node.mgr:
                where = f"mgr/prometheus/{node.name}/server_addr"
                address = self.hosts[node.name].address
                client.mon("config set", who="mgr", name=where, value=address, force=True)

    def start_mgr(self, deployment: Deployment, node: Node, entities: Mapping[str, keyring.Entity]) -> None:
        """Start one manager."""
        host = self.hosts[node.name]
        data = host.directory / f"mgr.{node.name}"
        host.push(keyring.render([entities[f"mgr.{node.name}"]]), data / "keyring", mode=0o600)
        daemon = self.daemon(host, f"mgr.{node.name}")
        deployment.daemons[daemon.name] = daemon
        daemon.start()
        self.progress(f"{daemon.name} started")

    def daemon(self, host: Host, name: str, *, disks: tuple[str, ...] = ()) -> Daemon:
        """A daemon on a host, with all that it needs there beside its directory; not started."""
        found = self._daemon(host, name, disks=disks)
        if found.kind != "mgr":
            return found
        shadow = host.directory / MGR_SHADOW.stem
        host.push(MGR_SHADOW / "bcrypt.py", shadow / "bcrypt.py")
        packages = host.root / "usr/lib/python3/dist-packages"
        return replace(found, env={"PYTHONPATH": f"{shadow}:{packages}"})

    def make_store(
        self, deployment: Deployment, plan: OsdPlan, monmap: bytes, entities: Mapping[str, keyring.Entity]
    ) -> None:
        """Make one OSD's BlueStore with the OSD's own architecture, emulated or not."""
        host = self.hosts[plan.node]
        data = host.directory / plan.name
        map_path = host.directory / f"{plan.name}.monmap"
        host.push(monmap, map_path)
        host.push(keyring.render([entities[plan.name]]), data / "keyring", mode=0o600)
        host.push(plan.device_class.encode() + b"\n", data / "crush_device_class")
        argv = ["ceph-osd", "--mkfs", "-i", str(plan.id), "-c", str(conf.conf_path(host)), "--no-mon-config"]
        argv += ["--monmap", str(map_path), "--osd-uuid", plan.uuid]
        for option, disk in (("block", plan.osd.block), ("block-db", plan.osd.db), ("block-wal", plan.osd.wal)):
            if disk is not None:
                argv += [f"--bluestore-{option}-path", str(host.disk(disk))]
        daemon = self._daemon(host, plan.name, disks=plan.osd.disks)
        patience_s = _MKFS_PATIENCE_S * self.patience
        run_tool(host, argv, timeout_s=patience_s, preload=daemon.preload, log=daemon.log)
        deployment.daemons[plan.name] = daemon

    def _await_monitors(self, deployment: Deployment) -> None:
        grace_s = float(deployment.options.get("mon_mgr_beacon_grace", _MGR_BEACON_GRACE_S))
        hosts = [self.hosts[node.name] for node in self.spec.mons]
        await_age([host for host in hosts if has_own_kernel(host)], grace_s, patience=self.patience)

    def _start_mgr(
        self, deployment: Deployment, node: Node, entities: Mapping[str, keyring.Entity], aged: Future[None]
    ) -> None:
        aged.result()
        self.start_mgr(deployment, node, entities)

    def _start_osd(self, deployment: Deployment, plan: OsdPlan, store: Future[None]) -> None:
        store.result()
        deployment.daemons[plan.name].start()
        self.progress(f"{plan.name} started")

    def _daemon(self, host: Host, name: str, *, disks: tuple[str, ...] = ()) -> Daemon:
        kind, _, ident = name.partition(".")
        preload: tuple[PurePosixPath, ...] = ()
        if kind == "osd" and lacks_aio(host):
            preload = (host.directory / SHIM_NAME,)
        argv = (f"ceph-{kind}", "-f", "-i", ident, "-c", str(conf.conf_path(host)))
        return Daemon(name, host, argv, preload=preload, disks=disks)


@dataclass(frozen=True)
class OsdPlan:
    """One OSD before it exists. weight: TiB, as CRUSH counts."""

    id: int
    uuid: str
    node: str
    osd: Osd
    weight: float
    device_class: str

    @property
    def name(self) -> str:
        return f"osd.{self.id}"


def plan_osds(nodes: Iterable[Node], first_id: int = 0) -> list[OsdPlan]:
    """Number the OSDs of some nodes in order."""
    pairs = [(node, osd) for node in nodes for osd in node.osds]
    return [plan_osd(node, osd, first_id + index) for index, (node, osd) in enumerate(pairs)]


def plan_osd(node: Node, osd: Osd, osd_id: int) -> OsdPlan:
    """Plan one OSD of a node under a given id."""
    block = _disk(node, osd.block)
    weight = round(block.size_bytes / (1 << 40), 5)
    return OsdPlan(osd_id, str(uuid.uuid4()), node.name, osd, weight, block.device_class.value)


def await_age(hosts: Iterable[Host], age_s: float, *, patience: float = 1.0, time: clock.Clock = clock.SYSTEM) -> None:
    """Wait until machines have been up for so many seconds; NotReached where their own clocks never say so.

    For monitors' machines and mon_mgr_beacon_grace: a monitor takes that from its machine's monotonic clock, unsigned,
    and so calls every manager unresponsive before (MgrMonitor::tick; seen with Reef 18.2.7).
    """
    for host in hosts:
        clock.wait(
            partial(_uptime_s, host),
            lambda uptime_s: uptime_s > age_s,
            what=f"{host.name} to have been up for {age_s:g} s",
            timeout_s=2 * age_s * patience,
            interval_s=0.5,
            clock=time,
        )


def _uptime_s(host: Host) -> float:
    return float(host.run(["cat", "/proc/uptime"]).stdout.split()[0])


def register_osd(client: RadosClient, plan: OsdPlan) -> None:
    """Give the OSD its id in the map."""
    client.mon("osd new", uuid=plan.uuid, id=plan.id)


def _disk(node: Node, name: str) -> Disk:
    return next(disk for disk in node.disks if disk.name == name)


def _all(futures: Iterable[Future[Any]], deployment: Deployment) -> None:
    """Wait for every step; the first that fails, or a daemon that dies meanwhile, ends the wait with its error."""
    pending = set(futures)
    while pending:
        done, pending = wait_for(pending, timeout=_LOOK_S, return_when=FIRST_EXCEPTION)
        for future in done:
            future.result()
        for daemon in list(deployment.daemons.values()):
            daemon.check()
