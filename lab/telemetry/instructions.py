"""Counts the instructions that threads retire, with the hardware counters of the processor if it exposes them."""

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

from cephlab.lab.base.errors import LabBroken

_CALLS = {"x86_64": 298, "aarch64": 241}
"""Number of perf_event_open: arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h of Linux."""

_HARDWARE, _INSTRUCTIONS = 0, 1  # PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS
_ENABLED_AND_RUNNING = 1 | 2  # PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_FORMAT_TOTAL_TIME_RUNNING
_INHERIT = 1 << 1
_CLOSE_ON_EXEC = 8
_SIZE = 64  # PERF_ATTR_SIZE_VER0
_ANY_CPU, _NO_GROUP = -1, -1

Open = Callable[[int], int]
"""Thread id -> file descriptor of its counter; OSError if there is none."""


def open_counter(thread: int) -> int:
    """The counter of a thread and of all threads that it starts from now on (perf_event_open(2))."""
    number = _CALLS.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    attributes = struct.pack("<IIQQQQQQQ", _HARDWARE, _SIZE, _INSTRUCTIONS, 0, 0, _ENABLED_AND_RUNNING, _INHERIT, 0, 0)
    kernel = ctypes.CDLL(None, use_errno=True)
    counter = kernel.syscall(number, attributes, thread, _ANY_CPU, _NO_GROUP, _CLOSE_ON_EXEC)
    if counter < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(counter)


@cache
def obstacle(opened: Open = open_counter) -> str | None:
    """Why instructions cannot be counted here, or None. Most hypervisors expose no counters to their guests."""
    try:
        os.close(opened(0))
    except OSError as error:
        return f"the processor's counters are not available: {error.strerror}"
    return None


class Instructions:
    """Counts the instructions of all threads of some processes from now on, threads started later included."""

    def __init__(self, pids: Iterable[int], *, opened: Open = open_counter, proc: Path = Path("/proc")) -> None:
        self._files: list[int] = []
        try:
            for thread in [int(task.name) for pid in pids for task in (proc / str(pid) / "task").iterdir()]:
                # A thread may end after it was listed.
                with suppress(ProcessLookupError):
                    self._files.append(opened(thread))
        except OSError as error:
            self.close()
            hint = "see /proc/sys/kernel/perf_event_paranoid"
            raise LabBroken("instructions cannot be counted", str(error), hint) from error

    def read(self) -> float:
        """Instructions so far, scaled if the kernel had to share the counters."""
        return sum(_scaled(os.read(file, 24)) for file in self._files)

    def close(self) -> None:
        while self._files:
            os.close(self._files.pop())


def _scaled(raw: bytes) -> float:
    """(value, ns enabled, ns running) as bytes -> value scaled to the whole time."""
    value, enabled, running = struct.unpack("<QQQ", raw)
    return float(value * enabled / running) if running else 0.0
