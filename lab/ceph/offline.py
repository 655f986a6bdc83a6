"""Ceph's own programs that run to an end on a host: when one fails or hangs, Ceph is in trouble, not the lab."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from signal import SIGKILL

from cephlab.lab.base.errors import CephTrouble, CommandFailed, CommandTimedOut
from cephlab.lab.base.process import Result
from cephlab.lab.providers.host import Host

_TAIL_LINES = 25
_NOT_STARTED = (126, 127)
_KILLED = (-SIGKILL, 128 + SIGKILL)
"""A host says either. No program of Ceph's ends so by itself: its host died, or memory ran out."""


def run_tool(
    host: Host,
    argv: Sequence[str],
    *,
    timeout_s: float,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    log: PurePosixPath | None = None,
) -> Result:
    """Run a program of Ceph's to its end. timeout_s: with patience; log: the file that it logs to, where it does.

    Raises CephTrouble, with what it printed and its last log lines, when it fails or hangs; what the host raises when
    the program could not be started or was killed from outside.
    """
    try:
        return host.run(argv, timeout_s=timeout_s, stdin=stdin, env=env)
    except CommandTimedOut as error:
        raise CephTrouble(error.what, error.detail + _last_lines(host, log)) from error
    except CommandFailed as error:
        if error.code in (*_NOT_STARTED, *_KILLED):
            raise
        raise CephTrouble(error.what, error.detail + _last_lines(host, log)) from error


def _last_lines(host: Host, log: PurePosixPath | None) -> str:
    if log is None or not host.up() or not host.exists(log):
        return ""
    lines = host.read(log).decode(errors="replace").strip().splitlines()
    return "\n".join(["", "last log lines:", *lines[-_TAIL_LINES:]])
