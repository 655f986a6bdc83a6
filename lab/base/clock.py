"""The only module that sleeps or polls: deadlines, `wait`, and accounting of both. Tests can replace the clock."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

from cephlab.lab.base.errors import LabBroken, LabError, NotReached

T = TypeVar("T")
_NUMBERS = re.compile(r"\d+")

TimedOut = Callable[[str, float, T], LabError]
"""Makes the error for a wait that timed out. Arguments: what was waited for, the timeout in seconds, the last value."""


def not_reached_with(show: Callable[[T], str]) -> TimedOut[T]:
    """The usual error for a wait that timed out. show: turns the last value into text."""
    return lambda what, timeout_s, last: NotReached(what, timeout_s, show(last))


not_reached: TimedOut[object] = not_reached_with(str)


def too_slow(what: str, timeout_s: float, _last: object) -> LabError:
    """The error for a wait in which only the lab is at work: it says nothing about Ceph, as NotReached would."""
    return LabBroken(f"{what} took more than {timeout_s:g} s")


class Clock(Protocol):
    """Monotonic time in seconds, and a way to let it pass."""

    def monotonic(self) -> float: ...
    def sleep(self, seconds: float, /) -> None: ...


class SystemClock:
    """The machine's own monotonic clock."""

    monotonic = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)


SYSTEM: Clock = SystemClock()

Watcher = Callable[[float], object]
"""Called between the polls of every wait, with the seconds waited so far. May raise a LabError to end the wait."""

SLICE_S = 1.0
"""Seconds between two calls of `look_on` during a wait that cannot poll, e.g. for an answer."""

_WATCHERS: list[Watcher] = []


@contextmanager
def watched(*watchers: Watcher) -> Iterator[None]:
    """Inside the block, every wait calls these watchers and no others."""
    before = list(_WATCHERS)
    _WATCHERS[:] = watchers
    try:
        yield
    finally:
        _WATCHERS[:] = before


def look_on(waited_s: float) -> None:
    """Call the watchers. Every wait does this, and so does code that waits in another way, e.g. for a command.

    waited_s: seconds waited so far; 0 if a watcher must not talk to the cluster, because this wait already does.
    """
    for watcher in tuple(_WATCHERS):
        watcher(waited_s)


class _Account(threading.local):
    """What a thread spent its time on; None if nobody accounts for it, or inside a span that is already counted."""

    seconds: dict[str, float] | None = None


_ACCOUNT = _Account()


@contextmanager
def accounted(seconds: dict[str, float]) -> Iterator[None]:
    """Inside the block, add the waiting time of this thread to `seconds`, by what it waited for."""
    before, _ACCOUNT.seconds = _ACCOUNT.seconds, seconds
    try:
        yield
    finally:
        _ACCOUNT.seconds = before


@contextmanager
def spending(what: str, clock: Clock = SYSTEM) -> Iterator[None]:
    """Count the time of the block under `what`. Blocks nested in it are not counted again."""
    seconds = _ACCOUNT.seconds
    if seconds is None:
        yield
        return
    _ACCOUNT.seconds, began = None, clock.monotonic()
    try:
        yield
    finally:
        _ACCOUNT.seconds = seconds
        seconds[what] = seconds.get(what, 0.0) + clock.monotonic() - began


@contextmanager
def phase(what: str, clock: Clock = SYSTEM) -> Iterator[None]:
    """Count the time of the block under `what`, by wait: `what: wait for ...`, and `what: the rest`."""
    seconds, within = _ACCOUNT.seconds, dict[str, float]()
    if seconds is None:
        yield
        return
    began = clock.monotonic()
    try:
        with accounted(within):
            yield
    finally:
        within["the rest"] = clock.monotonic() - began - sum(within.values())
        for part, inner_s in within.items():
            seconds[f"{what}: {part}"] = seconds.get(f"{what}: {part}", 0.0) + inner_s


@dataclass(frozen=True)
class TimeLimit:
    """How long something may take in total. of: its name; why: where the limit comes from, in words."""

    of: str
    seconds: float
    why: str


@dataclass(frozen=True)
class Deadline:
    """A point in monotonic time. It is made once and passed down, so that nested waits share one budget.

    after_s: the whole budget, for messages.
    """

    at: float
    after_s: float
    clock: Clock = SYSTEM

    @staticmethod
    def after(seconds: float, clock: Clock = SYSTEM) -> Deadline:
        return Deadline(clock.monotonic() + seconds, seconds, clock)

    def remaining_s(self) -> float:
        return max(0.0, self.at - self.clock.monotonic())

    def elapsed_s(self) -> float:
        return self.after_s - self.remaining_s()

    def passed(self) -> bool:
        return self.remaining_s() <= 0.0

    def slice_s(self) -> float:
        """How long to wait before the next `look_on`: never past the deadline."""
        return min(SLICE_S, self.remaining_s())

    def pause(self, seconds: float) -> None:
        """Let some time pass, but never past the deadline."""
        with spending("pauses", self.clock):
            self.clock.sleep(min(seconds, self.remaining_s()))

    def wait(
        self,
        probe: Callable[[], T],
        ready: Callable[[T], bool],
        *,
        what: str,
        interval_s: float = 0.1,
        timed_out: TimedOut[T] = not_reached,
    ) -> T:
        """Call `probe` until `ready` accepts its value, and return that value.

        probe runs at least once, and once more at the deadline. It may raise a LabError to end the wait early (a dead
        daemon, a dead host). At the deadline the error of `timed_out(what, after_s, last value)` is raised.
        """
        with spending(f"wait for {_NUMBERS.sub('N', what)}", self.clock):
            while True:
                last_chance = self.passed()
                value = probe()
                if ready(value):
                    return value
                if last_chance:
                    raise timed_out(what, self.after_s, value)
                look_on(self.elapsed_s())
                self.pause(interval_s)


def wait(
    probe: Callable[[], T],
    ready: Callable[[T], bool],
    *,
    what: str,
    timeout_s: float,
    interval_s: float = 0.1,
    timed_out: TimedOut[T] = not_reached,
) -> T:
    """`Deadline.wait` with a new deadline, by this machine's clock."""
    return Deadline.after(timeout_s).wait(probe, ready, what=what, interval_s=interval_s, timed_out=timed_out)


def ended_within(alive: Callable[[], bool], timeout_s: float, interval_s: float) -> bool:
    """Whether a process ended within timeout_s seconds. Polls `alive`."""
    deadline = Deadline.after(timeout_s)
    while alive():
        if deadline.passed():
            return False
        look_on(deadline.elapsed_s())
        deadline.pause(interval_s)
    return True
