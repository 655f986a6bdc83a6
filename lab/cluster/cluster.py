"""A running cluster: hosts, a typed view of Ceph, daemon verbs, and a `wait` that notices a dead daemon at once."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from lab import clock
from lab.arch import Arch
from lab.ceph import conf, keyring
from lab.ceph.adminsocket import tell
from lab.ceph.client import CephCommandFailed, RadosClient
from lab.ceph.daemon import Daemon, Wanted
from lab.ceph.offline import run_tool
from lab.ceph.status import Status, parse_status
from lab.deploy.packages import Deployer, Deployment, OsdPlan, plan_osd
from lab.errors import LabBroken, LabError, SpecError
from lab.host import Host, lacks_aio
from lab.images.claims import claim
from lab.patience import patience_for
from lab.preflight import require_fit
from lab.providers.base import Images, Lab, Provider
from lab.releases import makes_a_pool
from lab.runs import Run, write_json, write_private
from lab.spec import ClusterSpec, Node
from lab.specfile import spec_to_json

STATE_SCHEMA = 1
_CARRIED = ("keyring", "crush_device_class")  # of an OSD's directory, what its disks do not hold
_HEALTHY_S = 120.0
_DOWN_S = 30.0


@dataclass
class Cluster:
    """One cluster of one run. Its methods may be used from several threads."""

    run: Run
    spec: ClusterSpec
    lab: Lab
    deployment: Deployment
    deployer: Deployer
    provider_name: str
    clients: dict[str, RadosClient] = field(default_factory=dict)
    _clients_lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    # What there is

    @property
    def name(self) -> str:
        return self.run.id

    @property
    def hosts(self) -> Mapping[str, Host]:
        return self.lab.hosts

    @property
    def daemons(self) -> Mapping[str, Daemon]:
        return self.deployment.daemons

    @property
    def patience(self) -> float:
        """Factor on timeouts: 1 where everything runs natively, else as measured for the emulator."""
        return self.deployment.patience

    def host_of(self, daemon: str) -> Host:
        return self.daemon(daemon).host

    def daemon(self, name: str) -> Daemon:
        if name not in self.daemons:
            raise SpecError(f"there is no daemon {name!r}", f"daemons: {', '.join(sorted(self.daemons))}")
        return self.daemons[name]

    def osd_ids(self, arch: Arch | None = None) -> list[int]:
        """Ids of the OSDs, of one architecture where given."""
        found = [d for d in self.daemons.values() if d.kind == "osd" and (arch is None or d.host.arch is arch)]
        return sorted(int(daemon.id) for daemon in found)

    def host_with(self, arch: Arch) -> Host:
        """The first host of an architecture; SpecError where there is none."""
        for host in self.hosts.values():
            if host.arch is arch:
                return host
        raise SpecError(f"the cluster has no {arch} host", f"hosts: {', '.join(self.hosts)}")

    # Talking to Ceph

    @property
    def client(self) -> RadosClient:
        """The lab's own client, on a native host."""
        return self.client_on(self.deployer.client_host().name)

    def client_on(self, node: str) -> RadosClient:
        """The long-lived client of one host; started at its first use and again when it has ended."""
        with self._clients_lock:
            known = self.clients.get(node)
            if known is not None and known.alive():
                return known
            if known is not None:
                known.close()
            self.clients[node] = self.new_client(node)
            return self.clients[node]

    def load_nodes(self) -> list[str]:
        """Hosts to load the cluster from, all at once: the lab's own client, as all hosts share one machine."""
        return [self.deployer.client_host().name]

    def client_for(self, arch: Arch) -> RadosClient:
        """A client of an architecture."""
        return self.client_on(self.host_with(arch).name)

    def new_client(self, node: str, *, options: Mapping[str, str] | None = None) -> RadosClient:
        """Another client on a host; the caller closes it. options: ceph options of this client only."""
        host = self.hosts[node]
        return RadosClient(host, conf.conf_path(host), patience=self.patience, options=options)

    @property
    def client_name(self) -> str:
        """The entity that programs on the hosts are."""
        return self.deployment.admin.name

    def ceph_argv(self, node: str, *args: str, program: str = "ceph") -> list[str]:
        """A command line of one of Ceph's own tools on a host."""
        entity = [] if self.client_name == "client.admin" else ["-n", self.client_name]
        return [program, "-c", str(conf.conf_path(self.hosts[node])), *entity, *args]

    def tool(self, node: str, program: str, *args: str, timeout_s: float = 150.0, stdin: bytes = b"") -> str:
        """Run one of Ceph's own tools (`rbd`, `rados`, ...) on a host; its standard output.

        timeout_s: before patience; beyond Ceph's own of 120 s. Raises CephTrouble when the tool fails or hangs.
        """
        argv = self.ceph_argv(node, *args, program=program)
        return run_tool(self.hosts[node], argv, timeout_s=timeout_s * self.patience, stdin=stdin).stdout

    def status(self) -> Status:
        """The status now, after a look at every daemon; DaemonDied when one has ended that nobody stopped."""
        self.check_daemons()
        return parse_status(self.client.mon("status"))

    def check_daemons(self) -> None:
        for daemon in list(self.daemons.values()):
            daemon.check()

    def wait(
        self,
        ready: Callable[[Status], bool],
        *,
        what: str,
        timeout_s: float = _HEALTHY_S,
        interval_s: float = 0.1,
    ) -> Status:
        """Poll the status until `ready`; a dead daemon ends the wait at once. timeout_s is before patience."""
        return clock.wait(self.status, ready, what=what, timeout_s=timeout_s * self.patience, interval_s=interval_s)

    def settle(self, timeout_s: float = _HEALTHY_S) -> None:
        """Wait until every running OSD has today's map and the monitors have its PG statistics.

        Without it a status taken right after a change still shows the old, clean state. The same two steps as
        `flush_pg_stats` in Ceph's qa/standalone/ceph-helpers.sh.
        """
        running = [osd for osd in self.up_osds() if self.daemon(f"osd.{osd}").wanted is Wanted.RUNNING]
        self.wait_map(running, timeout_s)
        sequences = {osd: self._number(f"osd.{osd}", "flush_pg_stats") for osd in running}
        for osd, sequence in sequences.items():
            reported = partial(self._number, "mon", "osd last-stat-seq", id=osd)
            self._wait_for(reported, sequence, f"statistics of osd.{osd}", timeout_s)
        pgs = sum(int(pool["pg_num"]) for pool in self.client.mon("osd dump")["pools"])
        self.wait(lambda status: status.pgs == pgs, what=f"statistics of {pgs} PGs", timeout_s=timeout_s)

    def wait_map(self, osds: Sequence[int], timeout_s: float = _HEALTHY_S) -> None:
        """Wait until these OSDs have the map that is the newest at this call."""
        epoch = int(self.client.mon("osd dump")["epoch"])
        for osd in osds:
            self._wait_for(partial(self.newest_map, osd), epoch, f"osd.{osd} at map {epoch}", timeout_s)

    def newest_map(self, osd: int) -> int:
        """Epoch of the newest map that an OSD has; 0 when it is down, or goes down while it is asked."""
        try:
            return int(tell(self.client, self.daemons, f"osd.{osd}", "status")["newest_map"])
        except CephCommandFailed as error:
            if error.code != -errno.ENXIO:
                raise
            return 0

    def _number(self, target: str, prefix: str, **arguments: Any) -> int:
        """A command that prints one number, or nothing before it knows it."""
        return int(self.client.command(target, prefix, **arguments).strip() or 0)

    def _wait_for(self, probe: Callable[[], int], least: int, what: str, timeout_s: float) -> None:
        def checked() -> int:
            self.check_daemons()
            return probe()

        clock.wait(checked, lambda value: value >= least, what=what, timeout_s=timeout_s * self.patience)

    def up_osds(self) -> list[int]:
        """Ids of the OSDs that the map calls up."""
        return [int(osd["osd"]) for osd in self.client.mon("osd dump")["osds"] if osd["up"]]

    def wait_healthy(self, timeout_s: float = _HEALTHY_S) -> Status:
        """HEALTH_OK, every OSD up and every PG active+clean, by statistics newer than this call."""
        self.wait(lambda status: status.all_up, what="every OSD up", timeout_s=timeout_s)
        self.settle(timeout_s)
        bare = not makes_a_pool(self.spec.release)
        return self.wait(
            lambda status: status.ok and status.all_up and (status.clean or (bare and not status.pgs)),
            what="HEALTH_OK with all PGs active+clean",
            timeout_s=timeout_s,
        )

    # Verbs

    def start(self, name: str) -> None:
        self.daemon(name).start()
        self.save()

    def stop(self, name: str) -> None:
        """Stop a daemon; an OSD is down in the map afterwards, so that it does not count as up when it starts again."""
        daemon = self.daemon(name)
        daemon.stop(patience=self.patience)
        self.save()
        if daemon.kind == "osd" and self._may_go_down():
            down = partial(self._is_down, int(daemon.id))
            clock.wait(down, bool, what=f"{name} down in the map", timeout_s=_DOWN_S * self.patience, interval_s=0.05)

    def _may_go_down(self) -> bool:
        """Whether the monitors can decide that an OSD is down."""
        mons = [daemon for daemon in self.daemons.values() if daemon.kind == "mon"]
        serving = [daemon for daemon in mons if daemon.wanted is Wanted.RUNNING and daemon.alive()]
        return len(serving) > len(mons) // 2 and "nodown" not in self.client.mon("osd dump")["flags_set"]

    def _is_down(self, osd: int) -> bool:
        return osd not in self.up_osds()

    def kill(self, name: str) -> None:
        self.daemon(name).kill()
        self.save()

    def pause(self, name: str) -> None:
        self.daemon(name).pause()
        self.save()

    def resume(self, name: str) -> None:
        self.daemon(name).resume()
        self.save()

    def add_node(self, node: Node) -> Host:
        """Raise a machine and, where the spec gives it OSDs, add and start them."""
        host = self.lab.add_node(node)
        self.respec((*self.spec.nodes, node))
        self.deployer = replace(self.deployer, hosts=self.lab.hosts, shims=self.shims_with(host))
        self.deployer.prepare_host(self.deployment, host)
        for osd in node.osds:
            self.add_osd(plan_osd(node, osd, self.next_osd_id()))
        self.save()
        return host

    def respec(self, nodes: Sequence[Node]) -> None:
        """The cluster is meant to have these nodes from now on; SpecError where that is no cluster."""
        self.spec = replace(self.spec, nodes=tuple(nodes))
        self.deployer = replace(self.deployer, spec=self.spec)

    def shims_with(self, host: Host) -> Mapping[str, Path]:
        """The shims for a cluster with one more host: an emulated one takes that of its architecture."""
        shims = self.deployer.shims
        if not lacks_aio(host):
            return shims
        return {**shims, host.name: next(path for name, path in shims.items() if self.hosts[name].arch is host.arch)}

    def add_osd(self, plan: OsdPlan) -> Daemon:
        """Make and start one OSD on a node that has its disks."""
        daemon = self.deployer.make_osd(self.deployment, self.client, plan)
        daemon.start()
        self.save()
        return daemon

    def next_osd_id(self) -> int:
        return max(self.osd_ids(), default=-1) + 1

    def move_osd(self, osd_id: int, target: str) -> Daemon:
        """Put a stopped OSD's disks into another node and start it there, identity and data kept."""
        old = self.daemon(f"osd.{osd_id}")
        if old.alive():
            raise LabBroken(f"{old.name} is running", "its disks cannot be pulled out", f"stop {old.name} first")
        carried = {name: old.host.read(old.host.directory / old.name / name) for name in _CARRIED}
        for disk in old.disks:
            self.lab.move_disk(disk, target)
        self.deployer = replace(self.deployer, hosts=self.lab.hosts)
        host = self.hosts[target]
        data = host.directory / old.name
        for name, content in carried.items():
            host.push(content, data / name, mode=0o600)
        daemon = self.deployer.osd_daemon(host, osd_id, old.disks)
        self.deployer.prime_osd(daemon)
        self.deployment.daemons[daemon.name] = daemon
        daemon.start()
        self.save()
        return daemon

    def forget_daemon(self, name: str) -> None:
        """Take a stopped daemon off the lab's list."""
        self.deployment.daemons.pop(name)
        self.save()

    # State

    def save(self) -> None:
        """Write what another cephlab process needs to find this cluster."""
        deployment = self.deployment
        write_json(
            self.run.state_file,
            {
                "schema": STATE_SCHEMA,
                "spec": spec_to_json(self.spec),
                "provider": self.provider_name,
                "lab": self.lab.state,
                "fsid": deployment.fsid,
                "mon_addresses": dict(deployment.mon_addresses),
                "options": dict(deployment.options),
                "sizing": asdict(deployment.sizing),
                "patience": deployment.patience,
                "daemons": [daemon.to_json() for daemon in deployment.daemons.values()],
                "shims": {node: str(path) for node, path in self.deployer.shims.items()},
                "identities": dict(self.deployer.identities),
            },
        )

    def keep(self) -> None:
        """Let the cluster outlive this process; `cephlab down` removes it."""
        self.save()
        self.run.claim(provider=self.provider_name, kept=True)

    @property
    def client_files(self) -> tuple[Path, Path]:
        """ceph.conf and keyring for programs of this machine; see `write_client_files`."""
        folder = self.run.directory / "client"
        return folder / "ceph.conf", folder / "keyring"

    def write_client_files(self) -> None:
        """Write what any Ceph client of this machine needs to reach the cluster, whatever its hosts are."""
        path, keys = self.client_files
        path.parent.mkdir(mode=0o700, exist_ok=True)
        write_private(keys, keyring.render([self.deployment.admin]))
        write_private(path, conf.render_client(self.deployment.fsid, self.deployment.mon_addresses, str(keys)))

    def power_off(self) -> None:
        """Switch every machine off at once, so that nothing is running or can be started on it."""
        for name in list(self.hosts):
            # What cannot be killed here is met again when the lab is closed, which reports it.
            with suppress(LabError):
                self.lab.kill_node(name)

    def close_clients(self) -> None:
        with self._clients_lock:
            for client in self.clients.values():
                client.close()
            self.clients.clear()


