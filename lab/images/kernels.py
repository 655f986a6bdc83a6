"""Kernels for guests: Debian's packages unpacked into the image cache, with their modules as a disk."""

from __future__ import annotations

import lzma
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.arch import Arch
from lab.errors import LabBroken, Unavailable
from lab.home import Home, require_space
from lab.images import build, kernelbuild
from lab.images.cache import Cache, Progress, image_key
from lab.images.image import Image
from lab.images.recipe import KernelRecipe, RecipeBook, read_recipes
from lab.images.resolve import BUILD_VARIABLE, DebianSource, resolve
from lab.images.tools import SystemTools, Tools, require

SPACE_BYTES = 500_000_000
"""Room for unpacking one: the largest, that of LXD's machines, takes 0.28 GB, packages and lists 0.2 on the way."""

_TIMEOUT_S = 600.0
_MODULES_LABEL = "cephlab-kernel"
_EXECUTABLES = ("usr/bin/linux.uml", "boot/vmlinuz-*")
_MODULE_FOLDERS = ("usr/lib/uml/modules/*", "usr/lib/modules/*", "lib/modules/*")
_SLACK_BYTES = 32 << 20
_DEPENDENCY = re.compile(r"^(?P<path>[^:]+):(?P<needs>.*)$")


@dataclass(frozen=True)
class Kernel:
    """A kernel in the cache. executable: what a machine starts; modules: an ext4 disk that holds VERSION/.

    page_bytes: the size of its pages.
    """

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
        """A static busybox of the kernel's architecture."""
        root = self.folder / "root"
        return next(path for path in (root / "usr/bin/busybox", root / "bin/busybox") if path.is_file())

    def load_order(self, names: Sequence[str]) -> list[tuple[str, bytes]]:
        """Modules with all that they need, in the order to load them, uncompressed: (name, content).

        A name that has no file is built in. LabBroken when depmod's table cannot be read.
        """
        needs = dict(_dependencies(self.tree / "modules.dep"))
        by_name = {_stem(path): path for path in needs}
        order: list[str] = []
        for name in names:
            path = by_name.get(name.replace("-", "_"))
            if path is not None:
                # depmod lists what a module needs in the reverse of the order of loading.
                order += [found for found in (*reversed(needs[path]), path) if found not in order]
        return [(f"{_stem(path)}.ko", _content(self.tree / path)) for path in order]


