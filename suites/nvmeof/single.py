"""One gateway with several images, to measure rates; there is no second gateway and no failover."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from cephlab.lab.blockstack.nvmeof import CONTROLLERS, AnaState, Namespace, Volume, host_nqn
from cephlab.lab.blockstack.nvmet import KernelGateway
from cephlab.lab.cluster import pools
from cephlab.lab.history.history import Basis, Bound
from cephlab.lab.scenario.scenario import Stage
from cephlab.suites.nvmeof.stand import LAYERING, POOL, copies_for

SHARED = Bound("recorded only: the speed of a shared machine", basis=Basis.NOTED)
"""For rates; the ratios of rates have limits."""


@dataclass(frozen=True)
class Shown:
    """What a gateway exports. namespaces: all of them, the volume's own first."""

    gateway: KernelGateway
    volume: Volume
    namespaces: tuple[Namespace, ...]


@contextmanager
def shown(stage: Stage, node: str, initiators: Sequence[str], count: int, size_bytes: int) -> Iterator[Shown]:
    """Export `count` images through one gateway. Each is fully written: reads of unwritten data cost almost nothing."""
    cluster = stage.cluster
    volume = Volume(POOL, image_name(1), tuple(map(host_nqn, initiators)))
    more = tuple(Namespace(POOL, image_name(number), number=number) for number in range(2, count + 1))
    gateway = KernelGateway(cluster, node, CONTROLLERS[0])
    with pools.pool(cluster, POOL, copies_for(cluster)):
        for namespace in (volume, *more):
            cluster.client.rbd_create(POOL, namespace.image, size_bytes, features=LAYERING)
            cluster.client.rbd_write(POOL, namespace.image, stage.rng.randbytes(size_bytes), 0)
        try:
            gateway.serve(volume, AnaState.OPTIMIZED)
            gateway.add(*more)
            yield Shown(gateway, volume, (volume, *more))
        finally:
            gateway.withdraw()


def image_name(number: int) -> str:
    """The name of the image behind a namespace."""
    return f"image{number:03}"
