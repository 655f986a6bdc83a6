"""QEMU's command line for a guest with RBD disks and their cache modes."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePosixPath

from cephlab.lab.providers.guest.qemu import BOARD, CONSOLE, CPU, program
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import MIB
from cephlab.suites.hci.hypervisor.inside import PORT

_FIRST = "b"  # letter of the guest's first RBD disk: /dev/vda is its root


class CacheMode(StrEnum):
    """QEMU's cache mode of a disk. Its rbd driver uses the cache of librbd in every mode but NONE."""

    NONE = "none"
    WRITEBACK = "writeback"
    UNSAFE = "unsafe"

    @property
    def flags(self) -> Mapping[str, bool]:
        """The mode as `-blockdev` takes it; see the table of cache modes in qemu-system(1)."""
        return {"direct": self is CacheMode.NONE, "no-flush": self is CacheMode.UNSAFE}


@dataclass(frozen=True)
class RbdDisk:
    """An RBD image as a guest's disk. options: Ceph options of this disk's client only."""

    pool: str
    image: str
    cache: CacheMode
    options: Mapping[str, str] = field(default_factory=dict)

    def blockdev(self, node: str, conf: PurePosixPath, user: str) -> dict[str, object]:
        """The disk for -blockdev. The key stays in the keyring that the conf names, so it is on no command line."""
        driver: dict[str, object] = {"driver": "rbd", "node-name": node, "pool": self.pool, "image": self.image}
        return {**driver, "conf": str(conf), "user": user, "cache": dict(self.cache.flags)}


@dataclass(frozen=True)
class GuestOrder:
    """A guest to start. folder: its own, on the host; root: its disk image; image_root: where QEMU's files are."""

    name: str
    arch: Arch
    disks: tuple[RbdDisk, ...]
    folder: PurePosixPath
    kernel: PurePosixPath
    initramfs: PurePosixPath
    root: PurePosixPath
    image_root: PurePosixPath
    user: str = "admin"
    kvm: bool = False
    memory_bytes: int = 512 * MIB

    @property
    def socket(self) -> PurePosixPath:
        """Socket of the guest's agent."""
        return self.folder / "s"

    @property
    def monitor(self) -> PurePosixPath:
        """Socket of QEMU's own monitor."""
        return self.folder / "m"

    def conf(self, number: int) -> PurePosixPath:
        """The ceph.conf of a disk's client."""
        return self.folder / f"ceph{number}.conf"

    def env(self) -> dict[str, str]:
        return drivers(self.image_root, self.arch)

    def argv(self) -> list[str]:
        """The command line."""
        argv = [*machine(self.arch, self.image_root, kvm=self.kvm), "-name", f"{self.name},debug-threads=on"]
        argv += ["-smp", "1", "-m", f"{self.memory_bytes // MIB}M", "-no-reboot"]
        argv += [*booted(self.arch, self.kernel, self.initramfs)]
        argv += ["-device", "virtio-serial-pci", "-chardev", f"socket,id=agent,path={self.socket},server=on,wait=on"]
        argv += ["-device", f"virtserialport,chardev=agent,name={PORT}"]
        argv += ["-qmp", f"unix:{self.monitor},server=on,wait=off"]
        file = {"driver": "file", "filename": str(self.root), "locking": "off"}
        root = {"driver": "raw", "node-name": "root", "read-only": True, "file": file}
        argv += ["-blockdev", json.dumps(root), "-device", "virtio-blk-pci,drive=root"]
        argv += ["-object", "iothread,id=disk"]
        for number, disk in enumerate(self.disks):
            name = disk_id(number)
            argv += ["-blockdev", json.dumps(disk.blockdev(f"node-{name}", self.conf(number), self.user))]
            argv += ["-device", f"virtio-blk-pci,id={name},drive=node-{name},iothread=disk,write-cache=on"]
        return argv


_ROOT = PurePosixPath("/")
"""Below it QEMU finds its own files, wherever its distribution has them."""


def drivers(image_root: PurePosixPath, arch: Arch) -> dict[str, str]:
    """Where QEMU and its tools find their drivers, as environment: their image may not be the root of the host."""
    if image_root == _ROOT:
        return {}
    return {"QEMU_MODULE_DIR": str(image_root / "usr/lib" / arch.triplet / "qemu")}


def disk_id(number: int) -> str:
    """QEMU's name for an RBD disk of a guest."""
    return f"rbd{number}"


def device(number: int) -> str:
    """The guest's device name for an RBD disk."""
    return f"/dev/vd{chr(ord(_FIRST) + number)}"


def machine(arch: Arch, image_root: PurePosixPath, *, kvm: bool) -> list[str]:
    """A minimal machine with its console on standard output."""
    accel = ["-accel", "kvm", "-cpu", "host"] if kvm else ["-accel", "tcg,thread=multi", "-cpu", CPU[arch]]
    argv = [program(arch), "-nodefaults", "-no-user-config", "-display", "none", "-M", BOARD[arch], *accel]
    for folder in ("qemu", "seabios") if image_root != _ROOT else ():
        argv += ["-L", str(image_root / "usr/share" / folder)]
    return [*argv, "-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"]


def booted(arch: Arch, kernel: PurePosixPath, initramfs: PurePosixPath, words: Sequence[str] = ()) -> list[str]:
    """Boot a kernel with an initramfs. words: more of the kernel's command line."""
    line = " ".join((f"console={CONSOLE[arch]}", "quiet", "panic=-1", *words))
    return ["-kernel", str(kernel), "-initrd", str(initramfs), "-append", line]
