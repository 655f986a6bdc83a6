"""The disk image of LXD's virtual machines: an image and a kernel that UEFI boots, and the start of LXD's agent."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from cephlab.lab.base.home import Home, require_space
from cephlab.lab.base.progress import Progress
from cephlab.lab.images import bootdisk
from cephlab.lab.images.build import tree_bytes
from cephlab.lab.images.cache import Cache
from cephlab.lab.images.image import Image
from cephlab.lab.images.kernels import Kernel, KernelStore
from cephlab.lab.images.tools import SystemTools, require_all
from cephlab.lab.providers.guest import boot

KERNEL = "machine"
DISK_BYTES = 10 << 30
"""LXD's default size of a virtual machine's root."""

TOOLS = ("mmdebstrap", "depmod", "mke2fs", "mformat", "mmd", "mcopy", "qemu-img")

STARTED = "cephlab: LXD's agent is started"
"""A machine's last message on its console before LXD's agent runs."""

_MODULES = ("virtio_pci", "virtio_scsi", "sd_mod", "virtio_net", "crc32c_intel", "crc32c_generic", "ext4")
_SHARE_MODULES = ("virtiofs", "9pnet_virtio", "9p", "vsock", "vmw_vsock_virtio_transport")
_PEAK = 2.5
"""Peak disk space as a multiple of the tree's size: the raw disk, and the form for LXD. 0.78 GB took 1.89 GB."""

# LXD's own lxd-agent-setup does the same for images with systemd: it copies the share, and the agent runs in the copy.
# The address is part of the MAC address that the lab chose, so that the machine needs no help to find it.
_INIT = f"""{boot.FIRST}partition() {{
  until found=$(grep -l "^PARTNAME=$1$" /sys/class/block/*/uevent 2>/dev/null); do sleep 0.01; done
  set -- $found
  basename "$(dirname "$1")"
}}
mkdir -p /new
mount -t ext4 "/dev/$(partition {bootdisk.ROOT})" /new
mkdir -p /new/cephlab/node /new/usr/lib/modules /new/dev /new/proc /new/sys /new/run /new/tmp
mount -t ext4 -o ro "/dev/$(partition {bootdisk.MODULES})" /new/usr/lib/modules
{boot.IN_ROOT}mkdir -p /new/run/lxd_agent /share /dev/virtio-ports
mount -t tmpfs -o mode=700,nodev,nosuid,size=64m agent /new/run/lxd_agent
mount -t virtiofs -o ro config /share 2>/dev/null ||
  mount -t 9p -o ro,access=0,trans=virtio,msize=1048576 config /share ||
  {{ echo "cephlab: LXD's share \\`config\\` cannot be mounted"; sleep 1; poweroff -f; }}
cp -r /share/. /new/run/lxd_agent/
umount /share
for port in /sys/class/virtio-ports/*; do
  [ -e "$port/name" ] && ln -s "../${{port##*/}}" "/dev/virtio-ports/$(cat "$port/name")"
done
ip link set lo up
if [ -e /sys/class/net/eth0 ]; then
  IFS=: read -r _ _ a b c d </sys/class/net/eth0/address
  ip addr add "$((0x$a)).$((0x$b)).$((0x$c)).$((0x$d))/24" brd + dev eth0
  ip link set eth0 up
fi
for what in dev proc sys; do mount --move "/$what" "/new/$what"; done
exec switch_root /new /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \\
  HOME=/root /bin/bash /run/cephlab/agent/first
"""

# The first process. While it waits for the agent, it also reaps orphans.
_FIRST_PROCESS = f"""cd /run/lxd_agent
exec </dev/null >/dev/console 2>&1
while :; do
  echo "{STARTED}"
  ./lxd-agent
  echo "cephlab: LXD's agent ended with status $?"
  sleep 1
done
"""


@dataclass(frozen=True)
class MachineImage:
    """What virtual machines are made from. stamp: identifies everything in it besides the image's own packages."""

    image: Image
    stamp: str
    disk: Path
    kernel: Kernel
    initramfs: Path


def initramfs(home: Home, kernel: Kernel) -> Path:
    """An initramfs that finds its disk, copies LXD's agent, sets the address, and becomes the first process."""
    files = {"init": (_INIT.encode(), 0o755), "agent/first": (_FIRST_PROCESS.encode(), 0o644)}
    folders = ("agent", "bin", "dev", "modules", "proc", "sys")
    return boot.packed(home, kernel, "lxd-initramfs", (*_MODULES, *_SHARE_MODULES), folders, files)


def get(home: Home, image: Image, progress: Progress) -> MachineImage:
    """The disk image from the cache, made first if it is missing. Unavailable names the packages of missing tools."""
    tools = SystemTools()
    require_all(tools, TOOLS)
    kernel = KernelStore(home).get(KERNEL, image.arch, progress=progress)
    packed = initramfs(home, kernel)
    stamp = hashlib.sha256(f"{bootdisk.FORM} {kernel.key} {packed.name} {DISK_BYTES}".encode()).hexdigest()[:16]
    cache = Cache(home)
    target = cache.directory(image.key) / "exports" / f"lxd-vm-{stamp}.qcow2"
    machine = MachineImage(image, stamp, target, kernel, packed)
    if target.exists():
        return machine
    with cache.scratch(f"export-lxd-vm-{image.key[:12]}", progress) as scratch:
        if not target.exists():
            needed = tree_bytes(image.root)
            require_space(home, int(needed * _PEAK), f"making a bootable disk of {image.release} for {image.arch}")
            progress(f"{image.release} for {image.arch}: making a disk of {needed / 1e6:.0f} MB that boots with UEFI")
            disk = bootdisk.make(tools, image, kernel, packed, size_bytes=DISK_BYTES, scratch=scratch)
            target.parent.mkdir(exist_ok=True)
            disk.replace(target)
    return machine
