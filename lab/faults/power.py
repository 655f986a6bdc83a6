"""Power cuts: every machine of a cluster loses power at once, and what was not on a disk is lost."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import ClassVar, Self

from cephlab.lab.base.errors import try_all
from cephlab.lab.base.workers import each_at_once
from cephlab.lab.ceph.daemon import forget_emptied_crashes
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.own import own
from cephlab.lab.faults.daemons import start_at_once
from cephlab.lab.faults.fault import Fault, Layout, Sign, layout_of
from cephlab.lab.faults.nodes import switch_off
from cephlab.lab.spec.clusterspec import Capability


@dataclass(frozen=True)
class PowerCut(Fault):
    """Machines stop without notice to their kernels: page caches and in-flight I/O are lost.

    Killing daemons is different: what a daemon wrote stays in its kernel's page cache. The machine of the lab's client
    keeps its power, because the client must remember what was acknowledged.
    """

    name: ClassVar[str] = "power-cut"
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.POWER_CUT})
    machines: tuple[str, ...]

    @property
    def target(self) -> str:
        return ", ".join(self.machines)

    @classmethod
    def aim(cls, layout: Layout, rng: Random) -> Self | None:
        struck = sorted(node for node, names in layout.nodes.items() if names and node != layout.client_node)
        return cls(tuple(struck)) if struck else None

    def nodes(self, layout: Layout) -> frozenset[str]:
        return frozenset(self.machines)

    @contextmanager
    def broken(self, cluster: Cluster) -> Iterator[None]:
        daemons = [name for node in self.machines for name in layout_of(cluster).nodes[node]]
        try:
            switch_off(cluster, self.machines)
            yield
        finally:
            try_all([partial(self.switch_on, cluster), partial(start_at_once, cluster, daemons)])

    def switch_on(self, cluster: Cluster) -> None:
        """Boot the machines that are down, so that their disks can be examined before any daemon starts."""
        down = [machine for machine in self.machines if not cluster.hosts[machine].up()]
        each_at_once([partial(own(cluster).lab.start_node, machine) for machine in down])
        for machine in down:
            # A manager writes crash records of most of its modules at each start; some were not yet on the disk.
            forget_emptied_crashes(cluster.hosts[machine])

    def sign(self, cluster: Cluster) -> Sign:
        down = sum(not cluster.hosts[machine].up() for machine in self.machines)
        return Sign("machines without power", down, least=len(self.machines))
