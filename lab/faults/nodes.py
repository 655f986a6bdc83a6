"""A machine that dies with everything on it, and comes back with its disks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import ClassVar, Self

from lab.ceph.daemon import Wanted
from lab.cluster import Cluster
from lab.errors import SpecError
from lab.faults.daemons import NOTHING, decides, down, each_at_once, start_at_once
from lab.faults.fault import Layout, Sign, layout_of, look_for
from lab.spec import Capability


@dataclass(frozen=True)
class KillNode:
    """The machine stops at once; its disks keep what was written to them."""

    name: ClassVar[str] = "kill-node"
    needs: ClassVar[frozenset[Capability]] = NOTHING
    node: str

    @property
    def target(self) -> str:
        return self.node

    @classmethod
    def aim(cls, layout: Layout, rng: Random) -> Self | None:
        nodes = strikeable(layout)
        return cls(rng.choice(nodes)) if nodes else None

    def nodes(self, layout: Layout) -> frozenset[str]:
        return frozenset({self.node})

    @contextmanager
    def broken(self, cluster: Cluster) -> Iterator[None]:
        names = layout_of(cluster).nodes[self.node]
        if self.node == cluster.client.host.name:
            raise SpecError(f"{self.node} cannot be killed", "the lab's own client runs there", "choose another node")
        try:
            switch_off(cluster, [self.node])
            yield
        finally:
            cluster.lab.start_node(self.node)
            start_at_once(cluster, names)

    def sign(self, cluster: Cluster) -> Sign:
        """The machine is down with all that ran on it; and where somebody decides, its OSDs are missed."""
        names = layout_of(cluster).nodes[self.node]
        dark = look_for(
            "machines that are down with all their daemons",
            lambda: int(not cluster.hosts[self.node].up() and not any(cluster.daemon(name).alive() for name in names)),
            patience=cluster.patience,
        )
        osds = [name for name in names if name.startswith("osd.")]
        return down(cluster, osds) if dark.got and osds and decides(cluster) else dark


def switch_off(cluster: Cluster, machines: Sequence[str]) -> None:
    """Machines stop at once and together, with everything on them."""
    for machine in machines:
        for name in layout_of(cluster).nodes[machine]:
            # Said beforehand, so that nobody takes their end for a death of their own.
            cluster.daemon(name).wanted = Wanted.STOPPED
    each_at_once([partial(cluster.lab.kill_node, machine) for machine in machines])
    cluster.save()


def strikeable(layout: Layout) -> list[str]:
    """Nodes that a fault may take down whole: not that of the lab's own client, not that of the only monitor."""
    mons = {layout.node_of(name) for name in layout.daemons("mon")}
    sole = mons if len(mons) < 3 else set()
    return [node for node in sorted(layout.nodes) if node != layout.client_node and node not in sole]
