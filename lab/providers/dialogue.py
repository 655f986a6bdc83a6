"""A program on a host that answers one line for each line it is sent, over whatever streams its provider has."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from typing import Protocol

from cephlab.lab.base.errors import CommandFailed, CommandTimedOut

CLOSE_S = 2.0
"""How long a program may take to end, and its last words to come in."""

_KEPT_ERROR_BYTES = 1 << 16


class Tail:
    """The last of what a program wrote to its errors."""

    def __init__(self) -> None:
        self._kept = bytearray()

    def add(self, data: bytes) -> None:
        self._kept.extend(data)
        del self._kept[:-_KEPT_ERROR_BYTES]

    def text(self) -> str:
        return bytes(self._kept).decode(errors="replace")


class Streams(Protocol):
    """One running program, as its provider reaches it. None of the calls raises because the node went down."""

    def output(self) -> Iterator[bytes]:
        """Pieces of its standard output until that is closed or the connection is."""
        ...

    def send(self, data: bytes) -> object:
        """Into its standard input; what cannot be sent any more is dropped."""
        ...

    def end_input(self) -> None: ...

    def kill(self) -> None:
        """The program with all that it started; `output` ends afterwards."""
        ...

    def errors(self) -> str:
        """The last of what it wrote to its standard error."""
        ...

    def status(self) -> int:
        """Its status once it has ended."""
        ...

    def close(self) -> None: ...


class LineServer:
    """A program to talk to line by line. It ends with this process, as its input closes."""

    def __init__(self, streams: Streams, argv: Sequence[str], node: str) -> None:
        self._streams = streams
        self._argv = tuple(argv)
        self._node = node
        self._lock = threading.Lock()
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._ended = threading.Event()
        self._astray = False
        self._reader = threading.Thread(target=self._drain, daemon=True)
        self._reader.start()

    def _drain(self) -> None:
        held: list[bytes] = []
        for data in self._streams.output():
            *whole, rest = data.split(b"\n")
            for line in whole:
                self._lines.put(b"".join(held) + line)
                held.clear()
            if rest:
                held.append(rest)
        self._ended.set()
        self._lines.put(None)

    def ask(self, line: bytes, *, timeout_s: float) -> bytes:
        """Send one line, return the next one. The program is killed when it does not answer in time.

        Raises CommandTimedOut then, CommandFailed when it has ended; both carry what it wrote to its errors.
        """
        with self._lock:
            answer = None if self._astray else self._exchange(line, timeout_s)
            if answer is None:
                errors = self._errors()
                raise CommandFailed(self._argv, self._streams.status(), "", errors, self._node)
        return answer

    def _exchange(self, line: bytes, timeout_s: float) -> bytes | None:
        """The answer, or None when the program has ended."""
        try:
            if not self._ended.is_set():
                self._streams.send(line + b"\n")
            answer = self._lines.get(timeout=timeout_s)
        except BaseException as error:
            # Too late, or interrupted: what it still answers would be taken for that of the next question.
            self._astray = True
            self._streams.kill()
            if isinstance(error, queue.Empty):
                raise CommandTimedOut(self._argv, timeout_s, "", self._errors(), self._node) from None
            raise
        self._astray = answer is None
        return answer

    def _errors(self) -> str:
        self._ended.wait(CLOSE_S)
        return self._streams.errors()

    def alive(self) -> bool:
        return not self._astray and not self._ended.is_set()

    def close(self) -> None:
        """End the program: by closing its input, and by force where that does not do."""
        self._streams.end_input()
        if not self._ended.wait(CLOSE_S):
            self._streams.kill()
            self._ended.wait(CLOSE_S)
        self._streams.close()
        self._reader.join(timeout=CLOSE_S)
