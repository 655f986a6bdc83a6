"""The common ground of the scenarios: a node that runs guests, and images as their disks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.workers import Workers
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.pools import PoolKind
from cephlab.lab.images.store import ImageStore
from cephlab.lab.providers.host import Host
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.clusterspec import MIB
from cephlab.lab.workloads import image
from cephlab.lab.workloads.image import BlockImage
from cephlab.suites.hci.hypervisor import guest, parts
from cephlab.suites.hci.hypervisor.command import CacheMode, GuestOrder, RbdDisk
from cephlab.suites.hci.hypervisor.guest import HostedGuest
from cephlab.suites.hci.hypervisor.parts import GuestFiles

NODE = "c0"
"""The node that runs the guests."""
POOL = "hci"
PG_NUM = 16
ROLE_SETS = ("ceph", "hypervisor")
IMAGE_BYTES = 64 * MIB
ONE_COPY = PoolKind("replicated", 1)

TOPOLOGY = Topology(
    native=1, foreign=0, lone_client=True, options=(("mon_allow_pool_size_one", "true"),), role_sets=ROLE_SETS
)
"""For measurements, to which the cluster's side of an operation does not belong."""


@dataclass(frozen=True)
class Hypervisor:
    """A node that runs guests."""

    cluster: Cluster
    host: Host
    parts: GuestFiles

    def order(self, name: str, disks: Sequence[RbdDisk]) -> GuestOrder:
        """A guest with these disks. Its folder has a short name, as a socket's path has at most 107 bytes."""
        return GuestOrder(
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
    def guests(self, wanted: Sequence[Sequence[RbdDisk]]) -> Iterator[list[HostedGuest]]:
        """Boot guests with these disks at the same time."""
        with ExitStack() as undo:

            def boot(number: int) -> HostedGuest:
                order = self.order(f"g{number}", wanted[number])
                return undo.enter_context(guest.running(self.host, order, patience=self.cluster.patience))

            with Workers(max_workers=len(wanted), thread_name_prefix="boot") as workers:
                booted = list(workers.map(boot, range(len(wanted))))
            yield booted


def hypervisor(cluster: Cluster) -> Hypervisor:
    """The node that runs guests, with the files they boot from; LabBroken where its image is not cached."""
    home = cluster.run.home
    built = ImageStore(home).cached(cluster.spec.release, host_arch(), ROLE_SETS)
    if built is None:
        raise LabBroken("the image of the hypervisor is gone from the cache", f"role sets {', '.join(ROLE_SETS)}")
    host = cluster.hosts[NODE]
    return Hypervisor(cluster, host, parts.supply(home, host, built))


@contextmanager
def images(
    cluster: Cluster,
    count: int,
    *more: str,
    kind: PoolKind = ONE_COPY,
    size_bytes: int = IMAGE_BYTES,
    written: bool = True,
) -> Iterator[list[BlockImage]]:
    """A pool with images. more: options of `rbd create`.

    written: the images are written twice over, so that every read has to fetch data.
    """
    with pools.pool(cluster, POOL, kind, pg_num=PG_NUM) as pool:
        disks = [BlockImage(pool, f"disk{number}", size_bytes) for number in range(count)]
        for target in disks:
            image.create(cluster, NODE, target, *more)
            if written:
                image.precondition(cluster, NODE, target)
                image.require_written(cluster, NODE, target)
        yield disks


def disk(of: BlockImage, cache: CacheMode, **options: str) -> RbdDisk:
    """An image as a guest's disk. options: librbd's."""
    return RbdDisk(of.pool, of.name, cache, options)
