"""Which machine a node goes to: one of its own architecture, and of those the one with the most memory left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cephlab.lab.base.errors import Unavailable
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import GIB, Node

_NODE_BYTES = GIB
"""What a node without a limit is taken to need: an OSD of half a GiB, and a monitor, a manager or page cache."""


@dataclass(frozen=True)
class Machine:
    """What placement knows of one. emulates: architectures that it runs through an emulator."""

    name: str
    arch: Arch
    free_bytes: int
    emulates: frozenset[Arch] = frozenset()


def place(nodes: Sequence[Node], machines: Sequence[Machine]) -> dict[str, int]:
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
        # The first of equals, so that a lab on one machine and on several alike is laid out the same each time.
        best = max(able, key=lambda index: left[index])
        left[best] -= node.memory_bytes or _NODE_BYTES
        chosen[node.name] = best
    return chosen