def _quiet(_line: str) -> None:
    """Progress that nobody asked for."""


@contextmanager
def raise_cluster(
    provider: Provider,
    spec: ClusterSpec,
    images: Images,
    run: Run,
    *,
    progress: Callable[[str], None] = _quiet,
    keep_failed: bool = False,
) -> Iterator[Cluster]:
    """Launch hosts, deploy Ceph, and give a cluster; leaving the block removes it unless the run is kept.

    It is not healthy yet: call `wait_healthy`. Bad input is refused before anything starts.
    keep_failed: a deployment that fails half way is kept as it is, to be looked at.
    """
    sizing = require_fit(spec, run.directory)
    claim(run, images.values())
    with provider.launch(spec, images, run, progress=progress) as lab:
        shims = {host.name: images[host.arch].aio_shim for host in lab.hosts.values() if lacks_aio(host)}
        patience = patience_for(images, lab.hosts.values(), run.directory.parent.parent)
        deployer = Deployer(spec, lab.hosts, shims, sizing, patience, progress)
        progress(sizing.reason)
        cluster = Cluster(run, spec, lab, deployer.plan(), deployer, provider.name)
        client = deployer.deploy(cluster.deployment, abort=cluster.keep if keep_failed else cluster.power_off)
        cluster.clients[client.host.name] = client
        cluster.save()
        try:
            yield cluster
        finally:
            cluster.close_clients()
