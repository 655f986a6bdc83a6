"""The nodes of one run in an engine: what is the same whichever engine keeps them."""

from __future__ import annotations

import ipaddress
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

from cephlab.lab.base.errors import LabBroken, SpecError
from cephlab.lab.base.runs import Run
from cephlab.lab.providers import addresses
from cephlab.lab.providers.engine.host import EngineHost
from cephlab.lab.providers.packets import PacketFilter
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import Node

_MARK = "cephlab"

H = TypeVar("H", bound=EngineHost)


class EngineLab(ABC, Generic[H]):
    """Nodes on a bridge network of their own. archs: those that there are images for."""

    def __init__(self, run: Run, subnet: str, archs: Sequence[Arch]) -> None:
        self._run = run
        self._home = run.home
        self._subnet = ipaddress.IPv4Network(subnet)
        self._archs = tuple(dict.fromkeys(archs))
        self._hosts: dict[str, H] = {}

    @abstractmethod
    def add_nodes(self, wanted: Sequence[Node]) -> list[H]:
        """Raise several machines at once, with their disks."""

    def add_node(self, node: Node) -> H:
        return self.add_nodes([node])[0]

    def refuse(self, node: Node) -> None:
        """SpecError for a node or a disk whose name is taken, LabBroken where there is no image for it."""
        if node.name in self._hosts:
            raise SpecError(f"there is a node {node.name!r} already", hint="choose another name")
        if node.arch not in self._archs:
            raise LabBroken(f"no image for {node.arch}", f"images: {', '.join(self._archs)}")
        taken = {disk for host in self._hosts.values() for disk in host.disks}
        for disk in node.disks:
            if disk.name in taken:
                raise SpecError(f"there is a disk {disk.name!r} already", hint="choose another name")

    def refuse_at(self, node: Node, address: str) -> None:
        """As `refuse`, and SpecError where a machine that is on has the address."""
        self.refuse(node)
        if any(host.address == address and host.up() for host in self._hosts.values()):
            raise SpecError(f"{node.name} cannot have {address}", "a machine that is on has it", "switch that one off")

    def free_address(self) -> str:
        return addresses.free_address(self._subnet, [host.address for host in self._hosts.values()])

    def host(self, name: str) -> H:
        """A node by name; SpecError where there is none."""
        if name not in self._hosts:
            raise SpecError(f"there is no node {name!r}", f"nodes: {', '.join(self._hosts)}")
        return self._hosts[name]

    def holder(self, disk: str) -> H:
        """The node that has a disk; LabBroken where none has it."""
        for host in self._hosts.values():
            if disk in host.disks:
                return host
        raise LabBroken(f"no node has a disk {disk!r}")

    # See CutsLinks in lab/providers/base.py. The rules are in the nodes' own networks, and end with them.

    def cut(self, source: str, target: str) -> None:
        _links(self.host(target)).drop(self.host(source).address, self.host(target).address)

    def cut_packets(self) -> int:
        return sum(_links(host).dropped() for host in self._hosts.values() if host.up())

    def mend_links(self) -> None:
        for host in self._hosts.values():
            if host.up():
                _links(host).clear()


def _links(host: EngineHost) -> PacketFilter:
    return PacketFilter(_MARK, inside=host.first_process())
