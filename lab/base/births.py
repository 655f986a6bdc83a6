"""What shows which process of this machine is which: its start, as pids are reused, its environment and its command."""

import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, partial
from operator import not_
from pathlib import Path
from typing import Protocol

import psutil

from cephlab.lab.base import clock
from cephlab.lab.base.errors import NotReached
from cephlab.lab.base.numbers import duration
from cephlab.lab.base.redaction import without_secrets

_EXECUTED_S = 0.5
"""Longest time that execve(2) is given. It takes well below a millisecond, unless others keep the CPUs busy."""


_SHOWN = 60
"""Most characters of a command that are shown, without its first word."""


class Listed(Protocol):
    """What is used of a `psutil.Process`."""

    @property
    def pid(self) -> int: ...
    def environ(self) -> dict[str, str]: ...


def environment_of(listed: Listed) -> dict[str, str]:
    """The environment of a process; empty for a kernel thread. Raises as psutil does.

    Within execve(2) a process has none yet, even if posix_spawn(3) has returned. So an empty one is read again after
    that, also if execve(2) ended between the first read and the look at it.
    """
    if environment := listed.environ():
        return environment
    with suppress(NotReached):
        what = "the environment of a process that is starting"
        clock.wait(partial(in_execve, listed.pid), not_, what=what, timeout_s=_EXECUTED_S, interval_s=0.002)
    return listed.environ()


def in_execve(pid: int) -> bool:
    """Whether a process has memory, but no address of its environment yet. False for kernel threads and zombies.

    A process that was started without any environment has an address. See proc(5), /proc/PID/stat, fields 23 and 51;
    field 51 is 0 too for a process that this user may not look into.
    """
    fields = _stat(pid)
    return bool(fields) and fields[20] != "0" and fields[48] == "0"


def described(pid: int) -> str:
    """`process 7 (ceph-osd -f -i 0 -c ceph.conf, ran for 3 min 20 s)`; only the number if it has ended."""
    try:
        listed = psutil.Process(pid)
        return (
            f"process {pid} ({command_text(listed.cmdline())}, ran for {duration(time.time() - listed.create_time())})"
        )
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return f"process {pid}"


def command_text(argv: Sequence[str]) -> str:
    """A command in one short line: paths without their folders, and the end of it if it is long.

    The end tells more, because loaders, emulators and shells come first.
    """
    whole = without_secrets("\0".join(argv).encode(errors="replace")).decode(errors="replace").split("\0")
    first, *words = " ".join(word.rpartition("/")[2] for word in whole).split() or ["no command"]
    end = words
    while len(" ".join(end)) > _SHOWN:
        end = end[1:]
    return " ".join([first, *(["..."] if len(end) < len(words) else []), *end])


def birth_of(pid: int) -> str:
    """When a process started: boot id and clock ticks since boot, which a clock step does not change.

    Empty if there is no such process. See proc(5), /proc/PID/stat, field 22.
    """
    return state_and_birth(pid)[1]


def identity_of(pid: int) -> str:
    """What tells a process from all others, also from a later one with its pid; empty if there is no such process."""
    birth = birth_of(pid)
    return f"{pid}/{birth}" if birth else ""


def is_alive(identity: str) -> bool:
    """Whether the process with this identity still runs; False for an empty one."""
    pid = identity.partition("/")[0]
    return pid.isdecimal() and identity_of(int(pid)) == identity


def state_and_birth(pid: int) -> tuple[str, str]:
    """State letter (see proc(5)) and birth of a process; both empty if there is no such process."""
    fields = _stat(pid)
    if not fields:
        return "", ""
    # A first thread that ended before the others is shown as a zombie. This happens briefly when another thread
    # executes a program, e.g. when a manager restarts itself: execve(2) ends all other threads and takes over the pid.
    state = "S" if fields[0] == "Z" and int(fields[17]) > 1 else fields[0]
    return state, f"{boot_id()}/{fields[19]}"


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the third on; none if there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return []
    # The process name comes before them, in parentheses. It may hold spaces and parentheses itself.
    return text.rpartition(")")[2].split()


BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@cache
def boot_id() -> str:
    """The kernel's own identifier of this boot of this machine."""
    return BOOT_ID.read_text().strip()
