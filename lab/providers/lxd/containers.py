"""Nodes as LXD containers: they share the machine's kernel, and a disk is a file in a volume that they mount."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.arch import Arch
from lab.errors import Unavailable
from lab.home import Home
from lab.host import Facts
from lab.images.image import Image
from lab.providers import binfmt, packets
from lab.providers.base import Images, Progress
from lab.providers.blockdevices import BlockDevices, limited
from lab.providers.lxd import execs, imported, limits, names, placement
from lab.providers.lxd.kind import Supply
from lab.providers.lxd.placement import Machine
from lab.providers.lxd.server import Server
from lab.providers.lxd.where import Where
from lab.spec import Capability, ClusterSpec, Disk, Node

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

    export: imported.Exporter | None = None
    name = "lxd"
    cost = 3
    type = imported.CONTAINER
    own_kernel = False

    def usual(self) -> frozenset[Capability]:
        return _ALWAYS | {Capability.MOVE_DISK}

    def capabilities(self, servers: Sequence[Server]) -> frozenset[Capability]:
        found = set(self.usual())
        if len(servers) == 1:
            if _limits_disks(servers[0]):
                found.add(Capability.DISK_LIMIT)
            if servers[0].sees_processes and packets.obstacle(("iptables", "nsenter")) is None:
                found.add(Capability.CUT_LINKS)
        present = {server.arch for server in servers}
        if len(present) > 1 or any(_emulates(server) - {server.arch} for server in servers):
            found.add(Capability.FOREIGN_ARCH)
        return frozenset(found)

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
        export = self.export or _exporter(home)
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
        found = {"raw.lxc": f"lxc.net.0.ipv4.address = {interface} {interface.network.broadcast_address}"}
        if node.arch is not server.arch and node.arch.qemu_cpu:
            found["environment.QEMU_CPU"] = node.arch.qemu_cpu
        if node.cores is not None:
            found["limits.cpu.allowance"] = f"{max(1, round(node.cores * _PERIOD_MS))}ms/{_PERIOD_MS}ms"
        if node.memory_bytes is not None:
            found["limits.memory"] = str(node.memory_bytes)
            found["limits.memory.swap"] = "false"
        return found

    def volume(self, disk: Disk) -> dict[str, Any]:
        """It will hold the disk's sparse file: block volumes cannot be given to containers."""
        return {"name": disk.name, "config": {}}

    def device_name(self, disk: str) -> str:
        return f"disk-{disk}"

    def device(self, server: Server, disk: Disk) -> dict[str, str]:
        found = {"type": "disk", "pool": server.pool, "source": disk.name, "path": str(names.disk_directory(disk.name))}
        return found | limits.options(disk.limits)

    def facts(self, where: Where, node: Node) -> Facts:
        found = where.server.resources()
        return Facts(
            arch=node.arch,
            emulated=node.arch is not where.server.arch,
            kernel=str(where.server.environment["kernel_version"]),
            cores=node.cores or float(found["cpu"]["total"]),
            memory_bytes=node.memory_bytes or int(found["memory"]["total"]),
        )

    def settle(self, where: Where, disks: Mapping[str, Disk], *, mtu: int | None) -> None:
        """Make the sparse files that do not exist yet. LXD has seen to the interface's MTU."""
        pairs = [text for disk in disks.values() for text in (str(names.disk_file(disk.name)), str(disk.size_bytes))]
        argv = ("bash", "-c", _MAKE_DISKS, "bash", str(names.NODE_DIRECTORY), *pairs)
        execs.run(where, argv, timeout_s=_SETTLED_S, stdin=b"", env={}, check=True)


def _exporter(home: Home) -> imported.Exporter:
    def export(image: Image) -> Path:
        # Building images takes modules that a lab of cached ones never needs.
        from lab.images.store import ImageStore

        return ImageStore(home).export(image, "lxd")

    return export


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
