"""The streams of a line server in an instance: a command's websockets, and a file for its standard error."""

from __future__ import annotations

import io
import logging

from cephlab.lab.base import clock
from cephlab.lab.base.errors import LabError
from cephlab.lab.providers.dialogue import CLOSE_S, Tail
from cephlab.lab.providers.engine import places
from cephlab.lab.providers.engine.command import NodeCommand
from cephlab.lab.providers.lxd import execs, files
from cephlab.lab.providers.lxd.server import InstanceRef
from cephlab.lab.providers.lxd.stream import ExecWebsockets
from cephlab.lab.providers.marks import new_token

_log = logging.getLogger(__name__)

# $1: the file for errors; the rest is the command. LXD before 5.14 may lose the end of a stream.
_ERRORS_TO_FILE = 'exec 2>"$1"; shift; exec "$@"'


class InstanceStreams(ExecWebsockets):
    """The streams of one command (see Streams)."""

    def __init__(self, instance: InstanceRef, command: NodeCommand) -> None:
        self._instance = instance
        self._token = new_token()
        self._errors = places.NODE_DIRECTORY / f".errors-{self._token}"
        wrapped = command.under(_ERRORS_TO_FILE, str(self._errors)).marked(self._token)
        self._exec = execs.begin(instance, wrapped, execs.ExecMode.STREAMED)
        super().__init__(instance.server, self._exec.operation, self._exec.secrets)

    def kill(self) -> None:
        try:
            execs.kill_all(self._instance, self._token)
        except LabError:
            self.break_off()  # the node is down, so the program is too

    def errors(self) -> str:
        sink, tail = io.BytesIO(), Tail()
        try:
            files.get(self._instance, self._errors, sink)
        except LabError as error:
            return str(error)
        tail.add(sink.getvalue())
        return tail.text()

    def status(self) -> int:
        code = execs.code_of(execs.ended(self._instance, self._exec.operation, clock.Deadline.after(CLOSE_S)))
        return 128 + 9 if code is None else code  # a node that went down killed it

    def close(self) -> None:
        super().close()
        try:
            files.delete(self._instance, self._errors)
        except LabError as error:
            _log.debug("%s", error)  # the node is gone, and the file with it
