"""Faults of machines that lack resources: slow disks, scarce memory."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from cephlab.lab.base.clock import SYSTEM
from cephlab.lab.base.errors import try_all
from cephlab.lab.ceph.daemon import Wanted
from cephlab.lab.ceph.offline import KILLED
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.own import own
from cephlab.lab.faults.fault import Sign, layout_of, until_healed
from cephlab.lab.faults.nodes import OneNode, cannot
from cephlab.lab.providers.base import SlowsDisks, SqueezesMemory
from cephlab.lab.spec.clusterspec import MIB, Capability, DiskLimits

_PROBE_WRITES = 60
_PROBE_BYTES = 4096


@dataclass(frozen=True)
class SlowDisk(OneNode):
    """A node's disks serve few requests per second, as when a disk is about to fail or a neighbour is busy.

    iops: 20 reads and 20 writes per second are a tenth of what a spinning disk does.
    """

    name: ClassVar[str] = "slow-disk"
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.SLOW_DISK})
    iops: int = 20

    @property
    def target(self) -> str:
        return f"disks of {self.node} at {self.iops} requests/s"

    def broken(self, cluster: Cluster) -> AbstractContextManager[None]:
        lab = own(cluster).lab
        if not isinstance(lab, SlowsDisks):
            raise cannot(cluster, "slow disks")
        slow = DiskLimits(read_iops=self.iops, write_iops=self.iops)
        return until_healed(lambda: lab.slow_disks(self.node, slow), lambda: lab.slow_disks(self.node, None))

    def sign(self, cluster: Cluster) -> Sign:
        """How long direct writes to a file on the device of the node's disks take."""
        host = cluster.hosts[self.node]
        disk = next(disk for name in layout_of(cluster).nodes[self.node] for disk in cluster.daemon(name).disks)
        probe = host.disk(disk).parent / "probe"
        argv = ["dd", "if=/dev/zero", f"of={probe}", f"bs={_PROBE_BYTES}", f"count={_PROBE_WRITES}", "oflag=direct"]
        began = SYSTEM.monotonic()
        try:
            host.run(argv)
        finally:
            took_s = SYSTEM.monotonic() - began
            host.remove(probe)
        # The kernel passes the first requests of each time slice without delay.
        return Sign(f"seconds for {_PROBE_WRITES} direct writes", took_s, least=_PROBE_WRITES / self.iops / 2)


@dataclass(frozen=True)
class MemorySqueeze(OneNode):
    """A node has little more memory than its daemons use, and a greedy program takes the rest.

    The kernel kills that program first. spare_bytes: memory left beyond what is in use.
    """

    name: ClassVar[str] = "memory-squeeze"
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.SQUEEZE_MEMORY})
    spare_bytes: int = 128 * MIB

    @property
    def target(self) -> str:
        return f"{self.node} with {self.spare_bytes // MIB} MiB to spare"

    @contextmanager
    def broken(self, cluster: Cluster) -> Iterator[None]:
        lab = own(cluster).lab
        if not isinstance(lab, SqueezesMemory):
            raise cannot(cluster, "limit memory")
        names = layout_of(cluster).nodes[self.node]
        try:
            lab.squeeze_memory(self.node, lab.memory_used(self.node) + self.spare_bytes)
            yield
        finally:
            try_all([partial(lab.squeeze_memory, self.node, None), partial(self._revive, cluster, names)])

    def sign(self, cluster: Cluster) -> Sign:
        """The kernel kills a program that wants twice the spare memory."""
        greedy = ["python3", "-c", _GREEDY, str(2 * self.spare_bytes)]
        ended = cluster.hosts[self.node].run(greedy, check=False).code
        return Sign("greedy programs killed by the kernel", int(ended in KILLED))

    def _revive(self, cluster: Cluster, names: tuple[str, ...]) -> None:
        """Restart the daemons that the kernel killed for lack of memory."""
        daemons = [cluster.daemon(name) for name in names]
        killed = [daemon.name for daemon in daemons if daemon.wanted is Wanted.RUNNING and not daemon.alive()]
        try_all(partial(cluster.start, name) for name in killed)


_GREEDY = """
import sys

with open("/proc/self/oom_score_adj", "w") as file:
    file.write("1000")
held = bytearray(int(sys.argv[1]))
for at in range(0, len(held), 4096):
    held[at] = 1
"""
