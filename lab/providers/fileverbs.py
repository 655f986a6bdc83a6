"""What hosts of several providers do alike with files and disks."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection
from pathlib import Path
from typing import IO

from cephlab.lab.base.errors import LabBroken

Get = Callable[[IO[bytes]], None]
"""Writes the content of one file of a node into its argument."""


def pull(get: Get, target: Path) -> None:
    """Copy into a file of this machine. No partial file is left after an error."""
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


def require_disk(host: str, name: str, disks: Collection[str]) -> None:
    """LabBroken when the disk is not in the host."""
    if name not in disks:
        raise LabBroken(f"disk {name!r} is not in {host}", f"its disks: {', '.join(disks) or 'none'}")
