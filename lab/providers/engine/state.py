"""Nodes and disks as JSON, from which a later cephlab process finds a run's nodes again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cephlab.lab.providers.engine.host import EngineHost
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import Disk, DiskClass, DiskLimits, Node


def node_state(host: EngineHost) -> dict[str, Any]:
    """A node and its current disks."""
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
