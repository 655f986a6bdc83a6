"""What hosts of every provider do with files and programs beyond their own calls."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import IO

from lab.errors import LabBroken
from lab.host import Host

Get = Callable[[IO[bytes]], None]
"""Writes the content of one file of a node into what it is given."""


def pull(get: Get, target: Path) -> None:
    """Into a file of this machine, which is not left half."""
    try:
        with target.open("wb") as sink:
            get(sink)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def read(get: Get) -> bytes:
    """The whole of a file."""
    sink = io.BytesIO()
    get(sink)
    return sink.getvalue()


def exists(host: Host, path: PurePosixPath) -> bool:
    """Whether a path is there on a host that is up."""
    return host.run(("test", "-e", str(path)), check=False).code == 0


def make_directory(host: Host, path: PurePosixPath) -> None:
    """With those above it; nothing happens where it is there."""
    host.run(("mkdir", "-p", "--", str(path)))


def remove(host: Host, path: PurePosixPath, *, timeout_s: float = 60.0) -> None:
    """A file or a whole directory; nothing happens where it is not there."""
    host.run(("rm", "-rf", "--", str(path)), timeout_s=timeout_s)


def require_disk(host: str, name: str, disks: Collection[str]) -> None:
    """LabBroken when the disk is not in the host."""
    if name not in disks:
        raise LabBroken(f"disk {name!r} is not in {host}", f"its disks: {', '.join(disks) or 'none'}")


def with_preload(env: Mapping[str, str] | None, preload: Sequence[PurePosixPath]) -> dict[str, str]:
    """The environment with LD_PRELOAD; for an emulated program it goes to the program, not to its emulator."""
    found = dict(env or {})
    if preload:
        found["LD_PRELOAD"] = ":".join(str(path) for path in preload)
    return found
