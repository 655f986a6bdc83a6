"""Threads: a pool that does not delay the end of an interrupted run, regular calls beside a block, parallel calls."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import TracebackType

from cephlab.lab.base.errors import try_all


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


@contextmanager
def repeated(act: Callable[[], object], every_s: float, name: str | None = None) -> Iterator[None]:
    """Call it every so many seconds while the block runs, first after that time. name: of the thread.

    An error of it ends the calls, and is raised at the end of a block that raises none itself.
    """
    over = threading.Event()

    def go_on() -> None:
        while not over.wait(every_s):
            act()

    with ThreadPoolExecutor(1, name or "") as pool:
        calls = pool.submit(go_on)
        try:
            yield
        finally:
            over.set()
        calls.result()


def each_at_once(verbs: Sequence[Callable[[], object]]) -> None:
    """Call all of them in parallel and wait for all. Raises as `try_all` does."""
    with ThreadPoolExecutor(max_workers=max(1, len(verbs))) as pool:
        try_all([pool.submit(verb).result for verb in verbs])
