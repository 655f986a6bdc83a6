"""Profiles: what the machines of a cluster are, each figure with its source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from cephlab.lab.spec.arch import Arch
from cephlab.tuning.units import Measure, show


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


class DiskKind(StrEnum):
    """How a device moves data; decides which of Ceph's defaults apply."""

    HDD = "hdd"
    SSD = "ssd"
    NVME = "nvme"

    @property
    def rotates(self) -> bool:
        return self is DiskKind.HDD


class DiskRole(StrEnum):
    """What lies on a disk: objects, or the RocksDB and write-ahead log of OSDs whose objects lie elsewhere."""

    DATA = "data"
    METADATA = "metadata"


@dataclass(frozen=True)
class Disks:
    """Equal disks of one node. Rated figures are of one disk; None: not published.

    read_iops, write_iops: 4 KiB, random, many in flight. seq_read, seq_write: large blocks. sync_latency: of one
    4 KiB write that is on stable storage when it returns, one at a time. read_latency: of one 4 KiB random read.
    shared_link: of the cable or controller that all of them share in their node.
    """

    name: str
    kind: DiskKind
    role: DiskRole
    count: int
    size: Figure
    osds_per_disk: int = 1
    read_iops: Figure | None = None
    write_iops: Figure | None = None
    seq_read: Figure | None = None
    seq_write: Figure | None = None
    sync_latency: Figure | None = None
    read_latency: Figure | None = None
    shared_link: Figure | None = None


@dataclass(frozen=True)
class MachineClass:
    """One class of equal machines. core_speed: points of one core with all its threads busy (docs/model.md).

    thread_speed: points of one thread while the others rest; None: worked out from core_speed (tuning/daemons.py).
    bandwidth: of all links to the network together, one direction. cluster_bandwidth: of links that only OSDs use
    among themselves; None: they share `bandwidth`. power_loaded, power_idle: of one machine at its plug.
    """

    name: str
    count: int
    arch: Arch
    cores: int
    threads_per_core: int
    core_speed: Figure
    memory: Figure
    bandwidth: Figure
    disks: tuple[Disks, ...] = ()
    thread_speed: Figure | None = None
    cluster_bandwidth: Figure | None = None
    gateways: int = 0
    crc32c: Figure | None = None
    ec_encode: Figure | None = None
    power_loaded: Figure | None = None
    power_idle: Figure | None = None

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
        """Bytes of one machine's data disks: CRUSH hands out data in this proportion."""
        return sum(disks.count * disks.size.value for disks in self.data_disks)


@dataclass(frozen=True)
class Threads:
    """Threads of one daemon: osd_op_num_shards, osd_op_num_threads_per_shard, ms_async_op_threads.

    None where Ceph chooses by the kind of disk.
    """

    osd_shards: int | None = None
    threads_per_shard: int | None = None
    messenger: int = 3


@dataclass(frozen=True)
class Profile:
    """A cluster and who loads it. clients_on_nodes: the load runs on the storage nodes themselves.

    rtt: of one small message and its answer between two hosts. uplink: of the way between clients and cluster (switch
    uplink, load balancer), one direction; None: nothing narrower than the machines' own links.
    pgs: pg_num of the pool that is loaded; None: as Ceph's autoscaler would choose.
    missing: what was not published, as sentences.
    """

    name: str
    title: str
    nodes: tuple[MachineClass, ...]
    clients: tuple[MachineClass, ...]
    rtt: Figure
    mtu_bytes: int
    threads: Threads
    uplink: Figure | None = None
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

    def figures(self) -> Iterator[tuple[str, Figure]]:
        """(place, figure) of every figure, for a reader who wants the sources."""
        yield "network.rtt", self.rtt
        if self.uplink:
            yield "network.uplink", self.uplink
        for machine in (*self.nodes, *self.clients):
            yield from _figures(machine.name, machine)
            for disks in machine.disks:
                yield from _figures(f"{machine.name}.{disks.name}", disks)


def scaled(profile: Profile, place: str, factor: float) -> Profile:
    """The profile with one of its `figures` times a factor; place: as `figures` has it."""
    key = place.rpartition(".")[2]
    if place == "network.rtt":
        return replace(profile, rtt=profile.rtt.times(factor))
    if place == "network.uplink" and profile.uplink:
        return replace(profile, uplink=profile.uplink.times(factor))

    def changed(machine: MachineClass) -> MachineClass:
        if place == f"{machine.name}.{key}":
            return replace(machine, **{key: getattr(machine, key).times(factor)})
        disks = tuple(
            replace(known, **{key: getattr(known, key).times(factor)})
            if place == f"{machine.name}.{known.name}.{key}"
            else known
            for known in machine.disks
        )
        return replace(machine, disks=disks)

    nodes, clients = tuple(map(changed, profile.nodes)), tuple(map(changed, profile.clients))
    return replace(profile, nodes=nodes, clients=clients)


def _figures(place: str, thing: MachineClass | Disks) -> Iterator[tuple[str, Figure]]:
    for key, value in vars(thing).items():
        if isinstance(value, Figure):
            yield f"{place}.{key}", value
