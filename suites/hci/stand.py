"""What the scenarios stand on: a node that runs guests, and images that are their disks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

from lab import pools
from lab.arch import host_arch
from lab.cluster import Cluster
from lab.errors import LabBroken
from lab.host import Host
from lab.hypervisor import guest, parts
from lab.hypervisor.command import Cache, Order, RbdDisk
from lab.hypervisor.guest import Guest
from lab.hypervisor.parts import Parts
from lab.images.store import ImageStore
from lab.pools import PoolKind
from lab.scenario import Topology
from lab.spec import MIB
from lab.workers import Workers
from lab.workloads import image
from lab.workloads.image import BlockImage
from suites.limits import figure
from suites.machines import home_of

NODE = "c0"
"""Where the guests run."""
POOL = "hci"
PG_NUM = 16
ROLE_SETS = ("ceph", "hypervisor")
IMAGE_BYTES = 64 * MIB
ONE_COPY = PoolKind("replicated", 1)

TOPOLOGY = Topology(
    native=1, foreign=0, lone_client=True, options=(("mon_allow_pool_size_one", "true"),), role_sets=ROLE_SETS
)
"""For what is measured: the cluster's side of an operation is no part of it."""

SHARED = "speed of emulated guests on a machine that others share: written down, not judged"


@dataclass(frozen=True)
class Hypervisor:
    """A node that runs guests."""

    cluster: Cluster
    host: Host
    parts: Parts

    def order(self, name: str, disks: Sequence[RbdDisk]) -> Order:
        """A guest with these disks; its folder has a short name, as a socket's path holds 107 bytes."""
        return Order(
            name=name,
            arch=self.host.arch,
            disks=tuple(disks),
            folder=self.host.directory / name,
            kernel=self.parts.kernel,
            initramfs=self.parts.initramfs,
            root=self.parts.root,
            image_root=self.host.root,
            user=self.cluster.client_name.removeprefix("client."),
            kvm=self.parts.kvm,
        )

    @contextmanager
    def guests(self, wanted: Sequence[Sequence[RbdDisk]]) -> Iterator[list[Guest]]:
        """Guests with these disks, booted at the same time."""
        with ExitStack() as undo:

            def boot(number: int) -> Guest:
                order = self.order(f"g{number}", wanted[number])
                return undo.enter_context(guest.running(self.host, order, patience=self.cluster.patience))

            with Workers(max_workers=len(wanted), thread_name_prefix="boot") as workers:
                found = list(workers.map(boot, range(len(wanted))))
            yield found


def hypervisor(cluster: Cluster) -> Hypervisor:
    """The node that runs guests, with what they start from; LabBroken where its image is not at hand."""
    home = home_of(cluster)
    found = ImageStore(home).cached(cluster.spec.release, host_arch(), ROLE_SETS)
    if found is None:
        raise LabBroken("the image of the hypervisor is gone from the cache", f"role sets {', '.join(ROLE_SETS)}")
    host = cluster.hosts[NODE]
    return Hypervisor(cluster, host, parts.supply(home, host, found))


@contextmanager
def images(
    cluster: Cluster,
    count: int,
    *more: str,
    kind: PoolKind = ONE_COPY,
    size_bytes: int = IMAGE_BYTES,
    written: bool = True,
) -> Iterator[list[BlockImage]]:
    """A pool with images.

    written: all over, twice, so that no read is answered without asking for data; more:
    options of `rbd create`.
    """
    with pools.pool(cluster, POOL, kind, pg_num=PG_NUM) as pool:
        found = [BlockImage(pool, f"disk{number}", size_bytes) for number in range(count)]
        for one in found:
            image.create(cluster, NODE, one, *more)
            if written:
                image.precondition(cluster, NODE, one)
                image.require_written(cluster, NODE, one)
        yield found


def disk(of: BlockImage, cache: Cache, **options: str) -> RbdDisk:
    """An image as a guest's disk. options: of librbd."""
    return RbdDisk(of.pool, of.name, cache, options)


note = partial(figure, why=SHARED)
