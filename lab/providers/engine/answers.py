"""Why an engine cannot serve, as the reason that a provider gives."""

from __future__ import annotations

import os
from pathlib import Path

from cephlab.lab.base.errors import LabError, Unavailable


class NoSocket(Unavailable):
    """Nothing listens there, so another place may be looked at."""


def refuse_socket(path: Path, engine: str, absent: str, *, group: str, start_it: str) -> None:
    """Unavailable where nobody listens at a socket, or not for this user. absent: what to say in the first case."""
    try:
        present = path.is_socket()
    except PermissionError:
        present = True
    if not present:
        raise NoSocket(absent, f"{path} is not there", start_it)
    if not os.access(path, os.R_OK | os.W_OK):
        raise Unavailable(
            f"this user may not use the {engine} at {path}",
            f"user id {os.getuid()} has no write permission",
            f"join its group (`sudo usermod -aG {group} $USER`, then log in again), or use --lab local",
        )


def as_unavailable(error: LabError) -> Unavailable:
    """Any trouble of the lab, as the reason why a provider cannot serve."""
    return error if isinstance(error, Unavailable) else Unavailable(error.what, error.detail, error.hint)
