"""The nodes of one run in an engine, and their JSON form: the part that is the same for every engine."""

import ipaddress
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from cephlab.lab.base.errors import CleanUp, LabBroken
from cephlab.lab.base.runs import Run
from cephlab.lab.providers import addresses
from cephlab.lab.providers.base import LabNodes
from cephlab.lab.providers.engine.host import EngineHost
from cephlab.lab.providers.packets import PacketFilter
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import Disk, DiskClass, DiskLimits, Node

_MARK = "cephlab"

H = TypeVar("H", bound=EngineHost)


class EngineLab(LabNodes[H], ABC):
    """Nodes on a bridge network of their own. archs: those that have an image."""

    def __init__(self, run: Run, subnet: str, archs: Sequence[Arch]) -> None:
        super().__init__()
        self._run = run
        self._home = run.home
        self._subnet = ipaddress.IPv4Network(subnet)
        self._archs = tuple(dict.fromkeys(archs))

    @abstractmethod
    def add_nodes(self, wanted: Sequence[Node]) -> list[H]:
        """Raise several machines at once, with their disks."""

    def add_node(self, node: Node) -> H:
        return self.add_nodes([node])[0]

    def refuse(self, node: Node) -> None:
        """As in LabNodes, and LabBroken when there is no image for the node."""
        super().refuse(node)
        if node.arch not in self._archs:
            raise LabBroken(f"no image for {node.arch}", f"images: {', '.join(self._archs)}")

    def free_address(self) -> str:
        return addresses.free_address(self._subnet, [host.address for host in self._hosts.values()])

    # See CutsLinks in lab/providers/base.py. The rules are in the nodes' own network namespaces and end with them.

    def cut(self, source: str, target: str) -> None:
        _links(self.host(target)).drop(self.host(source).address, self.host(target).address)

    def cut_packets(self) -> int:
        return sum(_links(host).dropped() for host in self._hosts.values() if host.up())

    def mend_links(self) -> None:
        clean_up = CleanUp()
        for host in self._hosts.values():
            with clean_up.step(host.name):
                if host.up():
                    _links(host).clear()
        clean_up.end()


def _links(host: EngineHost) -> PacketFilter:
    return PacketFilter(_MARK, inside=host.first_process())


def node_state(host: EngineHost) -> dict[str, Any]:
    """A node and its current disks, from which a later cephlab process finds it again."""
    return {
        "arch": host.arch.value,
        "address": host.address,
        "cores": host.node.cores,
        "memory_bytes": host.node.memory_bytes,
        "disks": {
            name: {
                "size_bytes": disk.size_bytes,
                "device_class": disk.device_class.value,
                "limits": vars(disk.limits),
            }
            for name, disk in host.disks.items()
        },
    }


def node_from(name: str, state: Mapping[str, Any]) -> Node:
    """The node that `node_state` described."""
    disks = tuple(
        Disk(disk, int(raw["size_bytes"]), DiskClass(raw["device_class"]), DiskLimits(**raw["limits"]))
        for disk, raw in state["disks"].items()
    )
    return Node(name, Arch(state["arch"]), disks, cores=state["cores"], memory_bytes=state["memory_bytes"])
