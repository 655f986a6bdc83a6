"""Tracks the pace of the machine during a measurement by fixed reference work, and keeps its CPUs awake."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cephlab.lab.base import process
from cephlab.lab.base.clock import SYSTEM, Clock
from cephlab.lab.base.home import temporary_folder

PERIOD_S = 0.1
_HASHED_BYTES = 48 << 10
_TABLE_WORDS = 2 << 20  # 16 MiB of 64-bit words: more than fits in the caches of a core
_GATHERED = 8192
_CALLS = 40
_TAIL_BYTES = 4096


@dataclass(frozen=True)
class ReferencePace:
    """Rounds done, and CPU seconds of each kind of work, since the reference work began."""

    rounds: int
    seconds: Mapping[str, float]

    def since(self, before: ReferencePace) -> dict[str, float]:
        """CPU seconds per round of each kind of work; empty if there was no round."""
        rounds = self.rounds - before.rounds
        if not rounds:
            return {}
        return {name: (spent - before.seconds[name]) / rounds for name, spent in self.seconds.items()}


class Reference:
    """A thread that regularly does a fixed amount of arithmetic, memory access and system calls.

    All work costs more CPU time when neighbours share the core or cache, the clock drops, or a hypervisor takes time.
    Fixed work shows by how much. It takes about 1 % of one core.
    """

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._rounds = 0
        self._seconds = {"arithmetic": 0.0, "memory": 0.0, "calls": 0.0}
        self._data = bytes(_HASHED_BYTES)
        source = np.random.default_rng(1)
        self._table = source.integers(0, 1 << 40, _TABLE_WORDS)
        self._where = source.integers(0, _TABLE_WORDS, (64, _GATHERED))
        self._thread = threading.Thread(target=self._work, name="reference", daemon=True)

    def __enter__(self) -> Reference:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join()

    def pace(self) -> ReferencePace:
        """The sums so far."""
        with self._lock:
            return ReferencePace(self._rounds, dict(self._seconds))

    def _work(self) -> None:
        zeros = os.open("/dev/zero", os.O_RDONLY)
        try:
            while not self._stop.is_set():
                spent = {
                    "arithmetic": _timed(lambda: hashlib.sha256(self._data)),
                    "memory": _timed(self._gather),
                    "calls": _timed(lambda: [os.read(zeros, _TAIL_BYTES) for _ in range(_CALLS)]),
                }
                with self._lock:
                    self._rounds += 1
                    for name, seconds in spent.items():
                        self._seconds[name] += seconds
                self._clock.sleep(PERIOD_S)
        finally:
            os.close(zeros)

    def _gather(self) -> object:
        return self._table[self._where[self._rounds % len(self._where)]].sum()


def _timed(work: Callable[[], object]) -> float:
    """CPU seconds that a piece of work takes in this thread."""
    began = time.thread_time()
    work()
    return time.thread_time() - began


# It uses only idle CPU time, and ends with the process that started it, however that ends.
_AWAKE = """
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
    """Keep the CPUs of this machine from sleeping during the block.

    Waking a CPU costs CPU time of the thread that wakes it, tens of microseconds in a virtual machine. So operations
    that pass through a dozen threads cost twice as much on a quiet machine as on a busy one. The CPUs of servers under
    load do not sleep.
    """
    with tempfile.TemporaryDirectory(prefix="cephlab-awake-", dir=temporary_folder()) as folder:
        argv = [sys.executable, "-S", "-c", _AWAKE, str(os.getpid())]
        running: list[process.LocalProcess] = []
        try:
            running.extend(process.start_detached(argv, log=Path(folder) / "log") for _ in os.sched_getaffinity(0))
            yield
        finally:
            for loop in running:
                loop.kill()
            for loop in running:
                loop.wait(timeout_s=5.0)
