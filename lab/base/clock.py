"""The only place that sleeps or polls: deadlines and one `wait`, over a clock that tests can replace."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from lab.errors import LabError, NotReached

T = TypeVar("T")


class Clock(Protocol):
    """Monotonic time in seconds, and a way to let it pass."""

    def monotonic(self) -> float: ...
    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's own monotonic clock."""

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


@dataclass
class VirtualClock:
    """A clock for tests: sleeping moves it at once and is recorded."""

    now: float = 0.0
    slept: list[float] = field(default_factory=list)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


SYSTEM: Clock = SystemClock()


@dataclass(frozen=True)
class Deadline:
    """A point in monotonic time; made once, handed down, so that nested waits share one budget."""

    at: float
    clock: Clock = SYSTEM

    @staticmethod
    def after(seconds: float, clock: Clock = SYSTEM) -> Deadline:
        return Deadline(clock.monotonic() + seconds, clock)

    def remaining_s(self) -> float:
        return max(0.0, self.at - self.clock.monotonic())

    def passed(self) -> bool:
        return self.remaining_s() <= 0.0

    def pause(self, seconds: float) -> None:
        """Let some time pass, but never past the deadline."""
        self.clock.sleep(min(seconds, self.remaining_s()))


def wait(
    probe: Callable[[], T],
    ready: Callable[[T], bool],
    *,
    what: str,
    timeout_s: float,
    interval_s: float = 0.1,
    show: Callable[[T], str] = str,
    timed_out: Callable[[str, float, str], LabError] = NotReached,
    clock: Clock = SYSTEM,
) -> T:
    """Call `probe` until `ready` accepts its value, and return that value.

    probe may raise a LabError to end the wait early (a dead daemon, a dead host).
    timeout_s, interval_s: seconds; the probe runs at least once, and once more at the deadline.
    show: how the last value is put into the error.
    Raises what `timed_out(what, timeout_s, last)` makes when the time is over.
    """
    deadline = Deadline.after(timeout_s, clock)
    while True:
        last_chance = deadline.passed()
        value = probe()
        if ready(value):
            return value
        if last_chance:
            raise timed_out(what, timeout_s, show(value))
        deadline.pause(interval_s)
