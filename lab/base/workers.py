"""Threads that do several things at once, and do not hold up somebody who wants the run to end."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import TracebackType


class Workers(ThreadPoolExecutor):
    """A pool of threads that is left at once when its block is interrupted.

    A plain one waits for what its threads are at, which may be a test program of an hour. Here they are let go: what
    they wait for ends with the machines that it runs on, which are removed next.
    """

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        interrupted = isinstance(error, KeyboardInterrupt)
        self.shutdown(wait=not interrupted, cancel_futures=interrupted)
