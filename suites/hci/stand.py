"""What the HCI scenarios share: a machine that runs guests, the files that they boot from, and images as disks."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from cephlab.lab.base import process
from cephlab.lab.base.births import BOOT_ID
from cephlab.lab.base.errors import Unavailable
from cephlab.lab.base.home import Home
from cephlab.lab.base.process import Result
from cephlab.lab.base.progress import quiet
from cephlab.lab.base.workers import Workers
from cephlab.lab.ceph import conf
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.attach.cluster import AttachedCluster
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.pools import REPLICATED, PoolKind
from cephlab.lab.images.cache import Cache
from cephlab.lab.images.export import export_image
from cephlab.lab.images.image import Image
from cephlab.lab.images.kernels import Kernel, KernelStore
from cephlab.lab.images.store import ImageStore
from cephlab.lab.images.tools import SystemTools
from cephlab.lab.providers.guest.boot import packed
from cephlab.lab.providers.guest.qemu import PROBE_S, PROBED, program, remembered_kvm
from cephlab.lab.providers.host import Host
from cephlab.lab.scenario.topology import Topology
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
    executable, first = held(home, host, kernel.executable), held(home, host, initramfs(home, kernel))
    return GuestFiles(executable, first, held(home, host, root), _kvm(home, host, kernel, executable, first))


def held(home: Home, host: Host, path: Path) -> PurePosixPath:
    """A file's path on a host. It is sent as a tar, without its holes: most of a root's disk is one."""
    if host.exists(PurePosixPath(path)):
        return PurePosixPath(path)
    target = host.directory / "guests" / path.name
    if not host.exists(target):
        packed = target.with_name("packed") / "disk.tar"  # what an error leaves has another place than the target
        with Cache(home).scratch(f"sent-{host.name}") as scratch:
            unpacked = scratch / packed.name
            words = ["tar", "--create", "--sparse", f"--file={unpacked}", f"--directory={path.parent}", path.name]
            process.run(words, timeout_s=_SENT_S)
            host.push(unpacked, packed)
        words = ["tar", "--extract", "--no-same-owner", f"--file={packed}", f"--directory={packed.parent}"]
        host.run(words, timeout_s=_SENT_S)
        host.run(["mv", str(packed.with_name(path.name)), str(target)])
        host.remove(packed.parent)
    return target


def initramfs(home: Home, kernel: Kernel) -> Path:
    """The initramfs of a guest with this kernel."""
    files = {"init": (_INIT.encode(), 0o755), "agent.py": (_SOURCE.read_bytes(), 0o644)}
    return packed(home, kernel, "hypervisor", _MODULES, ("bin", "dev", "modules", "new", "proc", "sys"), files)


def _kvm(home: Home, host: Host, kernel: Kernel, executable: PurePosixPath, start: PurePosixPath) -> bool:
    """Whether KVM boots the guest's kernel on the host; the presence of /dev/kvm does not prove it."""
    if host.run(("test", "-r", "/dev/kvm", "-a", "-w", "/dev/kvm"), check=False).code != 0:
        return False

    def boots() -> Result:
        argv = [*machine(host.arch, host.root, kvm=True), "-m", "512M", "-no-reboot"]
        argv += booted(host.arch, executable, start, ("cephlab.probe=1",))
        return host.run(argv, timeout_s=PROBE_S, check=False)

    boot_id = host.run(("cat", str(BOOT_ID))).stdout.strip()
    return remembered_kvm(home, kernel, boots, boot_id=boot_id)


NODE = "c0"
"""The node of a lab that runs the guests."""
POOL = "hci"
PG_NUM = 16
ROLE_SETS = ("ceph", "hypervisor")
IMAGE_BYTES = 64 * MIB
ONE_COPY, TWO_COPIES = PoolKind("replicated", 1), PoolKind("replicated", 2)
_SENT_S = 600.0
FEATURES = ("--image-feature", "layering,exclusive-lock,object-map,fast-diff,deep-flatten")
"""Ceph's default. It is said because an existing cluster may have another: a journal doubles the bytes of writes."""
POLICY = {"rbd_cache_policy": "writearound"}
"""librbd's default since Octopus. It is said because the configuration of an existing cluster may say another, and a
cache that answers reads is several times as fast."""
_UNKNOWN = "Unknown driver"
"""QEMU says this of a driver that it cannot load; of the rbd driver otherwise, that the name of a pool is missing."""


