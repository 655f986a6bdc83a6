"""Images on disk: complete images by key, scratch folders protected by locks, and the claims of runs on images."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from cephlab.lab.base import clock, process
from cephlab.lab.base.errors import LabBroken, SpecError
from cephlab.lab.base.home import HOME_VARIABLE, Home
from cephlab.lab.base.progress import Progress, quiet
from cephlab.lab.base.runs import Run, Runs, write_json
from cephlab.lab.images.image import Image, note_contents
from cephlab.lab.images.lock import Deb
from cephlab.lab.images.recipe import Recipe
from cephlab.lab.images.resolve import DebianSource, Resolution
from cephlab.lab.images.tools import BUILD_VARIABLE
from cephlab.lab.spec.arch import Arch

BUILD_FORMAT = 2
"""Incremented when the same packages would give a different tree, so that every image is rebuilt."""

_RECORD = "image.json"
_CLAIMS_FILE = "images.json"
_CLAIMS = ".claims"
"""Names the folders of runs that start from images, because several homes may share a folder of images by a link."""
_SCRATCH = ".scratch-"
_LOCK_POLL_S = 0.2
_ORPHAN_TIMEOUT_S = 10.0


def image_key(recipe_digest: str, packages: Mapping[str, str]) -> str:
    """sha256, hex, over everything that determines the content of the root of an image."""
    parts = [BUILD_FORMAT, recipe_digest, sorted(packages.items())]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


class Cache:
    """The folder of images. An image under its key is complete, because it is put there by one rename."""

    def __init__(self, home: Home) -> None:
        self.folder = home.images

    def directory(self, key: str) -> Path:
        return self.folder / key

    def find(self, key: str) -> Image | None:
        record = _read_json(self.directory(key) / _RECORD)
        return None if record is None else _image(record, self.directory(key))

    def all(self) -> list[Image]:
        """Every image, sorted by release, architecture and key."""
        if not self.folder.is_dir():
            return []
        keys = [path.name for path in self.folder.iterdir() if not path.name.startswith(".")]
        images = [image for key in keys if (image := self.find(key)) is not None]
        return sorted(images, key=lambda image: (image.release, image.arch, image.key))

    def remembered(self, name: str) -> dict[str, str] | None:
        """Package versions to which `name` (a recipe and its architecture) was last resolved."""
        record = _read_json(self._resolution(name))
        return None if record is None else dict(record["packages"])

    def resolved(self, source: DebianSource, recipe: Recipe) -> Image | None:
        """The image of the packages to which a recipe was last resolved; None if it is not in the cache."""
        packages = self.remembered(source.name(recipe))
        return None if packages is None else self.find(image_key(source.digest(recipe), packages))

    def locked_debs(self, name: str) -> dict[str, Deb]:
        """Those packages with the checksums of their files; LabBroken if an older cephlab resolved them."""
        record = _read_json(self._resolution(name)) or {}
        if "debs" not in record:
            path = str(self._resolution(name))
            raise LabBroken(f"the checksums of the packages of {name} are missing", path, "build it with --refresh")
        return {package: Deb.model_validate(deb) for package, deb in record["debs"].items()}

    def remember(self, name: str, resolution: Resolution) -> None:
        debs = {package: deb.model_dump() for package, deb in resolution.debs.items()}
        self._resolution(name).parent.mkdir(parents=True, exist_ok=True)
        write_json(self._resolution(name), {"packages": resolution.packages, "debs": debs}, mode=0o644)

    def put(self, image: Image, tree: Path) -> Image:
        """Move a finished folder to its key and return the image at its new place."""
        record = {
            "format": BUILD_FORMAT,
            "release": image.release,
            "arch": image.arch.value,
            "key": image.key,
            "role_sets": list(image.role_sets),
            "packages": dict(image.packages),
        }
        write_json(tree / _RECORD, record, mode=0o644)
        note_contents(image.root, image.contents)
        target = self.directory(image.key)
        tree.replace(target)
        return _image(record, target)

    def remove(self, image: Image, *, check: Callable[[], None]) -> None:
        """Remove an image. It disappears at once; an interrupted removal leaves only a scratch folder.

        check: raises if the image must stay; no run can claim an image between this check and its removal.
        """
        with self.scratch(f"remove-{image.key[:12]}") as scratch, self.claiming():
            check()
            try:
                self.directory(image.key).replace(scratch / "removed")
            except FileNotFoundError:
                return

    def claiming(self) -> AbstractContextManager[None]:
        """A block in which nobody else claims or removes images."""
        return self.locked("claims")

    @contextmanager
    def locked(self, name: str, progress: Progress = quiet) -> Iterator[None]:
        """Hold the lock of that name; if another process holds it, report that and wait."""
        lock = self._lock(name)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            progress("waiting for another cephlab process, which builds the same image")
            lock.acquire(poll_interval=_LOCK_POLL_S)
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def scratch(self, name: str, progress: Progress = quiet) -> Iterator[Path]:
        """An empty folder next to the images, protected by the lock of that name; removed afterwards."""
        with self.locked(name, progress):
            folder = self.folder / f"{_SCRATCH}{name}"
            _sweep(folder)
            folder.mkdir(parents=True)
            try:
                yield folder
            finally:
                _sweep(folder)

    def prune(self, *, dry_run: bool = False) -> list[str]:
        """Remove scratch folders whose owner is gone; returns a line for each. dry_run: only list them."""
        removed = []
        for folder in sorted(self.folder.glob(f"{_SCRATCH}*")) if self.folder.is_dir() else []:
            with suppress(Timeout), self._lock(folder.name.removeprefix(_SCRATCH)).acquire(timeout=0):
                if not dry_run:
                    _sweep(folder)
                removed.append(f"image scratch folder {folder.name}")
        return removed

    def _resolution(self, name: str) -> Path:
        return self.folder / ".resolutions" / f"{name}.json"

    def _lock(self, name: str) -> FileLock:
        folder = self.folder / ".locks"
        folder.mkdir(parents=True, exist_ok=True)
        return FileLock(folder / f"{name}.lock")


def _image(record: Mapping[str, Any], folder: Path) -> Image:
    return Image(
        release=record["release"],
        arch=Arch(record["arch"]),
        key=record["key"],
        root=folder / "root",
        packages=record["packages"],
        role_sets=tuple(record["role_sets"]),
    )


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        return dict(json.loads(path.read_text()))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, json.JSONDecodeError) as error:
        raise LabBroken(f"{path} cannot be read", str(error), "remove its folder: the image is then rebuilt") from error


def _sweep(folder: Path) -> None:
    """Remove a scratch folder whose lock is held, and end processes that a killed build left in it."""
    if not folder.exists():
        return
    orphans = process.find_marked({BUILD_VARIABLE: str(folder)}, of_all=True)
    for orphan in orphans:
        orphan.kill()
    clock.wait(
        lambda: [orphan.pid for orphan in orphans if orphan.alive()],
        lambda alive: not alive,
        what=f"the end of the processes that a killed build left in {folder}",
        timeout_s=_ORPHAN_TIMEOUT_S,
        interval_s=0.02,
        timed_out=lambda what, seconds, last: LabBroken(
            f"{what} was not reached within {seconds:g} s", f"pids: {last}"
        ),
    )
    remove_tree(folder)


def remove_tree(folder: Path) -> None:
    """Remove a tree, even if a package made a directory that its owner may not write."""
    try:
        try:
            shutil.rmtree(folder)
        except PermissionError:
            for directory, _, _ in os.walk(folder):
                Path(directory).chmod(0o700)
            shutil.rmtree(folder)
    except OSError as error:
        raise LabBroken(f"{folder} could not be removed", str(error), "remove it manually") from error


def claim(run: Run, images: Iterable[Image]) -> None:
    """Note which images a run is about to start from; LabBroken if one was removed since it was found."""
    ours = [image for image in images if image.reference is None]  # the container engine manages pulled ones
    with Cache(run.home).claiming():
        for image in ours:
            if not image.root.is_dir():
                raise LabBroken(
                    f"the image of {image.release} for {image.arch} was removed while {run.id} was about to start",
                    f"{image.root} is gone",
                    "run the same command again: it rebuilds the image",
                )
        write_json(run.directory / _CLAIMS_FILE, {"keys": [image.key for image in ours]})
        claims = run.home.images / _CLAIMS
        claims.mkdir(exist_ok=True)
        for abandoned in (path for path, folder in _claimed(claims) if not folder.is_dir()):
            abandoned.unlink(missing_ok=True)
        name = hashlib.sha256(str(run.directory).encode()).hexdigest()[:16]
        write_json(claims / f"{name}.json", {"run": str(run.directory)}, mode=0o644)


def _claimed(claims: Path) -> list[tuple[Path, Path]]:
    """The claims in a folder of images, each with the folder of its run."""
    records = [(path, _read_json(path)) for path in sorted(claims.glob("*.json"))]
    return [(path, Path(str(record["run"]))) for path, record in records if record is not None]


def refuse_used(home: Home, image: Image) -> None:
    """SpecError if a run has claimed the image, or if it is in the state of a cluster of an older cephlab."""
    # Other users' runs too, and those of homes that share the images: their clusters may run from it as well.
    own = [*(run.directory for run in Runs(home).all()), *Runs(home).others()]
    elsewhere = [folder for _, folder in _claimed(home.images / _CLAIMS) if folder not in own]
    for folder in (*own, *elsewhere):
        if any(image.key in _text(folder / name) for name in (_CLAIMS_FILE, "cluster.json")):
            there = f"of the home {folder.parent.parent}" if folder in elsewhere else ""
            down = f"{HOME_VARIABLE}={folder.parent.parent} cephlab down" if there else "cephlab down"
            raise SpecError(
                f"image {image.key[:12]} is in use by the cluster {folder.name} {there}".rstrip(),
                "the programs of the cluster run directly from the image",
                f"remove the cluster first: {down} {folder.name}",
            )


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (FileNotFoundError, NotADirectoryError):
        return ""
