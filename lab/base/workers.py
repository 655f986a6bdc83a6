"""A thread pool that does not delay the end of an interrupted run."""

from concurrent.futures import ThreadPoolExecutor
from types import TracebackType


class Workers(ThreadPoolExecutor):
    """A thread pool whose block ends at once when it is interrupted.

    A plain pool waits for its threads, and a thread may run a test program for an hour. This pool does not wait: the
    threads end when the machines are removed, which is the next step.
    """

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        interrupted = isinstance(error, KeyboardInterrupt)
        self.shutdown(wait=not interrupted, cancel_futures=interrupted)
