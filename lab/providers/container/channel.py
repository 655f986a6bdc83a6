"""The streams of a line server in a container."""

from __future__ import annotations

from collections.abc import Iterator

from cephlab.lab.base.errors import LabError
from cephlab.lab.providers.container import execs
from cephlab.lab.providers.container.execs import Where
from cephlab.lab.providers.container.stream import STDERR, ExecStream
from cephlab.lab.providers.dialogue import Tail
from cephlab.lab.providers.engine.order import Order
from cephlab.lab.providers.marks import new_token


class ExecStreams:
    """Those of one exec (see Streams)."""

    def __init__(self, where: Where, order: Order) -> None:
        self._where = where
        self._token = new_token()
        self._exec = execs.create(where, order.marked(self._token), stdin=True)
        self._stream = ExecStream(where.client, self._exec)
        self._errors = Tail()

    def output(self) -> Iterator[bytes]:
        for number, data in self._stream.frames():
            if number == STDERR:
                self._errors.add(data)
            else:
                yield data

    def send(self, data: bytes) -> object:
        return self._stream.send(data)

    def end_input(self) -> None:
        self._stream.end_input()

    def kill(self) -> None:
        try:
            execs.kill_all(self._where, self._exec, self._token)
        except LabError:
            self._stream.break_off()  # the node is down: so is the program

    def errors(self) -> str:
        return self._errors.text()

    def status(self) -> int:
        state = execs.inspect(self._where.client, self._exec)
        code = None if state is None else state["ExitCode"]
        return 128 + 9 if code is None else int(code)  # a container that went down killed it

    def close(self) -> None:
        self._stream.close()
