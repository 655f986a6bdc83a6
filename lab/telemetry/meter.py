"""Reads what every role of a cluster has spent by now; two readings make the cost of what was done between."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePosixPath
from statistics import fmean
from typing import Protocol

from lab.ceph.adminsocket import tell
from lab.ceph.daemon import Daemon
from lab.cluster import Cluster
from lab.errors import LabBroken, Unavailable
from lab.host import Host, HostProcess, has_own_kernel
from lab.providers.base import RunsMachines
from lab.telemetry import accounting, counters
from lab.telemetry.account_program import clock_s
from lab.telemetry.demand import OSD_ROLES, Role
from lab.telemetry.instructions import Instructions
from lab.telemetry.kernels import Account, Here, Kernel, Teller, There, busy_cpu_s, pid_here
from lab.telemetry.readings import Reading
from lab.workloads.fio import FioResult, Progress

COUNT = "osd.op"

THIS_MACHINE = "this machine"
"""Key of its kernel among those that account."""


class Metered(Protocol):
    """What a role's costs are accounted to: a process on a host."""

    @property
    def name(self) -> str: ...
    @property
    def host(self) -> Host: ...
    @property
    def process(self) -> HostProcess | None: ...


class Client(Protocol):
    """A load that runs. socket: its Ceph admin socket on the host, None where it is no client of Ceph's."""

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
    """daemons: role -> the processes that play it; count: how to count instructions, None where nothing can."""

    cluster: Cluster
    daemons: Mapping[Role, Sequence[Metered]]
    now: Callable[[], float] = time.time
    count: Callable[[Sequence[int]], Instructions] | None = None
    _counted: dict[Role, Instructions] = field(default_factory=dict)
    _trees: dict[str, dict[Role, tuple[int, ...]]] = field(default_factory=dict)
    _kernels: dict[str, Kernel] = field(default_factory=dict)
    _tellers: dict[str, Teller] = field(default_factory=dict)
    _clients: tuple[Client, ...] = ()
    _ahead_s: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for role, found in self.daemons.items():
            self._account(role, found)

    def _account(self, role: Role, players: Sequence[Metered | Client]) -> None:
        """Find the processes of a role, and who accounts for them."""
        for player in players:
            process = process_of(player)
            name = THIS_MACHINE if process.pid else player.host.name
            kernel = self._kernel(player.host) if name != THIS_MACHINE else self._here()
            trees = self._trees.setdefault(name, {})
            trees[role] = (*trees.get(role, ()), *kernel.pids(process))
        pids = self._trees.get(THIS_MACHINE, {}).get(role, ())
        if self.count is not None and role in (*OSD_ROLES, Role.CLIENT) and pids:
            self._counted[role] = self.count(pids)

    def _here(self) -> Kernel:
        return self._kernels.setdefault(THIS_MACHINE, Here(self.now))

    def _kernel(self, host: Host) -> Kernel:
        known = self._kernels.get(host.name)
        if known is None:
            machine = self._machine(host)
            # All that passes through a machine elsewhere does so on the interface that the roles use.
            networked = machine is not None or not has_own_kernel(host)
            known = There(self._teller(host), machine, networked=networked, now=self.now)
            self._kernels[host.name] = known
        return known

    def _machine(self, host: Host) -> Callable[[], float] | None:
        """What a host's machine has spent so far, where that is a process here."""
        lab = self.cluster.lab
        if not isinstance(lab, RunsMachines):
            return None
        return lambda: accounting.whole_s(lab.machine_pid(host.name))

    def _teller(self, host: Host) -> Teller:
        return self._tellers.setdefault(host.name, Teller(host))

    def follow(self, clients: Sequence[Client]) -> None:
        """Account these to the client role from now on. Call it when all their threads and children are there."""
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
        """How far a host's clock was before this machine's when it was last asked."""
        return self._ahead_s.get(host.name, 0.0)

    def read(self) -> Reading:
        """All counters now: each kernel's in one go, then Ceph's."""
        accounts = {name: self._kernels[name].read(trees) for name, trees in self._trees.items() if trees}
        self._ahead_s.update({name: account.ahead_s for name, account in accounts.items()})
        counted = {role: one.read() for role, one in self._counted.items()}
        busy_s = busy_cpu_s() if runs_here(self.cluster) else busy_elsewhere_s(accounts.values())
        ceph: dict[Role, dict[str, float]] = {}
        ceph_at_s: dict[Role, float] = {}
        for role, ask in self._sources():
            began = self.now()
            ceph[role] = ask()
            ceph_at_s[role] = (began + self.now()) / 2
        found = list(accounts.values())
        roles = {role for account in found for role in account.usage}
        return Reading(
            at_s=fmean(account.at_s for account in found),
            usage={role: accounting.together(one.usage[role] for one in found if role in one.usage) for role in roles},
            ceph=ceph,
            ceph_at_s=ceph_at_s,
            interfaces={role: summed for role in roles if (summed := _packets_of(role, found))},
            harness_s=self._harness_s(),
            busy_s=busy_s,
            instructions=counted,
            usage_at_s={role: fmean(one.at_s for one in found if role in one.usage) for role in roles},
            clock_s=sum(account.clock_s for account in found),
            machine_s=sum(account.machine_s for account in found),
        )

    def requests(self) -> float:
        """Client requests that the primary has answered."""
        return sum(self._osd_counters(daemon).get(COUNT, 0.0) for daemon in self.daemons[Role.PRIMARY])

    def _sources(self) -> Iterator[tuple[Role, Callable[[], dict[str, float]]]]:
        for role in OSD_ROLES:
            yield role, partial(self._of_osds, role)
        for role, sockets in self._sockets().items():
            yield role, partial(self._of_sockets, sockets)

    def _of_osds(self, role: Role) -> dict[str, float]:
        return counters.total([self._osd_counters(daemon) for daemon in self.daemons.get(role, ())])

    def _sockets(self) -> dict[Role, list[tuple[Host, PurePosixPath]]]:
        """Admin sockets of what the monitors do not know: clients, where they are Ceph's own, and gateways."""
        asked: dict[Role, Sequence[Client | Metered]] = {
            Role.CLIENT: self._clients,
            Role.GATEWAY: self.daemons.get(Role.GATEWAY, ()),
        }
        found = {
            role: [(one.host, socket) for one in several if (socket := getattr(one, "socket", None)) is not None]
            for role, several in asked.items()
        }
        return {role: sockets for role, sockets in found.items() if sockets}

    def _of_sockets(self, sockets: Sequence[tuple[Host, PurePosixPath]]) -> dict[str, float]:
        return counters.total([self._socket_counters(host, socket) for host, socket in sockets])

    def _osd_counters(self, daemon: Metered) -> dict[str, float]:
        return counters.flatten(tell(self.cluster.client, self.cluster.daemons, daemon.name, "perf dump"))

    def _socket_counters(self, host: Host, socket: PurePosixPath) -> dict[str, float]:
        return counters.flatten(self._teller(host).ask("socket", socket=str(socket)))

    def _harness_s(self) -> float:
        """CPU of this process, of the programs it talks to, and of the lab's own clients of the cluster."""
        total_s = clock_s(os.getpid())
        for client in self.cluster.clients.values():
            pid = pid_here(client.channel)
            if pid:
                total_s += clock_s(pid)
            else:
                self._teller(client.host).adopt(str(client.host.directory / "agent.py"))
        for name, teller in self._tellers.items():
            kernel = self._kernels.get(name)
            if isinstance(kernel, There) and kernel.machine_s is not None:
                total_s += kernel.harness_s
            else:
                total_s += teller.spent_s()
        return total_s


