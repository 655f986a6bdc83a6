"""Service demand: what one operation costs each role of a cluster in each resource, with confidence intervals."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from cephlab.lab.base.numbers import how_many
from cephlab.lab.spec.arch import Arch


class Role(StrEnum):
    """Who bears a cost. An operation has one primary OSD; the other OSDs of its PG (copies or shards) are replicas."""

    CLIENT = "client"
    PRIMARY = "osd.primary"
    REPLICA = "osd.replica"
    MON = "mon"
    MGR = "mgr"
    GATEWAY = "gateway"


OSD_ROLES = (Role.PRIMARY, Role.REPLICA)


class Resource(StrEnum):
    """What an operation uses, named with its unit: CPU seconds, counts, bytes. All per operation."""

    CPU_USER_S = "cpu_user_s"
    CPU_SYSTEM_S = "cpu_system_s"
    INSTRUCTIONS = "instructions"
    DEVICE_READS = "device_reads"
    DEVICE_READ_BYTES = "device_read_bytes"
    DEVICE_WRITES = "device_writes"
    DEVICE_WRITE_BYTES = "device_write_bytes"
    WIRE_SENT_BYTES = "wire_sent_bytes"
    WIRE_RECEIVED_BYTES = "wire_received_bytes"
    WIRE_SENT_PACKETS = "wire_sent_packets"
    WIRE_RECEIVED_PACKETS = "wire_received_packets"


CPU = (Resource.CPU_USER_S, Resource.CPU_SYSTEM_S)

LARGEST = 1e9
"""Stands for the upper end of an interval without one."""


@dataclass(frozen=True)
class Interval:
    """A mean and its two-sided confidence interval over `samples` independent batches."""

    mean: float
    low: float
    high: float
    samples: int
    confidence: float = 0.95

    @property
    def ends(self) -> tuple[float, float]:
        """Both ends of a ratio, for a figure: an infinite end becomes LARGEST, since a history cannot hold it."""
        return max(self.low, -LARGEST), min(self.high, LARGEST)


@dataclass(frozen=True)
class Operation:
    """An operation that was measured. name: read, write, randread, randwrite, put, get ...; block_bytes: its size.

    depth: requests in flight per client; clients: how many at once.
    """

    name: str
    block_bytes: int
    depth: int = 1
    replicas: int = 3
    k: int = 0
    m: int = 0
    clients: int = 1

    @property
    def shards(self) -> int:
        """OSDs that one write reaches."""
        return self.k + self.m if self.k else self.replicas

    @property
    def protection(self) -> str:
        return f"EC {self.k}+{self.m}" if self.k else how_many(self.replicas, "copy", "copies")


@dataclass(frozen=True)
class Demand:
    """Costs of one client operation by role and resource; those of the replicas are for ALL of them together.

    arch: of the OSDs, all of one architecture; emulated: with emulated processors, or a kernel of User-Mode Linux,
    which say nothing about real hardware. memory_bytes: resident, per role and daemon. image: key or digest.
    core_speed: of the machine, on the scale of docs/model-steps.md; 0: unknown. counters: Ceph's own, per operation
    (`bluestore.write_big` ...), only to explain costs. threads: role -> thread name without its number (`tp_osd_tp`,
    `msgr-worker`, `bstore_kv_sync`) -> CPU seconds per operation in all threads of that name, from which the model
    derives the limits of thread pools; if primary and replica cannot be measured apart, it is divided between them in
    proportion to their CPU time.
    """

    operation: Operation
    release: str
    arch: Arch
    image: str
    costs: Mapping[Role, Mapping[Resource, Interval]]
    memory_bytes: Mapping[Role, int] = field(default_factory=dict)
    counters: Mapping[str, float] = field(default_factory=dict)
    threads: Mapping[Role, Mapping[str, float]] = field(default_factory=dict)
    core_speed: float = 0.0
    emulated: bool = False

    def cpu_s(self, role: Role) -> float:
        """User and system seconds of one operation; 0 for a role that took no part."""
        cost = self.costs.get(role, {})
        return sum(cost[key].mean for key in CPU if key in cost)

    def of(self, role: Role, resource: Resource) -> float:
        """Mean cost; 0 if it was not measured."""
        interval = self.costs.get(role, {}).get(resource)
        return interval.mean if interval else 0.0
