"""The image store: finds an image in the cache, or builds it once, however many processes ask for it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from cephlab.lab.base.errors import SpecError, Unavailable
from cephlab.lab.base.home import Home, require_space
from cephlab.lab.base.numbers import how_many
from cephlab.lab.base.progress import Progress, quiet
from cephlab.lab.images import build
from cephlab.lab.images.cache import Cache, image_key, refuse_used
from cephlab.lab.images.export import Form, export_image
from cephlab.lab.images.image import Image, pulled_image, require_unchanged
from cephlab.lab.images.lock import Deb, Lock
from cephlab.lab.images.recipe import Recipe, read_recipes
from cephlab.lab.images.resolve import KEYRING, DebianSource, resolve
from cephlab.lab.images.shim import compiler
from cephlab.lab.images.tools import SystemTools, Tools, missing, require
from cephlab.lab.spec.arch import Arch, host_arch

SPACE_BYTES = 1_500_000_000
"""Disk space for a build: the tree, its packages, and apt's lists and caches. Measured: Reef needs 1.25 GB at its peak;
the tree of Tentacle is 0.17 GB larger."""


class Preload(Protocol):
    """Compiles the library that is preloaded into emulated daemons."""

    def source_digest(self) -> str: ...
    def build(self, arch: Arch, target: Path) -> None:
        """Raises Unavailable, with the name of the package, if there is no compiler."""
        ...


class AioPreload:
    """The libaio substitute."""

    def source_digest(self) -> str:
        return compiler.source_digest()

    def build(self, arch: Arch, target: Path) -> None:
        compiler.build(arch, compiler.AIO, target)


class ImageStore:
    """Images below one home."""

    def __init__(
        self,
        home: Home,
        *,
        tools: Tools | None = None,
        preload: Preload | None = None,
        source: DebianSource | None = None,
        trusting: bool = True,
    ) -> None:
        """trusting: use a cached tree as it is; otherwise each tree is compared once, file by file, with its build."""
        self._home = home
        self._trusting = trusting
        self._compared: set[str] = set()
        self._cache = Cache(home)
        self.book = read_recipes()
        self._tools = tools or SystemTools()
        self._preload = preload or AioPreload()
        self._source = source or DebianSource.from_environment()

    def get(
        self,
        release: str,
        arch: Arch,
        role_sets: Sequence[str] = ("ceph",),
        *,
        refresh: bool = False,
        lock: Lock | None = None,
        progress: Progress = quiet,
    ) -> Image:
        """The image from the cache; if absent it is built first.

        A cached image needs no network: only `refresh` and `lock` look up versions again. An image of a foreign
        architecture needs the native one of its release, which is built first. Raises SpecError for an unknown release,
        architecture or role set and too little disk space; Unavailable if a tool or the mirror is missing; LabBroken if
        a store that does not trust its cache finds files that differ from the build.
        """
        recipe = self.book.find(release, arch, role_sets)
        image = None if refresh or lock else self._cache.resolved(self._source, recipe)
        if image is None:
            image = self._build(recipe, refresh=refresh, lock=lock, progress=progress)
        self._compile_preload(image)
        if not self._trusting and image.key not in self._compared:
            require_unchanged(image)
            self._compared.add(image.key)
        return image

    def debs(self, release: str, arch: Arch, role_sets: Sequence[str] = ("ceph",)) -> Mapping[str, Deb]:
        """The packages to which the image was last resolved, in the form of a lock."""
        return self._cache.locked_debs(self._source.name(self.book.find(release, arch, role_sets)))

    def cached(self, release: str, arch: Arch, role_sets: Sequence[str] = ("ceph",)) -> Image | None:
        """The image from the cache, if any; never builds."""
        return self._cache.resolved(self._source, self.book.find(release, arch, role_sets))

    def lacking(self, release: str, arch: Arch, role_sets: Sequence[str] = ("ceph",)) -> dict[str, str]:
        """Programs that `get` needs and this machine lacks -> packages. For a cached image: at most the compiler."""
        image = self.cached(release, arch, role_sets)
        lacking = {} if image else missing(self._tools, ("mmdebstrap",))
        if image is None and not self._source.has_keyring():
            lacking |= KEYRING
        program = f"{arch.triplet}-gcc"
        preloaded = image is not None and self._preload_fits(image)
        if arch is not host_arch() and not preloaded and self._tools.locate(program) is None:
            lacking |= {program: " ".join(compiler.packages(arch))}
        return lacking

    def pulled(self, release: str, arch: Arch, reference: str) -> Image:
        """An image that an engine pulls, with the preload that its emulated daemons need."""
        image = pulled_image(release, arch, reference, self._home.images / ".pulled")
        image.aio_shim.parent.mkdir(parents=True, exist_ok=True)
        self._compile_preload(image)
        return image

    def list(self) -> Sequence[Image]:
        """Every image of the cache, including older ones of the same release."""
        return self._cache.all()

    def remove(self, image: Image) -> None:
        """Remove an image and its exports. SpecError if it is not in the cache, or if a run has claimed it."""
        if self._cache.find(image.key) is None:
            raise SpecError(f"there is no image {image.key[:12]} in the cache", str(self._cache.folder))
        self._cache.remove(image, check=lambda: refuse_used(self._home, image))

    def prune(self, *, dry_run: bool = False) -> Sequence[str]:
        """Remove what interrupted builds left; returns a line for each. dry_run: only list it."""
        return self._cache.prune(dry_run=dry_run)

    def export(self, image: Image, form: Form, *, progress: Progress = quiet) -> Path:
        """The image in another form, made once: a tar for `docker load`, a disk, a tar for LXD, or its root."""
        return export_image(self._home, self._cache, self._tools, image, form, progress)

    def _build(self, recipe: Recipe, *, refresh: bool, lock: Lock | None, progress: Progress) -> Image:
        self._home.ensure()
        native = host_arch()
        helper = None
        if recipe.arch is not native:
            progress(f"{recipe.title}: the {native} image, which compiles its byte code, is built first")
            helper = self.get(recipe.release, native, recipe.role_sets, progress=progress)
        with self._cache.scratch(self._source.name(recipe), progress) as scratch:
            # Another process may have built it while this one waited for the lock.
            image = None if refresh or lock else self._cache.resolved(self._source, recipe)
            return image or self._build_in(scratch, recipe, helper, lock, progress)

    def _build_in(
        self, scratch: Path, recipe: Recipe, helper: Image | None, lock: Lock | None, progress: Progress
    ) -> Image:
        require(self._tools, "mmdebstrap")
        self._source.require_keyring()
        require_space(self._home, SPACE_BYTES, f"the image of {recipe.title}")
        tree = scratch / "image"
        tree.mkdir()
        progress(f"{recipe.title}: asking Debian {recipe.suite} for package versions")
        resolution = resolve(self._tools, recipe, self._source, scratch, lock)
        key = image_key(self._source.digest(recipe), resolution.packages)
        image = self._cache.find(key)
        if image is None:
            planned = Image(recipe.release, recipe.arch, key, tree / "root", resolution.packages, recipe.role_sets)
            self._compile_preload(planned)
            count, size = len(resolution.packages), resolution.download_bytes / 1e6
            progress(f"{recipe.title}: downloading {size:.0f} MB and unpacking {how_many(count, 'package')}")
            build.unpack(self._tools, recipe, self._source, scratch, planned.root)
            build.check_root(planned.root, recipe)
            build.complete(planned.root)
            progress(f"{recipe.title}: compiling Python byte code")
            native_root = helper.root if helper else planned.root
            build.compile_python(self._tools, planned.root, native_root, host_arch(), scratch)
            image = self._cache.put(planned, tree)
        self._cache.remember(self._source.name(recipe), resolution)
        progress(f"{recipe.title}: image {image.key[:12]} is ready (Ceph {image.ceph_version})")
        return image

    def _compile_preload(self, image: Image) -> None:
        """Compile the preload next to the root if it is missing or from another source.

        It is not part of the key: a changed preload must not cost a download. A build compiles it first, so that a
        missing compiler is found before the download.
        """
        if self._preload_fits(image):
            return
        with self._cache.locked(f"preload-{image.key[:12]}"):
            if self._preload_fits(image):
                return  # another process has compiled it meanwhile
            try:
                self._preload.build(image.arch, image.aio_shim)
            except Unavailable:
                if image.arch is not host_arch():
                    raise
            else:
                _made_from(image).write_text(self._preload.source_digest())

    def _preload_fits(self, image: Image) -> bool:
        made_from = _made_from(image)
        return made_from.is_file() and made_from.read_text() == self._preload.source_digest()


def _made_from(image: Image) -> Path:
    """File next to the preload with the digest of its source."""
    return image.aio_shim.with_suffix(".source")
