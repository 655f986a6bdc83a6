"""The nodes of one run as LXD instances: raised, killed, moved between, cut off, removed."""

from __future__ import annotations

import ipaddress
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from lab.arch import Arch
from lab.errors import CleanupFailed, LabBroken, LabError, SpecError
from lab.host import Host
from lab.providers.addresses import free_address
from lab.providers.lxd import names, nodes, placement
from lab.providers.lxd.carry import carry
from lab.providers.lxd.host import LxdHost
from lab.providers.lxd.kind import Kind, Supply
from lab.providers.lxd.networks import TUNNEL_MTU
from lab.providers.lxd.placement import Machine
from lab.providers.lxd.removal import Removal
from lab.providers.lxd.server import Server
from lab.providers.packets import PacketFilter
from lab.runs import Run
from lab.spec import Node

_MARK = "cephlab"
_RAISE_AT_ONCE = 4


class LxdLab:
    """Instances on a bridge of their own; with several machines, the first one's is the middle of a star."""

    def __init__(self, kind: Kind, servers: Sequence[Server], run: Run, subnet: str, supply: Supply) -> None:
        self._kind = kind
        self._servers = list(servers)
        self._run = run
        self._home = names.home_of(run)
        self._subnet = ipaddress.IPv4Network(subnet)
        self._fingerprints = dict(supply.fingerprints)
        self._emulated = supply.emulated
        self._hosts: dict[str, LxdHost] = {}
        self._plugging = threading.Lock()

    @property
    def hosts(self) -> Mapping[str, Host]:
        return self._hosts

    @property
    def state(self) -> dict[str, Any]:
        return {
            "servers": [server.address.url for server in self._servers],
            "subnet": str(self._subnet),
            "emulated": sorted(arch.value for arch in self._emulated),
            "images": [[url, arch.value, image] for (url, arch), image in self._fingerprints.items()],
            "nodes": {name: _node_state(host) for name, host in self._hosts.items()},
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take the nodes from `state`; they exist already."""
        servers = {server.address.url: server for server in self._servers}
        for name, found in state["nodes"].items():
            disks = tuple(nodes.disk_from(disk, raw) for disk, raw in found["disks"].items())
            node = Node(name, Arch(found["arch"]), disks, cores=found["cores"], memory_bytes=found["memory_bytes"])
            self._open(node, str(found["address"]), servers[found["server"]])

    def machines(self) -> list[Machine]:
        """What placement has to know of the machines, now."""
        found = []
        for server in self._servers:
            memory = server.resources()["memory"]
            found.append(
                Machine(
                    server.address.url,
                    server.arch,
                    int(memory["total"]) - int(memory["used"]),
                    self._emulated if server.local else frozenset(),
                )
            )
        return found

    def add_node(self, node: Node) -> Host:
        return self.add_nodes([node])[0]

    def add_node_at(self, node: Node, address: str) -> Host:
        self._refuse(node)
        if any(host.address == address and host.up() for host in self._hosts.values()):
            raise SpecError(f"{node.name} cannot have {address}", "a machine that is on has it", "switch that one off")
        for host in self._hosts.values():
            if host.address == address:
                nodes.unwire(host)  # LXD has no two interfaces of one hardware address, even where one is off
        chosen = placement.place([node], self.machines())
        made = self._open(node, address, self._servers[chosen[node.name]])
        self._raise(made)
        return made

    def add_nodes(self, wanted: Sequence[Node]) -> list[LxdHost]:
        """Raise several machines at once, with their disks."""
        for node in wanted:
            self._refuse(node)
        chosen = placement.place(wanted, self.machines())
        made = [
            self._open(node, free_address(self._subnet, self._addresses()), self._servers[chosen[node.name]])
            for node in wanted
        ]
        with ThreadPoolExecutor(max_workers=_RAISE_AT_ONCE) as pool:
            list(pool.map(self._raise, made))
        return made

    def _refuse(self, node: Node) -> None:
        if node.name in self._hosts:
            raise SpecError(f"there is a node {node.name!r} already", hint="choose another name")
        if not any(arch is node.arch for _, arch in self._fingerprints):
            raise LabBroken(f"no image for {node.arch}", f"images: {', '.join(a for _, a in self._fingerprints)}")
        known = {disk for host in self._hosts.values() for disk in host.disks}
        for disk in node.disks:
            if disk.name in known:
                raise SpecError(f"there is a disk {disk.name!r} already", hint="choose another name")

    def _addresses(self) -> list[str]:
        return [host.address for host in self._hosts.values()]

    def _open(self, node: Node, address: str, server: Server) -> LxdHost:
        host = LxdHost(
            server=server,
            project=names.project_name(self._run.id),
            node=node,
            address=address,
            disks={disk.name: disk for disk in node.disks},
            kind=self._kind,
            mtu=TUNNEL_MTU if len(self._servers) > 1 else None,
        )
        self._hosts[node.name] = host
        return host

    def _raise(self, host: LxdHost) -> None:
        fingerprint = self._fingerprints[host.server.address.url, host.arch]
        nodes.make(host, self._run.id, fingerprint, self._subnet.prefixlen)

    def _host(self, name: str) -> LxdHost:
        if name not in self._hosts:
            raise SpecError(f"there is no node {name!r}", f"nodes: {', '.join(self._hosts)}")
        return self._hosts[name]

    def kill_node(self, name: str) -> None:
        host = self._host(name)
        if host.up():
            nodes.stop(host)

    def start_node(self, name: str) -> Host:
        host = self._host(name)
        if not host.up():
            nodes.start(host)
        return host

    def move_disk(self, disk: str, target: str) -> None:
        """Take a disk's volume out of one instance and put it into another, whether they run or not.

        Between two machines all that is on it goes over the network.
        """
        sources = [host for host in self._hosts.values() if disk in host.disks]
        if not sources:
            raise LabBroken(f"no node has a disk {disk!r}")
        source, goal = sources[0], self._host(target)
        if source is goal:
            return
        with self._plugging:
            nodes.unplug(source, disk)
            if source.server is not goal.server:
                self._carry(disk, source, goal)
            goal.disks[disk] = source.disks.pop(disk)
            nodes.plug(goal, goal.disks[disk])
            for host in (source, goal):
                nodes.resettle(host)

    def _carry(self, disk: str, source: LxdHost, goal: LxdHost) -> None:
        """To the other machine; back into its node when that fails."""
        try:
            carry(source.server, goal.server, source.project, disk)
        except LabError as error:
            try:
                nodes.plug(source, source.disks[disk])
            except LabError as also:
                error.add_note(f"and putting it back: {also}")
            raise

    # What else can be made worse; see the protocols in `lab.providers.base`. The rules end with the instance.

    def cut(self, source: str, target: str) -> None:
        _links(self._host(target)).drop(self._host(source).address, self._host(target).address)

    def cut_packets(self) -> int:
        return sum(_links(host).dropped() for host in self._hosts.values() if host.up())

    def mend_links(self) -> None:
        for host in self._hosts.values():
            if host.up():
                _links(host).clear()

    def close(self) -> None:
        removal = Removal(self._servers, self._home, self._run.id).everything()
        for server in self._servers:
            server.close()
        if removal.errors:
            raise CleanupFailed(removal.errors)


def _links(host: LxdHost) -> PacketFilter:
    """The packet filter inside an instance's network."""
    return PacketFilter(_MARK, inside=host.first_process())


def _node_state(host: LxdHost) -> dict[str, Any]:
    return {
        "server": host.server.address.url,
        "arch": host.arch.value,
        "address": host.address,
        "cores": host.node.cores,
        "memory_bytes": host.node.memory_bytes,
        "disks": {name: nodes.disk_state(disk) for name, disk in host.disks.items()},
    }
