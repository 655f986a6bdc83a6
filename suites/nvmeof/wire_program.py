"""A proxy for NVMe over TCP that flips single data bits or looks for a marker. Guests run it on its own.

One JSON argument: listen [address, port], to [address, port], told: a file; flips: most bits to flip each way, or
marker: bytes to look for, in hex. It imports nothing of the lab. PDUs as in the NVMe over TCP transport specification,
3.3. Bits are flipped only in data of I/O queues: a wrong header ends a connection whether digests are on or not.
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
"""type, flags, header length, data offset, PDU length."""
COMMAND, TO_CONTROLLER, TO_HOST = 0x04, 0x06, 0x07
CARRY_DATA = (COMMAND, TO_CONTROLLER, TO_HOST)
FABRICS, CONNECT = 0x7F, 0x01
QUEUE = slice(8 + 42, 8 + 44)
"""Where the Connect command has the ID of the queue that this connection becomes."""
WAYS = ("written", "read")
LEAST_BYTES = 4096
SKIPPED = 2
"""PDUs with data in each direction between two flips, so that data sent again after a flip arrives."""


class Flipper:
    """Flips a bit in every third data PDU of one direction, until it has flipped enough."""

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


class Seeker:
    """Counts a marker in the bytes of one direction."""

    def __init__(self, marker: bytes) -> None:
        self.marker, self.found, self.passed = marker, 0, 0
        self.lock = threading.Lock()

    def __call__(self, last: bytes, data: bytes) -> bytes:
        """last: the return value for the previous piece of the same connection, since a marker may span two pieces."""
        whole = last + data
        with self.lock:
            self.found += whole.count(self.marker)
            self.passed += len(data)
        return whole[-len(self.marker) + 1 :]


class Connection:
    """One connection. Its queue is known once its Connect command has passed."""

    def __init__(self, near: socket.socket, far: socket.socket, ways: dict[str, Any], tell: Callable[[], None]) -> None:
        self.near, self.far, self.ways, self.tell = near, far, ways, tell
        self.carries_data = False

    def start(self) -> None:
        for source, sink, way in ((self.near, self.far, "written"), (self.far, self.near, "read")):
            threading.Thread(target=self.carry, args=(source, sink, way), daemon=True).start()

    def carry(self, source: socket.socket, sink: socket.socket, way: str) -> None:
        """Forward data until either end closes, then close both."""
        try:
            self.pass_on(source, sink, way)
        except OSError:
            return  # one end has closed, as it does after a wrong digest
        finally:
            shut(source)
            shut(sink)

    def pass_on(self, source: socket.socket, sink: socket.socket, way: str) -> None:
        """Forward PDU by PDU."""
        with source.makefile("rb") as stream:
            while pdu := self.next(stream):
                if self.carries_data:
                    self.ways[way](pdu)
                    self.tell()
                sink.sendall(pdu)

    def next(self, stream: Any) -> bytearray:
        """The next PDU; empty at the end."""
        head = stream.read(COMMON.size)
        if len(head) < COMMON.size:
            return bytearray()
        pdu = bytearray(head + stream.read(COMMON.unpack(head)[-1] - COMMON.size))
        if pdu[0] == COMMAND and pdu[COMMON.size] == FABRICS and pdu[COMMON.size + 4] == CONNECT:
            self.carries_data = int.from_bytes(pdu[QUEUE], "little") > 0
        return pdu


class Tapped(Connection):
    """One connection whose bytes are searched as they come, without regard to PDUs."""

    def pass_on(self, source: socket.socket, sink: socket.socket, way: str) -> None:
        last = b""
        while data := source.recv(1 << 16):
            last = self.ways[way](last, data)
            self.tell()
            sink.sendall(data)


def shut(end: socket.socket) -> None:
    """Close a connection in both directions, even if the other end has closed it."""
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


def ways_of(wanted: dict[str, Any]) -> tuple[type[Connection], dict[str, Any]]:
    """(kind of connection, what handles the bytes of each direction)."""
    if marker := wanted.get("marker"):
        return Tapped, {way: Seeker(bytes.fromhex(marker)) for way in WAYS}
    return Connection, {way: Flipper(wanted["flips"]) for way in WAYS}


def counted(way: Flipper | Seeker) -> dict[str, int]:
    """The counts of one direction: bits flipped, or markers found and bytes passed."""
    if isinstance(way, Flipper):
        return {"flipped": way.flipped}
    return {"found": way.found, "passed": way.passed}


def serve(wanted: dict[str, Any]) -> None:
    """Accept connections for ever."""
    kind, ways = ways_of(wanted)
    counters, lock = Path(wanted["told"]), threading.Lock()

    def tell() -> None:
        with lock:
            counters.write_text(json.dumps({way: counted(each) for way, each in ways.items()}))

    with socket.create_server(tuple(wanted["listen"])) as listening:
        tell()
        while True:
            near, _ = listening.accept()
            kind(near, socket.create_connection(tuple(wanted["to"])), ways, tell).start()


if __name__ == "__main__":
    serve(json.loads(sys.argv[1]))
