"""A program on a host that answers each line with one line, over the streams of its provider."""

import queue
import threading
from collections.abc import Iterator, Sequence
from typing import Protocol

from cephlab.lab.base.clock import Deadline, look_on
from cephlab.lab.base.errors import CommandFailed, CommandTimedOut

CLOSE_S = 2.0
"""How long a program may take to end, and its last output to arrive."""

_KEPT_ERROR_BYTES = 1 << 16


class Tail:
    """The end of a program's standard error."""

    def __init__(self) -> None:
        self._data = bytearray()

    def add(self, data: bytes) -> None:
        self._data.extend(data)
        del self._data[:-_KEPT_ERROR_BYTES]

    def text(self) -> str:
        return bytes(self._data).decode(errors="replace")


class Streams(Protocol):
    """The streams of one running program. No call raises because the node went down."""

    def output(self) -> Iterator[bytes]:
        """Pieces of standard output until it or the connection is closed."""
        ...

    def send(self, data: bytes) -> object:
        """Write to standard input. Data is dropped once that is closed."""
        ...

    def end_input(self) -> None: ...

    def kill(self) -> None:
        """Kill the program and everything that it started. `output` ends afterwards."""
        ...

    def errors(self) -> str:
        """The end of its standard error."""
        ...

    def status(self) -> int: ...
    def close(self) -> None: ...


class LineServer:
    """A program that answers line by line. It ends with this process, because its input is then closed."""

    def __init__(self, streams: Streams, argv: Sequence[str], node: str) -> None:
        self._streams = streams
        self._argv = tuple(argv)
        self._node = node
        self._lock = threading.Lock()
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._ended = threading.Event()
        self._out_of_step = False
        self._reader = threading.Thread(target=self._drain, daemon=True)
        self._reader.start()

    def _drain(self) -> None:
        partial: list[bytes] = []
        for data in self._streams.output():
            *whole, rest = data.split(b"\n")
            for line in whole:
                self._lines.put(b"".join(partial) + line)
                partial.clear()
            if rest:
                partial.append(rest)
        self._ended.set()
        self._lines.put(None)

    def ask(self, line: bytes, *, timeout_s: float) -> bytes:
        """Send one line and return the answer. A program that does not answer in time is killed.

        Raises CommandTimedOut in that case, CommandFailed when the program has ended. Both contain its errors.
        """
        with self._lock:
            answer = None if self._out_of_step else self._exchange(line, timeout_s)
            if answer is None:
                errors = self._errors()
                raise CommandFailed(self._argv, self._streams.status(), "", errors, self._node)
        return answer

    def _exchange(self, line: bytes, timeout_s: float) -> bytes | None:
        """The answer, or None when the program has ended."""
        try:
            if not self._ended.is_set():
                self._streams.send(line + b"\n")
            answer = self._next_line(Deadline.after(timeout_s))
        except BaseException as error:
            # Timed out or interrupted: a late answer would be taken for the answer to the next question.
            self._out_of_step = True
            self._streams.kill()
            if isinstance(error, queue.Empty):
                raise CommandTimedOut(self._argv, timeout_s, "", self._errors(), self._node) from None
            raise
        self._out_of_step = answer is None
        return answer

    def _next_line(self, deadline: Deadline) -> bytes | None:
        """The next line, None at the program's end; queue.Empty at the deadline. Watchers are called meanwhile."""
        while True:
            try:
                return self._lines.get(timeout=deadline.slice_s())
            except queue.Empty:
                if deadline.passed():
                    raise
                look_on(0.0)

    def _errors(self) -> str:
        self._ended.wait(CLOSE_S)
        return self._streams.errors()

    def alive(self) -> bool:
        return not self._out_of_step and not self._ended.is_set()

    def close(self) -> None:
        """End the program by closing its input, or by force if that does not help."""
        self._streams.end_input()
        if not self._ended.wait(CLOSE_S):
            self._streams.kill()
            self._ended.wait(CLOSE_S)
        self._streams.close()
        self._reader.join(timeout=CLOSE_S)
