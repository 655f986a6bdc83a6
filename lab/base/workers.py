"""Threads that do several things at once, and do not delay the end of an interrupted run."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import TracebackType


class Workers(ThreadPoolExecutor):
    """A pool of threads that is left at once when its block is interrupted.

    A plain one waits for what its threads are at, which may be a test program of an hour. Here nobody waits for them:
    they end when the machines are removed, which is next.
    """

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        interrupted = isinstance(error, KeyboardInterrupt)
        self.shutdown(wait=not interrupted, cancel_futures=interrupted)
