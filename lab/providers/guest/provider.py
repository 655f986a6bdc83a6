"""What the providers of guests have in common; `uml` and `qemu` give it their machines."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import filelock

from lab.arch import Arch, host_arch
from lab.errors import LabBroken, Unavailable
from lab.home import Home
from lab.images.cache import Cache
from lab.images.export import export_image
from lab.images.image import Image
from lab.images.kernels import KernelStore
from lab.images.tools import SystemTools
from lab.providers.base import Images, Progress, untold
from lab.providers.guest import boot, network
from lab.providers.guest.lab import GuestLab, claim_subnet, home_of
from lab.providers.guest.machine import Machines, Parts
from lab.providers.guest.removal import remove_run, runs_present
from lab.runs import Run
from lab.spec import Capability, ClusterSpec

ALWAYS = frozenset(
    {
        Capability.OWN_KERNEL,
        Capability.OWN_NETWORK,
        Capability.POWER_CUT,
        Capability.PARTITION,
        Capability.MEMORY_LIMIT,
        Capability.MOVE_DISK,
        Capability.TAKE_OVER,
    }
)

_EMULATED_PATIENCE = 3.0
"""Factor on the deadlines of a guest's start and of its agent, where it may be emulated."""

_TOOLS = {"mke2fs": "e2fsprogs", "depmod": "kmod", "mmdebstrap": "mmdebstrap"}


@dataclass(frozen=True)
class GuestProvider:
    """Nodes as guests. missing: why machines cannot run here for some architectures, or None."""

    name: str
    cost: int
    machines: Mapping[Arch, Machines]
    extra: frozenset[Capability]
    missing: Callable[[tuple[Arch, ...]], Unavailable | None]
    kernels: Mapping[Arch, str]

    def capabilities(self) -> frozenset[Capability]:
        return ALWAYS | self.extra

    def unavailable(self, spec: ClusterSpec | None = None) -> Unavailable | None:
        archs = spec.archs if spec else (host_arch(),)
        return self.missing(archs) or missing_tools() or network.obstacle()

    @contextmanager
    def launch(self, spec: ClusterSpec, images: Images, run: Run, *, progress: Progress = untold) -> Iterator[GuestLab]:
        boot.refuse_odd_path(run.directory)
        home = home_of(run)
        archs = {*spec.archs, *(arch for arch in images if self.missing((arch,)) is None)}
        parts = {arch: self._parts(home, images[arch]) for arch in archs}
        for arch, found in parts.items():
            self.machines[arch].prepare(home, found)
        with filelock.FileLock(home.runs / ".guests.lock"):
            subnet = claim_subnet(run)
        lab = GuestLab(run, self.machines, parts, subnet, self._patience(archs))
        try:
            lab.begin()
            lab.add_nodes(spec.nodes)
            yield lab
        finally:
            lab.hang_up()
            if not run.kept:
                lab.close()

    def _patience(self, archs: Collection[Arch]) -> float:
        emulated = any(self.machines[arch].emulated(arch) for arch in archs)
        return _EMULATED_PATIENCE if emulated else 1.0

    def _parts(self, home: Home, image: Image) -> Parts:
        kernel = KernelStore(home).get(self.kernels[image.arch], image.arch)
        root = export_image(home, Cache(home), SystemTools(), image, "ext4", lambda _line: None)
        return Parts(kernel, boot.initramfs(home, kernel, self.machines[image.arch].modules), root)

    def attach(self, run: Run, state: Mapping[str, Any]) -> GuestLab:
        store = KernelStore(home_of(run))
        parts = {}
        for name, found in state["parts"].items():
            kernel = store.cached(found["kernel"], Arch(name))
            if kernel is None:
                raise LabBroken(f"the kernel {found['kernel']} for {name} is gone from the cache")
            parts[Arch(name)] = Parts(kernel, Path(found["initramfs"]), Path(found["root"]))
        for arch, known in parts.items():
            self.machines[arch].prepare(home_of(run), known)
        lab = GuestLab(run, self.machines, parts, str(state["subnet"]), float(state["patience"]))
        lab.restore(state)
        return lab

    def prune(self, home: Home, run_id: str) -> list[str]:
        return remove_run(home, run_id)

    def leftovers(self, home: Home) -> frozenset[str]:
        return runs_present(home)


def missing_tools() -> Unavailable | None:
    """A tool of this machine that making a guest's disks needs and that is not here, or None."""
    tools = SystemTools()
    lacking = [name for name in _TOOLS if tools.locate(name) is None]
    if not lacking:
        return None
    packages = ", ".join(sorted({_TOOLS[name] for name in lacking}))
    return Unavailable(
        f"{', '.join(lacking)} is not installed", "disks of guests are made with it", f"install {packages}"
    )


def uml() -> GuestProvider:
    """User-Mode Linux for nodes of x86_64; QEMU, where it is installed, for those of aarch64 beside them."""
    from lab.providers.guest.qemu import QemuMachines
    from lab.providers.guest.uml import UmlMachines

    mixed = _missing_qemu((Arch.AARCH64,)) is None
    return GuestProvider(
        name="uml",
        cost=3,
        machines={Arch.X86_64: UmlMachines(), Arch.AARCH64: QemuMachines()},
        extra=frozenset({Capability.FOREIGN_ARCH} if mixed else ()),
        missing=_missing_uml,
        kernels={Arch.X86_64: "uml", Arch.AARCH64: "cloud"},
    )


def qemu() -> GuestProvider:
    """QEMU guests of either architecture."""
    from lab.providers.guest.qemu import QemuMachines

    foreign = next(arch for arch in Arch if arch is not host_arch())
    extra = {Capability.CPU_LIMIT} | ({Capability.FOREIGN_ARCH} if _missing_qemu((foreign,)) is None else set())
    return GuestProvider(
        name="qemu",
        cost=4,
        machines=dict.fromkeys(Arch, QemuMachines()),
        extra=frozenset(extra),
        missing=_missing_qemu,
        kernels=dict.fromkeys(Arch, "cloud"),
    )


def _missing_qemu(archs: tuple[Arch, ...]) -> Unavailable | None:
    for arch in archs:
        name = f"qemu-system-{arch}"
        if shutil.which(name) is None:
            package = {Arch.X86_64: "qemu-system-x86", Arch.AARCH64: "qemu-system-arm"}[arch]
            return Unavailable(f"{name} is not installed", f"{arch} guests run in it", f"apt-get install {package}")
    return None


def _missing_uml(archs: tuple[Arch, ...]) -> Unavailable | None:
    if host_arch() is not Arch.X86_64:
        what = "User-Mode Linux runs on x86_64 machines"
        return Unavailable(what, f"this machine is {host_arch()}", "use --lab qemu")
    return _missing_qemu(tuple(arch for arch in archs if arch is not Arch.X86_64))
