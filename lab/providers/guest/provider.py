"""The providers `uml` and `qemu`: nodes as guests of a hypervisor."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import filelock

from cephlab.lab.base.errors import LabBroken, NotInstalled, Unavailable
from cephlab.lab.base.home import Home
from cephlab.lab.base.progress import Progress, quiet
from cephlab.lab.base.runs import Run, RunId
from cephlab.lab.images.cache import Cache
from cephlab.lab.images.export import export_image
from cephlab.lab.images.kernels import TOOLS, Kernel, KernelStore
from cephlab.lab.images.recipe import read_recipes
from cephlab.lab.images.tools import SystemTools, missing
from cephlab.lab.providers.base import Images, removing
from cephlab.lab.providers.guest import boot, network
from cephlab.lab.providers.guest.lab import GuestLab, claim_subnet, remove_run, runs_present
from cephlab.lab.providers.guest.machine import Kind, Kinds, Make, Parts
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import Capability, ClusterSpec, Node

ALWAYS = frozenset(
    {
        Capability.OWN_KERNEL,
        Capability.OWN_NETWORK,
        Capability.POWER_CUT,
        Capability.PARTITION,
        Capability.MEMORY_LIMIT,
        Capability.MOVE_DISK,
        Capability.DISKS_IN_HOME,
        Capability.TAKE_OVER,
    }
)

_EMULATED_PATIENCE = 3.0
"""Factor on the deadlines of a guest's boot and of its agent, if it may be emulated."""


@dataclass(frozen=True)
class GuestProvider:
    """Nodes as guests. missing: why guests of some makes cannot run here, or None."""

    name: str
    cost: int
    extra: frozenset[Capability]
    missing: Callable[[Iterable[Make]], Unavailable | None]
    kinds: Kinds

    def capabilities(self) -> frozenset[Capability]:
        return ALWAYS | self.extra

    def unavailable(self, spec: ClusterSpec | None = None) -> Unavailable | None:
        nodes = spec.nodes if spec else ()
        reason = self.missing([*map(self.kinds.make_of, nodes)] or [Make(host_arch())])
        if reason is not None and not isinstance(reason, NotInstalled):
            return reason
        lacking = missing(SystemTools(), (*TOOLS, *network.PROGRAMS)) | (reason.missing if reason else {})
        absent = NotInstalled(lacking, "needed for guests, their disks or their network") if lacking else None
        return self._without_kernel(nodes) or absent or network.obstacle()

    def _without_kernel(self, nodes: Iterable[Node]) -> Unavailable | None:
        """Names the first node that asks for a page size without a kernel."""
        for node in nodes:
            if self._kernel_for(self.kinds.make_of(node)) is None:
                return Unavailable(
                    f"{node.name} asks for pages of {node.page_bytes} bytes, but no {node.arch} kernel here has them",
                    f"got page_bytes = {node.page_bytes}; wanted: one that a [kernels] table of the recipes names",
                    "name such a kernel in lab/images/recipes.toml, or leave page_bytes out",
                )
        return None

    def _kernel_for(self, make: Make) -> str | None:
        """Name of the kernel for guests of a make: the usual kernel if it fits."""
        usual = self.kinds.of(make).kernel
        if make.page_bytes is None:
            return usual
        fitting = read_recipes().kernels_with(make.arch, make.page_bytes)
        return usual if usual in fitting else next(iter(fitting), None)

    @contextmanager
    def launch(self, spec: ClusterSpec, images: Images, run: Run, *, progress: Progress = quiet) -> Iterator[GuestLab]:
        boot.refuse_odd_path(run.directory)
        home = run.home
        archs = {*spec.archs, *(arch for arch in images if self.missing([Make(arch)]) is None)}
        # Kernels first, and the unusual ones before the others: a missing kernel is noticed before anything is made.
        kernels = self._asked_for(home, spec, progress)
        kernels |= {Make(arch): self._kernel(home, Make(arch), progress) for arch in archs}
        parts = {make: self._parts(home, make, kernel, images, progress) for make, kernel in kernels.items()}
        self._prepare(home, parts)
        with filelock.FileLock(home.runs / ".guests.lock"):
            subnet = claim_subnet(run)
        emulated = any(self.kinds.hypervisor(make).emulated(make.arch) for make in parts)
        lab = GuestLab(run, self.kinds, parts, subnet, _EMULATED_PATIENCE if emulated else 1.0)
        try:
            with removing(run, lab.close):
                lab.network.make()
                lab.add_nodes(spec.nodes)
                yield lab
        finally:
            lab.hang_up()

    def _prepare(self, home: Home, parts: Mapping[Make, Parts]) -> None:
        for make, known in parts.items():
            self.kinds.hypervisor(make).prepare(home, known)

    def _asked_for(self, home: Home, spec: ClusterSpec, progress: Progress) -> dict[Make, Kernel]:
        """Kernels of nodes that ask for something. Unavailable names the node whose kernel is missing."""
        kernels: dict[Make, Kernel] = {}
        for node in spec.nodes:
            make = self.kinds.make_of(node)
            if not make.asked:
                continue
            try:
                kernels[make] = self._kernel(home, make, progress)
            except Unavailable as error:
                error.detail = f"{node.name} asks for {make.asked}; {error.detail}"
                raise
        return kernels

    def _kernel(self, home: Home, make: Make, progress: Progress) -> Kernel:
        name = self._kernel_for(make)
        if name is None:
            raise LabBroken(f"no kernel for {make}", "it was not asked for before the launch")
        return KernelStore(home).get(name, make.arch, progress=progress)

    def _parts(self, home: Home, make: Make, kernel: Kernel, images: Images, progress: Progress) -> Parts:
        root = export_image(home, Cache(home), SystemTools(), images[make.arch], "ext4", progress)
        return Parts(kernel, boot.initramfs(home, kernel, self.kinds.hypervisor(make).modules), root)

    def attach(self, run: Run, state: Mapping[str, Any]) -> GuestLab:
        store = KernelStore(run.home)
        parts = {}
        for name, record in state["parts"].items():
            make = Make.parse(name)
            kernel = store.cached(record["kernel"], make.arch)
            if kernel is None:
                raise LabBroken(f"the kernel {record['kernel']} for {name} is gone from the cache")
            parts[make] = Parts(kernel, Path(record["initramfs"]), Path(record["root"]))
        self._prepare(run.home, parts)
        lab = GuestLab(run, self.kinds, parts, str(state["subnet"]), float(state["patience"]))
        lab.restore(state)
        return lab

    def prune(self, home: Home, run_id: RunId) -> list[str]:
        return remove_run(home, run_id)

    def leftovers(self, home: Home) -> frozenset[RunId]:
        return runs_present(home)


