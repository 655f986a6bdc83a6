"""Runs Ceph's own programs on a host. If one fails or hangs, Ceph is in trouble, not the lab: unless a disk is full."""

import math
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from signal import SIGKILL

from cephlab.lab.base.errors import CephTrouble, CommandFailed, CommandTimedOut, DiskFull, LabError
from cephlab.lab.base.process import Result
from cephlab.lab.providers.host import Host

TAIL_LINES = 25
_NOT_STARTED = (126, 127)
KILLED = (-SIGKILL, 128 + SIGKILL)
"""A host reports one or the other. It means that the host died or memory ran out; Ceph's programs never end so."""

FULL_BYTES = 64 << 20
"""Where less is left, a program ended of it: one that is gone may have freed a little, such as its last log."""


def run_tool(
    host: Host,
    argv: Sequence[str],
    *,
    timeout_s: float,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    log: PurePosixPath | None = None,
) -> Result:
    """Run one of Ceph's programs to its end. timeout_s: already multiplied by patience; log: its log file, if any.

    Raises CephTrouble, with its output and last log lines, if it fails or hangs; DiskFull if it had no room. If the
    program could not be started or was killed from outside, the error of the host is raised.
    """
    try:
        return host.run(argv, timeout_s=timeout_s, stdin=stdin, env=env)
    except (CommandFailed, CommandTimedOut) as error:
        if isinstance(error, CommandFailed) and error.code in (*_NOT_STARTED, *KILLED):
            raise
        logged = last_lines(host, log) if log is not None and host.up() else []
        detail = "\n".join([error.detail, "last log lines:", *logged]) if logged else error.detail
        raise blamed(host, CephTrouble(error.what, detail)) from error


def blamed(host: Host, trouble: CephTrouble, disks: Sequence[str] = ()) -> CephTrouble | DiskFull:
    """The error for a program that ended: DiskFull if there is no room in its directory or on its disks."""
    where, free_bytes = room(host, disks) if host.up() else ("", math.inf)
    return DiskFull(trouble, where, int(free_bytes)) if free_bytes < FULL_BYTES else trouble


def room(host: Host, disks: Sequence[str]) -> tuple[str, float]:
    """The fullest file system below a host's directory and these disks, and the bytes left; endless if unknown."""
    try:
        paths = [host.directory, *(host.disk(name) for name in disks)]
        printed = host.run(["df", "-B1", "--output=avail,target", *map(str, paths)], timeout_s=60).stdout
        rows = [line.split(maxsplit=1) for line in printed.splitlines()[1:]]
        # A disk that is a device is no file system, and df shows the one that has its name.
        return min(((at, float(free)) for free, at in rows if at != "/dev"), key=lambda row: row[1])
    except (LabError, ValueError):
        return "", math.inf


def last_lines(host: Host, path: PurePosixPath, count: int = TAIL_LINES) -> list[str]:
    """The last lines of a file on a host; empty if there is no such file."""
    if not host.exists(path):
        return []
    return host.read(path).decode(errors="replace").strip().splitlines()[-count:]
