"""The nodes of one run by name, and what every lab refuses about them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, Protocol, TypeVar

from cephlab.lab.base.errors import LabBroken, SpecError
from cephlab.lab.spec.clusterspec import Node


class Addressable(Protocol):
    """A host of a lab, as far as `LabNodes` needs it. disks: those in it now, by name."""

    @property
    def address(self) -> str: ...
    @property
    def disks(self) -> Mapping[str, object]: ...
    def up(self) -> bool: ...


H = TypeVar("H", bound=Addressable)


class LabNodes(Generic[H]):
    """What the labs of all providers share."""

    def __init__(self) -> None:
        self._hosts: dict[str, H] = {}

    @property
    def hosts(self) -> Mapping[str, H]:
        return self._hosts

    def host(self, name: str) -> H:
        """A node by name; SpecError when there is none."""
        if name not in self._hosts:
            raise SpecError(f"there is no node {name!r}", f"nodes: {', '.join(self._hosts)}")
        return self._hosts[name]

    def holder(self, disk: str) -> H:
        """The node that has a disk; LabBroken when no node has it."""
        for host in self._hosts.values():
            if disk in host.disks:
                return host
        raise LabBroken(f"no node has a disk {disk!r}")

    def refuse(self, node: Node) -> None:
        """SpecError for a node whose name is taken."""
        if node.name in self._hosts:
            raise SpecError(f"there is a node {node.name!r} already", hint="choose another name")

    def refuse_at(self, node: Node, address: str) -> None:
        """As `refuse`, and SpecError when a running machine has the address."""
        self.refuse(node)
        if any(host.address == address and host.up() for host in self._hosts.values()):
            raise SpecError(f"{node.name} cannot have {address}", "a running machine has it", "switch that one off")
