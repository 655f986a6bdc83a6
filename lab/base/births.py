"""When a process of this machine started, so that a process with a reused pid is not mistaken for the earlier one."""

from functools import cache
from pathlib import Path


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
