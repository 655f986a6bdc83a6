"""Reads what every role of a cluster has spent by now; two readings make the cost of what was done between."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePosixPath
from typing import Protocol

import psutil

from lab.cluster import Cluster
from lab.errors import LabBroken, Unavailable
from lab.host import Channel, Host, HostProcess
from lab.telemetry import accounting, counters
from lab.telemetry.accounting import Usage
from lab.telemetry.demand import Resource, Role
from lab.telemetry.instructions import Instructions
from lab.workloads.fio import FioResult, Progress

METERED = ("local", "container")
"""Providers whose daemons are processes of this machine's kernel, which accounts for them."""

OSD_ROLES = (Role.PRIMARY, Role.REPLICA)
COUNT = "osd.op"
_ANSWER_S = 20.0

# As counters._ASK, but a line in, a line out: starting an interpreter at every look would be a load of its own.
_SOCKET_LOOP = """
import json, socket, struct, sys
for line in sys.stdin:
    asked = socket.socket(socket.AF_UNIX)
    asked.connect(line.strip())
    asked.sendall(b'{"prefix": "perf dump"}' + bytes(1))
    stream = asked.makefile("rb")
    length = struct.unpack(">I", stream.read(4))[0]
    print(json.dumps(json.loads(stream.read(length))), flush=True)
"""


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


