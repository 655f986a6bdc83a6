"""A running cluster: its hosts, status and daemons, their control, and a `wait` that sees a dead daemon at once."""

import errno
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from cephlab.lab.base import clock
from cephlab.lab.base.errors import LabBroken, SpecError, end_if_interrupted
from cephlab.lab.base.runs import Run
from cephlab.lab.ceph import conf
from cephlab.lab.ceph.client import CephCommandFailed, RadosClient
from cephlab.lab.ceph.daemon import Daemon, Wanted, tell
from cephlab.lab.ceph.offline import run_tool
from cephlab.lab.ceph.status import Status, parse_status
from cephlab.lab.providers.base import Provider
from cephlab.lab.providers.host import Host
from cephlab.lab.providers.programs import Programs
from cephlab.lab.services import CORE, service_of
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import HEALTHY_S, ClusterSpec, makes_a_pool

_DOWN_S = 30.0


@dataclass
class Cluster(ABC):
    """Any cluster: one that the lab made (see `lab/cluster/own.py`), or an existing one.

    Its methods may be called from several threads.
    """

    run: Run
    spec: ClusterSpec
    provider: Provider
    clients: dict[str, RadosClient] = field(default_factory=dict, kw_only=True)
    programs: Programs = field(default_factory=Programs, repr=False, kw_only=True)
    s3_users: dict[str, dict[str, str]] = field(default_factory=dict, repr=False, kw_only=True)
    """{access_key, secret_key} of each S3 user that was asked for: a call of radosgw-admin takes seconds."""
    _clients_lock: threading.Lock = field(default_factory=threading.Lock, repr=False, kw_only=True)

    @property
    def name(self) -> str:
        return self.run.id

    @property
    def provider_name(self) -> str:
        return self.provider.name

    @property
    @abstractmethod
    def hosts(self) -> Mapping[str, Host]: ...

    @property
    @abstractmethod
    def daemons(self) -> Mapping[str, Daemon]: ...

    @property
    @abstractmethod
    def patience(self) -> float:
        """Factor on timeouts: 1 if everything runs natively, else the factor measured for the emulator."""

    def host_of(self, daemon: str) -> Host:
        return self.daemon(daemon).host

    def daemon(self, name: str) -> Daemon:
        if name not in self.daemons:
            raise SpecError(f"there is no daemon {name!r}", f"daemons: {', '.join(sorted(self.daemons))}")
        return self.daemons[name]

    def osd_ids(self, arch: Arch | None = None) -> list[int]:
        """Ids of the OSDs. arch: only those of this architecture."""
        osds = [d for d in self.daemons.values() if d.kind == "osd" and (arch is None or d.host.arch is arch)]
        return sorted(int(osd.id) for osd in osds)

    def host_with(self, arch: Arch) -> Host:
        """The first host of an architecture; SpecError if there is none."""
        for host in self.hosts.values():
            if host.arch is arch:
                return host
        raise SpecError(f"the cluster has no {arch} host", f"hosts: {', '.join(self.hosts)}")

    # Talking to Ceph

    @property
    def client(self) -> RadosClient:
        """The lab's own client."""
        return self.client_on(self.load_nodes()[0])

    def client_on(self, node: str) -> RadosClient:
        """The long-lived client of a host. It is started on first use, and again if it has ended."""
        with self._clients_lock:
            known = self.clients.get(node)
            if known is not None and known.alive():
                return known
            if known is not None:
                known.close()
            self.clients[node] = self.new_client(node)
            return self.clients[node]

    @abstractmethod
    def load_nodes(self) -> list[str]:
        """Hosts to load the cluster from, all at once. The lab's own client is on the first."""

    def client_for(self, arch: Arch) -> RadosClient:
        """A client of an architecture."""
        return self.client_on(self.host_with(arch).name)

    @abstractmethod
    def new_client(self, node: str, *, options: Mapping[str, str] | None = None) -> RadosClient:
        """Another client on a host; the caller closes it. options: ceph options of this client only."""

    @property
    @abstractmethod
    def client_name(self) -> str:
        """The cephx entity that programs on the hosts use."""

    def ceph_argv(self, node: str, *args: str, program: str = "ceph") -> list[str]:
        """A command line of one of Ceph's own tools on a host."""
        entity = [] if self.client_name == "client.admin" else ["-n", self.client_name]
        return [program, "-c", str(conf.conf_path(self.hosts[node])), *entity, *args]

    def tool(self, node: str, program: str, *args: str, timeout_s: float = 150.0, stdin: bytes = b"") -> str:
        """Run one of Ceph's own tools (`rbd`, `rados`, ...) on a host; returns its standard output.

        timeout_s: multiplied by patience; longer than Ceph's own 120 s. Raises CephTrouble if the tool fails or hangs.
        """
        argv = self.ceph_argv(node, *args, program=program)
        return run_tool(self.hosts[node], argv, timeout_s=timeout_s * self.patience, stdin=stdin).stdout

    def status(self) -> Status:
        """The current status. DaemonDied if a daemon has ended that nobody stopped on purpose."""
        self.check_daemons()
        return parse_status(self.client.mon("status"))

    def check_daemons(self) -> None:
        for daemon in list(self.daemons.values()):
            daemon.check()

    def wait(
        self, ready: Callable[[Status], bool], *, what: str, timeout_s: float = HEALTHY_S, interval_s: float = 0.1
    ) -> Status:
        """Poll the status until `ready`. A dead daemon or Ctrl-C ends the wait. timeout_s: multiplied by patience."""
        end_if_interrupted()
        return clock.wait(self.status, ready, what=what, timeout_s=timeout_s * self.patience, interval_s=interval_s)

    def settle(self, timeout_s: float = HEALTHY_S) -> None:
        """Wait until every running OSD has the newest map and the monitors have its PG statistics.

        Without this, the status right after a change still shows the old, clean state. The two steps are those of
        `flush_pg_stats` in Ceph's qa/standalone/ceph-helpers.sh.
        """
        running = [osd for osd in self.up_osds() if self.daemon(f"osd.{osd}").wanted is Wanted.RUNNING]
        self.wait_map(running, timeout_s)
        sequences = {osd: _number(self.client, f"osd.{osd}", "flush_pg_stats") for osd in running}
        for osd, sequence in sequences.items():
            reported = partial(_number, self.client, "mon", "osd last-stat-seq", id=osd)
            _wait_for(self, reported, sequence, f"statistics of osd.{osd}", timeout_s)
        # Pools are read again at each poll: meanwhile the manager makes its own, and the autoscaler splits PGs.
        self.wait(lambda status: status.pgs == self._pgs_in_map(), what="statistics of every PG", timeout_s=timeout_s)

    def _pgs_in_map(self) -> int:
        return sum(int(pool["pg_num"]) for pool in self.client.mon("osd dump")["pools"])

    def wait_map(self, osds: Sequence[int], timeout_s: float = HEALTHY_S) -> int:
        """Wait until these OSDs have the map that is newest at the time of the call. Returns its epoch.

        An idle OSD learns of a new map only with a heartbeat, seconds later, so each is told to fetch it.
        """
        epoch = int(self.client.mon("osd dump")["epoch"])
        for osd in osds:
            if newest_map(self, osd) < epoch:
                _fetch_map(self, osd)
            _wait_for(self, partial(newest_map, self, osd), epoch, f"osd.{osd} at map {epoch}", timeout_s)
        return epoch

    def _wait_booted(self, daemon: Daemon) -> None:
        """Wait until an OSD that is up in the map knows that it is up, or until it has ended.

        An OSD that stops before that sends its previous address when it tells the monitor that it stops. The monitor
        ignores the message, and no other OSD has the new map yet. Without client load, the stopped OSD then stays up in
        the map for mon_osd_report_timeout, 900 s.
        """
        osd = int(daemon.id)
        clock.wait(
            lambda: not daemon.alive() or osd not in self.up_osds() or _osd_status(self, osd).get("state") == "active",
            bool,
            what=f"{daemon.name} active",
            timeout_s=_DOWN_S * self.patience,
            interval_s=0.05,
        )

    def up_osds(self) -> list[int]:
        """Ids of the OSDs that are up in the map."""
        return [int(osd["osd"]) for osd in self.client.mon("osd dump")["osds"] if osd["up"]]

    def wait_healthy(self, timeout_s: float = HEALTHY_S) -> Status:
        """Wait for HEALTH_OK with all OSDs up, all services serving, manager modules loaded and all PGs active+clean.

        The PG statistics are newer than this call.
        """
        self.wait(lambda status: status.all_up, what="every OSD up", timeout_s=timeout_s)
        clock.wait(
            partial(_missing_services, self),
            lambda missing: not missing,
            what="a state in which all services serve",
            timeout_s=timeout_s * self.patience,
            interval_s=0.2,
            timed_out=clock.not_reached_with(", ".join),
        )
        self.settle(timeout_s)
        bare = not makes_a_pool(self.spec.release)
        return self.wait(
            lambda status: (
                status.sound and status.all_up and status.mgr_available and (status.clean or (bare and not status.pgs))
            ),
            what="HEALTH_OK with all PGs active+clean",
            timeout_s=timeout_s,
        )

    # Verbs

    def start(self, name: str) -> None:
        self.daemon(name).start()
        self.daemons_changed()

    def stop(self, name: str) -> None:
        """Stop a daemon. An OSD is down in the map afterwards, so that its next start can be seen there."""
        daemon = self.daemon(name)
        goes_down = daemon.kind == "osd" and _may_go_down(self)
        if goes_down and daemon.wanted is Wanted.RUNNING:
            self._wait_booted(daemon)
        daemon.stop(patience=self.patience)
        self.daemons_changed()
        if goes_down:
            clock.wait(
                lambda: int(daemon.id) not in self.up_osds(),
                bool,
                what=f"{name} down in the map",
                timeout_s=_DOWN_S * self.patience,
                interval_s=0.05,
            )

    def stop_or_kill(self, name: str) -> bool:
        """Stop a daemon; returns whether it ended by itself. A metadata server that does not is killed, as by systemd.

        A metadata server that deletes files may hang forever (`defects.mds-stop-hangs`). Other daemons must end.
        """
        daemon = self.daemon(name)
        if daemon.kind != "mds":
            self.stop(name)
            return True
        try:
            daemon.stop()
        except LabBroken:
            self.kill(name)
            return False
        self.daemons_changed()
        return True

    def kill(self, name: str) -> None:
        self.daemon(name).kill()
        self.daemons_changed()

    def pause(self, name: str) -> None:
        self.daemon(name).pause()
        self.daemons_changed()

    def resume(self, name: str) -> None:
        self.daemon(name).resume()
        self.daemons_changed()

    @abstractmethod
    def daemons_changed(self) -> None:
        """Called after a daemon was started, stopped or killed, so that other processes know."""

    def close_clients(self) -> None:
        """End what the lab keeps running on hosts: its clients and its programs."""
        self.programs.close()
        with self._clients_lock:
            for client in self.clients.values():
                client.close()
            self.clients.clear()


