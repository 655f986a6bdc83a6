"""The connection to a running exec: input one way, numbered frames of output the other."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import Any

import docker

from cephlab.lab.providers.container.engine import engine_errors

STDOUT = 1
STDERR = 2
_CHUNK = 1 << 16
_HEADER = struct.Struct(">BxxxL")  # stream, three zeros, length: the engine API's multiplexed format


class ExecStream:
    """Both directions of one exec that was created with its streams attached and no terminal."""

    def __init__(self, client: docker.DockerClient, exec_id: str) -> None:
        with engine_errors("starting a command"):
            raw: Any = client.api.exec_start(exec_id, socket=True)
        # The library hands out the bare socket; what its HTTP reader had already buffered would be lost there.
        self._response: Any = raw._response
        self._reader: Any = self._response.raw._fp.fp
        self._socket: socket.socket = getattr(raw, "_sock", raw)
        self._socket.settimeout(None)

    def frames(self) -> Iterator[tuple[int, bytes]]:
        """(STDOUT or STDERR, bytes) until the command's outputs are closed or the connection is."""
        while True:
            header = self._read(_HEADER.size)
            if len(header) < _HEADER.size:
                return
            stream, length = _HEADER.unpack(header)
            while length:
                chunk = self._read(min(length, _CHUNK))
                if not chunk:
                    return
                length -= len(chunk)
                yield stream, chunk

    def _read(self, size: int) -> bytes:
        try:
            data: bytes = self._reader.read(size)
        except (OSError, ValueError):  # closed under us, by `close`
            return b""
        return data or b""

    def send(self, data: bytes) -> bool:
        """Whether the command's input was still open."""
        try:
            self._socket.sendall(data)
        except OSError:
            return False
        return True

    def end_input(self) -> None:
        """Close the command's standard input; its outputs stay open."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            return

    def break_off(self) -> None:
        """End `frames` at once, from another thread."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def close(self) -> None:
        self.break_off()
        self._response.close()
        self._socket.close()
