"""The streams of a line server on an agent's machine: one connection to it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.providers.agent.wire import Link
from cephlab.lab.providers.dialogue import LineServer, Tail

_KILLED = -9


class _Streams:
    def __init__(self, link: Link, end: Callable[[], object]) -> None:
        self._link = link
        self._end = end
        self._errors = Tail()
        self._code = _KILLED

    def output(self) -> Iterator[bytes]:
        try:
            while (frame := self._link.receive()).kind != b"x":
                if frame.kind == b"2":
                    self._errors.add(frame.payload)
                else:
                    yield frame.payload
            self._code = int(json.loads(frame.payload)["code"])
        except OSError:
            return  # the machine went down, or this side hung up

    def send(self, data: bytes) -> None:
        with suppress(OSError):  # the program has ended; its last output is in the queue
            self._link.send(b"0", data)

    def end_input(self) -> None:
        self.send(b"")

    def kill(self) -> None:
        try:
            self._end()
        except LabBroken:
            self._link.hang_up()  # the machine is down, so the program is too

    def errors(self) -> str:
        return self._errors.text()

    def status(self) -> int:
        return self._code

    def close(self) -> None:
        self._link.close()


def open_channel(link: Link, argv: Sequence[str], end: Callable[[], object]) -> LineServer:
    """A line server for a program that runs over the link. It ends with this process, as the connection does.

    end: kills the program with its children.
    """
    link.socket.settimeout(None)
    return LineServer(_Streams(link, end), argv, link.node)
