"""QEMU: whole machines of either architecture, with KVM if it works here, else emulated."""

import json
import math
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from qemu.qmp import QMPError
from qemu.qmp.legacy import QEMUMonitorProtocol

from cephlab.lab.base import births, clock, process
from cephlab.lab.base.errors import CommandTimedOut, LabBroken
from cephlab.lab.base.home import Home
from cephlab.lab.base.process import LocalProcess, Result
from cephlab.lab.base.runs import write_json
from cephlab.lab.images.kernels import Kernel
from cephlab.lab.providers.guest.machine import Boot, Parts, RunningGuest
from cephlab.lab.spec.arch import Arch, host_arch

T = TypeVar("T")

_EMULATED_CORES = 2
_SOCKET = "qmp"
_ANSWER_S = 20.0
PROBE_S = 20.0
PROBED = "cephlab: the kernel runs"

CPU = {
    # With several CPUs, an emulated cmpxchg16b ended in double faults. Five page table levels cost time (QEMU 7.2).
    Arch.X86_64: "max,-cx16,-la57",
    Arch.AARCH64: Arch.AARCH64.qemu_cpu,
}
_HURRY = "nokaslr cryptomgr.notests rcupdate.rcu_expedited=1"
"""Shortens the boot of an emulated kernel: no relocation, no self-tests of ciphers, no long waits for its CPUs."""
BOARD = {Arch.X86_64: "q35", Arch.AARCH64: "virt"}
CONSOLE = {Arch.X86_64: "ttyS0", Arch.AARCH64: "ttyAMA0"}


def program(arch: Arch) -> str:
    """The emulator of whole machines of an architecture."""
    return f"qemu-system-{arch}"


class QemuHypervisor:
    """Fixed disks are virtio-blk, in order. The spec's disks are on one SCSI controller, so that they can move."""

    modules: Sequence[str] = (
        *("virtio_pci", "virtio_blk", "virtio_scsi", "sd_mod", "virtio_net"),
        "crc32c_generic",  # ext4 asks for it by another name, which nothing resolves before the root is mounted
        *("ext4", "overlay"),
    )
    slots = 32
    interface_names = ("eth0", "eth1")
    fixed_names = ("vda", "vdb", "vdc")
    distortion = ""

    def __init__(self) -> None:
        self._kvm: dict[str, bool] = {}

    def place(self, slot: int) -> str:
        return f"lun {slot}"

    def cores(self, wanted: float | None) -> int:
        if wanted is not None:
            return math.ceil(wanted)
        return min(_EMULATED_CORES, len(os.sched_getaffinity(0)))

    def emulated(self, arch: Arch) -> bool:
        return arch is not host_arch() or not self._kvm or not all(self._kvm.values())

    def prepare(self, home: Home, parts: Parts) -> None:
        """Find out, once per boot of this machine, whether KVM boots a guest of its own architecture.

        KVM is not used at all unless it boots every kernel in use: a processor may lack some page sizes.
        """
        if parts.kernel.arch is host_arch():
            self._kvm[parts.kernel.key] = kvm_boots(home, parts)

    def start(self, boot: Boot) -> LocalProcess:
        (boot.folder / _SOCKET).unlink(missing_ok=True)
        argv = [*boot.inside, *self.command(boot)]
        return process.start_detached(argv, log=boot.console, env=boot.marks)

    def command(self, boot: Boot) -> list[str]:
        """The command line. Its working directory is the guest's folder."""
        words = [f"cephlab.{key}={value}" for key, value in boot.words.items()]
        accel = ["-accel", "kvm", "-cpu", "host"]
        if self.emulated(boot.arch):
            accel, words = ["-accel", "tcg,thread=multi", "-cpu", CPU[boot.arch]], [_HURRY, *words]
        argv = [program(boot.arch), "-M", BOARD[boot.arch], *accel, *_BARE]
        argv += ["-smp", str(boot.cores), "-m", f"{boot.memory_bytes >> 20}M"]
        argv += ["-qmp", f"unix:{_SOCKET},server=on,wait=off"]
        argv += ["-kernel", str(boot.executable), "-initrd", str(boot.initramfs)]
        argv += ["-append", f"console={CONSOLE[boot.arch]} quiet panic=-1 {' '.join(words)}"]
        for slot, (path, writable) in enumerate(boot.fixed):
            argv += ["-blockdev", json.dumps(_blockdev(slot, path, writable=writable))]
            argv += ["-device", f"virtio-blk-pci,drive=slot{slot}"]
        argv += ["-device", "virtio-scsi-pci,id=scsi"]
        for slot, path in boot.disks.items():
            argv += ["-blockdev", json.dumps(_blockdev(slot, path))]
            argv += ["-device", json.dumps(_disk(slot))]
        for number, link in enumerate(boot.interfaces):
            argv += ["-netdev", f"tap,id=net{number},ifname={link.tap},script=no,downscript=no"]
            argv += ["-device", f"virtio-net-pci,netdev=net{number},mac={link.mac},romfile="]
        return argv

    def plug(self, guest: RunningGuest, slot: int, file: Path) -> None:
        with monitor(guest.folder) as qmp:
            ask(qmp, "blockdev-add", _blockdev(slot, file))
            ask(qmp, "device_add", _disk(slot))

    def unplug(self, guest: RunningGuest, slot: int) -> None:
        with monitor(guest.folder) as qmp:
            ask(qmp, "device_del", {"id": f"disk{slot}"})

            def gone() -> bool:
                # Its backend is in use until the guest has released the device.
                return "error" not in qmp.cmd_raw("blockdev-del", {"node-name": f"slot{slot}"})

            clock.wait(
                gone,
                bool,
                what=f"the removal of disk {slot}",
                timeout_s=_ANSWER_S,
                interval_s=0.02,
                timed_out=clock.too_slow,
            )


