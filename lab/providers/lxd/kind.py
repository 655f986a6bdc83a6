"""What an LXD can make instances as: the seam between nodes and the two types it has, containers and machines."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cephlab.lab.base.errors import Unavailable
from cephlab.lab.base.home import Home
from cephlab.lab.base.progress import Progress
from cephlab.lab.providers.base import Images
from cephlab.lab.providers.host import Facts
from cephlab.lab.providers.lxd.server import Server
from cephlab.lab.providers.lxd.where import Where
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import Capability, ClusterSpec, Disk, Node

Fingerprints = Mapping[tuple[str, Arch], str]
"""(URL of a machine, architecture) -> the image there."""


@dataclass(frozen=True)
class Supply:
    """What nodes are made from. emulated: architectures that no machine has and this one runs all the same."""

    fingerprints: Fingerprints
    emulated: frozenset[Arch]


class Kind(Protocol):
    """One type of instances. What it is asked for is either a fact or an order to LXD; only `settle` does anything."""

    @property
    def name(self) -> str:
        """Of the provider."""
        ...

    @property
    def cost(self) -> int: ...

    @property
    def type(self) -> str:
        """LXD's word for it."""
        ...

    @property
    def own_kernel(self) -> bool: ...

    def usual(self) -> frozenset[Capability]:
        """What it can do where nothing is known of the machines."""
        ...

    def capabilities(self, servers: Sequence[Server]) -> frozenset[Capability]: ...

    def obstacle(self, servers: Sequence[Server]) -> Unavailable | None:
        """Why machines that answered cannot make such instances, or None."""
        ...

    def refuse(self, servers: Sequence[Server], spec: ClusterSpec) -> None:
        """Raise Unavailable or SpecError for what cannot be served."""
        ...

    def supply(
        self, servers: Sequence[Server], spec: ClusterSpec, images: Images, home: Home, progress: Progress
    ) -> Supply:
        """Have the images where nodes may be made from them."""
        ...

    def settings(self, server: Server, node: Node, interface: ipaddress.IPv4Interface) -> dict[str, str]:
        """An instance's configuration, limits included."""
        ...

    def volume(self, disk: Disk) -> dict[str, Any]:
        """The order for a disk's volume."""
        ...

    def device_name(self, disk: str) -> str:
        """The disk among an instance's devices, apart from `root` and `eth0`."""
        ...

    def device(self, server: Server, disk: Disk) -> dict[str, str]:
        """The device that a volume is in an instance."""
        ...

    def facts(self, where: Where, node: Node) -> Facts: ...

    def settle(self, where: Where, disks: Mapping[str, Disk], *, mtu: int | None) -> None:
        """What remains to be done inside an instance that has been switched on, or whose disks have changed."""
        ...
