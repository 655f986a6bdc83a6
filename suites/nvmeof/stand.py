"""What the NVMe-oF scenarios share: machines for gateways and initiator, and an image behind a pair of gateways."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
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
from cephlab.lab.history.history import Recorder
from cephlab.lab.providers.host import Host
from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import MIB, Capability, ClusterSpec


@dataclass(frozen=True)
class GatewayTopology(Topology):
    """The cluster, and machines without daemons whose kernels have NVMe over TCP, for gateways and initiators."""

    @property
    def made(self) -> str:
        return "gateways"

    def lay_out(self, release: str, image: str | None, *, in_memory: bool) -> ClusterSpec:
        spec = super().lay_out(release, image, in_memory=in_memory)
        return replace(spec, nodes=tuple(replace(node, fabrics=not node.has_daemons) for node in spec.nodes))


@dataclass(frozen=True)
class PairedTopology(GatewayTopology):
    """A native machine for the initiator and the lab, and a gateway machine of each architecture."""

    @property
    def bare(self) -> tuple[Arch, ...]:
        return (host_arch(), host_arch(), host_arch().other)


TOPOLOGY = PairedTopology(native=1, foreign=1)
NEEDS = frozenset({Capability.FABRICS, Capability.FOREIGN_ARCH, Capability.POWER_CUT, Capability.PARTITION})
scenario_on_pair = partial(Scenario, topology=TOPOLOGY, needs=NEEDS)
"""Makes a scenario of this suite; arguments of the call override these."""

INITIATOR = "c0"
NODES = {host_arch(): "c1", host_arch().other: "c2"}
"""Nodes of the gateways. The node of the other architecture is also the initiator of that architecture."""
Nodes = tuple[str, str]
"""The nodes of a pair: first the gateway that serves at the start, then the one on standby."""
POOL = "nvmeof"
IMAGE = "volume"
IMAGE_BYTES = 16 * MIB
HELD = Connecting()
CONNECTED_S = 30.0
TRANSITION_S = 10.0
"""How long the ANA states of paths may change: ANATT of the controllers, 10 s in Linux (nvmet) and in SPDK."""
LAYERING = 1
"""The image's only feature. An exclusive lock would fence clients by itself, and hide what the pair does."""

LATE = {
    r"log_channel\(cluster\) log \[WRN\] : Health check (failed|update): .*\(SLOW_OPS\)": (
        "The scenario keeps every CPU in use, and a request waits for more than 30 s."
    ),
}
"""Log lines to expect in scenarios that load machines as much as they can."""


def copies_for(cluster: Cluster) -> PoolKind:
    """Two copies if there are at least two OSDs, else one."""
    return PoolKind("replicated", min(2, len(cluster.osd_ids())))


@dataclass(frozen=True)
class Stand:
    """A serving pair, and an initiator connected to both gateways. device: the initiator's multipath device."""

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
    """The gateway node of this architecture, then the other one."""
    return NODES[first], NODES[first.other]


def initiator_on(cluster: Cluster) -> str:
    """The machine of the initiator: on an attached cluster the first client machine."""
    return cluster.load_nodes()[0] if isinstance(cluster, AttachedCluster) else INITIATOR


def entered_as_root(host: Host) -> None:
    """Unavailable unless ssh logs in to the machine as root, which its kernel requires to connect."""
    if host.run(["id", "-u"]).stdout.strip() != "0":
        what = f"the user for {host.name} of the attached cluster is not root"
        raise Unavailable(what, "only root can connect to NVMe-oF gateways", 'set user = "root" in the inventory')


def paired(cluster: Cluster, nodes: Nodes, *, fenced: bool = True, **volume: Any) -> Pair:
    """A pair of gateways for the suite's image. volume: secrets and tls, see `Volume`.

    An attached cluster has its own gateways, and its monitors fence them.
    """
    hosts = tuple(host_nqn(name) for name in dict.fromkeys((initiator_on(cluster), *nodes)))
    exported = Volume(POOL, IMAGE, hosts, **volume)
    if isinstance(cluster, AttachedCluster):
        entered_as_root(cluster.hosts[initiator_on(cluster)])
        return pair_of(cluster, exported)
    serving, waiting = (KernelGateway(cluster, *pair) for pair in zip(nodes, CONTROLLERS, strict=True))
    return Pair(cluster, exported, serving, waiting, fenced)


@contextmanager
def served(stage: Stage, nodes: Nodes, *, fenced: bool = True, **volume: Any) -> Iterator[Pair]:
    """Serve an image through a pair during the block. volume: see `paired`."""
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
def standing(stage: Stage, nodes: Nodes, *, node: str = "", fenced: bool = True) -> Iterator[Stand]:
    """A pair, and an initiator connected to both of its gateways. node: the initiator's, by default `initiator_on`."""
    with served(stage, nodes, fenced=fenced) as pair:
        initiator = Initiator(stage.cluster, node or initiator_on(stage.cluster), HELD)
        try:
            stand = Stand(pair, initiator, initiator.connect(pair.volume, pair.gateways))
            equal_but_for_numbers(stage, stand)
            yield stand
        finally:
            initiator.disconnect(pair.volume)


def connected(stand: Stand) -> None:
    """Wait until the initiator has a live path to each gateway again."""
    clock.wait(
        lambda: [path.state for path in stand.initiator.look(stand.volume)[1]],
        lambda states: states == ["live"] * len(stand.pair.gateways),
        what="all paths to be live",
        timeout_s=CONNECTED_S * stand.cluster.patience,
    )


def serves(recorder: Recorder, stand: Stand, when: str, address: str = "") -> None:
    """Wait until the initiator's only optimized path is the serving gateway's, at its own address or another.

    A gateway notifies initiators of a change, and they then ask for the new states. Raises NotReached if they do not
    know them in the time that NVMe allows for a change.
    """
    wanted = [address or stand.pair.serving.address]

    def optimized() -> list[str]:
        _, paths = stand.initiator.look(stand.volume)
        return [path.address for path in paths if path.ana == "optimized" and path.state == "live"]

    used = clock.wait(
        optimized,
        lambda seen: seen == wanted,
        what=f"{wanted} as the optimized paths: {when}",
        timeout_s=TRANSITION_S * stand.cluster.patience,
    )
    recorder.observe(f"addresses of serving paths: {when}", got=used, wanted=wanted)


def equal_but_for_numbers(stage: Stage, stand: Stand) -> None:
    """Observe that both gateways report the same volume, and that the initiator's controller IDs match their ranges."""
    for gateway in stand.pair.gateways:
        report = gateway.told()
        identity = {key: report[key] for key in stand.volume.identity}
        stage.recorder.observe(f"identity of the volume at {gateway.name}", got=identity, wanted=stand.volume.identity)
    ranges = sorted(gateway.told()["controllers"] for gateway in stand.pair.gateways)
    apart = ranges[0][1] < ranges[1][0]
    stage.recorder.observe("the gateways' ranges of controller IDs do not overlap", got=apart, wanted=True)
    _, paths = stand.initiator.look(stand.volume)
    numbers = sorted(path.controller for path in paths)
    stage.recorder.observe(
        "controller IDs are within the ranges of their gateways",
        got=[first <= number <= last for number, (first, last) in zip(numbers, ranges, strict=False)],
        wanted=[True] * len(ranges),
    )
