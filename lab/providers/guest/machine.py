"""The interface between a guest and its hypervisor, User-Mode Linux or QEMU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cephlab.lab.base.home import Home
from cephlab.lab.base.process import LocalProcess
from cephlab.lab.images.kernels import Kernel
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import Node

FIRST_DISK = 3
"""Slots below hold the root, the store and the modules."""


@dataclass(frozen=True)
class Make:
    """What guests with the same parts have in common. page_bytes: None if the node does not ask for a size.

    whole: a QEMU machine of a lab whose other x86_64 guests are of User-Mode Linux.
    """

    arch: Arch
    page_bytes: int | None = None
    whole: bool = False

    def __str__(self) -> str:
        words = (self.arch, str(self.page_bytes or ""), "whole" if self.whole else "")
        return "/".join(filter(None, words))

    @staticmethod
    def parse(text: str) -> Make:
        """Read what `str` wrote."""
        arch, *more = text.split("/")
        sizes = [int(word) for word in more if word.isdecimal()]
        return Make(Arch(arch), sizes[0] if sizes else None, "whole" in more)

    @property
    def asked(self) -> str:
        """What its nodes ask for; empty for nothing."""
        if self.page_bytes:
            return f"pages of {self.page_bytes} bytes"
        return "a number of CPUs or NVMe over TCP" if self.whole else ""


@dataclass(frozen=True)
class Parts:
    """What guests of a make boot from. root: the image as a disk."""

    kernel: Kernel
    initramfs: Path
    root: Path

    def to_json(self) -> dict[str, str]:
        return {"kernel": self.kernel.name, "initramfs": str(self.initramfs), "root": str(self.root)}


@dataclass(frozen=True)
class Interface:
    """A network interface of a guest: the name of its tap here, and its MAC address."""

    tap: str
    mac: str


@dataclass(frozen=True)
class Boot:
    """Everything that starts a machine. fixed: (file, writable) in slots 0.. ; disks: slot -> file; words: for init.

    inside: puts a command into the run's network; turn: a number that few other guests have at the same time.
    """

    name: str
    turn: int
    arch: Arch
    folder: Path
    executable: Path
    initramfs: Path
    fixed: Sequence[tuple[Path, bool]]
    disks: Mapping[int, Path]
    interfaces: Sequence[Interface]
    memory_bytes: int
    cores: int
    words: Mapping[str, str]
    console: Path
    inside: tuple[str, ...]
    marks: Mapping[str, str]


@dataclass(frozen=True)
class RunningGuest:
    """A running machine: its folder, and what puts a command into its network."""

    folder: Path
    inside: tuple[str, ...]


class Hypervisor(Protocol):
    """Starts machines of one kind and changes running ones.

    modules: to load before the root is mounted; slots: how many disks fit, including the fixed ones; interface_names,
    fixed_names: a guest's names of its interfaces and fixed disks; distortion: why the CPU time of guests that are not
    emulated says nothing about hardware, empty if it is meaningful.
    """

    modules: Sequence[str]
    slots: int
    interface_names: tuple[str, str]
    fixed_names: tuple[str, str, str]
    distortion: str

    def place(self, slot: int) -> str:
        """Where a guest's agent finds a disk; see `op_disks` there."""
        ...

    def cores(self, wanted: float | None) -> int: ...

    def prepare(self, home: Home, parts: Parts) -> None:
        """Find out what this machine can do, before a guest is started or asked about."""
        ...

    def start(self, boot: Boot) -> LocalProcess: ...

    def plug(self, guest: RunningGuest, slot: int, file: Path) -> None: ...
    def unplug(self, guest: RunningGuest, slot: int) -> None:
        """Take a disk out of a running machine; LabBroken when the guest does not release it."""
        ...

    def emulated(self, arch: Arch) -> bool:
        """Whether guests of an architecture run through an emulator."""
        ...


@dataclass(frozen=True)
class Kind:
    """What runs guests of a make: a hypervisor, and the name of the kernel if the node asks for no page size."""

    hypervisor: Hypervisor
    kernel: str


@dataclass(frozen=True)
class Kinds:
    """What runs the guests of a provider. uml: those of x86_64 that ask for nothing it lacks; None: qemu runs all."""

    qemu: Kind
    uml: Kind | None = None

    def make_of(self, node: Node) -> Make:
        """The make of a node of the spec."""
        beyond_uml = node.arch is Arch.X86_64 and (node.fabrics or node.cores is not None)
        return Make(node.arch, node.page_bytes, self.uml is not None and beyond_uml)

    def of(self, make: Make) -> Kind:
        return self.uml if self.uml and make.arch is Arch.X86_64 and not make.whole else self.qemu

    def hypervisor(self, make: Make) -> Hypervisor:
        return self.of(make).hypervisor
