"""What a cluster with a cache tier is made of: slow and fast disks, on the same servers or on architectures apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from cephlab.lab.base.errors import SpecError
from cephlab.lab.scenario.topology import Topology, other_arch
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import ClusterSpec, Disk, DiskClass, DiskLimits, Node, Osd

SLOW = DiskClass.HDD
FAST = DiskClass.NVME

SLOW_LIMITS = DiskLimits(read_iops=120, write_iops=120, read_bytes_s=120_000_000, write_bytes_s=120_000_000)
"""A disk of 7200 revolutions a minute, as the 2015 paper's Constellation.2: half a revolution of 4.2 ms and a seek of
about 4 ms make 120 requests a second. The paper itself gives no figure."""

FAST_LIMITS = DiskLimits(read_iops=50_000, write_iops=50_000)
"""More than a lab asks for. It is there so that the disk gets a block device of its own, which a limit needs, and
does not share the one on which the slow disk's limit lies."""


@dataclass(frozen=True)
class TierLayout:
    """servers: how many nodes carry each kind of disk, one of it each.

    limited: classes are imposed by limits, else they are names only. apart: fast and slow disks on nodes of their own,
    of two architectures; fast_native says which of them is this machine's.
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
    """A cluster of a layout; the monitor and the manager are on the first native node."""

    layout: TierLayout = TierLayout()

    unused: ClassVar[frozenset[str]] = frozenset({"native", "foreign", "mons", "osds_per_node", "separate_db"})

    def lay_out(self, release: str, image: str | None, *, in_memory: bool) -> ClusterSpec:
        lay_out = _apart(self.layout) if self.layout.apart else _together(self.layout)
        clients = [Node(f"c{index}", arch) for index, arch in enumerate(self.bare)]
        return ClusterSpec((*lay_out, *clients), release=release, image=image, options=dict(self.options))


def _together(layout: TierLayout) -> list[Node]:
    """Servers with a disk of each kind, as the paper's."""
    return [_node(layout, f"n{index}", host_arch(), (SLOW, FAST), leads=index == 0) for index in range(layout.servers)]


def _apart(layout: TierLayout) -> list[Node]:
    native, foreign = (FAST, SLOW) if layout.fast_native else (SLOW, FAST)
    kinds = [(host_arch(), native)] * layout.servers + [(other_arch(), foreign)] * layout.servers
    return [_node(layout, f"n{index}", arch, (kind,), leads=index == 0) for index, (arch, kind) in enumerate(kinds)]


def _node(layout: TierLayout, name: str, arch: Arch, kinds: Sequence[DiskClass], *, leads: bool) -> Node:
    disks = tuple(
        Disk(f"{name}-{'fast' if kind is FAST else 'slow'}", device_class=kind, limits=_limits(layout, kind))
        for kind in kinds
    )
    return Node(name, arch, disks, tuple(Osd(disk.name) for disk in disks), mon=leads, mgr=leads)


def _limits(layout: TierLayout, kind: DiskClass) -> DiskLimits:
    if not layout.limited:
        return DiskLimits()
    return FAST_LIMITS if kind is FAST else SLOW_LIMITS
