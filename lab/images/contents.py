"""What every file of an image's tree held when it was built, so that nobody judges other bytes unawares."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.images.image import Image

_SHOWN = 10
_HASHERS = 4
"""Threads: reading a file and summing it up both let others go on."""


def note(root: Path, record: Path) -> None:
    """Write down what a finished tree holds: path -> sha256 of a file, `-> TARGET` of a link."""
    record.write_text(json.dumps(contents(root), indent=0, sort_keys=True))


def require_unchanged(image: Image) -> None:
    """LabBroken, with the first files that differ, where a tree is not what was built.

    A tree from before its contents were noted is taken as it is, and noted now.
    """
    if not image.contents.exists():
        note(image.root, image.contents)
        return
    built, now = json.loads(image.contents.read_text()), contents(image.root)
    changes = list(_changes(built, now))
    if changes:
        raise LabBroken(
            f"the image {image.key[:12]} ({image.release}, {image.arch}) is not what was built: {len(changes)} files",
            "\n".join(changes[:_SHOWN]),
            f"`cephlab image rm {image.key[:12]}` removes it; the next run builds it anew",
        )


def contents(root: Path) -> dict[str, str]:
    """Path below root -> what is there."""
    paths = sorted(_paths(root))
    with ThreadPoolExecutor(_HASHERS) as pool:
        return dict(zip((str(path.relative_to(root)) for path in paths), pool.map(_held, paths), strict=True))


def digest(image: Image) -> str:
    """sha256 of the whole record: equal for equal trees. Empty for a pulled image, which its engine's id identifies."""
    return hashlib.sha256(image.contents.read_bytes()).hexdigest() if image.contents.exists() else ""


def _paths(root: Path) -> Iterator[Path]:
    """Regular files and links; what else a tree has (folders, devices) holds no bytes."""
    for folder, folders, files in os.walk(root):
        for name in (*files, *folders):
            path = Path(folder, name)
            if path.is_symlink() or path.is_file():
                yield path


def _held(path: Path) -> str:
    if path.is_symlink():
        return f"-> {path.readlink()}"
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _changes(built: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for path in sorted(built.keys() | now.keys()):
        if path not in now:
            yield f"{path} is gone"
        elif path not in built:
            yield f"{path} was added"
        elif built[path] != now[path]:
            yield f"{path} has changed"
