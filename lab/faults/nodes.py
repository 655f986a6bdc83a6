"""A fault in which a machine stops with everything on it, and comes back with its disks."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import ClassVar, Self

from cephlab.lab.base.errors import LabBroken, SpecError
from cephlab.lab.base.workers import each_at_once
from cephlab.lab.ceph.daemon import Wanted
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.own import own
from cephlab.lab.faults.daemons import decides, down, start_at_once
from cephlab.lab.faults.fault import Fault, Layout, Sign, layout_of, look_for


def cannot(cluster: Cluster, what: str) -> LabBroken:
    """The error for a lab that cannot do what its provider claims."""
    return LabBroken(f"the lab of provider {cluster.provider_name} cannot {what}, although the provider claims it")


@dataclass(frozen=True)
class OneNode(Fault):
    """A fault of one node that has an OSD; the node is the failure domain."""

    node: str

    @classmethod
    def aim(cls, layout: Layout, rng: Random) -> Self | None:
        osds = layout.daemons("osd")
        return cls(layout.node_of(rng.choice(osds))) if osds else None

    def nodes(self, layout: Layout) -> frozenset[str]:
        return frozenset({self.node})


@dataclass(frozen=True)
class KillNode(OneNode):
    """A machine stops abruptly; its disks keep what was written to them."""

    name: ClassVar[str] = "kill-node"
    in_labs: ClassVar[bool] = True

    @property
    def target(self) -> str:
        return self.node

    @classmethod
    def aim(cls, layout: Layout, rng: Random) -> Self | None:
        nodes = strikeable(layout)
        return cls(rng.choice(nodes)) if nodes else None

    @contextmanager
    def broken(self, cluster: Cluster) -> Iterator[None]:
        names = layout_of(cluster).nodes[self.node]
        if self.node == cluster.client.host.name:
            raise SpecError(f"{self.node} cannot be killed", "the lab's own client runs there", "choose another node")
        try:
            switch_off(cluster, [self.node])
            yield
        finally:
            own(cluster).lab.start_node(self.node)
            start_at_once(cluster, names)

    def sign(self, cluster: Cluster) -> Sign:
        """The machine and its daemons are down; if there is a quorum, its OSDs are down in the OSD map."""
        names = layout_of(cluster).nodes[self.node]
        dark = look_for(
            "machines that are down with all their daemons",
            lambda: int(not cluster.hosts[self.node].up() and not any(cluster.daemon(name).alive() for name in names)),
            patience=cluster.patience,
        )
        osds = [name for name in names if name.startswith("osd.")]
        return down(cluster, osds) if dark.got and osds and decides(cluster) else dark


def switch_off(cluster: Cluster, machines: Sequence[str]) -> None:
    """Stop several machines abruptly and at the same time, with everything on them."""
    for machine in machines:
        for name in layout_of(cluster).nodes[machine]:
            # Set before they end, so that this does not count as a crash.
            cluster.daemon(name).wanted = Wanted.STOPPED
    each_at_once([partial(own(cluster).lab.kill_node, machine) for machine in machines])
    cluster.daemons_changed()


def strikeable(layout: Layout) -> list[str]:
    """Nodes that a fault may stop: not the node of the lab's own client, and no node that the quorum needs."""
    mons = {layout.node_of(name) for name in layout.daemons("mon")}
    sole = mons if len(mons) < 3 else set()
    return [node for node in sorted(layout.nodes) if node != layout.client_node and node not in sole]
