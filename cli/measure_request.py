"""The parsed options of `cephlab measure` and `cephlab tune measure`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cephlab.cli.output import Output
from cephlab.cli.request import parse_bytes
from cephlab.cli.world import World
from cephlab.lab.base.errors import SpecError, Unavailable
from cephlab.lab.base.nearest import unknown
from cephlab.lab.base.progress import Progress
from cephlab.lab.spec.arch import parse_arch
from cephlab.lab.spec.clusterspec import DEFAULT_RELEASE, HEALTHY_S, UNKNOWN_RELEASE, Capability, refuse_image
from cephlab.lab.spec.layout import CephSetup

if TYPE_CHECKING:
    from cephlab.lab.cluster.own import OwnCluster
    from cephlab.lab.providers.base import Provider
    from cephlab.lab.providers.select import Choice
    from cephlab.lab.spec.arch import Arch
    from cephlab.lab.spec.clusterspec import ClusterSpec
    from cephlab.lab.telemetry.demand import Demand, Operation
    from cephlab.lab.telemetry.demandfile import Measurement
    from cephlab.lab.telemetry.plan import Load, Plan

_UNITS = {"g": 1 << 30, "m": 1 << 20, "k": 1 << 10}
MAX_DEPTH = 1024
MAX_CLIENTS = 16
DISKS = ("auto", "memory", "file")


@dataclass(frozen=True)
class MeasureRequest:
    """The options, parsed."""

    operations: tuple[tuple[str, int], ...]
    depth: int
    arch: str
    replicas: int
    release: str
    lab: str
    image_bytes: int
    within: float
    budget_s: float
    low_depth: int | None = 0
    coding: tuple[int, int] = (0, 0)
    image: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    disks: str = "auto"
    clients: int = 1

    def plans(self) -> list[Plan]:
        """One for each operation; SpecError for an unknown one."""
        from cephlab.lab.telemetry.place import client_name
        from cephlab.lab.telemetry.plan import Plan
        from cephlab.lab.telemetry.statistics import Stop

        largest = max(size for _, size in self.operations)
        if self.image_bytes < largest:
            raise SpecError(
                "--size is smaller than one operation", f"got {self.image_bytes}, wanted: {largest} bytes or more"
            )
        stop = Stop(self.within, self.budget_s)
        nodes = tuple(client_name(number) for number in range(self.clients))
        return [
            Plan(self._operation(name, size), nodes, self.image_bytes, stop, self.low(), gateway=gateway_of(name))
            for name, size in self.operations
        ]

    def low(self) -> Load | None:
        """The lower load: as asked; by default one client if there are several, else a quarter of the depth."""
        from cephlab.lab.telemetry.plan import Load

        if self.low_depth is None and self.clients > 1:
            return Load(self.depth)
        depth = self.depth // 4 if self.low_depth is None else self.low_depth
        return Load(depth, self.clients) if depth else None

    def _operation(self, name: str, size: int) -> Operation:
        from cephlab.lab.telemetry.demand import Operation

        k, m = self.coding
        return Operation(name, size, self.depth, replicas=k + m or self.replicas, k=k, m=m, clients=self.clients)

    def spec(self, *, in_memory: bool = False) -> ClusterSpec:
        """The cluster: an OSD for each copy or shard."""
        from cephlab.lab.telemetry.place import MeasuringLayout, measuring_spec
        from cephlab.lab.telemetry.plan import SEQ

        layout = MeasuringLayout(
            osds=sum(self.coding) or self.replicas,
            clients=self.clients,
            gateway=any(gateway_of(name) for name, _ in self.operations),
            in_memory=in_memory,
            held_bytes=self.image_bytes * self.clients if any(name == SEQ for name, _ in self.operations) else 0,
        )
        return measuring_spec(self.osd_arch, layout, CephSetup(self.release, self.image, self.options))

    def written_bytes(self, choice: Choice, spec: ClusterSpec) -> int:
        """What is written to disks below the home before the first load, all copies together; loads write more.

        No write reuses the space of an earlier one (see MEMORY_DISK_BYTES in `lab/telemetry/place.py`): 256 MiB,
        written twice to three OSDs, made their disks 1548 MiB large.
        """
        from cephlab.lab.telemetry.clients import job_of
        from cephlab.lab.workloads.image import PASSES

        disks = [disk for node in spec.nodes for disk in node.disks]
        here = Capability.DISKS_IN_HOME in choice.provider.capabilities()
        if not here or any(disk.in_memory for disk in disks):
            return 0
        written = 0.0
        for plan in self.plans():
            of_clients = len(plan.nodes) * plan.image_bytes * (1 if plan.passes else PASSES)
            filled = job_of(plan).objects * plan.operation.block_bytes if plan.objects else of_clients
            written += filled * plan.operation.shards / (plan.operation.k or 1)
        return min(int(written), sum(disk.size_bytes for disk in disks))

    def choose(self, world: World) -> tuple[Choice, ClusterSpec]:
        """The provider and the spec for it. With `--disks auto`, disks are in memory if a provider supports that."""
        from cephlab.lab.providers.select import AUTO, choose
        from cephlab.lab.telemetry.place import UNASKED

        needs = UNASKED if self.lab == AUTO else frozenset()
        if self.disks not in DISKS:
            raise unknown(f"--disks: {self.disks!r} is not known", self.disks, DISKS)
        if self.disks != "file":
            spec = self.spec(in_memory=True)
            try:
                return choose(self.lab, spec, needs, world.providers), spec
            except Unavailable:
                if self.disks == "memory":
                    raise
        spec = self.spec(in_memory=False)
        return choose(self.lab, spec, needs, world.providers), spec

    @property
    def osd_arch(self) -> Arch:
        return parse_arch(self.arch)


@contextmanager
def raised(world: World, out: Output, request: MeasureRequest) -> Iterator[tuple[OwnCluster, Provider, Progress]]:
    """A healthy cluster, its provider, and a function that reports progress. Ctrl-C removes everything."""
    from cephlab.lab.cluster.optionnames import refuse_wrong_options
    from cephlab.lab.cluster.raising import ClusterRequest, images_for, raise_for, refuse_unfit

    choice, spec = request.choose(world)
    refuse_unfit(spec, world.home, world.images, written_bytes=request.written_bytes(choice, spec))
    out.note(f"provider: {choice.reason}")
    with out.progress() as say:
        given = images_for(spec, world.images, say)
        refuse_wrong_options(replace(spec, options=request.options), given)
        wanted = ClusterRequest(spec, choice.provider, world.home, world.images, given=given)
        with raise_for(wanted, say, healthy_s=HEALTHY_S) as cluster:
            yield cluster, choice.provider, say


def rated(measurement: Measurement, speed: float) -> Measurement:
    """The measurement with this machine's core speed; unchanged if it was emulated or measured elsewhere."""
    from cephlab.lab.telemetry.place import ELSEWHERE, MACHINE

    if measurement.demand.emulated or measurement.conditions.get(MACHINE) == ELSEWHERE:
        return measurement
    return replace(measurement, demand=replace(measurement.demand, core_speed=speed))


