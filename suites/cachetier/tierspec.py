"""The cluster for a cache tier: slow and fast disks, on the same servers or each class on one architecture."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from cephlab.lab.base.errors import SpecError
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import ClusterSpec, Disk, DiskClass, DiskLimits, Node, Osd

SLOW = DiskClass.HDD
FAST = DiskClass.NVME

SLOW_LIMITS = DiskLimits(read_iops=120, write_iops=120, read_bytes_s=120_000_000, write_bytes_s=120_000_000)
"""A 7200 rpm disk, as the Constellation.2 of the 2015 paper: half a revolution takes 4.2 ms and a seek about 4 ms, so
it does 120 requests per second. The paper has no figure."""

FAST_LIMITS = DiskLimits(read_iops=50_000, write_iops=50_000)
"""More than a lab needs. The limit gives the disk its own block device. Otherwise it would share the slow disk's block
device, and with it the slow disk's limit."""


@dataclass(frozen=True)
class TierLayout:
    """servers: how many nodes have a disk of each class.

    limited: disks have the speed limits of their class, else classes are only names. apart: fast and slow disks are on
    different nodes, of two architectures; fast_native: the fast disks are on the native one.
    """

    servers: int = 3
    limited: bool = False
    apart: bool = False
    fast_native: bool = True

    def __post_init__(self) -> None:
        if self.servers < 1:
            raise SpecError(f"a tier on {self.servers} servers", "wanted: 1 or more")


@dataclass(frozen=True)
class TieredTopology(Topology):
    """A cluster with a layout. The monitor and the manager are on the first native node."""

    layout: TierLayout = TierLayout()

    unused: ClassVar[frozenset[str]] = frozenset(
        {"native", "foreign", "mons", "osds_per_node", "separate_db", "disk_bytes", "any_arch"}
    )

    def lay_out(self, release: str, image: str | None, *, in_memory: bool) -> ClusterSpec:
        layout = self.layout
        kinds: Sequence[tuple[Arch, Sequence[DiskClass]]] = [(host_arch(), (SLOW, FAST))] * layout.servers
        if layout.apart:
            native, foreign = (FAST, SLOW) if layout.fast_native else (SLOW, FAST)
            kinds = [(host_arch(), (native,))] * layout.servers + [(host_arch().other, (foreign,))] * layout.servers
        servers = [self._server(number, arch, classes) for number, (arch, classes) in enumerate(kinds)]
        clients = [Node(f"c{index}", arch) for index, arch in enumerate(self.bare)]
        return ClusterSpec((*servers, *clients), release=release, image=image, options=dict(self.options))

    def _server(self, number: int, arch: Arch, classes: Sequence[DiskClass]) -> Node:
        disks = []
        for kind in classes:
            name, limits = ("fast", FAST_LIMITS) if kind is FAST else ("slow", SLOW_LIMITS)
            imposed = limits if self.layout.limited else DiskLimits()
            disks.append(Disk(f"n{number}-{name}", device_class=kind, limits=imposed))
        first = number == 0
        return Node(f"n{number}", arch, tuple(disks), tuple(Osd(disk.name) for disk in disks), mon=first, mgr=first)
