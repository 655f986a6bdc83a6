"""A fixed piece of work that runs beside a measurement: its CPU time shows how the machine's speed changes."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from cephlab.lab.base.clock import SYSTEM, Clock

PERIOD_S = 0.1
_HASHED_BYTES = 48 << 10
_TABLE_WORDS = 2 << 20  # 16 MiB of 64-bit words: more than a core's own caches hold
_GATHERED = 8192
_CALLS = 40
_TAIL_BYTES = 4096


@dataclass(frozen=True)
class ReferencePace:
    """CPU seconds and rounds of each kind of work since the reference began."""

    rounds: int
    seconds: Mapping[str, float]

    def since(self, before: ReferencePace) -> dict[str, float]:
        """CPU seconds of one round of each kind; empty without a round."""
        rounds = self.rounds - before.rounds
        if not rounds:
            return {}
        return {name: (spent - before.seconds[name]) / rounds for name, spent in self.seconds.items()}


class Reference:
    """A thread that regularly does a fixed amount of arithmetic, memory access and system calls.

    Neighbours on the same core or cache, a lower clock, or a hypervisor that takes time make all work dearer; fixed
    work shows by how much. It takes about 1 % of one core.
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