def newest_map(cluster: Cluster, osd: int) -> int:
    """Epoch of an OSD's newest map; 0 if it is down or goes down meanwhile."""
    return int(_osd_status(cluster, osd).get("newest_map", 0))


def _osd_status(cluster: Cluster, osd: int) -> dict[str, Any]:
    """An OSD's own status; empty if it is down or goes down meanwhile."""
    try:
        return dict(tell(cluster.client, cluster.daemons, f"osd.{osd}", "status"))
    except CephCommandFailed as error:
        if error.code != -errno.ENXIO:
            raise
        return {}


def _fetch_map(cluster: Cluster, osd: int) -> None:
    """Make an OSD fetch the newest map from the monitors, if it has that command."""
    with suppress(CephCommandFailed):  # the OSD may be down; the caller waits until it has the map
        cluster.client.tell(f"osd.{osd}", "get_latest_osdmap")


def _number(client: RadosClient, target: str, prefix: str, **arguments: Any) -> int:
    """The number that a command prints; 0 if it prints nothing because there is no number yet."""
    return int(client.command(target, prefix, **arguments).strip() or 0)


def _wait_for(cluster: Cluster, probe: Callable[[], int], least: int, what: str, timeout_s: float) -> None:
    def checked() -> int:
        cluster.check_daemons()
        return probe()

    end_if_interrupted()
    clock.wait(checked, lambda value: value >= least, what=what, timeout_s=timeout_s * cluster.patience)


