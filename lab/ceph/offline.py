"""Runs Ceph's own programs on a host. If one fails or hangs, Ceph is in trouble, not the lab."""

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from signal import SIGKILL

from cephlab.lab.base.errors import CephTrouble, CommandFailed, CommandTimedOut
from cephlab.lab.base.process import Result
from cephlab.lab.providers.host import Host

TAIL_LINES = 25
_NOT_STARTED = (126, 127)
KILLED = (-SIGKILL, 128 + SIGKILL)
"""A host reports one or the other. It means that the host died or memory ran out; Ceph's programs never end so."""


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

    Raises CephTrouble, with its output and last log lines, if it fails or hangs. If the program could not be started or
    was killed from outside, the error of the host is raised.
    """
    try:
        return host.run(argv, timeout_s=timeout_s, stdin=stdin, env=env)
    except (CommandFailed, CommandTimedOut) as error:
        if isinstance(error, CommandFailed) and error.code in (*_NOT_STARTED, *KILLED):
            raise
        logged = last_lines(host, log) if log is not None and host.up() else []
        detail = "\n".join([error.detail, "last log lines:", *logged]) if logged else error.detail
        raise CephTrouble(error.what, detail) from error


def last_lines(host: Host, path: PurePosixPath, count: int = TAIL_LINES) -> list[str]:
    """The last lines of a file on a host; empty if there is no such file."""
    if not host.exists(path):
        return []
    return host.read(path).decode(errors="replace").strip().splitlines()[-count:]
