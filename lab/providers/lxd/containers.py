"""Nodes as LXD containers: they share the machine's kernel, and a disk is a file in a volume that they mount."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cephlab.lab.base.errors import Unavailable
from cephlab.lab.base.home import Home
from cephlab.lab.base.progress import Progress
from cephlab.lab.providers import binfmt, packets
from cephlab.lab.providers.base import Images
from cephlab.lab.providers.blockdevices import BlockDevices, limited
from cephlab.lab.providers.engine import places
from cephlab.lab.providers.engine.images import Exporter, exporter
from cephlab.lab.providers.engine.order import Order
from cephlab.lab.providers.host import Facts
from cephlab.lab.providers.lxd import execs, imported, limits, placement
from cephlab.lab.providers.lxd.kind import Supply
from cephlab.lab.providers.lxd.placement import Machine
from cephlab.lab.providers.lxd.server import Server
from cephlab.lab.providers.lxd.where import Where
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import Capability, ClusterSpec, Disk, Node

_ALWAYS = frozenset({Capability.OWN_NETWORK, Capability.TAKE_OVER, Capability.CPU_LIMIT, Capability.MEMORY_LIMIT})

_FOLDERS = {"dir", "btrfs", "lvm"}
"""Storage drivers whose volumes lie on a block device that the kernel can limit."""

_PERIOD_MS = 100
_SETTLED_S = 60.0

# $1: the node's own directory; the rest are pairs of file and size. What exists stays as it is.
_MAKE_DISKS = """
mkdir -p -- "$1"
shift
while (( $# )); do
  if [[ ! -e $1 ]]; then truncate -s "$2" -- "$1" || exit 1; fi
  shift 2
done
"""


@dataclass(frozen=True)
class Containers:
    """For a foreign architecture also qemu-user and binfmt_misc. export: gives the tarball of an image."""

    export: Exporter | None = None
    name = "lxd"
    cost = 3
    type = imported.CONTAINER
    own_kernel = False

    def usual(self) -> frozenset[Capability]:
        return _ALWAYS | {Capability.MOVE_DISK}

    def capabilities(self, servers: Sequence[Server]) -> frozenset[Capability]:
        able = set(self.usual())
        if len(servers) == 1:
            if _limits_disks(servers[0]):
                able.add(Capability.DISK_LIMIT)
            if servers[0].sees_processes and packets.obstacle(("iptables", "nsenter")) is None:
                able.add(Capability.CUT_LINKS)
        present = {server.arch for server in servers}
        if len(present) > 1 or any(_emulates(server) - {server.arch} for server in servers):
            able.add(Capability.FOREIGN_ARCH)
        return frozenset(able)

    def obstacle(self, servers: Sequence[Server]) -> Unavailable | None:
        return None

    def refuse(self, servers: Sequence[Server], spec: ClusterSpec) -> None:
        machines = [Machine(server.address.url, server.arch, 0, _emulates(server)) for server in servers]
        for arch in spec.archs:
            reason = binfmt.obstacle(arch) if all(server.arch is not arch for server in servers) else None
            if reason is not None and any(server.local for server in servers):
                raise reason
        placement.place(spec.nodes, machines)
        for node in spec.nodes:
            bounded = limited(node.disks)
            for disk in bounded:
                limits.options(disk.limits)
            if len(bounded) > 1:
                raise Unavailable(
                    f"{node.name} has {len(bounded)} disks with limits",
                    "LXD limits the block device below its storage, which all disks of an instance share",
                    "limit one disk of a node only, or use --lab container",
                )

    def supply(
        self, servers: Sequence[Server], spec: ClusterSpec, images: Images, home: Home, progress: Progress
    ) -> Supply:
        export = self.export or exporter(home, "lxd")
        foreign = [arch for arch in spec.archs if not any(server.arch is arch for server in servers)]
        for arch in foreign:
            binfmt.ensure(arch, progress)
        fingerprints = {
            (server.address.url, arch): imported.ensure(server, image, export)
            for server in servers
            for arch, image in images.items()
            if server.arch is arch or (arch in foreign and server.local)
        }
        return Supply(fingerprints, frozenset(foreign))

    def settings(self, server: Server, node: Node, interface: ipaddress.IPv4Interface) -> dict[str, str]:
        """The address is set by LXC as it starts: the images have no DHCP client."""
        settings = {"raw.lxc": f"lxc.net.0.ipv4.address = {interface} {interface.network.broadcast_address}"}
        if node.arch is not server.arch and node.arch.qemu_cpu:
            settings["environment.QEMU_CPU"] = node.arch.qemu_cpu
        if node.cores is not None:
            settings["limits.cpu.allowance"] = f"{max(1, round(node.cores * _PERIOD_MS))}ms/{_PERIOD_MS}ms"
        if node.memory_bytes is not None:
            settings["limits.memory"] = str(node.memory_bytes)
            settings["limits.memory.swap"] = "false"
        return settings

    def volume(self, disk: Disk) -> dict[str, Any]:
        """It will hold the disk's sparse file: block volumes cannot be given to containers."""
        return {"name": disk.name, "config": {}}

    def device_name(self, disk: str) -> str:
        return f"disk-{disk}"

    def device(self, server: Server, disk: Disk) -> dict[str, str]:
        device = {
            "type": "disk",
            "pool": server.pool,
            "source": disk.name,
            "path": str(places.disk_directory(disk.name)),
        }
        return device | limits.options(disk.limits)

    def facts(self, where: Where, node: Node) -> Facts:
        resources = where.server.resources()
        return Facts(
            arch=node.arch,
            emulated=node.arch is not where.server.arch,
            kernel=str(where.server.environment["kernel_version"]),
            cores=node.cores or float(resources["cpu"]["total"]),
            memory_bytes=node.memory_bytes or int(resources["memory"]["total"]),
        )

    def settle(self, where: Where, disks: Mapping[str, Disk], *, mtu: int | None) -> None:
        """Make the sparse files that do not exist yet. LXD has seen to the interface's MTU."""
        pairs = [text for disk in disks.values() for text in (str(places.disk_file(disk.name)), str(disk.size_bytes))]
        argv = ("bash", "-c", _MAKE_DISKS, "bash", str(places.NODE_DIRECTORY), *pairs)
        execs.run(where, Order(argv), _SETTLED_S).checked(where.node)


def _emulates(server: Server) -> frozenset[Arch]:
    """Architectures that a machine runs through binfmt_misc; it is known of this very one only."""
    if not server.local:
        return frozenset()
    return frozenset(arch for arch in Arch if arch is not server.arch and binfmt.obstacle(arch) is None)


def _limits_disks(server: Server) -> bool:
    """Whether the kernel can limit the block device below the storage pool."""
    pool = server.get("looking at its storage", server.api().storage_pools[server.pool])
    if pool["driver"] not in _FOLDERS or not server.sees_processes:
        return False
    try:
        BlockDevices().below(Path(str(pool["config"].get("source") or "/")))
    except Unavailable:
        return False
    return True
