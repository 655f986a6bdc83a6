"""What a daemon's kernel says of its processes, whatever the lab has asked of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from cephlab.lab.ceph.daemon import Daemon

_STOPPED = frozenset("Tt")
"""Letters of proc(5) for a process that SIGSTOP or a debugger holds."""
_ENDED = frozenset("ZX")


def stopped(daemon: Daemon) -> bool:
    """Whether SIGSTOP holds every process of a daemon; False where it has none."""
    seen = states(daemon)
    return bool(seen) and set(seen) <= _STOPPED


def states(daemon: Daemon) -> list[str]:
    """The state of each living process of a daemon, as letters of proc(5). There are several where a shell started it.

    A process of this machine's kernel is found by its group, which signals go to. Any other is found on its host by its
    command line.
    """
    pid = daemon.process.pid if daemon.process is not None else 0
    if pid:
        return list(_group(pid))
    if len(daemon.argv) < 2:
        return []
    # On standard input: with these words as arguments, the asking process would find itself.
    return daemon.host.run(["python3", "-c", _STATES], stdin=json.dumps(daemon.argv).encode()).stdout.split()


def _group(leader: int) -> Iterator[str]:
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, group = file.read_text(errors="replace").rpartition(")")[2].split()[:3]
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
        if int(group) == leader and state not in _ENDED:
            yield state


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
