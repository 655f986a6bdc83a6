"""The CPU architectures that a lab can mix, and each tool's names for them."""

from __future__ import annotations

import platform
from enum import StrEnum

from cephlab.lab.base.nearest import unknown


class Arch(StrEnum):
    """An architecture by its kernel name (`uname -m`)."""

    X86_64 = "x86_64"
    AARCH64 = "aarch64"

    @property
    def other(self) -> Arch:
        """The other architecture."""
        return next(arch for arch in Arch if arch is not self)

    @property
    def debian(self) -> str:
        """Name in Debian's archive and in OCI images."""
        return {"x86_64": "amd64", "aarch64": "arm64"}[self.value]

    @property
    def triplet(self) -> str:
        """Multiarch directory below /usr/lib."""
        return f"{self.value}-linux-gnu"

    @property
    def loader(self) -> str:
        """Path of glibc's dynamic loader inside a root."""
        return {
            "x86_64": "/usr/lib64/ld-linux-x86-64.so.2",
            "aarch64": "/usr/lib/aarch64-linux-gnu/ld-linux-aarch64.so.1",
        }[self.value]

    @property
    def elf_machine(self) -> int:
        """e_machine of its ELF files (elf.h: EM_X86_64 62, EM_AARCH64 183)."""
        return {"x86_64": 62, "aarch64": 183}[self.value]

    @property
    def qemu_user(self) -> str:
        """Name of the static user-mode emulator that runs it."""
        return f"qemu-{self.value}-static"

    @property
    def qemu_user_names(self) -> tuple[str, ...]:
        """All names of its user-mode emulator. Not every distribution builds it statically."""
        return self.qemu_user, self.qemu_user.removesuffix("-static")

    @property
    def qemu_cpu(self) -> str:
        """Value of QEMU_CPU when it is emulated; empty for the emulator's default.

        Debian's arm64 programs and kernels sign return addresses. The default CPU computes the architected cipher for
        each call, which took more than half of a short program's time; the implementation-defined hash still took a
        third of a longer one's. Without the extension, which Neoverse N1 lacks too, the instructions do nothing
        (QEMU 6 and later). SVE costs up to a tenth and stays: erasure code and checksums have code for it.
        """
        return {"x86_64": "", "aarch64": "max,pauth=off"}[self.value]


_ALIASES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}


def parse_arch(text: str) -> Arch:
    """Read an architecture in the kernel's or Debian's spelling; SpecError on any other."""
    try:
        return Arch(_ALIASES[text.strip().lower()])
    except KeyError:
        raise unknown(f"unknown architecture {text!r}", text, sorted(_ALIASES), "use x86_64 or aarch64") from None


def host_arch() -> Arch:
    """The architecture this machine runs natively; SpecError where cephlab has no images for it."""
    return parse_arch(platform.machine())


def default_nodes(*, foreign_runs: bool) -> tuple[tuple[Arch, int], ...]:
    """Two native nodes and one of the other architecture; three native nodes if the other cannot run."""
    here = host_arch()
    if not foreign_runs:
        return ((here, 3),)
    return ((here, 2), (here.other, 1))