class KernelStore:
    """Kernels below one home: the same cache, the same packages' archive as images."""

    def __init__(
        self,
        home: Home,
        *,
        book: RecipeBook | None = None,
        tools: Tools | None = None,
        source: DebianSource | None = None,
    ) -> None:
        self._home = home
        self._cache = Cache(home)
        self._book = book or read_recipes()
        self._tools = tools or SystemTools()
        self._source = source or DebianSource.from_environment()

    @property
    def book(self) -> RecipeBook:
        return self._book

    def cached(self, name: str, arch: Arch) -> Kernel | None:
        """The kernel where it exists already; never fetches."""
        recipe = self._book.find_kernel(name, arch)
        packages = self._cache.remembered(_name(recipe))
        found = None if packages is None else self._cache.find(image_key(recipe.digest, packages))
        return None if found is None else _kernel(name, found, recipe)

    def get(self, name: str, arch: Arch, *, compiling: bool = False, progress: Progress = lambda _line: None) -> Kernel:
        """The kernel from the cache; fetched first where it is absent, and built where it is a source and `compiling`.

        Raises SpecError on an unknown kernel or too little disk, Unavailable when a tool or the mirror is missing, or
        when it would have to be built and nobody asked for that.
        """
        found = self.cached(name, arch)
        if found is not None:
            return found
        recipe = self._book.find_kernel(name, arch)
        if recipe.config and not compiling:
            raise Unavailable(
                f"the kernel {name} for {arch} has not been built",
                f"Debian has it as source only; it takes minutes and {kernelbuild.SPACE_BYTES / 1e9:.1f} GB on the way",
                f"cephlab image kernel {name} --arch {arch}",
            )
        self._home.ensure()
        with self._cache.scratch(_name(recipe), progress) as scratch:
            found = self.cached(name, arch)
            return found or _kernel(name, self._fetch(recipe, scratch, progress), recipe)

    def _fetch(self, recipe: KernelRecipe, scratch: Path, progress: Progress) -> Image:
        for tool in ("mmdebstrap", "mke2fs", "depmod", *(kernelbuild.tools(recipe.arch) if recipe.config else ())):
            require(self._tools, tool)
        self._source.require_keyring()
        space = SPACE_BYTES + (kernelbuild.SPACE_BYTES if recipe.config else 0)
        require_space(self._home, space, f"the {recipe.title}")
        tree = scratch / "image"
        tree.mkdir()
        progress(f"{recipe.title}: asking Debian {recipe.suite} for package versions")
        resolution = resolve(self._tools, recipe, self._source, scratch)
        planned = Image(
            recipe.release,
            recipe.arch,
            image_key(recipe.digest, resolution.packages),
            tree / "root",
            resolution.packages,
            (),
        )
        progress(f"{recipe.title}: downloading {resolution.download_bytes / 1e6:.0f} MB and unpacking it")
        build.unpack(self._tools, recipe, self._source, scratch, planned.root)
        if recipe.config:
            kernelbuild.build(self._tools, recipe, planned.root, scratch, progress)
        self._complete(planned, scratch)
        found = self._cache.find(planned.key) or self._cache.put(planned, tree)
        self._cache.remember(_name(recipe), resolution.packages)
        return found

    def _complete(self, image: Image, scratch: Path) -> None:
        """Write the table of dependencies that a maintainer script would have, and the modules' disk."""
        modules = _only(image.root, _MODULE_FOLDERS, image)
        base = scratch / "depmod/lib/modules"
        base.mkdir(parents=True)
        env = {"LC_ALL": "C", BUILD_VARIABLE: str(scratch)}
        held = base / modules.name
        modules.rename(held)
        depmod = [require(self._tools, "depmod"), "--basedir", str(scratch / "depmod"), modules.name]
        self._tools.run(depmod, timeout_s=_TIMEOUT_S, env=env)
        disk = image.root.parent / "modules.ext4"
        with disk.open("wb") as file:
            file.truncate(int(build.tree_bytes(base) * 1.1) + _SLACK_BYTES)
        make = [require(self._tools, "mke2fs"), "-q", "-F", "-t", "ext4", "-O", "^has_journal", "-L", _MODULES_LABEL]
        self._tools.run([*make, "-d", str(base), str(disk)], timeout_s=_TIMEOUT_S, env=env)
        held.rename(modules)
        for name in ("usr/share", "usr/lib/debug", "var"):
            shutil.rmtree(image.root / name, ignore_errors=True)


def _name(recipe: KernelRecipe) -> str:
    return f"{recipe.release}-{recipe.arch.debian}-{recipe.digest[:12]}"


def _kernel(name: str, image: Image, recipe: KernelRecipe) -> Kernel:
    tree = _only(image.root, _MODULE_FOLDERS, image)
    executable = _only(image.root, _EXECUTABLES, image)
    return Kernel(name, image.arch, image.key, image.root.parent, executable, tree.name, tree, recipe.page_bytes)


def _only(root: Path, patterns: Sequence[str], image: Image) -> Path:
    for pattern in patterns:
        found = [path for path in root.glob(pattern) if not path.is_symlink()]
        if found:
            return found[0]
    raise LabBroken(f"the {image.release} for {image.arch} has none of {', '.join(patterns)}", str(root))


def _dependencies(table: Path) -> Iterator[tuple[str, list[str]]]:
    """Lines of modules.dep, see modules.dep(5): `PATH: PATH PATH ...`."""
    try:
        lines = table.read_text().splitlines()
    except OSError as error:
        raise LabBroken(
            f"{table} cannot be read", str(error), "remove the kernel's folder; it is fetched anew"
        ) from error
    for line in lines:
        found = _DEPENDENCY.match(line)
        if found:
            yield found["path"], found["needs"].split()


def _stem(path: str) -> str:
    return Path(path).name.partition(".")[0].replace("-", "_")


def _content(path: Path) -> bytes:
    return lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
