"""What a guest boots from: an initramfs that mounts its root and becomes the agent, and a disk for its writes."""

import hashlib
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.home import Home
from cephlab.lab.images.cache import Cache
from cephlab.lab.images.kernels import Kernel
from cephlab.lab.images.tools import SystemTools, require
from cephlab.lab.providers.agent.wire import AGENT, PORT

STORE_BYTES = 8 << 30
"""Size of the sparse disk for a node's own directory and for what it writes to its root."""

_TRAILER = "TRAILER!!!"
_STORE_FOLDERS = ("upper", "work", "node")

# Words of the kernel's command line that start with `cephlab.` become variables.
FIRST = """#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev 2>/dev/null
for word in $(cat /proc/cmdline); do
  case "$word" in cephlab.*) eval "${word#cephlab.}" ;; esac
done
if [ -n "$probe" ]; then
  echo "cephlab: the kernel runs"
  poweroff -f
fi
while read -r module; do insmod "/modules/$module"; done </modules/order
"""
"""The start of every initramfs: mounts the kernel's own filesystems and loads the modules that a root needs."""

IN_ROOT = """mount -t tmpfs -o mode=755 run /new/run
mount -t tmpfs -o mode=1777 tmp /new/tmp
mkdir -p /new/run/cephlab /new/run/lock
cp -r /agent /bin/busybox /new/run/cephlab/
for name in modprobe insmod rmmod lsmod; do
  [ -e "/new/usr/sbin/$name" ] || ln -s /run/cephlab/busybox "/new/usr/sbin/$name"
done
mkdir -p /dev/pts /dev/shm
mount -t devpts -o ptmxmode=666 pts /dev/pts
mount -t tmpfs -o mode=1777 shm /dev/shm
mount -t cgroup2 none /sys/fs/cgroup 2>/dev/null
"""
"""What every root at /new gets."""

_FIRST_IMPORTS = "import glob, json, runpy, socket, threading"
"""The agent's imports. A second CPU loads them, and translates them if emulated, while the first makes the root."""

_INIT = f"""{FIRST}for disk in $root $store $modules; do
  until [ -b "/dev/$disk" ]; do sleep 0.01; done
done
mkdir -p /lower /store /new
mount -t ext4 -o ro,noload "/dev/$root" /lower
[ ! -d /sys/devices/system/cpu/cpu1 ] || chroot /lower /usr/bin/python3 -I -S -c "{_FIRST_IMPORTS}" &
mount -t ext4 "/dev/$store" /store
mount -t overlay -o lowerdir=/lower,upperdir=/store/upper,workdir=/store/work root /new
mkdir -p /new/cephlab/node /new/usr/lib/modules /new/dev /new/proc /new/sys /new/run /new/tmp
mount --bind /store/node /new/cephlab/node
mount -t ext4 -o ro "/dev/$modules" /new/usr/lib/modules
{IN_ROOT}hostname "$name_of_host"
echo "$name_of_host" >/new/etc/hostname
ip link set lo up
ip addr add "$address" dev "$lab_link"
ip link set "$lab_link" up
ip addr add "$control/32" peer "$keeper" dev "$control_link"
ip link set "$control_link" up
for what in dev proc sys; do mount --move "/$what" "/new/$what"; done
exec switch_root /new /usr/bin/env -i PATH=/usr/bin /usr/bin/python3 -I -S /run/cephlab/agent "$control" PORT $age
"""


def initramfs(home: Home, kernel: Kernel, modules: Iterable[str]) -> Path:
    """The initramfs of a node with this kernel. It loads these modules."""
    agent = {f"agent/{path.name}": (path.read_bytes(), 0o644) for path in sorted(AGENT.glob("*.py"))}
    files = {"init": (_INIT.replace("PORT", str(PORT)).encode(), 0o755), **agent}
    return packed(home, kernel, "initramfs", modules, ("agent", "bin", "dev", "modules", "proc", "sys"), files)


def packed(
    home: Home,
    kernel: Kernel,
    kind: str,
    modules: Iterable[str],
    folders: Iterable[str],
    files: Mapping[str, tuple[bytes, int]],
) -> Path:
    """An initramfs of these files, a busybox and modules of the kernel. It is rebuilt only when its content changes.

    It is not compressed, because an emulated guest unpacks it more slowly than this machine reads it.
    """
    loaded = kernel.load_order(tuple(modules))
    packed_files = {
        **files,
        "bin/busybox": (kernel.busybox.read_bytes(), 0o755),
        "modules/order": ("".join(f"{name}\n" for name, _ in loaded).encode(), 0o644),
        **{f"modules/{name}": (content, 0o644) for name, content in loaded},
    }
    content = archive(folders, packed_files)
    path = kernel.folder / f"{kind}-{hashlib.sha256(content).hexdigest()[:16]}"
    if not path.exists():
        with Cache(home).scratch(f"initramfs-{path.name[-16:]}") as scratch:
            (scratch / "initramfs").write_bytes(content)
            (scratch / "initramfs").replace(path)
    return path


def archive(folders: Iterable[str], files: Mapping[str, tuple[bytes, int]]) -> bytes:
    """A cpio archive in `newc` format for the kernel; see its document on the initramfs buffer format."""
    parts = [_entry(name, b"", stat.S_IFDIR | 0o755) for name in folders]
    parts += [_entry(name, content, stat.S_IFREG | mode) for name, (content, mode) in files.items()]
    parts.append(_entry(_TRAILER, b"", 0))
    return b"".join(parts)


def _entry(name: str, content: bytes, mode: int) -> bytes:
    fields = (0, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
    return _padded(head) + _padded(content)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def make_store(path: Path) -> None:
    """Make a node's store, unless it exists: a sparse ext4 disk with the folders that init expects."""
    if path.exists():
        return
    tools = SystemTools()
    scratch = path.with_name(f"{path.name}.{os.getpid()}")
    content = path.with_name(f"{path.name}.content")
    for name in _STORE_FOLDERS:
        (content / name).mkdir(parents=True, exist_ok=True)
    with scratch.open("wb") as file:
        file.truncate(STORE_BYTES)
    argv = [require(tools, "mke2fs"), "-q", "-F", "-t", "ext4", "-E", "lazy_itable_init=1,root_owner=0:0"]
    argv += ["-J", "size=16", "-d", str(content), str(scratch)]
    tools.run(argv, timeout_s=60.0)
    scratch.replace(path)
    for name in _STORE_FOLDERS:
        (content / name).rmdir()
    content.rmdir()


def console_tail(console: Path) -> str:
    """The end of a console, for an error."""
    try:
        return console.read_bytes()[-3000:].decode(errors="replace")
    except FileNotFoundError:
        return "(nothing was written)"


def refuse_odd_path(path: Path) -> None:
    """LabBroken for a path that cannot be part of a kernel's or an emulator's command line."""
    if any(sign in str(path) for sign in ' ,\t\n"'):
        raise LabBroken(
            f"{path} contains a space, comma or quote",
            "it is part of the command that starts a machine",
            "set CEPHLAB_HOME to another folder",
        )
