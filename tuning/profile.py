"""Profiles: what the machines of a cluster are, each figure with its source, and how a file writes each value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, Field, StringConstraints

from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.specfile import Count, Text, TomlTable
from cephlab.tuning.units import Measure, parse, show


@dataclass(frozen=True)
class Figure:
    """One figure. value: in the unit of `kind`; source: where it was published or how it was measured."""

    value: float
    kind: Measure
    source: str

    def __str__(self) -> str:
        return show(self.value, self.kind)

    @property
    def assumed(self) -> bool:
        """Whether nobody published or measured it."""
        return self.source.startswith("assumed")

    def times(self, factor: float) -> Figure:
        return replace(self, value=self.value * factor)


class _FigureTable(TomlTable):
    value: Text
    source: Text


def _read_as(kind: Measure) -> BeforeValidator:
    """How pydantic reads a figure of a file."""

    def read(raw: Any) -> Figure:
        if not isinstance(raw, dict):
            raise ValueError('{ value = "figure unit", source = "where it is from" }')
        table = _FigureTable.model_validate(raw)
        return Figure(parse(table.value, kind), kind, table.source)

    return BeforeValidator(read)


Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]*$")]
BytesFigure = Annotated[Figure, _read_as(Measure.BYTES)]
RateFigure = Annotated[Figure, _read_as(Measure.RATE)]
TimeFigure = Annotated[Figure, _read_as(Measure.TIME)]
OpsFigure = Annotated[Figure, _read_as(Measure.OPS)]
SpeedFigure = Annotated[Figure, _read_as(Measure.SPEED)]
PowerFigure = Annotated[Figure, _read_as(Measure.POWER)]


class DiskKind(StrEnum):
    """How a device moves data; decides which of Ceph's defaults apply."""

    HDD = "hdd"
    SSD = "ssd"
    NVME = "nvme"

    @property
    def rotates(self) -> bool:
        return self is DiskKind.HDD


class DiskRole(StrEnum):
    """What a disk holds: objects, or the RocksDB and write-ahead log of OSDs whose objects are on other disks.

    CACHE: on a client, a cache of its own in front of its images.
    """

    DATA = "data"
    METADATA = "metadata"
    CACHE = "cache"


@dataclass(frozen=True)
class Disks:
    """Equal disks of one node. Rated figures are of one disk; None: not published.

    read_iops, write_iops: 4 KiB, random, many in flight. seq_read, seq_write: large blocks. sync_latency: of one
    4 KiB write that is on stable storage when it returns, one at a time. read_latency: of one 4 KiB random read.
    shared_link: of the cable or controller that all of them share in their node.
    """

    name: Name
    kind: DiskKind
    count: Count
    size: BytesFigure
    role: DiskRole = DiskRole.DATA
    osds_per_disk: Count = 1
    read_iops: OpsFigure | None = None
    write_iops: OpsFigure | None = None
    seq_read: RateFigure | None = None
    seq_write: RateFigure | None = None
    sync_latency: TimeFigure | None = None
    read_latency: TimeFigure | None = None
    shared_link: RateFigure | None = None


@dataclass(frozen=True)
class MachineClass:
    """One class of equal machines. core_speed: points of one core with all its threads busy (docs/model-steps.md).

    thread_speed: points of one thread while its siblings are idle; None: derived from core_speed (tuning/daemons.py).
    bandwidth: of all links to the network together, one direction. cluster_bandwidth: of links between OSDs only; None:
    they share `bandwidth`. link_bandwidth: of the fastest single link, because a TCP stream uses only one link of a
    bond; None: `bandwidth`, as of a machine with one link. memory_bandwidth: what programs get of all its memory, both
    directions together; None: not known. power_loaded, power_idle: of one machine at its plug. osd_threads: processor
    threads that its OSDs are held to, by pinning or containers; None: all.
    """

    name: Name
    count: Count
    arch: Arch
    cores: Count
    threads_per_core: Annotated[int, Field(ge=1, le=8, strict=True)]
    core_speed: SpeedFigure
    memory: BytesFigure
    bandwidth: RateFigure
    disks: tuple[Disks, ...] = ()
    thread_speed: SpeedFigure | None = None
    cluster_bandwidth: RateFigure | None = None
    link_bandwidth: RateFigure | None = None
    memory_bandwidth: RateFigure | None = None
    gateways: Annotated[int, Field(ge=0, strict=True)] = 0
    crc32c: RateFigure | None = None
    ec_encode: RateFigure | None = None
    power_loaded: PowerFigure | None = None
    power_idle: PowerFigure | None = None
    osd_threads: Count | None = None

    @property
    def points(self) -> float:
        """What all cores of one machine do together."""
        return self.cores * self.core_speed.value

    @property
    def data_disks(self) -> tuple[Disks, ...]:
        return tuple(disks for disks in self.disks if disks.role is DiskRole.DATA)

    @property
    def metadata_disks(self) -> tuple[Disks, ...]:
        return tuple(disks for disks in self.disks if disks.role is DiskRole.METADATA)

    @property
    def osds(self) -> int:
        """OSDs on one machine."""
        return sum(disks.count * disks.osds_per_disk for disks in self.data_disks)

    @property
    def weight(self) -> float:
        """Bytes of one machine's data disks: CRUSH distributes data in this proportion."""
        return sum(disks.count * disks.size.value for disks in self.data_disks)


