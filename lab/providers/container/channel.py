"""The streams of a line server in a container."""

from __future__ import annotations

from collections.abc import Iterator

from cephlab.lab.base.errors import LabError
from cephlab.lab.providers.container import execs
from cephlab.lab.providers.container.execs import ContainerRef
from cephlab.lab.providers.container.stream import STDERR, MultiplexedStream
from cephlab.lab.providers.dialogue import Tail
from cephlab.lab.providers.engine.command import NodeCommand
from cephlab.lab.providers.marks import new_token


class ContainerStreams(MultiplexedStream):
    """The streams of one exec (see Streams)."""

    def __init__(self, container: ContainerRef, command: NodeCommand) -> None:
        self._container = container
        self._token = new_token()
        self._exec = execs.create(container, command.marked(self._token), stdin=True)
        self._errors = Tail()
        super().__init__(container.client, self._exec)

    def output(self) -> Iterator[bytes]:
        for number, data in self.frames():
            if number == STDERR:
                self._errors.add(data)
            else:
                yield data

    def kill(self) -> None:
        try:
            execs.kill_all(self._container, self._exec, self._token)
        except LabError:
            self.break_off()  # the node is down, so the program is too

    def errors(self) -> str:
        return self._errors.text()

    def status(self) -> int:
        code = execs.exit_code_of(execs.inspect(self._container.client, self._exec))
        return 128 + 9 if code is None else code  # a container that went down killed it
