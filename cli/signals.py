"""Turns the first SIGINT, SIGTERM or SIGHUP into an exception, and keeps later ones from disturbing the clean-up."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """Somebody wants this process to end. number: of the signal."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(signal.Signals(number).name)


@contextmanager
def interruptible(note: Callable[[str], None]) -> Iterator[None]:
    """Inside the block the first signal raises Interrupted; later ones are answered with a line only.

    note: told what goes on; called inside a signal handler.
    """
    seen: list[int] = []

    def handle(number: int, _frame: FrameType | None) -> None:
        seen.append(number)
        if len(seen) == 1:
            raise Interrupted(number)
        note("still removing what was started; please wait")

    before = {number: signal.signal(number, handle) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
