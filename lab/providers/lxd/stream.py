"""The streams of a running command: one websocket each for input, output, errors and control."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

import websocket

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.providers.lxd.server import Server, lxd_errors

_CHUNK = 1 << 16
_CONTROL = "control"


class ExecStream:
    """Opened all at once, as LXD starts the command when it has them all."""

    def __init__(self, server: Server, operation: str, secrets: Mapping[str, str]) -> None:
        self._sockets: dict[str, websocket.WebSocket] = {}
        try:
            with lxd_errors("opening a command's streams"):
                for name in ("0", "1", "2", _CONTROL):
                    if name in secrets:
                        path = f"/1.0/operations/{operation}/websocket?secret={secrets[name]}"
                        self._sockets[name] = server.websocket(path)
        except LabBroken:
            self.close()
            raise

    def stdout(self) -> Iterator[bytes]:
        """Pieces until the command's output is closed or the connection is."""
        return self._pieces("1")

    def stderr(self) -> Iterator[bytes]:
        return self._pieces("2")

    def _pieces(self, name: str) -> Iterator[bytes]:
        source = self._sockets[name]
        while True:
            try:
                kind, data = source.recv_data()
            except (websocket.WebSocketException, OSError):
                return
            if kind != websocket.ABNF.OPCODE_BINARY:  # an empty text, or the end of the connection
                return
            yield data

    def send(self, data: bytes) -> bool:
        """Whether the command's input was still open."""
        try:
            for begin in range(0, len(data), _CHUNK):
                self._sockets["0"].send_binary(data[begin : begin + _CHUNK])
        except (websocket.WebSocketException, OSError):
            return False
        return True

    def end_input(self) -> None:
        """Close the command's standard input; its outputs stay open."""
        with suppress(websocket.WebSocketException, OSError):
            self._sockets["0"].send("")

    def feed(self, data: bytes) -> None:
        """All of the command's input."""
        if self.send(data):
            self.end_input()

    def break_off(self) -> None:
        """End the pieces at once, from another thread."""
        for opened in self._sockets.values():
            with suppress(websocket.WebSocketException, OSError):
                opened.abort()  # type: ignore[no-untyped-call]

    def close(self) -> None:
        self.break_off()
        for opened in self._sockets.values():
            with suppress(websocket.WebSocketException, OSError):
                opened.shutdown()  # type: ignore[no-untyped-call]
