"""Shared by the scenarios: machines of their own for gateways and initiator, and an image behind a pair of gateways."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from cephlab.lab.base import clock
from cephlab.lab.base.errors import Unavailable
from cephlab.lab.blockstack.initiator import Connecting, Initiator
from cephlab.lab.blockstack.nvmeof import CONTROLLERS, Pair, Volume, host_nqn
from cephlab.lab.blockstack.nvmet import KernelGateway
from cephlab.lab.blockstack.spdk import pair_of
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.attach.cluster import AttachedCluster
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.pools import PoolKind
from cephlab.lab.providers.host import Host
from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import MIB, Capability


@dataclass(frozen=True)
class PairedTopology(Topology):
    """Beside the cluster a machine of this architecture for initiator and lab, and a gateway of each architecture."""

    @property
    def made(self) -> str:
        return "gateways"

    @property
    def bare(self) -> tuple[Arch, ...]:
        return (host_arch(), host_arch(), host_arch().other)


TOPOLOGY = PairedTopology(native=1, foreign=1)
NEEDS = frozenset({Capability.FABRICS, Capability.FOREIGN_ARCH, Capability.POWER_CUT, Capability.PARTITION})
scenario_on_pair = partial(Scenario, topology=TOPOLOGY, needs=NEEDS)
"""Makes a scenario of this suite; its own arguments win over these."""

INITIATOR = "c0"
NODES = {host_arch(): "c1", host_arch().other: "c2"}
"""The gateways. The one of the other architecture is the initiator of that architecture too."""
Nodes = tuple[str, str]
"""Of a pair's gateways, the one that serves first before the one that waits."""
POOL = "nvmeof"
IMAGE = "volume"
IMAGE_BYTES = 16 * MIB
HELD = Connecting()
CONNECTED_S = 30.0
LAYERING = 1
"""The image's only feature. An exclusive lock would fence by itself, and hide what the pair does."""

LATE = {
    r"log_channel\(cluster\) log \[WRN\] : Health check (failed|update): .*\(SLOW_OPS\)": (
        "The scenario keeps every CPU in use, and a request waits for more than 30 s."
    ),
}
"""Lines of scenarios that load machines as much as they can."""


def copies_for(cluster: Cluster) -> PoolKind:
    """Two copies, where there are two OSDs to hold them."""
    return PoolKind("replicated", min(2, len(cluster.osd_ids())))


@dataclass(frozen=True)
class Stand:
    """A pair that serves, and an initiator that is connected to both. device: the initiator's, over both ways."""

    pair: Pair
    initiator: Initiator
    device: PurePosixPath

    @property
    def cluster(self) -> Cluster:
        return self.pair.cluster

    @property
    def volume(self) -> Volume:
        return self.pair.volume


def from_first(first: Arch) -> Nodes:
    """The gateway of this architecture, then the other one."""
    return NODES[first], NODES[first.other]


def initiator_on(cluster: Cluster) -> str:
    """The machine of the initiator: on an attached cluster the first client machine."""
    return cluster.load_nodes()[0] if isinstance(cluster, AttachedCluster) else INITIATOR


def entered_as_root(host: Host) -> None:
    """Unavailable unless programs of a machine that exists run as root there, which its kernel wants."""
    if host.run(["id", "-u"]).stdout.strip() != "0":
        what = f"{host.name} of the attached cluster is entered as an ordinary user"
        raise Unavailable(what, "only root connects to NVMe-oF gateways", 'give it user = "root" in the inventory')


def paired(cluster: Cluster, nodes: Nodes, *, fenced: bool = True, **volume: Any) -> Pair:
    """A pair before the suite's image. volume: secrets and tls, see `Volume`.

    An attached cluster has gateways of its own, and monitors that fence them.
    """
    hosts = tuple(host_nqn(name) for name in dict.fromkeys((initiator_on(cluster), *nodes)))
    shown = Volume(POOL, IMAGE, hosts, **volume)
    if isinstance(cluster, AttachedCluster):
        entered_as_root(cluster.hosts[initiator_on(cluster)])
        return pair_of(cluster, shown)
    serving, waiting = (KernelGateway(cluster, *each) for each in zip(nodes, CONTROLLERS, strict=True))
    return Pair(cluster, shown, serving, waiting, fenced)


@contextmanager
def served(stage: Stage, nodes: Nodes, *, fenced: bool = True, **volume: Any) -> Iterator[Pair]:
    """An image behind a pair for the length of a block. volume: see `paired`."""
    cluster = stage.cluster
    pair = paired(cluster, nodes, fenced=fenced, **volume)
    with pools.pool(cluster, POOL, copies_for(cluster)):
        cluster.client.rbd_create(POOL, IMAGE, IMAGE_BYTES, features=LAYERING)
        try:
            pair.serve()
            yield pair
        finally:
            pair.withdraw()


@contextmanager
def standing(
    stage: Stage, nodes: Nodes, *, node: str = "", connecting: Connecting = HELD, fenced: bool = True
) -> Iterator[Stand]:
    """A pair, and an initiator on a node that is connected to both of its gateways. node: `initiator_on` without it."""
    with served(stage, nodes, fenced=fenced) as pair:
        initiator = Initiator(stage.cluster, node or initiator_on(stage.cluster), connecting)
        try:
            stand = Stand(pair, initiator, initiator.connect(pair.volume, pair.gateways))
            equal_but_for_numbers(stage, stand)
            yield stand
        finally:
            initiator.disconnect(pair.volume)


def connected(stand: Stand) -> None:
    """Wait until the initiator has its way to each gateway again."""
    clock.wait(
        lambda: [path.state for path in stand.initiator.look(stand.volume)[1]],
        lambda states: states == ["live"] * len(stand.pair.gateways),
        what="every way live",
        timeout_s=CONNECTED_S * stand.cluster.patience,
    )


def equal_but_for_numbers(stage: Stage, stand: Stand) -> None:
    """Observe what both gateways say that they show, and the numbers of the initiator's controllers."""
    for gateway in stand.pair.gateways:
        told = gateway.told()
        alike = {key: told[key] for key in stand.volume.identity}
        stage.recorder.observe(f"what {gateway.name} shows", got=alike, wanted=stand.volume.identity)
    ranges = sorted(gateway.told()["controllers"] for gateway in stand.pair.gateways)
    apart = ranges[0][1] < ranges[1][0]
    stage.recorder.observe("whether the gateways' ranges of controllers' numbers are apart", got=apart, wanted=True)
    _, paths = stand.initiator.look(stand.volume)
    numbers = sorted(path.controller for path in paths)
    stage.recorder.observe(
        "controllers' numbers within the ranges of their gateways",
        got=[first <= number <= last for number, (first, last) in zip(numbers, ranges, strict=False)],
        wanted=[True] * len(ranges),
    )
