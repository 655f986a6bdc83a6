"""The streams of a line server in a container: those of one exec."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lab.errors import LabError
from lab.providers.container import execs
from lab.providers.container.execs import Where
from lab.providers.container.stream import STDERR, ExecStream
from lab.providers.lines import LineServer, Tail
from lab.providers.marks import TOKEN_VARIABLE, new_token


class _Streams:
    def __init__(self, where: Where, argv: Sequence[str], env: Mapping[str, str]) -> None:
        self._where = where
        self._token = new_token()
        self._exec = execs.create(where, argv, env={**env, TOKEN_VARIABLE: self._token}, stdin=True)
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


def open_channel(where: Where, argv: Sequence[str], env: Mapping[str, str]) -> LineServer:
    """Start a program to talk to line by line."""
    return LineServer(_Streams(where, argv, env), argv, where.node)
