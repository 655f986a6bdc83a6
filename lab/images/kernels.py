"""Kernels for guests, from Debian packages or built from source, in the image cache, with their modules as a disk."""

import lzma
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cephlab.lab.base.errors import LabBroken, Unavailable
from cephlab.lab.base.home import Home, require_space
from cephlab.lab.base.progress import Progress, quiet
from cephlab.lab.images import build
from cephlab.lab.images.cache import Cache, image_key
from cephlab.lab.images.image import Image
from cephlab.lab.images.recipe import KernelRecipe, read_recipes
from cephlab.lab.images.resolve import DebianSource, resolve
from cephlab.lab.images.tools import BUILD_VARIABLE, SystemTools, Tools, call, require, require_all
from cephlab.lab.spec.arch import Arch, host_arch

SPACE_BYTES = 500_000_000
"""Space for unpacking one: the largest (for LXD's machines) takes 0.28 GB, its packages and lists 0.2 GB meanwhile."""

TOOLS = ("mmdebstrap", "mke2fs", "depmod")
"""Programs of this machine that make a kernel from packages."""

_MODULES_LABEL = "cephlab-kernel"
_EXECUTABLES = ("usr/bin/linux.uml", "boot/vmlinuz-*")
_MODULE_FOLDERS = ("usr/lib/uml/modules/*", "usr/lib/modules/*", "lib/modules/*")
_SLACK_BYTES = 32 << 20

SOURCE_SPACE_BYTES = 3_000_000_000
"""The source takes 1.7 GB; its package and the build take the rest."""

_SOURCE = "usr/src/linux-source-*.tar.*"
_NAMES = {Arch.X86_64: ("x86_64", "arch/x86/boot/bzImage"), Arch.AARCH64: ("arm64", "arch/arm64/boot/Image")}
"""Name of an architecture in the makefiles of the kernel, and the path of the image that they build."""
_KEPT = ("bin/busybox", "usr/bin/busybox")
_UNPACK_S, _CONFIGURE_S, _COMPILE_S = 1800.0, 1800.0, 4 * 3600.0
_VERSION = re.compile(r"\d+\.\d+\.[\w.+-]+")


@dataclass(frozen=True)
class Kernel:
    """A kernel in the cache. executable: the file that a machine boots; modules: an ext4 disk with VERSION/."""

    name: str
    arch: Arch
    key: str
    folder: Path
    executable: Path
    version: str
    tree: Path
    page_bytes: int = 4 << 10

    @property
    def modules(self) -> Path:
        return self.folder / "modules.ext4"

    @property
    def busybox(self) -> Path:
        """A static busybox for the architecture of the kernel."""
        root = self.folder / "root"
        return next(path for path in (root / "usr/bin/busybox", root / "bin/busybox") if path.is_file())

    def load_order(self, names: Sequence[str]) -> list[tuple[str, bytes]]:
        """Modules with all their dependencies, in load order, uncompressed: (name, content).

        A name without a file is built in. LabBroken if the table of depmod cannot be read.
        """
        needs = dict(_dependencies(self.tree / "modules.dep"))
        by_name = {_stem(path): path for path in needs}
        order: list[str] = []
        for name in names:
            path = by_name.get(name.replace("-", "_"))
            if path is not None:
                # depmod lists the dependencies of a module in reverse load order.
                order += [module for module in (*reversed(needs[path]), path) if module not in order]
        return [(f"{_stem(path)}.ko", _content(self.tree / path)) for path in order]


