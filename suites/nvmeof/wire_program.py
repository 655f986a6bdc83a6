"""Passes NVMe over TCP on and flips single bits of data on the way: a program of its own, since guests run it.

One JSON argument: listen [address, port], to [address, port], flips: most bits to flip each way, told: a file. It
imports nothing of the lab. PDUs as in the NVMe over TCP transport specification, 3.3. Data of I/O queues alone is
touched, and headers never: a wrong header ends a connection whether digests are on or not.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

COMMON = struct.Struct("<BBBBI")
"""type, flags, bytes of the header, where data begins, bytes of all."""
COMMAND, TO_CONTROLLER, TO_HOST = 0x04, 0x06, 0x07
CARRY_DATA = (COMMAND, TO_CONTROLLER, TO_HOST)
FABRICS, CONNECT = 0x7F, 0x01
QUEUE = slice(8 + 42, 8 + 44)
"""Of the Connect command: the number of the queue that this connection becomes."""
LEAST_BYTES = 4096
SKIPPED = 2
"""Pieces of data each way between two flips, so that what is sent again after one arrives."""


class Flipper:
    """Flips a bit in every third piece of data that goes one way, until it has flipped enough."""

    def __init__(self, most: int) -> None:
        self.most, self.flipped, self.seen = most, 0, 0
        self.lock = threading.Lock()

    def __call__(self, pdu: bytearray) -> None:
        kind, _, _, begin, size = COMMON.unpack_from(pdu)
        if kind not in CARRY_DATA or not begin or size - begin < LEAST_BYTES:
            return
        with self.lock:
            self.seen += 1
            if self.flipped < self.most and self.seen % (SKIPPED + 1) == 1:
                pdu[begin + LEAST_BYTES // 2] ^= 1
                self.flipped += 1


class Connection:
    """One connection: its queue is known once its Connect command has passed."""

    def __init__(
        self, near: socket.socket, far: socket.socket, ways: dict[str, Flipper], tell: Callable[[], None]
    ) -> None:
        self.near, self.far, self.ways, self.tell = near, far, ways, tell
        self.carries_data = False

    def start(self) -> None:
        for source, sink, way in ((self.near, self.far, "written"), (self.far, self.near, "read")):
            threading.Thread(target=self.carry, args=(source, sink, way), daemon=True).start()

    def carry(self, source: socket.socket, sink: socket.socket, way: str) -> None:
        """Pass on PDU by PDU until either end closes, then close both."""
        try:
            with source.makefile("rb") as stream:
                while pdu := self.next(stream):
                    if self.carries_data:
                        self.ways[way](pdu)
                        self.tell()
                    sink.sendall(pdu)
        except OSError:
            return  # an end has gone, as it does after a wrong digest
        finally:
            shut(source)
            shut(sink)

    def next(self, stream: Any) -> bytearray:
        """The next PDU; empty at the end."""
        head = stream.read(COMMON.size)
        if len(head) < COMMON.size:
            return bytearray()
        pdu = bytearray(head + stream.read(COMMON.unpack(head)[-1] - COMMON.size))
        if pdu[0] == COMMAND and pdu[COMMON.size] == FABRICS and pdu[COMMON.size + 4] == CONNECT:
            self.carries_data = int.from_bytes(pdu[QUEUE], "little") > 0
        return pdu


def shut(end: socket.socket) -> None:
    """End both ways of a connection, also where the other end has gone."""
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


def serve(wanted: dict[str, Any]) -> None:
    """Take connections for ever."""
    ways = {way: Flipper(wanted["flips"]) for way in ("written", "read")}
    told, lock = Path(wanted["told"]), threading.Lock()

    def tell() -> None:
        with lock:
            told.write_text(json.dumps({way: flipper.flipped for way, flipper in ways.items()}))

    with socket.create_server(tuple(wanted["listen"])) as listening:
        tell()
        while True:
            near, _ = listening.accept()
            Connection(near, socket.create_connection(tuple(wanted["to"])), ways, tell).start()


if __name__ == "__main__":
    serve(json.loads(sys.argv[1]))
