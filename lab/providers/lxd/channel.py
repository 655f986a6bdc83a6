"""The streams of a line server in an instance: its command's websockets, and a file for its standard error."""

import io
import logging
from collections.abc import Iterator
from contextlib import suppress

import websocket

from cephlab.lab.base import clock
from cephlab.lab.base.errors import LabBroken, LabError
from cephlab.lab.providers.dialogue import CLOSE_S, Tail
from cephlab.lab.providers.engine import places
from cephlab.lab.providers.engine.process import NodeCommand
from cephlab.lab.providers.lxd import execs, files
from cephlab.lab.providers.lxd.server import InstanceRef, lxd_errors
from cephlab.lab.providers.marks import new_token

_log = logging.getLogger(__name__)

_CHUNK = 1 << 16

# $1: the file for errors; the rest is the command. LXD before 5.14 may lose the end of a stream.
_ERRORS_TO_FILE = 'exec 2>"$1"; shift; exec "$@"'


class InstanceStreams:
    """The streams of one command (see Streams): a websocket each for input, output, errors and control."""

    def __init__(self, instance: InstanceRef, command: NodeCommand) -> None:
        self._instance = instance
        self._token = new_token()
        self._errors = places.NODE_DIRECTORY / f".errors-{self._token}"
        wrapped = command.under(_ERRORS_TO_FILE, str(self._errors)).marked(self._token)
        self._exec = execs.begin(instance, wrapped, execs.ExecMode.STREAMED)
        self._sockets: dict[str, websocket.WebSocket] = {}
        try:
            self._open()
        except LabBroken:
            self._close_sockets()
            raise

    def _open(self) -> None:
        """Open all at once, because LXD starts the command when all of them are connected."""
        with lxd_errors("opening a command's streams"):
            for name in ("0", "1", "2", "control"):
                if name in self._exec.secrets:
                    path = f"/1.0/operations/{self._exec.operation}/websocket?secret={self._exec.secrets[name]}"
                    self._sockets[name] = self._instance.server.websocket(path)

    def output(self) -> Iterator[bytes]:
        while True:
            try:
                kind, data = self._sockets["1"].recv_data()
            except (websocket.WebSocketException, OSError):
                return
            if kind != websocket.ABNF.OPCODE_BINARY:  # an empty text frame, or the end of the connection
                return
            yield data

    def send(self, data: bytes) -> None:
        with suppress(websocket.WebSocketException, OSError):
            for begin in range(0, len(data), _CHUNK):
                self._sockets["0"].send_binary(data[begin : begin + _CHUNK])

    def end_input(self) -> None:
        with suppress(websocket.WebSocketException, OSError):
            self._sockets["0"].send("")

    def kill(self) -> None:
        try:
            execs.kill_all(self._instance, self._token)
        except LabError:
            self._break_off()  # the node is down, so the program is too

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
        self._close_sockets()
        try:
            files.delete(self._instance, self._errors)
        except LabError as error:
            _log.debug("%s", error)  # the node is gone, and the file with it

    def _break_off(self) -> None:
        """End `output` at once, from another thread."""
        for opened in self._sockets.values():
            with suppress(websocket.WebSocketException, OSError):
                opened.abort()  # type: ignore[no-untyped-call]

    def _close_sockets(self) -> None:
        self._break_off()
        for opened in self._sockets.values():
            with suppress(websocket.WebSocketException, OSError):
                opened.shutdown()  # type: ignore[no-untyped-call]
