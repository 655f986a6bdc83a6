"""Disks in this machine's memory, so that no storage device affects the cost of an operation."""

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
    """Why disks in memory are impossible here, or None. BlueStore needs O_DIRECT, which tmpfs has since Linux 6.6."""
    probe = room / f"cephlab-probe-{secrets.token_hex(8)}"
    try:
        opened = os.open(probe, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_DIRECT, 0o600)
        with os.fdopen(opened, "r+b", buffering=0) as file, mmap.mmap(-1, _BLOCK_BYTES) as block:
            file.write(block)
    except OSError as error:
        return f"{room} does not support direct I/O: {error.strerror}"
    finally:
        probe.unlink(missing_ok=True)
    return None


def folder(mark: str, room: Path = ROOM) -> Path:
    """The folder of a run's disks. mark: identifies home and run; its colons are replaced."""
    return room / mark.replace(":", "-")


def make(path: Path, mark: str, size_bytes: int, room: Path = ROOM) -> None:
    """Make a sparse disk in memory, and a link to it at `path`."""
    place = folder(mark, room)
    try:
        place.mkdir(mode=0o700)
    except FileExistsError:
        # It may be the run's own, with its other disks, or another user's, because everybody can write there.
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
    """Remove a run's disks; returns the folder that was removed, if any."""
    place = folder(mark, room)
    if not ours(place, stat.S_ISDIR):
        return []
    errors = remove_tree(place)
    if errors:
        raise CleanupFailed(errors)
    return [str(place)]


def marked(own: str, room: Path = ROOM) -> frozenset[str]:
    """Ids of the runs with a folder of disks of this user. own: the mark of a home, without a run."""
    prefix = own.replace(":", "-")
    return frozenset(path.name.removeprefix(prefix) for path in room.glob(f"{prefix}*") if ours(path, stat.S_ISDIR))
