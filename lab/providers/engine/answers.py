"""What an engine's errors mean: nobody listens, access is denied, or something does not exist."""

import os
from pathlib import Path

from cephlab.lab.base.errors import LabBroken, Unavailable


class NotThere(LabBroken):
    """The engine does not have the thing that it was asked about."""


class NoSocket(Unavailable):
    """Nothing listens at this socket, so another one may be tried."""


def refuse_socket(path: Path, engine: str, absent: str, *, group: str, start_it: str) -> None:
    """Unavailable when nothing listens at a socket (`absent` says so), or this user may not use it."""
    try:
        present = path.is_socket()
    except PermissionError:
        present = True
    if not present:
        raise NoSocket(absent, f"{path} does not exist", start_it)
    if not os.access(path, os.R_OK | os.W_OK):
        raise Unavailable(
            f"this user may not use the {engine} at {path}",
            f"user id {os.getuid()} has no write permission",
            f"join its group (`sudo usermod -aG {group} $USER`, then log in again), or use --lab local",
        )
