"""What the kernel below a daemon says of its processes, which is not what the lab has asked of them."""

from __future__ import annotations

import json

from lab.ceph.daemon import Daemon

_STOPPED = frozenset("Tt")
"""Letters of proc(5) for a process that SIGSTOP or a debugger holds."""


def stopped(daemon: Daemon) -> bool:
    """Whether every process of a daemon is held by SIGSTOP; False where it has none."""
    found = states(daemon)
    return bool(found) and set(found) <= _STOPPED


def states(daemon: Daemon) -> list[str]:
    """The state of each process on the daemon's host that has its command line, as letters of proc(5).

    More than one where a shell or an emulator's copy is above it. Asked on the host, whose kernel may be its own.
    """
    if len(daemon.argv) < 2:
        return []
    # By standard input: among its arguments, the asking process would find itself.
    return daemon.host.run(["python3", "-c", _STATES], stdin=json.dumps(daemon.argv).encode()).stdout.split()


_STATES = """
import glob, json, os, sys

program, *wanted = json.load(sys.stdin)
for folder in glob.glob("/proc/[0-9]*"):
    try:
        with open(folder + "/cmdline", "rb") as file:
            words = file.read().decode(errors="replace").split("\\0")[:-1]
        with open(folder + "/stat", errors="replace") as file:
            state = file.read().rpartition(")")[2].split()[0]
    except OSError:
        continue  # it has just ended
    before, rest = words[: -len(wanted)], words[-len(wanted) :]
    if rest == wanted and before and os.path.basename(before[-1]) == os.path.basename(program):
        print(state)
"""
