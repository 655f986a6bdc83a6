"""Reads what every role of a cluster has used so far; the difference of two readings is the cost of the load."""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePosixPath
from statistics import fmean
from typing import Protocol

from cephlab.lab.base.errors import LabBroken, Unavailable
from cephlab.lab.ceph.daemon import Daemon, tell
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.own import OwnCluster
from cephlab.lab.providers.base import RunsMachines
from cephlab.lab.providers.host import Host, HostProcess, has_own_kernel
from cephlab.lab.telemetry import accounting, counters
from cephlab.lab.telemetry.account_program import clock_s
from cephlab.lab.telemetry.accountants import Account, Accountant, Here, Teller, There, busy_cpu_s, pid_here
from cephlab.lab.telemetry.demand import OSD_ROLES, Role
from cephlab.lab.telemetry.instructions import Instructions
from cephlab.lab.telemetry.readings import Reading
from cephlab.lab.workloads.fio import FioResult, Progress

COUNT = "osd.op"

THIS_MACHINE = "this machine"
"""Key of the kernel of this machine."""


class Metered(Protocol):
    """A process on a host whose cost counts towards a role."""

    @property
    def name(self) -> str: ...
    @property
    def host(self) -> Host: ...
    @property
    def process(self) -> HostProcess | None: ...


class LoadClient(Protocol):
    """A running load. socket: its Ceph admin socket on the host, None if it is not a Ceph client."""

    @property
    def host(self) -> Host: ...
    @property
    def process(self) -> HostProcess: ...
    @property
    def socket(self) -> PurePosixPath | None: ...
    def finish(self) -> FioResult: ...
    def progress(self) -> Progress: ...
    def kill(self) -> None: ...
    def words(self) -> str: ...


@dataclass
class Meter:
    """Reads counters. daemons: role -> its processes; count: counts instructions, None if that is impossible."""

    cluster: Cluster
    daemons: Mapping[Role, Sequence[Metered]]
    now: Callable[[], float] = time.time
    count: Callable[[Sequence[int]], Instructions] | None = None
    _counted: dict[Role, Instructions] = field(default_factory=dict)
    _trees: dict[str, dict[Role, tuple[int, ...]]] = field(default_factory=dict)
    _kernels: dict[str, Accountant] = field(default_factory=dict)
    _tellers: dict[str, Teller] = field(default_factory=dict)
    _clients: tuple[LoadClient, ...] = ()
    _ahead_s: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for role, daemons in self.daemons.items():
            self._account(role, daemons)

    def _account(self, role: Role, players: Sequence[Metered | LoadClient]) -> None:
        """Find the processes of a role, and the kernel that accounts for them."""
        for player in players:
            process = process_of(player)
            if process.pid:
                name, kernel = THIS_MACHINE, self._kernels.setdefault(THIS_MACHINE, Here(self.now))
            else:
                name, kernel = player.host.name, self._kernel(player.host)
            trees = self._trees.setdefault(name, {})
            trees[role] = (*trees.get(role, ()), *kernel.pids(process))
        pids = self._trees.get(THIS_MACHINE, {}).get(role, ())
        if self.count is not None and role in (*OSD_ROLES, Role.CLIENT) and pids:
            self._counted[role] = self.count(pids)

    def _kernel(self, host: Host) -> Accountant:
        known = self._kernels.get(host.name)
        if known is None:
            machine = self._machine(host)
            # All traffic of a machine elsewhere passes through the interface that the roles use.
            networked = machine is not None or not has_own_kernel(host)
            known = There(self._teller(host), machine, networked=networked, now=self.now)
            self._kernels[host.name] = known
        return known

    def _machine(self, host: Host) -> Callable[[], float] | None:
        """CPU seconds of the virtual machine of a host so far, if that is a process here."""
        lab = _machines_here(self.cluster)
        return None if lab is None else lambda: accounting.whole_s(lab.machine_pid(host.name))

    def _teller(self, host: Host) -> Teller:
        return self._tellers.setdefault(host.name, Teller(host))

    def follow(self, clients: Sequence[LoadClient]) -> None:
        """Account these to the client role from now on. Call this once all their threads and children have started."""
        self._clients = tuple(clients)
        self._account(Role.CLIENT, clients)

    def unfollow(self) -> None:
        self._clients = ()
        for trees in self._trees.values():
            trees.pop(Role.CLIENT, None)
        counted = self._counted.pop(Role.CLIENT, None)
        if counted is not None:
            counted.close()

    def close(self) -> None:
        for counted in self._counted.values():
            counted.close()
        self._counted.clear()
        for teller in self._tellers.values():
            teller.close()
        self._tellers.clear()

    def ahead_s(self, host: Host) -> float:
        """How far the clock of a host was ahead of this machine's clock at the last reading."""
        return self._ahead_s.get(host.name, 0.0)

    def read(self) -> Reading:
        """All counters now: those of each kernel at once, then those of Ceph."""
        accounts = {name: self._kernels[name].read(trees) for name, trees in self._trees.items() if trees}
        self._ahead_s.update({name: account.ahead_s for name, account in accounts.items()})
        counted = {role: counter.read() for role, counter in self._counted.items()}
        busy_s = busy_cpu_s() if runs_here(self.cluster) else busy_elsewhere_s(accounts.values())
        ceph: dict[Role, dict[str, float]] = {}
        ceph_at_s: dict[Role, float] = {}
        for role, asks in self._ceph_counters().items():
            began = self.now()
            ceph[role] = counters.total(ask() for ask in asks)
            ceph_at_s[role] = (began + self.now()) / 2
        known = list(accounts.values())
        roles = {role for account in known for role in account.usage}
        return Reading(
            at_s=fmean(account.at_s for account in known),
            usage={
                role: accounting.together(account.usage[role] for account in known if role in account.usage)
                for role in roles
            },
            ceph=ceph,
            ceph_at_s=ceph_at_s,
            interfaces={
                role: summed
                for role in roles
                if (summed := counters.total(account.interfaces.get(role, {}) for account in known))
            },
            harness_s=self._harness_s(),
            busy_s=busy_s,
            instructions=counted,
            usage_at_s={role: fmean(account.at_s for account in known if role in account.usage) for role in roles},
            clock_s=sum(account.clock_s for account in known),
            machine_s=sum(account.machine_s for account in known),
        )

    def requests(self) -> float:
        """Client requests that the primary has answered."""
        return sum(self._osd_counters(daemon).get(COUNT, 0.0) for daemon in self.daemons[Role.PRIMARY])

    def _ceph_counters(self) -> dict[Role, list[Callable[[], dict[str, float]]]]:
        """How to read Ceph's own counters of each role, process by process."""
        asks: dict[Role, list[Callable[[], dict[str, float]]]] = {
            role: [partial(self._osd_counters, daemon) for daemon in self.daemons.get(role, ())] for role in OSD_ROLES
        }
        # Monitors do not know clients and gateways: read their admin sockets. S3 clients have none.
        others: list[tuple[Role, Metered | LoadClient]] = [(Role.CLIENT, client) for client in self._clients]
        others += [(Role.GATEWAY, gateway) for gateway in self.daemons.get(Role.GATEWAY, ())]
        for role, player in others:
            if (socket := getattr(player, "socket", None)) is not None:
                asks.setdefault(role, []).append(partial(self._socket_counters, player.host, socket))
        return asks

    def _osd_counters(self, daemon: Metered) -> dict[str, float]:
        return counters.flatten(tell(self.cluster.client, self.cluster.daemons, daemon.name, "perf dump"))

    def _socket_counters(self, host: Host, socket: PurePosixPath) -> dict[str, float]:
        return counters.flatten(self._teller(host).ask("socket", socket=str(socket)))

    def _harness_s(self) -> float:
        """CPU seconds of this process, of the programs it talks to, and of the lab's own clients of the cluster."""
        total_s = clock_s(os.getpid())
        for client in self.cluster.clients.values():
            pid = pid_here(client.channel)
            if pid:
                total_s += clock_s(pid)
            else:
                self._teller(client.host).adopt(str(client.script))
        for name, teller in self._tellers.items():
            kernel = self._kernels.get(name)
            if isinstance(kernel, There) and kernel.machine_s is not None:
                total_s += kernel.harness_s
            else:
                total_s += teller.spent_s()
        return total_s