def uml() -> GuestProvider:
    """User-Mode Linux for x86_64 nodes, and QEMU, if installed, for aarch64 nodes and for what else only it has."""
    from cephlab.lab.providers.guest.qemu import QemuHypervisor
    from cephlab.lab.providers.guest.uml import UmlHypervisor

    kind = Kind(UmlHypervisor(), "uml")
    extra = {Capability.FOREIGN_ARCH, Capability.PAGE_SIZE} if _missing_qemu([Make(Arch.AARCH64)]) is None else set()
    if _missing_qemu([Make(Arch.X86_64)]) is None:
        extra |= {Capability.CPU_LIMIT, Capability.FABRICS}
    return GuestProvider(
        name="uml",
        cost=3,
        extra=frozenset(extra),
        missing=_missing_uml,
        kinds=Kinds(Kind(QemuHypervisor(), "cloud"), kind),
    )


def qemu() -> GuestProvider:
    """QEMU guests of either architecture."""
    from cephlab.lab.providers.guest.qemu import QemuHypervisor

    extra = {Capability.CPU_LIMIT, Capability.FABRICS}
    extra |= {Capability.FOREIGN_ARCH} if _missing_qemu([Make(host_arch().other)]) is None else set()
    extra |= {Capability.PAGE_SIZE} if _missing_qemu([Make(Arch.AARCH64)]) is None else set()
    return GuestProvider(
        name="qemu",
        cost=4,
        extra=frozenset(extra),
        missing=_missing_qemu,
        kinds=Kinds(Kind(QemuHypervisor(), "cloud")),
    )


def _missing_qemu(makes: Iterable[Make]) -> Unavailable | None:
    archs = dict.fromkeys(make.arch for make in makes)
    lacking = missing(SystemTools(), (f"qemu-system-{arch}" for arch in archs))
    return NotInstalled(lacking, "needed to run guests") if lacking else None


def _missing_uml(makes: Iterable[Make]) -> Unavailable | None:
    if host_arch() is not Arch.X86_64:
        what = "User-Mode Linux runs on x86_64 machines"
        return Unavailable(what, f"this machine is {host_arch()}", "use --lab qemu")
    return _missing_qemu(make for make in makes if make.arch is not Arch.X86_64 or make.whole)