@dataclass(frozen=True)
class Threads:
    """Threads of one daemon: osd_op_num_shards, osd_op_num_threads_per_shard, ms_async_op_threads.

    None where Ceph chooses by the kind of disk.
    """

    osd_shards: Count | None = None
    threads_per_shard: Count | None = None
    messenger: Count = 3


@dataclass(frozen=True)
class Profile:
    """A cluster and its clients. clients_on_nodes: the load runs on the storage nodes themselves.

    rtt: of one small message and its answer between two hosts. uplink: between clients and cluster (switch uplink, load
    balancer), one direction; None: nothing is narrower than the machines' own links. nvmeof_cores: polling cores of
    all NVMe-oF gateways in front of the images, on machines of their own; 0: clients reach the images directly. pgs:
    pg_num of the loaded pool; None: as Ceph's autoscaler would choose. missing: what was not published, as sentences.
    """

    name: str
    title: str
    nodes: tuple[MachineClass, ...]
    clients: tuple[MachineClass, ...]
    rtt: Figure
    mtu_bytes: int
    threads: Threads
    uplink: Figure | None = None
    nvmeof_cores: int = 0
    clients_on_nodes: bool = False
    max_backfills: int = 1
    pgs: int | None = None
    missing: tuple[str, ...] = ()

    @property
    def osds(self) -> int:
        return sum(machine.count * machine.osds for machine in self.nodes)

    @property
    def node_count(self) -> int:
        return sum(machine.count for machine in self.nodes)

    @property
    def weight(self) -> float:
        return sum(machine.count * machine.weight for machine in self.nodes)

    @property
    def heaviest(self) -> float:
        """Bytes of the data disks of the machine that has most."""
        return max(machine.weight for machine in self.nodes)

    def figures(self) -> Iterator[tuple[str, Figure]]:
        """(place, figure) of every figure."""
        yield "network.rtt", self.rtt
        if self.uplink:
            yield "network.uplink", self.uplink
        for machine in (*self.nodes, *self.clients):
            yield from _figures(machine.name, machine)
            for disks in machine.disks:
                yield from _figures(f"{machine.name}.{disks.name}", disks)


_Thing = TypeVar("_Thing", MachineClass, Disks)


def scaled(profile: Profile, place: str, factor: float) -> Profile:
    """The profile with one figure times a factor. place: as in `Profile.figures`."""
    key = place.rpartition(".")[2]
    if place == "network.rtt":
        return replace(profile, rtt=profile.rtt.times(factor))
    if place == "network.uplink" and profile.uplink:
        return replace(profile, uplink=profile.uplink.times(factor))

    def scaled_at(where: str, thing: _Thing) -> _Thing:
        return replace(thing, **{key: getattr(thing, key).times(factor)}) if place == f"{where}.{key}" else thing

    def changed(machine: MachineClass) -> MachineClass:
        disks = tuple(scaled_at(f"{machine.name}.{disks.name}", disks) for disks in machine.disks)
        return scaled_at(machine.name, replace(machine, disks=disks))

    nodes, clients = tuple(map(changed, profile.nodes)), tuple(map(changed, profile.clients))
    return replace(profile, nodes=nodes, clients=clients)


def _figures(place: str, thing: MachineClass | Disks) -> Iterator[tuple[str, Figure]]:
    for key, value in vars(thing).items():
        if isinstance(value, Figure):
            yield f"{place}.{key}", value