def file_name(request: MeasureRequest, demand: Demand) -> str:
    """`reef-x86_64-1ff424429b29-randwrite4k-d16-x3.json`. demand: any one in the file."""
    names = "+".join(f"{name}{_short(size)}" for name, size in request.operations)
    pool = f"ec{request.coding[0]}+{request.coding[1]}" if any(request.coding) else f"x{request.replicas}"
    clients = f"-c{request.clients}" if request.clients > 1 else ""
    image = f"{demand.release}-{demand.arch}-{demand.image[:12]}"
    return f"{image}-{names}-d{request.depth}{clients}-{pool}.json"


def release_of(release: str | None, image: str | None) -> str:
    """The release to ask for; SpecError if both are given, because a pulled image determines its release."""
    refuse_image(release, image)
    return UNKNOWN_RELEASE if image else release or DEFAULT_RELEASE


def _short(size_bytes: int) -> str:
    for unit, unit_bytes in _UNITS.items():
        if size_bytes % unit_bytes == 0:
            return f"{size_bytes // unit_bytes}{unit}"
    return str(size_bytes)


def gateway_of(operation: str) -> str:
    """The node of the gateway that an operation goes through; empty for one that goes through none."""
    from cephlab.lab.telemetry.place import GATEWAY
    from cephlab.lab.workloads.s3 import OPERATIONS

    return GATEWAY if operation in OPERATIONS else ""


def parse_op(text: str, size: str) -> tuple[str, int]:
    """(name, bytes) from `randread` or `randread:16k`; size: of operations that give none."""
    name, _, own = text.partition(":")
    return name, parse_bytes("--op" if own else "--bs", own or size)


def parse_ec(text: str) -> tuple[int, int]:
    """(k, m) from `4+2`."""
    match = re.fullmatch(r"(\d)\+(\d)", text)
    if match is None or int(match[1]) < 2 or int(match[2]) < 1:
        raise SpecError(f"--ec: {text!r} is not K+M", "wanted: K of 2 or more and M of 1 or more", "write 2+1")
    return int(match[1]), int(match[2])
