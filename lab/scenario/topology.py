"""Defines the cluster that a scenario needs, relative to the machine on which it is raised."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import ClassVar

from cephlab.lab.base.errors import SpecError
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import DEFAULT_DISK_BYTES, ClusterSpec, Disk, Node
from cephlab.lab.spec.layout import CephSetup, Daemons, build_spec

ServicesOf = tuple[tuple[str, tuple[str, ...]], ...]
"""Pairs of a node's name and its services."""


@dataclass(frozen=True)
class Topology:
    """Native nodes, and nodes of the other architecture. A suite that needs another layout makes a subclass.

    clients: adds a machine without daemons of each architecture; lone_client: adds only one of this machine's
    architecture. release: Ceph release, instead of the run's. page_bytes: page size of the kernels of aarch64 nodes;
    None: the provider's. role_sets: role sets of the nodes' image, beyond those that services need. client_disks: disks
    of c0, the first machine without daemons. disk_bytes: size of an OSD's disk. services: daemons beyond the core, by
    node. any_arch: an existing cluster of one architecture serves as well, because the lab mixes architectures here
    although its scenarios are not about that. Two scenarios with equal topologies may share a cluster.
    """

    native: int = 2
    foreign: int = 1
    mons: int = 1
    osds_per_node: int = 1
    separate_db: bool = False
    clients: bool = False
    lone_client: bool = False
    release: str | None = None
    options: tuple[tuple[str, str], ...] = ()
    role_sets: tuple[str, ...] = ("ceph",)
    client_disks: tuple[Disk, ...] = ()
    disk_bytes: int = DEFAULT_DISK_BYTES
    page_bytes: int | None = None
    services: ServicesOf = ()
    any_arch: bool = field(default=False, compare=False)

    unused: ClassVar[frozenset[str]] = frozenset()
    """Fields that this layout ignores. Setting one is refused, because it would have no effect."""
    memory_disks: ClassVar[bool] = False
    """Whether its disks are in memory if the provider can do that."""

    def __post_init__(self) -> None:
        if self.clients and self.lone_client:
            raise SpecError("clients and lone_client contradict each other", "both are set", "set one of them")
        if self.client_disks and not (self.clients or self.lone_client):
            raise SpecError("client_disks without a client", "every machine has daemons", "set lone_client")
        changed = {item.name for item in fields(self) if getattr(self, item.name) != item.default}
        if dropped := sorted(changed & self.unused):
            raise SpecError(f"{type(self).__name__} ignores {', '.join(dropped)}", "it has no effect", "leave it out")

    @property
    def client_machines(self) -> int:
        """How many machines with the role client it needs on an existing cluster."""
        return 0

    @property
    def made(self) -> str:
        """The fields that need a cluster made for the scenario; empty if an existing cluster is enough."""
        sizes = {"native", "foreign", "mons", "osds_per_node", "clients", "lone_client", "release", "any_arch"}
        return ", ".join(
            item.name for item in fields(self) if item.name not in sizes and getattr(self, item.name) != item.default
        )

    def spec(self, release: str, image: str | None = None, *, in_memory: bool = False) -> ClusterSpec:
        """The cluster on this machine. release: default if the topology has none. in_memory: put disks in memory."""
        spec = self.lay_out(self.release or release, image, in_memory=in_memory)
        services = dict(self.services)
        if unknown := sorted(services.keys() - {node.name for node in spec.nodes}):
            raise SpecError(f"no such node: {', '.join(unknown)}", f"nodes: {', '.join(n.name for n in spec.nodes)}")
        return replace(spec, nodes=tuple(self._completed(node, services) for node in spec.nodes))

    def lay_out(self, release: str, image: str | None, *, in_memory: bool) -> ClusterSpec:
        """Its nodes, before client disks, page sizes and services are added."""
        counts = ((host_arch(), self.native), (host_arch().other, self.foreign))
        return build_spec(
            [(arch, count) for arch, count in counts if count],
            Daemons(
                mons=self.mons,
                osds_per_node=self.osds_per_node,
                disk_bytes=self.disk_bytes,
                separate_db=self.separate_db,
            ),
            CephSetup(release, image, dict(self.options)),
            bare=self.bare,
        )

    @property
    def bare(self) -> tuple[Arch, ...]:
        """Machines without daemons, by architecture."""
        return (host_arch(), host_arch().other) if self.clients else (host_arch(),) if self.lone_client else ()

    def _completed(self, node: Node, services: Mapping[str, tuple[str, ...]]) -> Node:
        disks = self.client_disks if node.name == "c0" and self.client_disks else node.disks
        page_bytes = self.page_bytes if node.arch is Arch.AARCH64 else None
        return replace(node, disks=disks, page_bytes=page_bytes, services=services.get(node.name, ()))


PLAIN = Topology()
"""What most scenarios need."""
ANY_ARCH = Topology(any_arch=True)
"""The same, for scenarios that are not about mixed architectures."""
NOWHERE = Topology(native=0, foreign=0, mons=0)
"""No cluster: the scenario judges what is known without one."""