@dataclass(frozen=True)
class Reading:
    """Counters at one moment. at_s: of `usage`, seconds since the epoch; harness_s: CPU of cephlab and its helpers;
    busy_s: CPU seconds of everything on this machine; instructions: of roles whose are counted.

    ceph_at_s: of each role's counters in `ceph`, the middle of asking for them, which takes a while on a busy machine.
    """

    at_s: float
    usage: Mapping[Role, Usage]
    ceph: Mapping[Role, Mapping[str, float]]
    ceph_at_s: Mapping[Role, float]
    interfaces: Mapping[Role, Mapping[str, int]]
    harness_s: float
    busy_s: float
    instructions: Mapping[Role, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Spent:
    """What was spent between two readings: per role its usage, Ceph's counters and each resource.

    times: began and ended, of what the kernel accounts; ceph_times: the same of each role's own counters, which are not
    read at the same moment. costs, ceph_costs: resources by who accounts for them.
    """

    times: tuple[float, float]
    ceph_times: Mapping[Role, tuple[float, float]]
    usage: Mapping[Role, Usage]
    ceph: Mapping[Role, Mapping[str, float]]
    costs: Mapping[Role, Mapping[Resource, float]]
    ceph_costs: Mapping[Role, Mapping[Resource, float]]
    harness_s: float
    busy_s: float = 0.0

    @property
    def seconds(self) -> float:
        return self.times[1] - self.times[0]

    @property
    def others_s(self) -> float:
        """CPU seconds of all that is neither measured nor cephlab's."""
        return max(0.0, self.busy_s - self.cpu_s - self.harness_s)

    @property
    def cpu_s(self) -> float:
        """Of all measured roles together."""
        return sum(usage.cpu_s for usage in self.usage.values())


@dataclass
class Meter:
    """daemons: role -> the processes that play it; count: how to count instructions, None where nothing can."""

    cluster: Cluster
    daemons: Mapping[Role, Sequence[Metered]]
    now: Callable[[], float] = time.time
    count: Callable[[Sequence[int]], Instructions] | None = None
    _counted: dict[Role, Instructions] = field(default_factory=dict)
    _trees: dict[Role, tuple[int, ...]] = field(default_factory=dict)
    _clients: tuple[Client, ...] = ()
    _channels: dict[str, Channel] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for role, found in self.daemons.items():
            pids = [pid for daemon in found for pid in accounting.tree(pid_of(daemon))]
            self._trees[role] = tuple(pids)
            if self.count is not None and role in OSD_ROLES:
                self._counted[role] = self.count(pids)

    def follow(self, clients: Sequence[Client]) -> None:
        """Account these to the client role from now on. Call it when all their threads and children are there."""
        self._clients = tuple(clients)
        pids = [pid for client in clients for pid in accounting.tree(client.process.pid)]
        self._trees[Role.CLIENT] = tuple(pids)
        if self.count is not None:
            self._counted[Role.CLIENT] = self.count(pids)

    def unfollow(self) -> None:
        self._clients = ()
        self._trees.pop(Role.CLIENT, None)
        counted = self._counted.pop(Role.CLIENT, None)
        if counted is not None:
            counted.close()

    def close(self) -> None:
        for counted in self._counted.values():
            counted.close()
        self._counted.clear()
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()

    def read(self) -> Reading:
        """All counters now: the kernel's in one go, then Ceph's."""
        usage = accounting.usage_of_trees(self._trees)
        counted = {role: one.read() for role, one in self._counted.items()}
        interfaces = self._interfaces()
        busy_s = busy_cpu_s()
        at_s = self.now()
        ceph: dict[Role, dict[str, float]] = {}
        ceph_at_s: dict[Role, float] = {}
        for role, ask in self._sources():
            began = self.now()
            ceph[role] = ask()
            ceph_at_s[role] = (began + self.now()) / 2
        return Reading(at_s, usage, ceph, ceph_at_s, interfaces, self._harness_s(), busy_s, counted)

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
        return counters.flatten(self.cluster.client.tell(daemon.name, "perf dump"))

    def _socket_counters(self, host: Host, socket: PurePosixPath) -> dict[str, float]:
        answer = self._channel(host).ask(str(socket).encode(), timeout_s=_ANSWER_S)
        return counters.flatten(json.loads(answer))

    def _channel(self, host: Host) -> Channel:
        known = self._channels.get(host.name)
        if known is None or not known.alive():
            known = self._channels[host.name] = host.channel(["python3", "-c", _SOCKET_LOOP])
        return known

    def _interfaces(self) -> dict[Role, dict[str, int]]:
        """Packets where a role's processes have interfaces of their own; hosts on loopback have none."""
        found = {}
        own = os.readlink("/proc/self/ns/net")  # noqa: PTH115 - the link is no path
        for role, pids in self._trees.items():
            with suppress(OSError):
                sums: dict[str, int] = {}
                for pid in pids:
                    if os.readlink(f"/proc/{pid}/ns/net") == own:  # noqa: PTH115
                        continue
                    text = (accounting.PROC / str(pid) / "net/dev").read_text()
                    for key, value in accounting.interface_counters(text).items():
                        sums[key] = sums.get(key, 0) + value
                if sums:
                    found[role] = sums
        return found

    def _harness_s(self) -> float:
        helpers = [*self._channels.values(), *(client.channel for client in self.cluster.clients.values())]
        pids = [pid for helper in helpers if (pid := getattr(helper, "pid", 0))]
        return accounting.clock_s(os.getpid()) + sum(accounting.clock_s(pid) for pid in pids)


def require_metered(provider_name: str) -> None:
    """Unavailable for a provider whose hosts' processes this machine's kernel does not account for."""
    if provider_name not in METERED:
        raise Unavailable(
            f"what an operation costs cannot be measured with the provider {provider_name}",
            "its daemons are not processes of this machine's kernel, which is what accounts for them",
            f"measure with --lab {' or --lab '.join(METERED)}",
        )


def pid_of(daemon: Metered) -> int:
    """The daemon's pid on this machine; LabBroken where it has none here."""
    if daemon.process is None or not daemon.process.pid:
        raise LabBroken(
            f"{daemon.name} cannot be accounted for: it has no process on this machine",
            f"host: {daemon.host.name}",
            "measure with a provider whose hosts share this machine's kernel: local or container",
        )
    return daemon.process.pid


def busy_cpu_s() -> float:
    """CPU seconds that all CPUs of this machine were not idle, since it was started."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - times.iowait - times.guest - times.guest_nice)


def spent(before: Reading, after: Reading, *, in_memory: bool = False) -> Spent:
    """What was spent between two readings of one meter.

    in_memory: the disks are in memory; the kernel accounts nothing to those, so BlueStore itself says what it moved.
    """
    usage = {role: now.since(before.usage[role]) for role, now in after.usage.items() if role in before.usage}
    both = [role for role in after.ceph if role in before.ceph]
    ceph = {role: counters.since(after.ceph[role], before.ceph[role]) for role in both}
    costs = {role: _kernel_costs(role, used, in_memory=in_memory) for role, used in usage.items()}
    for role, found in costs.items():
        if role in after.instructions and role in before.instructions:
            found[Resource.INSTRUCTIONS] = after.instructions[role] - before.instructions[role]
        if role in after.interfaces and role in before.interfaces:
            found.update(_packets(before.interfaces[role], after.interfaces[role]))
    return Spent(
        times=(before.at_s, after.at_s),
        ceph_times={role: (before.ceph_at_s[role], after.ceph_at_s[role]) for role in both},
        usage=usage,
        ceph=ceph,
        costs=costs,
        ceph_costs={role: _ceph_costs(role, changed, in_memory=in_memory) for role, changed in ceph.items()},
        harness_s=after.harness_s - before.harness_s,
        busy_s=after.busy_s - before.busy_s,
    )


def _kernel_costs(role: Role, used: Usage, *, in_memory: bool) -> dict[Resource, float]:
    found: dict[Resource, float] = {Resource.CPU_USER_S: used.user_s, Resource.CPU_SYSTEM_S: used.system_s}
    if role in OSD_ROLES and not in_memory:
        found[Resource.DEVICE_READ_BYTES] = float(used.read_bytes)
        found[Resource.DEVICE_WRITE_BYTES] = float(used.write_bytes)
    return found


def _ceph_costs(role: Role, changed: Mapping[str, float], *, in_memory: bool) -> dict[Resource, float]:
    moved = counters.traffic(changed)
    found = {Resource.WIRE_SENT_BYTES: moved.sent_bytes, Resource.WIRE_RECEIVED_BYTES: moved.received_bytes}
    if role in OSD_ROLES:
        found |= {Resource.DEVICE_READS: moved.reads, Resource.DEVICE_WRITES: moved.writes}
        if in_memory:
            found |= {Resource.DEVICE_READ_BYTES: moved.read_bytes, Resource.DEVICE_WRITE_BYTES: moved.write_bytes}
    return found


def _packets(before: Mapping[str, int], after: Mapping[str, int]) -> dict[Resource, float]:
    return {
        Resource.WIRE_SENT_PACKETS: float(after["sent_packets"] - before["sent_packets"]),
        Resource.WIRE_RECEIVED_PACKETS: float(after["received_packets"] - before["received_packets"]),
    }