def _missing_services(cluster: Cluster) -> list[str]:
    """Which services beyond the core should serve but do not, and why, in words."""
    cluster.check_daemons()
    services = [daemon for daemon in cluster.daemons.values() if daemon.kind not in CORE]
    wanted = [daemon for daemon in services if daemon.wanted is Wanted.RUNNING]
    return list(filter(None, (service_of(d.name).missing(cluster.client, d.host, d.id) for d in wanted)))


def _may_go_down(cluster: Cluster) -> bool:
    """Whether the monitors have a quorum and may mark an OSD down."""
    mons = [daemon for daemon in cluster.daemons.values() if daemon.kind == "mon"]
    serving = [daemon for daemon in mons if daemon.wanted is Wanted.RUNNING and daemon.alive()]
    return len(serving) > len(mons) // 2 and "nodown" not in cluster.client.mon("osd dump")["flags_set"]


def insist(
    cluster: Cluster, command: Callable[[], object], passing: Collection[int], *, what: str, timeout_s: float
) -> None:
    """Repeat a command until Ceph accepts it. A dead daemon ends the wait at once.

    passing: errnos that only mean "not yet"; any other refusal is raised. timeout_s: multiplied by patience. NotReached
    contains Ceph's last refusal.
    """

    def refusal() -> str:
        cluster.check_daemons()
        try:
            command()
        except CephCommandFailed as error:
            if -error.code not in passing:
                raise
            return error.status or str(error)
        return ""

    clock.wait(refusal, lambda reason: not reason, what=what, timeout_s=timeout_s * cluster.patience)
