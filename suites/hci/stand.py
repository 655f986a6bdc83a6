"""What the HCI scenarios share: a node that runs guests, the files that they boot from, and images as disks."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.home import Home
from cephlab.lab.base.process import Result
from cephlab.lab.base.progress import quiet
from cephlab.lab.base.workers import Workers
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.pools import PoolKind
from cephlab.lab.images.cache import Cache
from cephlab.lab.images.export import export_image
from cephlab.lab.images.image import Image
from cephlab.lab.images.kernels import Kernel, KernelStore
from cephlab.lab.images.store import ImageStore
from cephlab.lab.images.tools import SystemTools
from cephlab.lab.providers.guest.boot import packed
from cephlab.lab.providers.guest.qemu import PROBE_S, PROBED, remembered_kvm
from cephlab.lab.providers.host import Host
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.clusterspec import MIB
from cephlab.lab.workloads import image
from cephlab.lab.workloads.image import BlockImage
from cephlab.suites.hci.hypervisor import guest, inside
from cephlab.suites.hci.hypervisor.command import CacheMode, GuestOrder, RbdDisk, booted, device, machine
from cephlab.suites.hci.hypervisor.guest import HostedGuest

KERNEL = "cloud"
"""Debian's kernel for virtual machines, with virtio and ext4 built in or as modules."""
_MODULES = ("virtio_pci", "virtio_console", "virtio_blk", "ext4")
_SOURCE = Path(inside.__file__)

_INIT = f"""#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev 2>/dev/null
case "$(cat /proc/cmdline)" in *cephlab.probe=1*)
  echo "{PROBED}"
  poweroff -f
esac
while read -r module; do insmod "/modules/$module"; done </modules/order
for disk in /dev/vda {device(0)}; do
  until [ -b "$disk" ]; do sleep 0.01; done
done
mount -t ext4 -o ro,noload /dev/vda /new
mount -t tmpfs -o mode=755 run /new/run
mount -t tmpfs -o mode=1777 tmp /new/tmp
cp /agent.py /new/run/
mkdir -p /dev/shm
mount -t tmpfs -o mode=1777 shm /dev/shm
for what in dev proc sys; do mount --move "/$what" "/new/$what"; done
exec switch_root /new /usr/bin/env -i PATH=/usr/bin /usr/bin/python3 -I -S /run/agent.py
"""


@dataclass(frozen=True)
class GuestFiles:
    """Files on a host, and whether KVM boots them there."""

    kernel: PurePosixPath
    initramfs: PurePosixPath
    root: PurePosixPath
    kvm: bool


def supply(home: Home, host: Host, image: Image) -> GuestFiles:
    """Copy the files to a host. Files that the host sees under the same path as this machine are used in place."""
    kernel = KernelStore(home).get(KERNEL, image.arch)
    root = export_image(home, Cache(home), SystemTools(), image, "ext4", quiet)
    executable, first = _held(host, kernel.executable), _held(host, initramfs(home, kernel))
    return GuestFiles(executable, first, _held(host, root), _kvm(home, host, kernel, executable, first))


def _held(host: Host, path: Path) -> PurePosixPath:
    if host.exists(PurePosixPath(path)):
        return PurePosixPath(path)
    target = host.directory / "guests" / path.name
    if not host.exists(target):
        host.push(path, target)
    return target


def initramfs(home: Home, kernel: Kernel) -> Path:
    """The initramfs of a guest with this kernel."""
    files = {"init": (_INIT.encode(), 0o755), "agent.py": (_SOURCE.read_bytes(), 0o644)}
    return packed(home, kernel, "hypervisor", _MODULES, ("bin", "dev", "modules", "new", "proc", "sys"), files)


def _kvm(home: Home, host: Host, kernel: Kernel, executable: PurePosixPath, start: PurePosixPath) -> bool:
    """Whether KVM boots the guest's kernel on the host; the presence of /dev/kvm does not prove it."""
    if not host.exists(PurePosixPath("/dev/kvm")):
        return False

    def boots() -> Result:
        argv = [*machine(host.arch, host.root, kvm=True), "-m", "512M", "-no-reboot"]
        argv += booted(host.arch, executable, start, ("cephlab.probe=1",))
        return host.run(argv, timeout_s=PROBE_S, check=False)

    return remembered_kvm(home, kernel, boots)


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
"""For measurements of the client side only."""


@dataclass(frozen=True)
class GuestNode:
    """A node that runs guests."""

    cluster: Cluster
    host: Host
    parts: GuestFiles

    def order(self, name: str, disks: Sequence[RbdDisk]) -> GuestOrder:
        """A guest with these disks. Its folder has a short name, because a socket path has at most 107 bytes."""
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


def hypervisor(cluster: Cluster) -> GuestNode:
    """The node that runs guests, with the files that they boot from. LabBroken if its image is not cached."""
    home = cluster.run.home
    built = ImageStore(home).cached(cluster.spec.release, host_arch(), ROLE_SETS)
    if built is None:
        raise LabBroken("the hypervisor image is no longer in the cache", f"role sets {', '.join(ROLE_SETS)}")
    host = cluster.hosts[NODE]
    return GuestNode(cluster, host, supply(home, host, built))


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

    written: each image is fully written twice, so that every read has to fetch data.
    """
    with pools.pool(cluster, POOL, kind, pg_num=PG_NUM) as pool:
        disks = [BlockImage(pool, f"disk{number}", size_bytes) for number in range(count)]
        for target in disks:
            image.create(cluster, NODE, target, *more)
            if written:
                image.precondition(cluster, NODE, target)
                image.require_written(cluster, NODE, target)
        yield disks


def through_librbd(cluster: Cluster, image: BlockImage) -> str:
    """The name of an image for QEMU's rbd driver. The key stays in the keyring that the conf of the node names."""
    user = cluster.client_name.removeprefix("client.")
    return f"rbd:{image.spec}:id={user}:conf={cluster.hosts[NODE].directory / 'ceph.conf'}"


def disk(of: BlockImage, cache: CacheMode, **options: str) -> RbdDisk:
    """An image as a guest's disk. options: for librbd."""
    return RbdDisk(of.pool, of.name, cache, options)
