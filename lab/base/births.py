"""What shows which process of this machine is which: when it started, as pids are reused, and its environment."""

from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Protocol

from cephlab.lab.base import clock
from cephlab.lab.base.errors import NotReached

_EXECUTED_S = 0.5
"""Longest time that execve(2) is given. It takes well below a millisecond, unless others keep the CPUs busy."""


class Listed(Protocol):
    """What is used of a `psutil.Process`."""

    def environ(self) -> dict[str, str]: ...
    def exe(self) -> str: ...


def environment_of(listed: Listed) -> dict[str, str]:
    """The environment of a process; empty for a kernel thread. Raises as psutil does.

    Within execve(2) a process has its new program and no environment yet, even if posix_spawn(3) has returned. So a
    process that has a program is read until it has an environment.
    """
    environment = listed.environ()
    if environment or not listed.exe():
        return environment
    with suppress(NotReached):
        what = "the environment of a process that is starting"
        return clock.wait(listed.environ, bool, what=what, timeout_s=_EXECUTED_S, interval_s=0.002)
    return {}


def birth_of(pid: int) -> str:
    """When a process started: boot id and clock ticks since boot, which a clock step does not change.

    Empty if there is no such process. See proc(5), /proc/PID/stat, field 22.
    """
    return state_and_birth(pid)[1]


def state_and_birth(pid: int) -> tuple[str, str]:
    """State letter (see proc(5)) and birth of a process; both empty if there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return "", ""
    # The process name comes first, in parentheses. It may hold spaces and parentheses itself.
    fields = text.rpartition(")")[2].split()
    # A first thread that ended before the others is shown as a zombie. This happens briefly when another thread
    # executes a program, e.g. when a manager restarts itself: execve(2) ends all other threads and takes over the pid.
    state = "S" if fields[0] == "Z" and int(fields[17]) > 1 else fields[0]
    return state, f"{_boot()}/{fields[19]}"


@cache
def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
