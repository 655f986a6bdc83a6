"""The lab's side of a connection to an agent: frames, requests, and the streams of programs."""

import json
import select
import socket
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cephlab.lab.base import clock
from cephlab.lab.base.errors import LabBroken
from cephlab.lab.providers.dialogue import Tail

HEAD = struct.Struct(">cI")
CHUNK = 1 << 17
PORT = 7
"""Port of a guest's agent. The agent's own file describes the frames."""

AGENT = Path(__file__).with_name("inside")
"""The agent: a folder that Python can run."""
READY = b"cephlab: the agent listens"
"""The agent prints this once it accepts connections."""
_KILLED = -9


class Refused(LabBroken):
    """The agent could not do what it was asked. kind: the name of Python's error there; errno: 0 if it has none."""

    def __init__(self, node: str, operation: str, error: Mapping[str, Any]) -> None:
        self.kind = str(error["type"])
        self.errno = int(error["errno"])
        super().__init__(f"{operation} failed on {node}", str(error["message"]))


@dataclass(frozen=True)
class Frame:
    """kind: one byte, see the agent."""

    kind: bytes
    payload: bytes


class Link:
    """One connection. Raises OSError when it fails, Refused when the agent cannot do what it is asked."""

    def __init__(self, connected: socket.socket, node: str) -> None:
        self.socket = connected
        self.node = node
        if connected.family == socket.AF_INET:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def request(self, operation: str, timeout_s: float, **arguments: Any) -> Any:
        self.begin(operation, timeout_s, **arguments)
        return self.answer(operation)

    def begin(self, operation: str, timeout_s: float, **arguments: Any) -> None:
        """Ask without waiting for the answer. timeout_s: longest silence on this connection."""
        self.socket.settimeout(timeout_s)
        self.send(b"j", json.dumps({"op": operation, **arguments}).encode())

    def answer(self, operation: str) -> Any:
        frame = self.receive()
        reply = json.loads(frame.payload)
        if "error" in reply:
            raise Refused(self.node, operation, reply["error"])
        return reply["ok"]

    def send(self, kind: bytes, payload: bytes = b"") -> None:
        self.socket.sendall(HEAD.pack(kind, len(payload)) + payload)

    def receive(self) -> Frame:
        kind, length = HEAD.unpack(self._exactly(HEAD.size))
        return Frame(kind, self._exactly(length))

    def _exactly(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            part = self.socket.recv(min(count - len(parts), CHUNK))
            if not part:
                raise ConnectionResetError(f"{self.node} closed the connection")
            parts += part
        return bytes(parts)

    def exchange(self, data: bytes, deadline: clock.Deadline) -> Iterator[Frame]:
        """Send a program's whole input while its outputs arrive, up to the frame with its status.

        Raises TimeoutError past the deadline.
        """
        self.socket.setblocking(False)
        sending = memoryview(b"".join(_input_frames(data)))
        received = bytearray()
        poll = select.poll()
        while True:
            poll.register(self.socket, select.POLLIN | (select.POLLOUT if sending else 0))
            poll.poll(max(1.0, deadline.slice_s() * 1000))
            clock.look_on(deadline.elapsed_s())
            if sending:
                sending = sending[self._send_some(sending[:CHUNK]) :]
            for frame in self._frames_so_far(received):
                yield frame
                if frame.kind == b"x":
                    return
            if deadline.passed():  # a program that never stops printing is late too
                raise TimeoutError

    def _send_some(self, data: memoryview) -> int:
        try:
            return self.socket.send(data)
        except BlockingIOError:
            return 0

    def _frames_so_far(self, received: bytearray) -> Iterator[Frame]:
        try:
            part = self.socket.recv(CHUNK)
        except BlockingIOError:
            return
        if not part:
            raise ConnectionResetError(f"{self.node} closed the connection")
        received += part
        while len(received) >= HEAD.size:
            kind, length = HEAD.unpack_from(received)
            if len(received) < HEAD.size + length:
                return
            frame = Frame(kind, bytes(received[HEAD.size : HEAD.size + length]))
            del received[: HEAD.size + length]
            yield frame

    def hang_up(self) -> None:
        """End the connection, also for a thread that waits for an answer."""
        with suppress(OSError):  # it has ended already
            self.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Hang up. A program that runs over this connection is killed with its children."""
        self.socket.close()


def _input_frames(data: bytes) -> Sequence[bytes]:
    pieces = [data[at : at + CHUNK] for at in range(0, len(data), CHUNK)]
    return [HEAD.pack(b"0", len(piece)) + piece for piece in (*pieces, b"")]


class LinkStreams:
    """The streams of a program that runs over a link (see Streams). end: kills the program with its children."""

    def __init__(self, link: Link, end: Callable[[], object]) -> None:
        link.socket.settimeout(None)
        self._link = link
        self._end = end
        self._errors = Tail()
        self._code = _KILLED

    def output(self) -> Iterator[bytes]:
        try:
            while (frame := self._link.receive()).kind != b"x":
                if frame.kind == b"2":
                    self._errors.add(frame.payload)
                else:
                    yield frame.payload
            self._code = int(json.loads(frame.payload)["code"])
        except OSError:
            return  # the machine went down, or this side hung up

    def send(self, data: bytes) -> None:
        with suppress(OSError):  # the program has ended; its last output is in the queue
            self._link.send(b"0", data)

    def end_input(self) -> None:
        self.send(b"")

    def kill(self) -> None:
        try:
            self._end()
        except LabBroken:
            self._link.hang_up()  # the machine is down, so the program is too

    def errors(self) -> str:
        return self._errors.text()

    def status(self) -> int:
        return self._code

    def close(self) -> None:
        self._link.close()
