"""User-Mode Linux: a kernel that runs as an ordinary process of this machine, without KVM."""

import os
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from cephlab.lab.base import process
from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.home import Home
from cephlab.lab.base.process import LocalProcess
from cephlab.lab.images.cache import Cache
from cephlab.lab.providers.guest.machine import Boot, Parts, RunningGuest
from cephlab.lab.spec.arch import Arch

_UMID = "uml"
_SLOW = "raid6_select_algo,calibrate_xor_blocks"
"""Benchmarks of checksum routines, which run at each boot. Only RAID 5 and 6 need their results."""
_PROGRAM = "linux"
_CONSOLE = Path(__file__).with_name("mconsole.py")
TICKING = Path(__file__).with_name("ticking.py")
"""Starts a kernel on one CPU, and with a SIGALRM each second, because the kernel can lose one: `unblock_signals` of
arch/um/os-Linux/signal.c drops a pending one while another is handled. As each timer starts the next, its clock would
then stop: docs/guests.md."""


_PACKAGED_LOADER = b"/lib64/ld-linux-x86-64.so.2"
_LOADER = "ld.so"
"""The loader's name in a guest's folder, where the kernel starts."""
_LIBRARIES = "usr/lib/x86_64-linux-gnu"


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
        """Make what a kernel is started by. There is nothing to find out: it runs, or prints why it does not."""
        name_own_loader(home, parts.kernel.executable)

    def start(self, boot: Boot) -> LocalProcess:
        libraries, loader = libraries_of(boot.executable), boot.folder / _LOADER
        loader.unlink(missing_ok=True)
        loader.symlink_to(libraries / "ld-linux-x86-64.so.2")
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
            str(cpu_of(boot.turn, os.sched_getaffinity(0))),
            str(libraries),
            str(program_of(boot.executable)),
            f"uml_dir={boot.folder}",
            f"umid={_UMID}",
            f"mem={boot.memory_bytes >> 20}M",
            f"initrd={boot.initramfs}",
            *disks,
            *links,
            "con0=null,fd:1",
            "con=null",
            "ssl=null",
            "seccomp=auto",  # of 6.16 and later: the kernel runs its processes without ptrace, which is faster
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


def cpu_of(turn: int, cpus: Collection[int]) -> int:
    """The CPU of a guest, so that guests which run at the same time are on different ones if possible."""
    return sorted(cpus)[turn % len(cpus)]


def program_of(executable: Path) -> Path:
    """The packaged kernel's copy that names its loader by a path in its working directory, beside its root."""
    return executable.parents[3] / _PROGRAM


def libraries_of(executable: Path) -> Path:
    """The folder of the C library in the kernel's package."""
    return executable.parents[2] / _LIBRARIES


def name_own_loader(home: Home, executable: Path) -> None:
    """Make the copy of a kernel that uses the C library of its own package, unless it exists. LabBroken if it cannot.

    This machine's library may be older than the one that the kernel was built with. The kernel cannot be an argument of
    a loader, because it places its memory behind its own heap. The copy is not made as a guest starts: while another
    thread starts a process, that process too has the file open for writing, and the kernel could not be executed.
    """
    program = program_of(executable)
    if program.exists():
        return
    content = executable.read_bytes()
    if content.count(_PACKAGED_LOADER) != 1:
        raise LabBroken(f"{executable} does not name its loader once", f"wanted: {_PACKAGED_LOADER.decode()}")
    with Cache(home).scratch(f"{_PROGRAM}-{program.parent.name[:16]}") as scratch:
        copy = scratch / _PROGRAM
        copy.write_bytes(content.replace(_PACKAGED_LOADER, _LOADER.encode().ljust(len(_PACKAGED_LOADER), b"\0")))
        copy.chmod(0o755)
        copy.replace(program)


def _letter(slot: int) -> str:
    return chr(ord("a") + slot)


def _flags(writable: bool) -> str:
    """c: no lock on the file, because the lab gives it to one guest only; r: read only."""
    return "c" if writable else "rc"
