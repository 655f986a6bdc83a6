"""The streams of a running command: a websocket each for input, output, errors and control."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

import websocket

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.providers.lxd.server import Server, lxd_errors

_CHUNK = 1 << 16
_CONTROL = "control"


class ExecWebsockets:
    """Opened all at once, because LXD starts the command when all of them are connected."""

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

    def output(self) -> Iterator[bytes]:
        while True:
            try:
                kind, data = self._sockets["1"].recv_data()
            except (websocket.WebSocketException, OSError):
                return
            if kind != websocket.ABNF.OPCODE_BINARY:  # an empty text frame, or the end of the connection
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
        with suppress(websocket.WebSocketException, OSError):
            self._sockets["0"].send("")

    def break_off(self) -> None:
        """End `output` at once, from another thread."""
        for opened in self._sockets.values():
            with suppress(websocket.WebSocketException, OSError):
                opened.abort()  # type: ignore[no-untyped-call]

    def close(self) -> None:
        self.break_off()
        for opened in self._sockets.values():
            with suppress(websocket.WebSocketException, OSError):
                opened.shutdown()  # type: ignore[no-untyped-call]
