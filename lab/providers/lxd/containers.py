"""Nodes as LXD containers. They share the machine's kernel, and a disk is a file in a mounted volume."""

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cephlab.lab.base.errors import Unavailable
from cephlab.lab.base.home import Home
from cephlab.lab.base.progress import Progress
from cephlab.lab.providers import binfmt, packets
from cephlab.lab.providers.base import Images
from cephlab.lab.providers.blockdevices import limited
from cephlab.lab.providers.engine import places
from cephlab.lab.providers.engine.process import NodeCommand
from cephlab.lab.providers.engine.provider import Export, exporter
from cephlab.lab.providers.host import Facts
from cephlab.lab.providers.lxd import execs, imported
from cephlab.lab.providers.lxd.kind import ServerCapacity, Supply, disk_limits, place_nodes
from cephlab.lab.providers.lxd.server import InstanceRef, Server
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import Capability, ClusterSpec, Disk, Node

_PERIOD_MS = 100
_SETTLED_S = 60.0

# $1: the node's own directory; the rest are pairs of file and size. Existing files are left alone.
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
    """LXD containers. A foreign architecture also needs qemu-user and binfmt_misc. export: gives an image's tarball."""

    export: Export | None = None
    name = "lxd"
    cost = 3
    type = imported.CONTAINER
    own_kernel = False
    usual = frozenset(
        {
            Capability.OWN_NETWORK,
            Capability.TAKE_OVER,
            Capability.CPU_LIMIT,
            Capability.MEMORY_LIMIT,
            Capability.MOVE_DISK,
        }
    )

    def capabilities(self, servers: Sequence[Server]) -> frozenset[Capability]:
        able = set(self.usual)
        if len(servers) == 1:
            if servers[0].limits_disks():
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
        capacities = [ServerCapacity(server.address.url, server.arch, 0, _emulates(server)) for server in servers]
        for arch in spec.archs:
            reason = binfmt.obstacle(arch) if all(server.arch is not arch for server in servers) else None
            if reason is not None and any(server.local for server in servers):
                raise reason
        place_nodes(spec.nodes, capacities)
        for node in spec.nodes:
            bounded = limited(node.disks)
            for disk in bounded:
                disk_limits(disk.limits)
            if len(bounded) > 1:
                raise Unavailable(
                    f"{node.name} has {len(bounded)} disks with limits",
                    "LXD limits the block device below its storage, and all disks of an instance share that device",
                    "limit only one disk of a node, or use --lab container",
                )

    def supply(
        self, servers: Sequence[Server], spec: ClusterSpec, images: Images, home: Home, progress: Progress
    ) -> Supply:
        export = self.export or exporter(home, "lxd", progress)
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
        """LXC sets the address at the start, because the images have no DHCP client."""
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
        """A volume for the disk's sparse file, because containers cannot have block volumes."""
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
        return device | disk_limits(disk.limits)

    def facts(self, instance: InstanceRef, node: Node) -> Facts:
        resources = instance.server.resources()
        return Facts(
            arch=node.arch,
            emulated=node.arch is not instance.server.arch,
            kernel=str(instance.server.environment["kernel_version"]),
            cores=node.cores or float(resources["cpu"]["total"]),
            memory_bytes=node.memory_bytes or int(resources["memory"]["total"]),
        )

    def settle(self, instance: InstanceRef, disks: Mapping[str, Disk], *, mtu: int | None) -> None:
        """Make the missing sparse files. LXD has already set the interface's MTU."""
        pairs = [text for disk in disks.values() for text in (str(places.disk_file(disk.name)), str(disk.size_bytes))]
        argv = ("bash", "-c", _MAKE_DISKS, "bash", str(places.NODE_DIRECTORY), *pairs)
        execs.run(instance, NodeCommand(argv), _SETTLED_S).checked(instance.node)


def _emulates(server: Server) -> frozenset[Arch]:
    """Architectures that a machine runs through binfmt_misc. Known only for this machine."""
    if not server.local:
        return frozenset()
    return frozenset(arch for arch in Arch if arch is not server.arch and binfmt.obstacle(arch) is None)
