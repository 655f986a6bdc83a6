"""Faults of networks that lose packets between some nodes, or are slow."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from random import Random
from typing import ClassVar, Self

from cephlab.lab.base.errors import SpecError
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.own import own
from cephlab.lab.faults.daemons import down
from cephlab.lab.faults.fault import Fault, Layout, Sign, layout_of, look_for, until_healed
from cephlab.lab.faults.nodes import OneNode, cannot, strikeable
from cephlab.lab.providers.base import CutsLinks, SlowsNetwork
from cephlab.lab.spec.clusterspec import MIB, Capability


@dataclass(frozen=True)
class Partition(Fault):
    """Two sets of nodes no longer reach each other; one_way: only what `away` sends is lost.

    Nodes in neither set reach both. Packets are dropped silently, as by a failing switch, so Ceph notices only through
    timeouts. The fault counts as proved only when the side with the quorum has marked the OSDs of the other side down.
    """

    name: ClassVar[str] = "partition"
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.CUT_LINKS})
    away: tuple[str, ...]
    rest: tuple[str, ...]
    one_way: bool = False

    def __post_init__(self) -> None:
        if not self.away or not self.rest or set(self.away) & set(self.rest):
            raise SpecError("a partition needs two sets of nodes", f"got {self.away} and {self.rest}")

    @property
    def target(self) -> str:
        return f"{', '.join(self.away)} {'->' if self.one_way else '<->'} {', '.join(self.rest)}"

    @classmethod
    def aim(cls, layout: Layout, rng: Random) -> Self | None:
        nodes = strikeable(layout)
        if not nodes or len(layout.nodes) < 2:
            return None
        alone = rng.choice(nodes)
        return cls((alone,), tuple(node for node in sorted(layout.nodes) if node != alone))

    def nodes(self, layout: Layout) -> frozenset[str]:
        return frozenset(self.away)

    @contextmanager
    def broken(self, cluster: Cluster) -> Iterator[None]:
        lab = _links(cluster)
        pairs = [(near, far) for near in self.away for far in self.rest]
        if not self.one_way:
            pairs += [(far, near) for near, far in pairs]
        try:
            for source, target in pairs:
                lab.cut(source, target)
            yield
        finally:
            lab.mend_links()

    def sign(self, cluster: Cluster) -> Sign:
        """Packets are lost. If one side has a quorum without the other, it marks the OSDs of the other side down.

        Before that, clients still use the old primary OSDs, so no copy that is cut off can be stale.
        """
        lab = _links(cluster)
        lost = look_for("packets lost between the nodes", lab.cut_packets, patience=cluster.patience)
        osds = self.cut_off(layout_of(cluster))
        return down(cluster, osds) if lost.got and osds else lost

    def cut_off(self, layout: Layout) -> list[str]:
        """OSDs of the side without a quorum; empty if no side is certainly without one.

        A node with daemons that reaches both sides forwards messages between them. The lab's client must be on the side
        with the quorum.
        """
        if any(names and node not in {*self.away, *self.rest} for node, names in layout.nodes.items()):
            return []
        mons = layout.daemons("mon")
        for side, other in ((self.away, self.rest), (self.rest, self.away)):
            if layout.client_node not in side and 2 * sum(layout.node_of(mon) in other for mon in mons) > len(mons):
                return [name for name in layout.daemons("osd") if layout.node_of(name) in side]
        return []


@dataclass(frozen=True)
class PartitionOneWay(Partition):
    """Packets from one set of nodes no longer reach the other set; the other direction works."""

    name: ClassVar[str] = "partition-one-way"
    one_way: bool = True


def _links(cluster: Cluster) -> CutsLinks:
    lab = own(cluster).lab
    if not isinstance(lab, CutsLinks):
        raise cannot(cluster, "cut links")
    return lab


@dataclass(frozen=True)
class SlowNetwork(OneNode):
    """What a node sends is throttled, as on a link that fell back to a lower speed.

    bytes_s: 1 MiB/s is less than a hundredth of a gigabit link, and enough for heartbeats.
    """

    name: ClassVar[str] = "slow-network"
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.SLOW_NETWORK})
    bytes_s: int = MIB

    @property
    def target(self) -> str:
        return f"{self.node} at {self.bytes_s} bytes/s"

    @classmethod
    def aim(cls, layout: Layout, rng: Random) -> Self | None:
        nodes = [node for node, names in sorted(layout.nodes.items()) if names]
        return cls(rng.choice(nodes)) if nodes else None

    def broken(self, cluster: Cluster) -> AbstractContextManager[None]:
        lab = self._lab(cluster)
        return until_healed(
            lambda: lab.slow_network(self.node, self.bytes_s), lambda: lab.slow_network(self.node, None)
        )

    def sign(self, cluster: Cluster) -> Sign:
        """Packets are delayed even without a load, because maps, statistics and the lab's requests come in bursts."""
        lab = self._lab(cluster)
        return look_for("delayed packets", lambda: lab.held_packets(self.node), patience=cluster.patience)

    def _lab(self, cluster: Cluster) -> SlowsNetwork:
        lab = own(cluster).lab
        if not isinstance(lab, SlowsNetwork):
            raise cannot(cluster, "slow networks")
        return lab
