"""User-Mode Linux: a kernel that runs as an ordinary process of this machine, without KVM."""

import sys
from collections.abc import Sequence
from pathlib import Path

from cephlab.lab.base import process
from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.home import Home
from cephlab.lab.base.process import LocalProcess
from cephlab.lab.providers.guest.machine import Boot, Parts, RunningGuest
from cephlab.lab.spec.arch import Arch

_UMID = "uml"
_SLOW = "raid6_select_algo,calibrate_xor_blocks"
"""Benchmarks of checksum routines, which run at each boot. Only RAID 5 and 6 need their results."""
_CONSOLE = Path(__file__).with_name("mconsole.py")
TICKING = Path(__file__).with_name("ticking.py")
"""Starts a kernel with a SIGALRM each second, because the kernel can lose one: `unblock_signals` of
arch/um/os-Linux/signal.c drops a pending one while another is handled. As each timer starts the next, its clock would
then stop: docs/guests.md."""


class UmlHypervisor:
    """Machines with one CPU. Their memory is a file in /dev/shm, or in TMPDIR."""

    modules: Sequence[str] = ("overlay",)
    slots = 16  # MAX_DEV of arch/um/drivers/ubd_kern.c
    interface_names = ("vec0", "vec1")
    fixed_names = ("ubda", "ubdb", "ubdc")
    distortion = "User-Mode Linux: the time includes its system calls, which cost many times those of a kernel"

    def place(self, slot: int) -> str:
        return f"ubd{_letter(slot)}"

    def cores(self, wanted: float | None) -> int:
        del wanted
        return 1

    def emulated(self, arch: Arch) -> bool:
        del arch
        return False

    def prepare(self, home: Home, parts: Parts) -> None:
        """Nothing to find out: the kernel runs, or prints why it does not."""

    def start(self, boot: Boot) -> LocalProcess:
        disks = [f"ubd{_letter(slot)}{_flags(writable)}={path}" for slot, (path, writable) in enumerate(boot.fixed)]
        disks += [f"ubd{_letter(slot)}c={path}" for slot, path in boot.disks.items()]
        links = [
            f"vec{number}:transport=tap,ifname={link.tap},mac={link.mac},depth=128,gro=1"
            for number, link in enumerate(boot.interfaces)
        ]
        argv = [
            *boot.inside,
            sys.executable,
            "-I",
            "-S",
            str(TICKING),
            str(boot.executable),
            f"uml_dir={boot.folder}",
            f"umid={_UMID}",
            f"mem={boot.memory_bytes >> 20}M",
            f"initrd={boot.initramfs}",
            *disks,
            *links,
            "con0=null,fd:1",
            "con=null",
            "ssl=null",
            "quiet",
            "panic=-1",
            f"initcall_blacklist={_SLOW}",
            *(f"cephlab.{key}={value}" for key, value in boot.words.items()),
        ]
        return process.start_detached(argv, log=boot.console, env=boot.marks)

    def plug(self, guest: RunningGuest, slot: int, file: Path) -> None:
        self._command(guest, f"config ubd{_letter(slot)}c={file}")

    def unplug(self, guest: RunningGuest, slot: int) -> None:
        self._command(guest, f"remove ubd{_letter(slot)}")

    @staticmethod
    def _command(guest: RunningGuest, text: str) -> None:
        argv = (*guest.inside, sys.executable, "-I", str(_CONSOLE), f"{_UMID}/mconsole", text)
        result = process.run(argv, check=False)
        if result.code != 0:
            raise LabBroken(f"User-Mode Linux refused {text!r}", result.stdout.strip() or result.stderr)


def _letter(slot: int) -> str:
    return chr(ord("a") + slot)


def _flags(writable: bool) -> str:
    """c: no lock on the file, because the lab gives it to one guest only; r: read only."""
    return "c" if writable else "rc"
