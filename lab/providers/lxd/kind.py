"""The interface between nodes and the two types of LXD's instances, and the choice of a machine for each node."""

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cephlab.lab.base.errors import SpecError, Unavailable
from cephlab.lab.base.home import Home
from cephlab.lab.base.progress import Progress
from cephlab.lab.providers.base import Images
from cephlab.lab.providers.host import Facts
from cephlab.lab.providers.lxd.server import InstanceRef, Server
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import GIB, Capability, ClusterSpec, Disk, DiskLimits, Node

Fingerprints = Mapping[tuple[str, Arch], str]
"""(URL of a machine, architecture) -> the image there."""

_NODE_BYTES = GIB
"""Estimate for a node without a limit: an OSD of half a GiB, and a monitor, a manager or page cache."""


@dataclass(frozen=True)
class Supply:
    """What nodes are made from. emulated: architectures that no machine has and that this one emulates."""

    fingerprints: Fingerprints
    emulated: frozenset[Arch]


class InstanceKind(Protocol):
    """One type of instances: facts about it, and what to request from LXD. Only `supply` and `settle` change anything.

    name, cost: of the provider; type: LXD's word for it; usual: what it can do, as far as is known without an LXD.
    """

    name: str
    cost: int
    type: str
    own_kernel: bool
    usual: frozenset[Capability]

    def capabilities(self, servers: Sequence[Server]) -> frozenset[Capability]: ...

    def obstacle(self, servers: Sequence[Server]) -> Unavailable | None:
        """Why machines that answered cannot make such instances, or None."""
        ...

    def refuse(self, servers: Sequence[Server], spec: ClusterSpec) -> None:
        """Raise Unavailable or SpecError if the spec cannot be served."""
        ...

    def supply(
        self, servers: Sequence[Server], spec: ClusterSpec, images: Images, home: Home, progress: Progress
    ) -> Supply:
        """Import the images on every machine that may need them."""
        ...

    def settings(self, server: Server, node: Node, interface: ipaddress.IPv4Interface) -> dict[str, str]: ...
    def volume(self, disk: Disk) -> dict[str, Any]:
        """What to ask LXD for to make a disk's volume."""
        ...

    def device_name(self, disk: str) -> str:
        """The disk's name among an instance's devices, which include `root` and `eth0`."""
        ...

    def device(self, server: Server, disk: Disk) -> dict[str, str]:
        """The device of an instance that is the disk's volume."""
        ...

    def facts(self, instance: InstanceRef, node: Node) -> Facts: ...

    def settle(self, instance: InstanceRef, disks: Mapping[str, Disk], *, mtu: int | None) -> None:
        """Do what remains inside an instance after it was started, or after its disks changed."""
        ...


def disk_limits(limits: DiskLimits) -> dict[str, str]:
    """Options of a disk device. SpecError for operations and bytes in one direction: LXD limits only one of them."""
    settings = {}
    for direction in ("read", "write"):
        iops, rate = getattr(limits, f"{direction}_iops"), getattr(limits, f"{direction}_bytes_s")
        if iops is not None and rate is not None:
            raise SpecError(
                f"LXD limits {direction}s either in number or in bytes",
                f"{direction}_iops is {iops}, {direction}_bytes_s is {rate}",
                "leave one of them out, or use --lab container",
            )
        if iops is not None:
            settings[f"limits.{direction}"] = f"{iops}iops"
        elif rate is not None:
            settings[f"limits.{direction}"] = f"{rate}B"
    return settings


@dataclass(frozen=True)
class ServerCapacity:
    """A machine with an LXD, for placement. emulates: architectures that it runs through an emulator."""

    name: str
    arch: Arch
    free_bytes: int
    emulates: frozenset[Arch] = frozenset()


def place_nodes(nodes: Sequence[Node], machines: Sequence[ServerCapacity]) -> dict[str, int]:
    """Node -> index of its machine: the one of its architecture with the most free memory. Unavailable if none fits."""
    left = [machine.free_bytes for machine in machines]
    chosen: dict[str, int] = {}
    for node in nodes:
        native = [index for index, machine in enumerate(machines) if machine.arch is node.arch]
        able = native or [index for index, machine in enumerate(machines) if node.arch in machine.emulates]
        if not able:
            raise Unavailable(
                f"no machine can run {node.name}, which is {node.arch}",
                f"machines: {', '.join(f'{machine.name} ({machine.arch})' for machine in machines)}",
                "add a machine of that architecture, or install qemu-user and binfmt_misc on this one",
            )
        # The first of equals, so that the same lab is always laid out in the same way.
        best = max(able, key=lambda index: left[index])
        left[best] -= node.memory_bytes or _NODE_BYTES
        chosen[node.name] = best
    return chosen
