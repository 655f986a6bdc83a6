"""An image: the root tree of one Ceph release for one architecture, and what its files held when it was built."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.numbers import how_many
from cephlab.lab.spec.arch import Arch

KEY_LABEL = "cephlab.key"
"""Label with the key on every copy of an image in a container engine."""

_SHOWN = 10
SEALED = "sealed"
"""Stands for what a user may not read; no sha256 looks like it."""
LINK = "-> "
"""Stands before the target of a link."""
_HASHERS = 4
"""Threads: reading a file and summing it up both let others go on."""


@dataclass(frozen=True)
class Pulled:
    """What a pulled image says about itself; its name proves nothing.

    version: Ceph's, as its programs say it. id: the engine's. digests: what registries call it; none for a loaded one.
    """

    version: str
    id: str
    digests: tuple[str, ...] = ()


@dataclass(frozen=True)
class Image:
    """key: sha256 over recipe and package versions (hex). root: its unpacked tree. packages: name -> version.

    reference: set for a pulled image, which has no root of ours; nothing is at `root` then. pulled: see
    `identified` in lab/cluster/own.py.
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
        """Debian version of ceph-osd, e.g. `18.2.7+ds-1`; of a pulled image its own, empty until it is known."""
        if self.pulled is not None:
            return self.pulled.version
        return self.packages.get("ceph-osd", "")

    @property
    def identity(self) -> str:
        """The key that figures measured with this image are filed under; only equal content has an equal one.

        Of a pulled image the engine's id, in hex; before that is known its key, which is of the reference.
        """
        return self.pulled.id.removeprefix("sha256:") if self.pulled is not None else self.key

    @property
    def oci_name(self) -> str:
        """Name of the exported image inside a container engine, `cephlab/RELEASE-DEBARCH:KEY12`."""
        return self.reference or f"cephlab/{self.release}-{self.arch.debian}:{self.key[:12]}"

    @property
    def aio_shim(self) -> Path:
        """The libaio substitute for emulated BlueStore, built with the image, beside the root."""
        return self.root.parent / "libcephlab-aio.so"

    @property
    def contents(self) -> Path:
        """The record of what each file of the root held when it was built, beside the root."""
        return self.root.parent / "contents.json"

    @property
    def compared(self) -> Path:
        """The state in which the root was compared with that record last, beside the root."""
        return self.root.parent / "compared"


def digest_of(reference: str) -> str | None:
    """`sha256:...` of a reference that ends in it; None for one by a tag, which names whatever its registry likes."""
    _, at, digest = reference.rpartition("@")
    return digest if at else None


def pulled_image(release: str, arch: Arch, reference: str, folder: Path) -> Image:
    """An image that an engine pulls, e.g. `quay.io/ceph/ceph:v19.2`. folder: for what the lab adds to such images."""
    key = hashlib.sha256(f"{reference} {arch}".encode()).hexdigest()
    return Image(release, arch, key, folder / key / "root", reference=reference)


def note_contents(root: Path, record: Path) -> None:
    """Write down what a finished tree holds: path -> sha256 of a file, `-> TARGET` of a link."""
    record.write_text(json.dumps(contents(root), indent=0, sort_keys=True))


def require_unchanged(image: Image) -> None:
    """LabBroken, with the first files that differ, where a tree is not what was built.

    Reading all of a tree takes seconds, so one is read again only where a file's inode, size or times are no longer
    those of the last time. A tree from before its contents were noted is taken as it is, and noted now. What this user
    may not read, as in another user's tree, is not compared: no program of this user's runs it.
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
            f"the image {image.key[:12]} ({image.release}, {image.arch}) is not what was built: "
            f"{how_many(len(changes), 'file')}",
            "\n".join(changes[:_SHOWN]),
            f"`cephlab image rm {image.key[:12]}` removes it; the next run builds it anew",
        )
    if built == now:
        with suppress(OSError):  # a full disk or another user's folder costs the next gate a reading, no more
            image.compared.write_text(state)


def _state(image: Image) -> str:
    """Digest of what changes with any write to a file: nobody sets an inode's ctime."""
    digest = hashlib.sha256()
    for path in sorted([image.contents, *_paths(image.root)]):
        there = path.lstat()
        digest.update(f"{path.name} {there.st_ino} {there.st_size} {there.st_mtime_ns} {there.st_ctime_ns}\n".encode())
    return digest.hexdigest()


def contents(root: Path) -> dict[str, str]:
    """Path below root -> what is there; SEALED for what this user may not read."""
    paths = sorted(_paths(root))
    with ThreadPoolExecutor(_HASHERS) as pool:
        return dict(zip((str(path.relative_to(root)) for path in paths), pool.map(_held, paths), strict=True))


def content_digest(image: Image) -> str:
    """sha256 of the whole record: equal for equal trees. Empty for a pulled image, which its engine's id identifies."""
    return hashlib.sha256(image.contents.read_bytes()).hexdigest() if image.contents.exists() else ""


def _paths(root: Path) -> Iterator[Path]:
    """Regular files and links; what else a tree has (folders, devices) holds no bytes."""
    for folder, folders, files in os.walk(root):
        for name in (*files, *folders):
            path = Path(folder, name)
            with suppress(PermissionError):
                if path.is_symlink() or path.is_file():
                    yield path


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
    """Whether a folder above a path, below the root, is one that this user may not look into."""
    folders = [folder for folder in path.parents if folder != root and root in folder.parents]
    return any(folder.is_dir() and not os.access(folder, os.R_OK | os.X_OK) for folder in reversed(folders))
