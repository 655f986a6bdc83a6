"""The plan of a measurement, and the results of one load."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.nearest import unknown
from cephlab.lab.telemetry.demand import CPU, Operation, Resource, Role
from cephlab.lab.telemetry.demandfile import Batch
from cephlab.lab.telemetry.readings import Spent
from cephlab.lab.telemetry.statistics import Stop
from cephlab.lab.workloads import s3
from cephlab.lab.workloads.fio import FioResult

LEAST_OBJECTS = 200
MIX = re.compile(r"randrw([1-9][0-9])")
"""Random reads and writes of an image; the number is the percentage of reads."""

BLOCK_OPERATIONS = ("randwrite", "randread", "write", "read", "randrw70")
SEQ = "seq"
"""Whole objects, each read once by rados bench."""

OPERATIONS = (*BLOCK_OPERATIONS, *s3.OPERATIONS, SEQ)
WORKING = (Role.PRIMARY, Role.REPLICA, Role.CLIENT, Role.GATEWAY)
"""Roles that an operation passes through; the other roles only do background work."""


@dataclass(frozen=True)
class Load:
    """A number of clients. depth: requests in flight per client."""

    depth: int
    clients: int = 1

    @property
    def in_flight(self) -> int:
        return self.depth * self.clients

    def __str__(self) -> str:
        return f"depth {self.depth}" if self.clients == 1 else f"{self.clients} clients of depth {self.depth}"


@dataclass(frozen=True)
class Plan:
    """What to measure. operation.depth: requests in flight per client; low: a second, lower load.

    nodes: one for each client; gateway: node of the gateway. image_bytes: size of the image of a client, of the objects
    that a client reads in passes, or of all objects behind a gateway. There are at most most_objects of the latter,
    except when they are to be deleted. batch_s, ramp_s, idle_s: length of a batch, of the load before the first batch,
    and of the idle time before all load; client_options: ceph options of the clients.
    """

    operation: Operation
    nodes: tuple[str, ...]
    image_bytes: int = 256 << 20
    stop: Stop = field(default_factory=Stop)
    low: Load | None = None
    batch_s: float = 2.0
    ramp_s: float = 2.0
    idle_s: float = 4.0
    seed: int = 1
    gateway: str = ""
    most_objects: int = 2048
    client_options: Mapping[str, str] = field(default_factory=lambda: {"rbd_cache": "false"})

    def __post_init__(self) -> None:
        if self.operation.name not in OPERATIONS and not MIX.fullmatch(self.operation.name):
            raise unknown(f"unknown operation {self.operation.name!r}", self.operation.name, OPERATIONS)
        if len(self.nodes) != self.operation.clients:
            raise SpecError(
                f"{self.operation.clients} clients on {len(self.nodes)} nodes", "each client needs its own node"
            )
        if self.objects != bool(self.gateway):
            raise SpecError(
                f"{self.operation.name} with the gateway node {self.gateway!r}",
                "object operations need a gateway node, and no others may have one",
            )
        if self.operation.name == s3.DELETE and len(self.nodes) > 1:
            raise SpecError(f"{len(self.nodes)} clients that delete", "each would delete what another one has deleted")
        if self.operation.name == s3.LIST and self.image_bytes // self.operation.block_bytes < s3.PAGE_KEYS:
            raise SpecError(
                f"{self.image_bytes} bytes are too few objects of {self.operation.block_bytes} bytes for a page",
                f"at least {s3.PAGE_KEYS} wanted",
                "measure with a larger --size",
            )
        if self.passes and self.image_bytes // self.operation.block_bytes < LEAST_OBJECTS:
            raise SpecError(
                f"{self.image_bytes} bytes are too few objects of {self.operation.block_bytes} bytes for a batch",
                f"at least {LEAST_OBJECTS} wanted, since a batch reads each object once",
                "measure with a larger --size",
            )
        if self.low is not None and self.low.clients > len(self.nodes):
            raise SpecError("the lower load has more clients than nodes", f"{self.low}; nodes: {len(self.nodes)}")

    @property
    def objects(self) -> bool:
        """Whether the operation is on objects, through a gateway."""
        return self.operation.name in s3.OPERATIONS

    @property
    def passes(self) -> bool:
        """Whether a load ends once everything is read, so that each batch needs a new load."""
        return self.operation.name == SEQ

    @property
    def load(self) -> Load:
        """The load for which the demand is computed."""
        return Load(self.operation.depth, self.operation.clients)


@dataclass(frozen=True)
class Loaded:
    """One load from its ramp to its end. whole: used between the beginning of the first batch and the end of the last.

    operations: as counted by fio in that time; ceph_operations: the same in the slightly different time of the counters
    of each role; requests: answered by the primary; results: of each client.
    """

    batches: tuple[Batch, ...]
    whole: Spent
    operations: float
    ceph_operations: Mapping[Role, float]
    requests: float
    results: tuple[FioResult, ...]
    stopped: str

    @property
    def latency_mean_s(self) -> float:
        """Mean latency over all operations of all clients."""
        waited_s = sum(result.latency_mean_s * result.operations for result in self.results)
        return waited_s / max(1, sum(result.operations for result in self.results))

    def main_costs(self) -> list[float]:
        """`main_cost` of each batch."""
        return [main_cost(batch.costs) for batch in self.batches]


def main_cost(costs: Mapping[Role, Mapping[Resource, float]]) -> float:
    """CPU seconds of an operation in all roles that it passes through."""
    return cost_of(costs, WORKING, CPU)


def cost_of(
    costs: Mapping[Role, Mapping[Resource, float]], roles: Sequence[Role], resources: Sequence[Resource]
) -> float:
    """Sum over roles and resources; 0 for one that was not measured."""
    return sum(costs.get(role, {}).get(resource, 0.0) for role in roles for resource in resources)
