"""The connection to a running exec: input in one direction, numbered frames of output in the other."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import docker

from cephlab.lab.providers.container.engine import engine_errors

STDERR = 2
_CHUNK = 1 << 16
_HEADER = struct.Struct(">BxxxL")  # stream, three zeros, length: the engine API's multiplexed format


class MultiplexedStream:
    """Both directions of one exec that was created with its streams attached and without a terminal."""

    def __init__(self, client: docker.DockerClient, exec_id: str) -> None:
        with engine_errors("starting a command"):
            raw: Any = client.api.exec_start(exec_id, socket=True)
        # The library hands out the bare socket, without what its HTTP reader has already buffered.
        self._response: Any = raw._response
        self._reader: Any = self._response.raw._fp.fp
        self._socket: socket.socket = getattr(raw, "_sock", raw)
        self._socket.settimeout(None)

    def frames(self) -> Iterator[tuple[int, bytes]]:
        """(1 or STDERR, bytes) until the command's outputs or the connection are closed."""
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
        except (OSError, ValueError):  # closed meanwhile, by `close`
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
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def break_off(self) -> None:
        """End `frames` at once, from another thread."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.break_off()
        self._response.close()
        self._socket.close()
