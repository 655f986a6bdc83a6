"""Images: the root tree of one Ceph release for one architecture, and a record of its files as built."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.numbers import how_many
from cephlab.lab.spec.arch import Arch

KEY_LABEL = "cephlab.key"
"""Label that holds the key, on every copy of an image in a container engine."""

_SHOWN = 10
SEALED = "sealed"
"""Stands for content that a user may not read; no sha256 looks like this."""
LINK = "-> "
"""Prefix of the target of a link."""
_HASHERS = 4
"""Number of threads: both reading and hashing a file release the interpreter lock."""


@dataclass(frozen=True)
class Pulled:
    """The identity of a pulled image; its name proves nothing.

    version: of Ceph, as reported by its programs. id: in the engine. digests: in registries; none for a loaded image.
    """

    version: str
    id: str
    digests: tuple[str, ...] = ()


@dataclass(frozen=True)
class Image:
    """key: sha256 over recipe and package versions (hex). root: its unpacked tree. packages: name -> version.

    reference: set for a pulled image, which has no tree at `root`. pulled: see `identified` in lab/cluster/own.py.
    """

    release: str
    arch: Arch
    key: str
    root: Path
    packages: Mapping[str, str] = field(default_factory=dict)
    role_sets: tuple[str, ...] = ("ceph",)
    reference: str | None = None
    pulled: Pulled | None = None

    @property
    def ceph_version(self) -> str:
        """Debian version of ceph-osd, e.g. `18.2.7+ds-1`; for a pulled image its own version, empty until known."""
        if self.pulled is not None:
            return self.pulled.version
        return self.packages.get("ceph-osd", "")

    @property
    def identity(self) -> str:
        """The key under which figures measured with this image are stored; only equal content has an equal key.

        For a pulled image it is the ID in the engine (hex); until that is known, the key made from the reference.
        """
        return self.pulled.id.removeprefix("sha256:") if self.pulled is not None else self.key

    @property
    def oci_name(self) -> str:
        """Name in a container engine: `cephlab/RELEASE-DEBARCH:KEY12`, which always means the same content."""
        return self.reference or f"cephlab/{self.release}-{self.arch.debian}:{self.key[:12]}"

    @property
    def aio_shim(self) -> Path:
        """The libaio substitute for emulated BlueStore, built with the image, next to the root."""
        return self.root.parent / "libcephlab-aio.so"

    @property
    def contents(self) -> Path:
        """The record of each file of the root as built, next to the root."""
        return self.root.parent / "contents.json"

    @property
    def compared(self) -> Path:
        """The state of the root when it was last compared with that record, next to the root."""
        return self.root.parent / "compared"


def digest_of(reference: str) -> str | None:
    """`sha256:...` of a reference that ends in it; None for a tag, which its registry may change at any time."""
    _, at, digest = reference.rpartition("@")
    return digest if at else None


def pulled_image(release: str, arch: Arch, reference: str, folder: Path) -> Image:
    """An image that an engine pulls, e.g. `quay.io/ceph/ceph:v19.2`. folder: for files that the lab adds to it."""
    key = hashlib.sha256(f"{reference} {arch}".encode()).hexdigest()
    return Image(release, arch, key, folder / key / "root", reference=reference)


def note_contents(root: Path, record: Path) -> None:
    """Record the content of a finished tree, in one step: path -> sha256 of a file, `-> TARGET` of a link."""
    scratch = record.with_name(f"{record.name}.{os.getpid()}")
    scratch.write_text(json.dumps(contents(root), indent=0, sort_keys=True))
    scratch.replace(record)


def require_unchanged(image: Image) -> None:
    """LabBroken, with the first files that differ, if a tree is not as it was built.

    Reading a whole tree takes seconds, so it is read again only if the inode, size or times of a file have changed
    since the last time. A tree without a record is accepted as it is, and recorded now. Files that this user may not
    read, for example in a tree of another user, are not compared: no program of this user runs them.
    """
    if not image.contents.exists():
        with suppress(PermissionError):
            note_contents(image.root, image.contents)
        return
    state = _state(image)
    with suppress(OSError):
        if image.compared.read_text() == state:
            return
    built, now = json.loads(image.contents.read_text()), contents(image.root)
    changes = list(_changes(image.root, built, now))
    if changes:
        raise LabBroken(
            f"the image {image.key[:12]} ({image.release}, {image.arch}) was changed after it was built: "
            f"{how_many(len(changes), 'file')}",
            "\n".join(changes[:_SHOWN]),
            f"`cephlab image rm {image.key[:12]}` removes it; the next run rebuilds it",
        )
    if built == now:
        with suppress(OSError):  # a full disk or a foreign folder: the next gate reads the tree again
            image.compared.write_text(state)


def _state(image: Image) -> str:
    """Digest of metadata that changes with any write to a file: the ctime of an inode cannot be set."""
    digest = hashlib.sha256()
    files = ((entry.name, entry.stat(follow_symlinks=False)) for entry in _files(image.root))
    for name, there in chain([(image.contents.name, image.contents.lstat())], files):
        digest.update(f"{name} {there.st_ino} {there.st_size} {there.st_mtime_ns} {there.st_ctime_ns}\n".encode())
    return digest.hexdigest()


def contents(root: Path) -> dict[str, str]:
    """Path below root -> its content; SEALED for files that this user may not read."""
    paths = [Path(entry) for entry in _files(root)]
    with ThreadPoolExecutor(_HASHERS) as pool:
        return dict(zip((str(path.relative_to(root)) for path in paths), pool.map(_held, paths), strict=True))


def content_digest(image: Image) -> str:
    """sha256 of the whole record: equal for equal trees. Empty for a pulled image, which its ID identifies."""
    return hashlib.sha256(image.contents.read_bytes()).hexdigest() if image.contents.exists() else ""


def _files(folder: Path | str) -> Iterator[os.DirEntry[str]]:
    """Regular files and links below a folder that this user may see, by name; folders and devices hold no bytes.

    Without a Path for each, because every cluster that is raised looks at the ten thousand files of its images.
    """
    with suppress(PermissionError), os.scandir(folder) as listed:
        for entry in sorted(listed, key=lambda entry: entry.name):
            if entry.is_dir(follow_symlinks=False):
                yield from _files(entry.path)
            elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
                with suppress(PermissionError, FileNotFoundError):
                    entry.stat(follow_symlinks=False)
                    yield entry


def _held(path: Path) -> str:
    if path.is_symlink():
        return f"{LINK}{path.readlink()}"
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except PermissionError:
        return SEALED


def _changes(root: Path, built: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for path in sorted(built.keys() | now.keys()):
        if path not in now:
            if not _sealed(root, root / path):
                yield f"{path} is gone"
        elif path not in built:
            yield f"{path} was added"
        elif built[path] != now[path] and SEALED not in (built[path], now[path]):
            yield f"{path} has changed"


def _sealed(root: Path, path: Path) -> bool:
    """Whether this user may not look into a folder between the root and the path."""
    folders = [folder for folder in path.parents if folder != root and root in folder.parents]
    return any(folder.is_dir() and not os.access(folder, os.R_OK | os.X_OK) for folder in reversed(folders))
