"""Counters at one moment, and what was used between two moments: usage, Ceph's counters and resources of each role."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from cephlab.lab.telemetry import counters
from cephlab.lab.telemetry.accounting import Usage, together
from cephlab.lab.telemetry.demand import OSD_ROLES, Resource, Role


@dataclass(frozen=True)
class Reading:
    """Counters at one moment. at_s: seconds since the epoch; harness_s: CPU of cephlab and its helpers, on hosts too.

    busy_s: CPU seconds of everything that ran on the kernels that were read; instructions: of roles for which they are
    counted. usage_at_s, ceph_at_s: when the counters of each role in `usage` and `ceph` were read, as the middle of the
    request, which takes a while on a busy machine; `at_s` if not given. clock_s, machine_s: see `Account`.
    """

    at_s: float
    usage: Mapping[Role, Usage]
    ceph: Mapping[Role, Mapping[str, float]]
    ceph_at_s: Mapping[Role, float]
    interfaces: Mapping[Role, Mapping[str, int]]
    harness_s: float
    busy_s: float
    instructions: Mapping[Role, float] = field(default_factory=dict)
    usage_at_s: Mapping[Role, float] = field(default_factory=dict)
    clock_s: float = 0.0
    machine_s: float = 0.0


@dataclass(frozen=True)
class Spent:
    """What was used between two readings: usage, Ceph's counters and resources of each role.

    times: beginning and end; usage_times, ceph_times: the same for the kernel's and Ceph's counters of each role,
    which are read at other moments; usage_times are `times` if not given. costs, ceph_costs: resources as counted by
    the kernel and by Ceph. clock_s, machine_s: see `Account`.
    """

    times: tuple[float, float]
    ceph_times: Mapping[Role, tuple[float, float]]
    usage: Mapping[Role, Usage]
    ceph: Mapping[Role, Mapping[str, float]]
    costs: Mapping[Role, Mapping[Resource, float]]
    ceph_costs: Mapping[Role, Mapping[Resource, float]]
    harness_s: float
    busy_s: float = 0.0
    usage_times: Mapping[Role, tuple[float, float]] = field(default_factory=dict)
    clock_s: float = 0.0
    machine_s: float = 0.0

    @property
    def seconds(self) -> float:
        return self.times[1] - self.times[0]

    @property
    def others_s(self) -> float:
        """CPU seconds of everything that is neither measured nor part of cephlab."""
        return max(0.0, self.busy_s - self.cpu_s - self.harness_s)

    @property
    def cpu_s(self) -> float:
        """CPU seconds of all measured roles together."""
        return sum(usage.cpu_s for usage in self.usage.values())


def spent(before: Reading, after: Reading, *, in_memory: bool = False) -> Spent:
    """What was used between two readings of one meter.

    in_memory: the disks are in memory. The kernel counts no I/O there, so BlueStore's own counters are used.
    """
    usage = {role: now.since(before.usage[role]) for role, now in after.usage.items() if role in before.usage}
    both = [role for role in after.ceph if role in before.ceph]
    ceph = {role: counters.since(after.ceph[role], before.ceph[role]) for role in both}
    costs = {role: _kernel_costs(role, used, in_memory=in_memory) for role, used in usage.items()}
    for role, of_role in costs.items():
        if role in after.instructions and role in before.instructions:
            of_role[Resource.INSTRUCTIONS] = after.instructions[role] - before.instructions[role]
        if role in after.interfaces and role in before.interfaces:
            of_role.update(_packets(before.interfaces[role], after.interfaces[role]))
    return Spent(
        times=(before.at_s, after.at_s),
        ceph_times={role: (before.ceph_at_s[role], after.ceph_at_s[role]) for role in both},
        usage=usage,
        ceph=ceph,
        costs=costs,
        ceph_costs={role: _ceph_costs(role, changed, in_memory=in_memory) for role, changed in ceph.items()},
        harness_s=after.harness_s - before.harness_s,
        busy_s=after.busy_s - before.busy_s,
        usage_times={
            role: (before.usage_at_s[role], after.usage_at_s[role])
            for role in usage
            if role in before.usage_at_s and role in after.usage_at_s
        },
        clock_s=after.clock_s - before.clock_s,
        machine_s=after.machine_s - before.machine_s,
    )


def summed(parts: Sequence[Spent]) -> Spent:
    """Several periods as one, as long as all together, without costs: those belong to each period."""
    began, seconds = parts[0].times[0], sum(part.seconds for part in parts)
    roles, ceph_roles = parts[0].usage, parts[0].ceph
    resident = {role: parts[-1].usage[role].resident_bytes for role in roles}
    return Spent(
        times=(began, began + seconds),
        ceph_times={},
        usage={
            role: replace(together(part.usage[role] for part in parts), resident_bytes=resident[role]) for role in roles
        },
        ceph={role: counters.total(part.ceph.get(role, {}) for part in parts) for role in ceph_roles},
        costs={},
        ceph_costs={},
        harness_s=sum(part.harness_s for part in parts),
        busy_s=sum(part.busy_s for part in parts),
        clock_s=sum(part.clock_s for part in parts),
        machine_s=sum(part.machine_s for part in parts),
    )


def _kernel_costs(role: Role, used: Usage, *, in_memory: bool) -> dict[Resource, float]:
    costs: dict[Resource, float] = {Resource.CPU_USER_S: used.user_s, Resource.CPU_SYSTEM_S: used.system_s}
    if role in OSD_ROLES and not in_memory:
        costs[Resource.DEVICE_READ_BYTES] = float(used.read_bytes)
        costs[Resource.DEVICE_WRITE_BYTES] = float(used.write_bytes)
    return costs


def _ceph_costs(role: Role, changed: Mapping[str, float], *, in_memory: bool) -> dict[Resource, float]:
    counted = [Resource.WIRE_SENT_BYTES, Resource.WIRE_RECEIVED_BYTES]
    if role in OSD_ROLES:
        counted += [Resource.DEVICE_READS, Resource.DEVICE_WRITES]
        counted += [Resource.DEVICE_READ_BYTES, Resource.DEVICE_WRITE_BYTES] if in_memory else []
    moved = counters.traffic(changed)
    return {resource: moved[resource] for resource in counted}


def _packets(before: Mapping[str, int], after: Mapping[str, int]) -> dict[Resource, float]:
    return {
        Resource.WIRE_SENT_PACKETS: float(after["sent_packets"] - before["sent_packets"]),
        Resource.WIRE_RECEIVED_PACKETS: float(after["received_packets"] - before["received_packets"]),
    }