class KernelStore:
    """Kernels below one home, with the same cache and the same package archive as images."""

    def __init__(self, home: Home, *, source: DebianSource | None = None) -> None:
        self._home = home
        self._cache = Cache(home)
        self.book = read_recipes()
        self._tools = SystemTools()
        self._source = source or DebianSource.from_environment()

    def cached(self, name: str, arch: Arch) -> Kernel | None:
        """The kernel from the cache, if any; never downloads."""
        recipe = self.book.find_kernel(name, arch)
        image = self._cache.resolved(self._source, recipe)
        return None if image is None else _kernel(name, image, recipe)

    def get(self, name: str, arch: Arch, *, compiling: bool = False, progress: Progress = quiet) -> Kernel:
        """The kernel from the cache; if absent it is downloaded first, and built from source if `compiling`.

        Raises SpecError for an unknown kernel or too little disk space; Unavailable if a tool or the mirror is missing,
        or if it would have to be built and `compiling` is not set.
        """
        kernel = self.cached(name, arch)
        if kernel is not None:
            return kernel
        recipe = self.book.find_kernel(name, arch)
        if recipe.config and not compiling:
            raise Unavailable(
                f"the kernel {name} for {arch} has not been built",
                f"Debian has only its source; building takes minutes and {SOURCE_SPACE_BYTES / 1e9:.1f} GB of disk",
                f"cephlab image kernel {name} --arch {arch}",
            )
        self._home.ensure()
        with self._cache.scratch(self._source.name(recipe), progress) as scratch:
            kernel = self.cached(name, arch)
            return kernel or _kernel(name, self._fetch(recipe, scratch, progress), recipe)

    def _fetch(self, recipe: KernelRecipe, scratch: Path, progress: Progress) -> Image:
        require_all(self._tools, (*TOOLS, *(build_tools(recipe.arch) if recipe.config else ())))
        self._source.require_keyring()
        space = SPACE_BYTES + (SOURCE_SPACE_BYTES if recipe.config else 0)
        require_space(self._home, space, f"the {recipe.title}")
        tree = scratch / "image"
        tree.mkdir()
        progress(f"{recipe.title}: asking Debian {recipe.suite} for package versions")
        source = self._source if recipe.expires else replace(self._source, accept_expired=True)
        resolution = resolve(self._tools, recipe, source, scratch)
        planned = Image(
            recipe.release,
            recipe.arch,
            image_key(self._source.digest(recipe), resolution.packages),
            tree / "root",
            resolution.packages,
            (),
        )
        progress(f"{recipe.title}: downloading {resolution.download_bytes / 1e6:.0f} MB and unpacking it")
        build.unpack(self._tools, recipe, source, scratch, planned.root)
        if recipe.config:
            build_kernel(self._tools, recipe, planned.root, scratch, progress)
        self._complete(planned, scratch)
        image = self._cache.find(planned.key) or self._cache.put(planned, tree)
        self._cache.remember(self._source.name(recipe), resolution)
        return image

    def _complete(self, image: Image, scratch: Path) -> None:
        """Write the dependency table that a maintainer script would write, and the disk with the modules."""
        modules = _only(image.root, _MODULE_FOLDERS, image)
        base = scratch / "depmod/lib/modules"
        base.mkdir(parents=True)
        packed = base / modules.name
        modules.rename(packed)
        call(self._tools, scratch, "depmod", "--basedir", str(scratch / "depmod"), modules.name)
        disk = image.root.parent / "modules.ext4"
        with disk.open("wb") as file:
            file.truncate(int(build.tree_bytes(base) * 1.1) + _SLACK_BYTES)
        options = ("-q", "-F", "-t", "ext4", "-O", "^has_journal", "-L", _MODULES_LABEL)
        call(self._tools, scratch, "mke2fs", *options, "-d", str(base), str(disk))
        packed.rename(modules)
        for name in ("usr/share", "usr/lib/debug", "var"):
            shutil.rmtree(image.root / name, ignore_errors=True)


def _kernel(name: str, image: Image, recipe: KernelRecipe) -> Kernel:
    tree = _only(image.root, _MODULE_FOLDERS, image)
    executable = _only(image.root, _EXECUTABLES, image)
    return Kernel(name, image.arch, image.key, image.root.parent, executable, tree.name, tree, recipe.page_bytes)


def _only(root: Path, patterns: Sequence[str], image: Image) -> Path:
    for pattern in patterns:
        paths = [path for path in root.glob(pattern) if not path.is_symlink()]
        if paths:
            return paths[0]
    raise LabBroken(f"{image.release} for {image.arch} has none of {', '.join(patterns)}", str(root))


def _dependencies(table: Path) -> Iterator[tuple[str, list[str]]]:
    """Parse modules.dep, see modules.dep(5): lines `PATH: PATH PATH ...`."""
    try:
        lines = table.read_text().splitlines()
    except OSError as error:
        raise LabBroken(
            f"{table} cannot be read", str(error), "remove the folder of the kernel: it is then downloaded again"
        ) from error
    for line in lines:
        path, _, needs = line.partition(":")
        yield path, needs.split()


