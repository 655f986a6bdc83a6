"""Keeps every CPU awake during a measurement, at the lowest priority, so that waking one up costs nothing."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cephlab.lab.base import process

# It takes only idle time, and ends with the process that started it, however that ends.
_PROGRAM = """
import os, sys
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
try:
    with open("/proc/self/autogroup", "w") as file:
        file.write("19")
except OSError:
    pass
parent = int(sys.argv[1])
while os.getppid() == parent:
    for _ in range(100000):
        pass
"""


@contextmanager
def kept_awake() -> Iterator[None]:
    """Keep the CPUs of this machine from sleeping inside the block.

    Waking a CPU costs the waker, in a virtual machine tens of microseconds. So operations that pass through a dozen
    threads cost twice as much on a quiet machine as on a busy one. CPUs of servers under load do not sleep.
    """
    with tempfile.TemporaryDirectory(prefix="cephlab-awake-") as folder:
        argv = [sys.executable, "-S", "-c", _PROGRAM, str(os.getpid())]
        running: list[process.LocalProcess] = []
        try:
            running.extend(process.start_detached(argv, log=Path(folder) / "log") for _ in os.sched_getaffinity(0))
            yield
        finally:
            for loop in running:
                loop.kill()
            for loop in running:
                loop.wait(timeout_s=5.0)
