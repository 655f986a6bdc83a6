"""When a process of this machine began, so that one that got the pid of another is not mistaken for it."""

from functools import cache
from pathlib import Path


def birth_of(pid: int) -> str:
    """Start of a process: the boot's id and clock ticks since the boot, which a clock step does not change.

    Empty if there is no such process. See proc(5), /proc/PID/stat, field 22.
    """
    return state_and_birth(pid)[1]


def state_and_birth(pid: int) -> tuple[str, str]:
    """Its letter of proc(5), and its birth; both empty if there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return "", ""
    # The process name comes first, in parentheses. It may hold spaces and parentheses itself.
    fields = text.rpartition(")")[2].split()
    # A first thread that ended before the others is shown as a zombie. This happens for a moment when another thread
    # executes a program, as a manager does that restarts itself: execve(2) ends all others and takes over the pid.
    state = "S" if fields[0] == "Z" and int(fields[17]) > 1 else fields[0]
    return state, f"{_boot()}/{fields[19]}"


@cache
def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