@dataclass(frozen=True)
class GuestTopology(Topology):
    """Machines whose image has QEMU. An existing cluster serves as well: its client machine may have QEMU of its own.

    Its pools have more than one copy, so options are not needed there; see `guest_node` and `copies_on`.
    """

    @property
    def made(self) -> str:
        return ""


TOPOLOGY = GuestTopology(
    native=1, foreign=0, lone_client=True, options=(("mon_allow_pool_size_one", "true"),), role_sets=ROLE_SETS
)
"""For measurements of the client side only."""


def guest_node(cluster: Cluster) -> str:
    """The machine that runs guests: on an attached cluster the first client machine without daemons."""
    if not isinstance(cluster, AttachedCluster):
        return NODE
    busy = {node.name for node in cluster.spec.nodes if node.has_daemons}
    return next(name for name in cluster.load_nodes() if name not in busy)


def require_qemu(cluster: Cluster) -> None:
    """Unavailable if the guests' machine of an attached cluster lacks QEMU or its rbd driver, or is not on the list."""
    if not isinstance(cluster, AttachedCluster):
        return
    host = cluster.hosts[guest_node(cluster)]
    host.run((program(host.arch), "--version"))
    complaint = host.run(("qemu-img", "info", "--image-opts", "driver=rbd"), check=False).stderr
    if _UNKNOWN in complaint:
        what = f"the QEMU on {host.name} of the attached cluster has no rbd driver"
        raise Unavailable(what, complaint.strip(), f"install it on {host.name}: in Debian it is in qemu-block-extra")


def copies_on(cluster: Cluster) -> PoolKind:
    """One copy, so that the client side is measured. An attached cluster does not allow that: there as many as usual.

    Unavailable if a pool there can have only one.
    """
    if not isinstance(cluster, AttachedCluster):
        return ONE_COPY
    machines = sum(bool(node.osds) for node in cluster.spec.nodes)
    if machines < TWO_COPIES.size:
        hint = "run it with another --lab"
        raise Unavailable("the attached cluster cannot have two copies", "one machine has OSDs", hint)
    return REPLICATED if machines >= REPLICATED.size else TWO_COPIES


def words_on(cluster: Cluster, *words: str) -> str:
    """The words of a drawing: what is told, and that it includes replication if there is more than one copy."""
    size = copies_on(cluster).size
    return ", ".join((*words, f"with replication to {size} copies") if size > 1 else words)


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
    """The machine that runs guests, with the files that they boot from. A lab has built the guests' image before."""
    home, host = cluster.run.home, cluster.hosts[guest_node(cluster)]
    built = ImageStore(home).get(cluster.spec.release, host.arch, ROLE_SETS)
    return GuestNode(cluster, host, supply(home, host, built))


@contextmanager
def images(
    cluster: Cluster,
    count: int,
    *more: str,
    kind: PoolKind | None = None,
    size_bytes: int = IMAGE_BYTES,
    written: bool = True,
) -> Iterator[list[BlockImage]]:
    """A pool with images. more: options of `rbd create`, instead of FEATURES; kind: see `copies_on`.

    written: each image is fully written twice, so that every read has to fetch data.
    """
    require_qemu(cluster)
    node = guest_node(cluster)
    with pools.pool(cluster, POOL, kind or copies_on(cluster), pg_num=PG_NUM) as pool:
        disks = [BlockImage(pool, f"disk{number}", size_bytes) for number in range(count)]
        for target in disks:
            image.create(cluster, node, target, *(more or FEATURES))
            if written:
                image.precondition(cluster, node, target)
                image.require_written(cluster, node, target)
        yield disks


def through_librbd(cluster: Cluster, image: BlockImage) -> str:
    """The name of an image for QEMU's rbd driver. The key stays in the keyring that the conf of the node names."""
    user = cluster.client_name.removeprefix("client.")
    words = (f"rbd:{image.spec}", f"id={user}", f"conf={conf.conf_path(cluster.hosts[guest_node(cluster)])}")
    return ":".join((*words, *(f"{key}={value}" for key, value in POLICY.items())))


def disk(of: BlockImage, cache: CacheMode, **options: str) -> RbdDisk:
    """An image as a guest's disk. options: for librbd."""
    return RbdDisk(of.pool, of.name, cache, {**POLICY, **options})
