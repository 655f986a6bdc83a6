"""The scaled machines: the kernel holds every node of a cluster to the same small share of what is declared."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar

import psutil

from cephlab.lab.base.errors import Unavailable
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.own import own
from cephlab.lab.providers.base import SlowsDisks, SlowsNetwork
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.clusterspec import Capability, ClusterSpec, DiskLimits
from cephlab.lab.spec.layout import CephSetup
from cephlab.lab.telemetry import counters
from cephlab.lab.telemetry.demand import Resource
from cephlab.lab.telemetry.place import MeasuringLayout, measuring_spec
from cephlab.suites.block.stand import MeasuredTopology
from cephlab.tuning.scalemodel import Stand

NEEDS = frozenset(
    {
        Capability.CPU_LIMIT,
        Capability.SLOW_DISK,
        Capability.SLOW_NETWORK,
        Capability.THIS_MACHINE,
        Capability.OWN_NETWORK,
    }
)
CLIENTS = 2
NODES_SHARE = 0.35
"""Share of this machine's CPUs for all nodes. The load generator takes nearly as much; the rest is for the lab."""


@dataclass(frozen=True)
class ScaledTopology(Topology):
    """A node with one OSD for each part, held to that part of the CPU of all nodes. parts: their sum is 1."""

    native: int = 0
    foreign: int = 0
    parts: tuple[float, ...] = (1.0,)

    unused: ClassVar[frozenset[str]] = MeasuredTopology.unused | {"native"}

    def lay_out(self, release: str, image: str | None, *, in_memory: bool) -> ClusterSpec:
        spec = measuring_spec(
            host_arch(),
            MeasuringLayout(osds=len(self.parts), clients=CLIENTS),
            CephSetup(release, image, dict(self.options)),
        )
        cores_of = dict(zip(node_names(len(self.parts)), self.cores, strict=True))
        return replace(spec, nodes=tuple(replace(node, cores=cores_of.get(node.name)) for node in spec.nodes))

    @property
    def cores(self) -> tuple[float, ...]:
        """CPUs that each node may use."""
        return tuple(round(part * NODES_SHARE * (psutil.cpu_count() or 1), 3) for part in self.parts)


def node_names(count: int) -> list[str]:
    return [f"n{number}" for number in range(count)]


@dataclass(frozen=True)
class HeldNode:
    """What one node may use in a second; None: no limit. cores: CPU seconds; disk: requests and bytes."""

    name: str
    cores: float
    disk: DiskLimits
    sent_bytes: int


def held_nodes(stands: Sequence[Stand], cores: Sequence[float], k: float) -> list[HeldNode]:
    """The nodes of the lab, each limited to the share k of what it stands for."""

    def share(stand: Stand, key: str) -> int | None:
        rate = stand.rate(key)
        return None if rate is None else max(1, round(k * rate))

    return [
        HeldNode(
            name,
            cores_held,
            DiskLimits(*(share(stand, key) for key in ("read_iops", "write_iops", "seq_read", "seq_write"))),
            max(1, round(k * stand.bandwidth)),
        )
        for name, cores_held, stand in zip(node_names(len(stands)), cores, stands, strict=True)
    ]


@contextmanager
def held(cluster: Cluster, nodes: Sequence[HeldNode]) -> Iterator[None]:
    """Limit disks and links while inside; CPUs are limited from the start. Unavailable where the lab cannot do it."""
    lab = own(cluster).lab
    if not (isinstance(lab, SlowsDisks) and isinstance(lab, SlowsNetwork)):
        raise Unavailable("this lab cannot slow disks and links", hint="--lab container as root can")
    with ExitStack() as undo:
        for node in nodes:
            undo.callback(lab.slow_disks, node.name, None)
            lab.slow_disks(node.name, node.disk)
            undo.callback(lab.slow_network, node.name, None)
            lab.slow_network(node.name, node.sent_bytes)
        yield


@dataclass(frozen=True)
class Spent:
    """What a node has used so far: CPU seconds and counters of its OSD, bytes sent by the whole node."""

    cpu_s: float
    counters: Mapping[str, float]
    sent_bytes: int


def spent(cluster: Cluster, name: str) -> Spent:
    """What a node has used since it started."""
    daemon = next(each for each in own(cluster).daemons.values() if each.kind == "osd" and each.host.name == name)
    times = psutil.Process(getattr(daemon.process, "pid", 0)).cpu_times()
    osd = int(daemon.id)
    sent = int(daemon.host.run(["cat", "/sys/class/net/eth0/statistics/tx_bytes"]).stdout)
    return Spent(times.user + times.system, counters.of_osds(cluster, [osd])[osd], sent)


def in_use(node: HeldNode, before: Spent, after: Spent, seconds: float) -> dict[str, float]:
    """`CPU`, `disk` and `network` -> utilisation: the share of the node's limit that is in use."""
    traffic = counters.traffic(counters.since(after.counters, before.counters))
    most = {
        Resource.DEVICE_READS: node.disk.read_iops,
        Resource.DEVICE_WRITES: node.disk.write_iops,
        Resource.DEVICE_READ_BYTES: node.disk.read_bytes_s,
        Resource.DEVICE_WRITE_BYTES: node.disk.write_bytes_s,
    }
    return {
        "CPU": (after.cpu_s - before.cpu_s) / seconds / node.cores,
        "disk": max((traffic[what] / seconds / bound for what, bound in most.items() if bound), default=0.0),
        "network": (after.sent_bytes - before.sent_bytes) / seconds / node.sent_bytes,
    }


def from_memory(before: Iterable[Spent], after: Iterable[Spent]) -> float:
    """Share of the bytes that OSDs read from their own memory; 0 if they read none."""
    changed = counters.since(
        counters.total(spent.counters for spent in after), counters.total(spent.counters for spent in before)
    )
    hit, missed = (changed.get(f"bluestore.buffer_{what}_bytes", 0.0) for what in ("hit", "miss"))
    return hit / (hit + missed) if hit else 0.0
