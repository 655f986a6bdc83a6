"""Which machine a node goes to: of those with its architecture, the one with the most free memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cephlab.lab.base.errors import Unavailable
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import GIB, Node

_NODE_BYTES = GIB
"""Estimate for a node without a limit: an OSD of half a GiB, and a monitor, a manager or page cache."""


@dataclass(frozen=True)
class ServerCapacity:
    """A machine with an LXD, for placement. emulates: architectures that it runs through an emulator."""

    name: str
    arch: Arch
    free_bytes: int
    emulates: frozenset[Arch] = frozenset()


def place(nodes: Sequence[Node], machines: Sequence[ServerCapacity]) -> dict[str, int]:
    """Node -> index of its machine; Unavailable when no machine runs a node's architecture."""
    left = [machine.free_bytes for machine in machines]
    chosen: dict[str, int] = {}
    for node in nodes:
        native = [index for index, machine in enumerate(machines) if machine.arch is node.arch]
        able = native or [index for index, machine in enumerate(machines) if node.arch in machine.emulates]
        if not able:
            raise Unavailable(
                f"no machine runs {node.arch}, which {node.name} is",
                f"machines: {', '.join(f'{machine.name} ({machine.arch})' for machine in machines)}",
                "add one of that architecture, or qemu-user and binfmt_misc on this one",
            )
        # Of equals the first, so that the same lab is always laid out the same way.
        best = max(able, key=lambda index: left[index])
        left[best] -= node.memory_bytes or _NODE_BYTES
        chosen[node.name] = best
    return chosen