def _machines_here(cluster: Cluster) -> RunsMachines | None:
    """The lab of a cluster whose machines are processes here."""
    lab = cluster.lab if isinstance(cluster, OwnCluster) else None
    return lab if isinstance(lab, RunsMachines) else None


def _processes_here(cluster: Cluster) -> bool:
    return all(daemon.process is not None and daemon.process.pid for daemon in cluster.daemons.values())


def runs_here(cluster: Cluster) -> bool:
    """Whether a cluster's daemons run on this machine: as its processes, or in virtual machines of it."""
    return _machines_here(cluster) is not None or _processes_here(cluster)


def accounted_by(cluster: Cluster) -> str:
    """Whose clocks measure the CPU time of the daemons of a cluster, as text for a reader."""
    if _processes_here(cluster):
        return "this machine's kernel"
    if _machines_here(cluster) is not None:
        return "this machine's kernel, for each virtual machine"
    return "the kernel of each host"


def require_metered(cluster: Cluster, shards: int) -> None:
    """Unavailable if the roles of a cluster cannot be told apart, or if the process of a daemon is not known.

    shards: OSDs that one operation reaches.
    """
    osds = len(cluster.osd_ids())
    if osds != shards:
        raise Unavailable(
            f"the costs of primary and replicas cannot be told apart on {osds} OSDs",
            f"every OSD must hold one of the {shards} copies or shards",
            f"measure on a cluster of {shards} OSDs",
        )
    for daemon in cluster.daemons.values():
        if daemon.accounted() is None:
            raise Unavailable(
                f"the cost of {daemon.name} cannot be measured",
                f"its process on {daemon.host.name} is not known",
                "in an existing cluster only daemons that systemd runs outside of containers can be measured",
            )


def process_of(player: Metered | LoadClient) -> HostProcess:
    """The process that plays a role; LabBroken if it is not known."""
    process = player.accounted() if isinstance(player, Daemon) else player.process
    if process is None:
        name = getattr(player, "name", "a client")
        raise LabBroken(f"the process of {name} is not known: it cannot be accounted for", f"host: {player.host.name}")
    return process


def busy_elsewhere_s(accounts: Iterable[Account]) -> float:
    """CPU seconds of everything that ran on several kernels; a kernel shared by several hosts counts once."""
    return sum({account.boot: account.busy_s for account in accounts}.values())