_BARE = (
    "-nodefaults",
    "-no-user-config",
    "-display",
    "none",
    "-chardev",
    "stdio,id=con,signal=off",
    "-serial",
    "chardev:con",
)


def _blockdev(slot: int, path: Path, *, writable: bool = True) -> dict[str, Any]:
    # The lab gives each file to one guest only, so no lock is needed. A guest's flush reaches this machine's disk.
    file = {"driver": "file", "filename": str(path), "locking": "off", "aio": "threads"}
    return {"driver": "raw", "node-name": f"slot{slot}", "read-only": not writable, "file": file}


def _disk(slot: int) -> dict[str, Any]:
    return {"driver": "scsi-hd", "id": f"disk{slot}", "drive": f"slot{slot}", "bus": "scsi.0", "lun": slot}


class Monitor(QEMUMonitorProtocol):
    """A session in which nothing waits longer than for an answer: the package has no limit for connecting."""

    def _sync(self, future: Awaitable[T], timeout: float | None = None) -> T:
        return super()._sync(future, timeout or _ANSWER_S)


@contextmanager
def monitor(folder: Path) -> Iterator[Monitor]:
    """A session with a guest's monitor; LabBroken when the monitor fails or does not answer."""
    holder = os.open(folder, os.O_RDONLY)  # a socket's path has at most 107 bytes
    try:
        qmp = Monitor(f"/proc/self/fd/{holder}/{_SOCKET}")
        try:
            qmp.connect()
            yield qmp
        finally:
            qmp.close()  # EOFError if QEMU has ended
    except (OSError, EOFError, QMPError) as error:
        raise LabBroken("the machine's QEMU monitor failed", f"{type(error).__name__}: {error}") from error
    finally:
        os.close(holder)


def ask(qmp: Monitor, command: str, arguments: dict[str, Any]) -> Any:
    """Run one command; LabBroken with QEMU's own message when it is refused."""
    answer = qmp.cmd_raw(command, arguments)
    if "error" in answer:
        raise LabBroken(f"QEMU refused {command}", str(answer["error"]))
    return answer["return"]


def kvm_boots(home: Home, parts: Parts) -> bool:
    """Whether KVM boots the guest's own kernel here. /dev/kvm may exist and not work. Remembered until a reboot."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    arch = parts.kernel.arch
    argv = [program(arch), "-M", BOARD[arch], "-accel", "kvm", "-cpu", "host", *_BARE, "-m", "512M", "-no-reboot"]
    argv += ["-kernel", str(parts.kernel.executable), "-initrd", str(parts.initramfs)]
    argv += ["-append", f"console={CONSOLE[arch]} panic=-1 cephlab.probe=1"]
    return remembered_kvm(home, parts.kernel, lambda: process.run(argv, timeout_s=PROBE_S, check=False))


def known_kvm(home: Home) -> bool | None:
    """Whether KVM booted any kernel since this machine was booted; None if nobody has tried."""
    booted = [json.loads(record.read_text())["boots"] for record in home.images.glob(_record_of("*"))]
    return any(booted) if booted else None


def _record_of(key: str, boot_id: str = "") -> str:
    return f"kvm-{boot_id or births.boot_id()}-{key}.json"


def remembered_kvm(home: Home, kernel: Kernel, attempt: Callable[[], Result], *, boot_id: str = "") -> bool:
    """Whether KVM boots a kernel: as recorded since a machine was booted, else as an attempt shows.

    boot_id: of that machine, empty for this one.
    """
    record = home.images / _record_of(kernel.key[:12], boot_id)
    if record.is_file():
        return bool(json.loads(record.read_text())["boots"])
    try:
        boots = PROBED in attempt().stdout
    except CommandTimedOut:
        boots = False
    write_json(record, {"boots": boots}, mode=0o644)
    return boots
