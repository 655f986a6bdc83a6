"""Networks that lose packets between some nodes, or are slow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import ClassVar, Self

from lab.cluster import Cluster
from lab.errors import LabBroken, SpecError
from lab.faults.daemons import down
from lab.faults.fault import Layout, Sign, layout_of, look_for
from lab.faults.nodes import strikeable
from lab.providers.base import CutsLinks, SlowsNetwork
from lab.spec import MIB, Capability


@dataclass(frozen=True)
class Partition:
    """Two sets of nodes no longer hear of each other; one_way: only what `away` sends is lost.

    Nodes in neither set reach both. Packets are lost without a word, as in a switch that fails, so what goes on is
    found out by timeouts alone: it holds until the side with the quorum has called the other's OSDs down.
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
        pairs = [(one, other) for one in self.away for other in self.rest]
        if not self.one_way:
            pairs += [(other, one) for one, other in pairs]
        try:
            for source, target in pairs:
                lab.cut(source, target)
            yield
        finally:
            lab.mend_links()

    def sign(self, cluster: Cluster) -> Sign:
        """Packets are lost, and where one side can decide without the other, it calls the other's OSDs down.

        Before that nobody has reason to serve from other copies, and no copy that is cut off can be stale.
        """
        lab = _links(cluster)
        lost = look_for("packets lost between the nodes", lab.cut_packets, patience=cluster.patience)
        osds = self.cut_off(layout_of(cluster))
        return down(cluster, osds) if lost.got and osds else lost

    def cut_off(self, layout: Layout) -> list[str]:
        """OSDs of the side that is left without a quorum; none where no side is, or where nobody could tell.

        A node with daemons that hears both sides carries the word from one to the other, and the lab's client has to be
        on the side that decides.
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
    """What one set of nodes sends no longer reaches the other, which itself is heard."""

    name: ClassVar[str] = "partition-one-way"
    one_way: bool = True

    @classmethod
    def aim(cls, layout: Layout, rng: Random) -> Self | None:
        two_way = Partition.aim(layout, rng)
        return None if two_way is None else cls(two_way.away, two_way.rest)


def _links(cluster: Cluster) -> CutsLinks:
    if not isinstance(cluster.lab, CutsLinks):
        raise LabBroken(f"the {cluster.provider_name} provider says that it can cut links, and its lab cannot")
    return cluster.lab


@dataclass(frozen=True)
class SlowNetwork:
    """What a node sends leaves it at a trickle: a link that fell back to a lower speed.

    bytes_s: 1 MiB/s is less than a hundredth of a gigabit link, and enough for heartbeats.
    """

    name: ClassVar[str] = "slow-network"
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.SLOW_NETWORK})
    node: str
    bytes_s: int = MIB

    @property
    def target(self) -> str:
        return f"{self.node} at {self.bytes_s} bytes/s"

    @classmethod
    def aim(cls, layout: Layout, rng: Random) -> Self | None:
        return cls(rng.choice([node for node, names in sorted(layout.nodes.items()) if names]))

    def nodes(self, layout: Layout) -> frozenset[str]:
        return frozenset({self.node})

    @contextmanager
    def broken(self, cluster: Cluster) -> Iterator[None]:
        lab = self._lab(cluster)
        try:
            lab.slow_network(self.node, self.bytes_s)
            yield
        finally:
            lab.slow_network(self.node, None)

    def sign(self, cluster: Cluster) -> Sign:
        """Even without a load: maps, statistics and what the sign itself asks for come in bursts."""
        lab = self._lab(cluster)
        return look_for("packets that had to wait", lambda: lab.held_packets(self.node), patience=cluster.patience)

    def _lab(self, cluster: Cluster) -> SlowsNetwork:
        if not isinstance(cluster.lab, SlowsNetwork):
            raise LabBroken(f"the {cluster.provider_name} provider says that it can slow networks, and its lab cannot")
        return cluster.lab
