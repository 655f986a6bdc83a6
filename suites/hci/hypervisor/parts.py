"""The files that a host's guests boot from: a kernel, an initramfs with the agent, and the host's image as a disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from cephlab.lab.base.home import Home
from cephlab.lab.base.process import Result
from cephlab.lab.base.progress import quiet
from cephlab.lab.images.cache import Cache
from cephlab.lab.images.export import export_image
from cephlab.lab.images.image import Image
from cephlab.lab.images.kernels import Kernel, KernelStore
from cephlab.lab.images.tools import SystemTools
from cephlab.lab.providers.guest.boot import packed
from cephlab.lab.providers.guest.qemu import PROBE_S, PROBED, remembered_kvm
from cephlab.lab.providers.host import Host
from cephlab.suites.hci.hypervisor import inside
from cephlab.suites.hci.hypervisor.command import booted, device, machine

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
    """Copy the files to a host; those that it already sees at this machine's own path are used in place."""
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
    """Whether KVM boots the guest's kernel there; a /dev/kvm alone does not prove it."""
    if not host.exists(PurePosixPath("/dev/kvm")):
        return False

    def boots() -> Result:
        argv = [*machine(host.arch, host.root, kvm=True), "-m", "512M", "-no-reboot"]
        argv += booted(host.arch, executable, start, ("cephlab.probe=1",))
        return host.run(argv, timeout_s=PROBE_S, check=False)

    return remembered_kvm(home, kernel, boots)