def _stem(path: str) -> str:
    return Path(path).name.partition(".")[0].replace("-", "_")


def _content(path: Path) -> bytes:
    return lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()


def build_tools(arch: Arch) -> tuple[str, ...]:
    """Programs of this machine that a build for an architecture needs."""
    return ("bc", "bison", "flex", "gcc", "make", "tar", "xz", f"{_prefix(arch)}gcc")


def build_kernel(programs: Tools, recipe: KernelRecipe, root: Path, scratch: Path, progress: Progress) -> None:
    """Replace `root`, which holds the source, by the kernel, busybox and an empty folder of modules."""
    source, output = scratch / "source", scratch / "made"
    for folder in (source, output):
        folder.mkdir()
    env = {BUILD_VARIABLE: str(scratch), "LC_ALL": "C", "TMPDIR": str(scratch)}
    progress(f"{recipe.title}: unpacking the source")
    unpack = [require(programs, "tar"), "-xf", str(_archive(root)), "-C", str(source), "--strip-components=1"]
    programs.run(unpack, timeout_s=_UNPACK_S, env=env)
    config = scratch / "wanted.config"
    config.write_text(recipe.config)
    make = [require(programs, "make"), "-s", "-C", str(source), *_variables(recipe.arch, output)]
    # Settings that are not in the file are off, unless a setting in the file needs them.
    programs.run([*make, f"KCONFIG_ALLCONFIG={config}", "allnoconfig"], timeout_s=_CONFIGURE_S, env=env)
    _refuse_untaken(recipe, (output / ".config").read_text())
    jobs = len(os.sched_getaffinity(0))
    name, image = _NAMES[recipe.arch]
    progress(f"{recipe.title}: compiling, {jobs} files at a time")
    programs.run([*make, f"-j{jobs}", Path(image).name], timeout_s=_COMPILE_S, env=env)
    version = _release((output / "include/config/kernel.release").read_text())
    progress(f"{recipe.title}: built {version} for {name}")
    _replace(root, output / image, version)


def _prefix(arch: Arch) -> str:
    return "" if arch is host_arch() else f"{arch.triplet}-"


def _variables(arch: Arch, output: Path) -> list[str]:
    """Variables for every call of make. Builder, host and time do not get into the kernel."""
    return [
        f"O={output}",
        f"ARCH={_NAMES[arch][0]}",
        f"CROSS_COMPILE={_prefix(arch)}",
        "KBUILD_BUILD_USER=cephlab",
        "KBUILD_BUILD_HOST=cephlab",
        "KBUILD_BUILD_TIMESTAMP=@0",
    ]


def _archive(root: Path) -> Path:
    archives = sorted(root.glob(_SOURCE))
    if not archives:
        raise LabBroken("the packages contain no kernel source", f"{root}: {_SOURCE}", "add one to the recipe file")
    return archives[0]


def _refuse_untaken(recipe: KernelRecipe, config: str) -> None:
    """LabBroken for settings that the kernel does not know or whose dependencies are off."""
    lines = frozenset(config.splitlines())
    lost = [line for line in recipe.config.splitlines() if line.startswith("CONFIG_") and line not in lines]
    if lost:
        raise LabBroken(
            f"the source of {recipe.title} does not accept its configuration",
            f"settings without effect: {', '.join(lost)}",
            "add the settings that these depend on, or remove them",
        )


def _release(text: str) -> str:
    version = text.strip()
    if not _VERSION.fullmatch(version):
        raise LabBroken("the built kernel does not report a valid version", repr(text[:200]))
    return version


def _replace(root: Path, image: Path, version: str) -> None:
    """Replace the source and its dependencies by the kernel."""
    old = root.with_name("unpacked")
    root.replace(old)
    busybox = next(old / name for name in _KEPT if (old / name).is_file())
    for folder in ("boot", f"usr/lib/modules/{version}", "usr/bin"):
        (root / folder).mkdir(parents=True)
    shutil.copy2(busybox, root / "usr/bin/busybox")
    shutil.copy2(image, root / f"boot/vmlinuz-{version}")
    shutil.rmtree(old)