def runs_here(cluster: Cluster) -> bool:
    """Whether a cluster's daemons run on this machine: as its processes, or in machines that are processes of its."""
    daemons = cluster.daemons.values()
    return isinstance(cluster.lab, RunsMachines) or all(one.process is not None and one.process.pid for one in daemons)


def accounted_by(cluster: Cluster) -> str:
    """Whose clocks say what a cluster's daemons have spent, in words."""
    if all(one.process is not None and one.process.pid for one in cluster.daemons.values()):
        return "this machine's kernel"
    if isinstance(cluster.lab, RunsMachines):
        return "this machine's kernel, to the machines that its guests are"
    return "the kernel of each host"


def require_metered(cluster: Cluster, shards: int) -> None:
    """Unavailable for a cluster whose costs cannot be told, by Ceph's roles or because a daemon's process is not known.

    shards: OSDs that one operation reaches.
    """
    osds = len(cluster.osd_ids())
    if osds != shards:
        raise Unavailable(
            f"what an operation costs its primary and its replicas cannot be told apart on {osds} OSDs",
            f"every OSD must hold one of the {shards} copies or shards",
            f"measure on a cluster of {shards} OSDs",
        )
    for daemon in cluster.daemons.values():
        if daemon.accounted() is None:
            raise Unavailable(
                f"what {daemon.name} costs cannot be measured",
                f"which process of {daemon.host.name} it is, is not known",
                "daemons of a cluster that exists are measured where systemd keeps them, in no container",
            )


def process_of(player: Metered | Client) -> HostProcess:
    """The process that plays a role; LabBroken where nobody knows one."""
    process = player.accounted() if isinstance(player, Daemon) else player.process
    if process is None:
        name = getattr(player, "name", "a client")
        raise LabBroken(f"{name} cannot be accounted for: nobody knows its process", f"host: {player.host.name}")
    return process


def busy_elsewhere_s(accounts: Iterable[Account]) -> float:
    """CPU seconds of all that ran on several kernels, each counted once however many hosts share it."""
    return sum({account.boot: account.busy_s for account in accounts}.values())


def _packets_of(role: Role, accounts: Sequence[Account]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for account in accounts:
        for key, value in account.interfaces.get(role, {}).items():
            sums[key] = sums.get(key, 0) + value
    return sums
