"""Disks that live in this machine's memory, so that no device of it has a say in what an operation costs."""

from __future__ import annotations

import mmap
import os
import secrets
import stat
from functools import lru_cache
from pathlib import Path

from cephlab.lab.base.errors import CleanupFailed
from cephlab.lab.base.runs import ours, remove_tree, taken

ROOM = Path("/dev/shm")
_BLOCK_BYTES = 4096


@lru_cache(maxsize=1)
def obstacle(room: Path = ROOM) -> str | None:
    """Why there can be none here, or None. BlueStore opens disks with O_DIRECT, which tmpfs takes since Linux 6.6."""
    probe = room / f"cephlab-probe-{secrets.token_hex(8)}"
    try:
        opened = os.open(probe, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_DIRECT, 0o600)
    except OSError as error:
        probe.unlink(missing_ok=True)
        return f"{room} takes no direct I/O: {error.strerror}"
    try:
        with mmap.mmap(-1, _BLOCK_BYTES) as block:
            os.write(opened, block)
    except OSError as error:
        return f"{room} takes no direct I/O: {error.strerror}"
    finally:
        os.close(opened)
        probe.unlink()
    return None


def folder(mark: str, room: Path = ROOM) -> Path:
    """Where the disks of a run are. mark: of home and run, in the alphabet of file names and colons."""
    return room / mark.replace(":", "-")


def make(path: Path, mark: str, size_bytes: int, room: Path = ROOM) -> None:
    """A sparse disk in memory, and a link to it at `path`."""
    place = folder(mark, room)
    try:
        place.mkdir(mode=0o700)
    except FileExistsError:
        # With the run's other disks in it; or anybody's, as everybody can write there.
        if not ours(place, stat.S_ISDIR):
            raise taken(place, "a folder of this user") from None
    target = place / path.name
    try:
        with target.open("xb") as file:
            file.truncate(size_bytes)
    except FileExistsError:
        raise taken(target, "nothing") from None
    path.symlink_to(target)


def remove(mark: str, room: Path = ROOM) -> list[str]:
    """Free what a run's disks hold; returns what was there."""
    place = folder(mark, room)
    if not ours(place, stat.S_ISDIR):
        return []
    errors = remove_tree(place)
    if errors:
        raise CleanupFailed(errors)
    return [str(place)]


def marked(own: str, room: Path = ROOM) -> frozenset[str]:
    """What follows the home's mark in the names of this user's folders here. own: the home's mark without a run."""
    prefix = own.replace(":", "-")
    return frozenset(path.name.removeprefix(prefix) for path in room.glob(f"{prefix}*") if ours(path, stat.S_ISDIR))
