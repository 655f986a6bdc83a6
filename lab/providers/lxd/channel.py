"""The streams of a line server in an instance: those of one command, and a file for its errors."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

from cephlab.lab.base import clock
from cephlab.lab.base.errors import LabError
from cephlab.lab.providers.dialogue import CLOSE_S, Tail
from cephlab.lab.providers.engine import places
from cephlab.lab.providers.engine.order import Order
from cephlab.lab.providers.lxd import execs, files
from cephlab.lab.providers.lxd.stream import ExecStream
from cephlab.lab.providers.lxd.where import Where
from cephlab.lab.providers.marks import new_token

_log = logging.getLogger(__name__)

# $1: the file for errors; the rest is the command. LXD before 5.14 may lose the last words of a stream.
_ERRORS_TO_FILE = 'exec 2>"$1"; shift; exec "$@"'


class ExecStreams:
    """Those of one command (see Streams)."""

    def __init__(self, where: Where, order: Order) -> None:
        self._where = where
        self._token = new_token()
        self._errors = places.NODE_DIRECTORY / f".errors-{self._token}"
        started = order.under(_ERRORS_TO_FILE, str(self._errors)).marked(self._token)
        self._exec = execs.begin(where, started, execs.Mode.STREAMED)
        self._stream = ExecStream(where.server, self._exec.operation, self._exec.secrets)

    def output(self) -> Iterator[bytes]:
        return self._stream.stdout()

    def send(self, data: bytes) -> object:
        return self._stream.send(data)

    def end_input(self) -> None:
        self._stream.end_input()

    def kill(self) -> None:
        try:
            execs.kill_all(self._where, self._token)
        except LabError:
            self._stream.break_off()  # the node is down: so is the program

    def errors(self) -> str:
        said, tail = io.BytesIO(), Tail()
        try:
            files.get(self._where, self._errors, said)
        except LabError as error:
            return str(error)
        tail.add(said.getvalue())
        return tail.text()

    def status(self) -> int:
        code = execs.code_of(execs.ended(self._where, self._exec.operation, clock.Deadline.after(CLOSE_S)))
        return 128 + 9 if code is None else code  # a node that went down killed it

    def close(self) -> None:
        self._stream.close()
        try:
            files.delete(self._where, self._errors)
        except LabError as error:
            _log.debug("%s", error)  # the node is gone, and the file with it
