"""Commands inside a container and their streams: run to the end, or to a deadline that kills them with their children.

A command's connection has input in one direction and numbered frames of output in the other.
"""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from signal import SIGKILL, Signals
from typing import Any

import docker

from cephlab.lab.base import clock
from cephlab.lab.base.births import birth_of
from cephlab.lab.base.errors import CommandTimedOut, LabBroken, LabError
from cephlab.lab.base.process import LocalProcess, Result
from cephlab.lab.providers.container.engine import engine_errors
from cephlab.lab.providers.dialogue import Tail
from cephlab.lab.providers.engine.process import NodeCommand
from cephlab.lab.providers.marks import new_token, signalling

STDERR = 2
_CHUNK = 1 << 16
_HEADER = struct.Struct(">BxxxL")  # stream, three zeros, length: the engine API's multiplexed format
_DRAIN_S = 2.0
_NOT_FOUND = 127

# Podman answers 500, not 404, when an exec or its container is removed while the request is handled.
_PODMAN_GONE = ("no such exec session", "no such container", "has already been removed")


class MultiplexedStream:
    """Both directions of one exec that was created with its streams attached and without a terminal."""

    def __init__(self, client: docker.DockerClient, exec_id: str) -> None:
        with engine_errors("starting a command"):
            raw: Any = client.api.exec_start(exec_id, socket=True)
        # The library returns the bare socket, without the data that its HTTP reader has already buffered.
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


@dataclass(frozen=True)
class ContainerRef:
    """A container by its name in the engine. node: for messages; local: the engine shares this machine's /proc."""

    client: docker.DockerClient
    name: str
    node: str
    local: bool
    podman: bool = False


def create(container: ContainerRef, command: NodeCommand, *, stdin: bool) -> str:
    """Make an exec without starting it; LabBroken when the node is down."""
    directory = str(command.cwd) if command.cwd else None
    try:
        with engine_errors(f"preparing {command.argv[0]} on {container.node}"):
            answer: dict[str, Any] = container.client.api.exec_create(
                container.name, list(command.argv), environment=dict(command.env), stdin=stdin, workdir=directory
            )
    except LabBroken as error:
        if _gone(error):
            raise LabBroken(f"{container.node} is down", f"{command.argv[0]} was not run: {error.detail}") from error
        raise
    return str(answer["Id"])


def inspect(client: docker.DockerClient, exec_id: str) -> dict[str, Any] | None:
    """{Running, ExitCode, Pid, ...}; None if the engine has forgotten the exec or the container is down.

    LabBroken for any other error of the engine, which says nothing about the command.
    """
    try:
        with engine_errors("inspecting a command"):
            return dict(client.api.exec_inspect(exec_id))
    except LabBroken as error:
        if _gone(error):
            return None
        raise


def _gone(error: LabBroken) -> bool:
    """Whether the engine answered that the container is down, or that it does not know the exec or its container."""
    status = getattr(error.__cause__, "status_code", None)
    return status in {404, 409} or (status == 500 and any(text in error.detail for text in _PODMAN_GONE))


def exit_code_of(state: dict[str, Any] | None) -> int | None:
    """The exit status in an answer of `inspect`; None if the engine does not know it."""
    return None if state is None or state["ExitCode"] is None else int(state["ExitCode"])


def signal_marked(container: ContainerRef, token: str, number: int) -> None:
    """Signal every process in the container that carries the token (see `signalling`)."""
    exec_id = create(container, NodeCommand(signalling(token, number)), stdin=False)
    with engine_errors(f"signalling on {container.node}"):
        container.client.api.exec_start(exec_id)


def here(container: ContainerRef, exec_id: str) -> LocalProcess | None:
    """An exec's process as this machine sees it; None if it has ended or runs elsewhere."""
    state = inspect(container.client, exec_id) if container.local else None
    if state is None or not state["Running"] or not state["Pid"]:
        return None
    pid = int(state["Pid"])
    birth = birth_of(pid)
    return LocalProcess(pid, birth) if birth else None


def signal_here(process: LocalProcess | None, number: Signals) -> bool:
    """Signal a process of this machine and its group. Returns whether that was possible."""
    if process is None:
        return False
    try:
        process.signal(number)
    except PermissionError:  # an ordinary user of the engine's group
        return False
    return True


def kill_all(container: ContainerRef, exec_id: str, token: str) -> None:
    """Kill an exec's process and everything that it started. A daemon that dropped root hides its token."""
    try:
        signal_here(here(container, exec_id), SIGKILL)
    finally:
        signal_marked(container, token, int(SIGKILL))


def run(container: ContainerRef, command: NodeCommand, timeout_s: float) -> Result:
    """See EngineHost.execute."""
    token = new_token()
    exec_id = create(container, command.marked(token), stdin=bool(command.stdin))
    watch = _Watch(container, exec_id, token, timeout_s)
    stdout, stderr = watch.collect(command.stdin)
    if watch.expired:
        raise CommandTimedOut(
            command.argv, timeout_s, stdout.decode(errors="replace"), stderr.decode(errors="replace"), container.node
        )
    return _result(container, exec_id, tuple(command.argv), stdout, stderr)


def _result(container: ContainerRef, exec_id: str, argv: tuple[str, ...], stdout: bytes, stderr: bytes) -> Result:
    state = inspect(container.client, exec_id)
    code = exit_code_of(state)
    if state is None or code is None:
        raise LabBroken(f"{container.node} went down while {argv[0]} ran", stderr.decode(errors="replace"))
    if state["Pid"] == 0 and stdout.startswith(b"OCI runtime"):
        # Nothing was started: standard output has the runtime's error message, not the program's output.
        return Result(argv, _NOT_FOUND, b"", stdout + stderr)
    return Result(argv, code, stdout, stderr)


class _Watch:
    """One command's streams under a deadline."""

    def __init__(self, container: ContainerRef, exec_id: str, token: str, timeout_s: float) -> None:
        self.expired = False
        self._container = container
        self._exec = exec_id
        self._token = token
        self._stream = MultiplexedStream(container.client, exec_id)
        self._stdout, self._stderr = bytearray(), bytearray()
        self._closed = threading.Event()
        self._done = threading.Event()
        self._timer = threading.Timer(timeout_s, self._expire)
        self._timer.daemon = True

    def collect(self, stdin: bytes) -> tuple[bytes, bytes]:
        writer = threading.Thread(target=self._feed, args=(stdin,), daemon=True)
        self._timer.start()
        if stdin:
            writer.start()
        reader = threading.Thread(target=self._read, daemon=True)
        try:
            reader.start()
            began_s = clock.SYSTEM.monotonic()
            while not self._closed.wait(clock.SLICE_S):
                clock.look_on(clock.SYSTEM.monotonic() - began_s)
        except BaseException:
            self._kill()
            raise
        finally:
            self._done.set()
            self._timer.cancel()
            self._stream.close()
            if stdin:
                writer.join(_DRAIN_S)
        if self._timer.is_alive():
            self._timer.join()
        return bytes(self._stdout), bytes(self._stderr)

    def _read(self) -> None:
        try:
            for number, data in self._stream.frames():
                (self._stderr if number == STDERR else self._stdout).extend(data)
        finally:
            self._closed.set()

    def _feed(self, stdin: bytes) -> None:
        if self._stream.send(stdin):
            self._stream.end_input()

    def _expire(self) -> None:
        if self._done.is_set():
            return
        self.expired = True
        self._kill()
        # Outputs stay open if a process without the token holds them.
        if not self._done.wait(_DRAIN_S):
            self._stream.break_off()

    def _kill(self) -> None:
        try:
            kill_all(self._container, self._exec, self._token)
        except LabError:
            self._stream.break_off()  # the node or the engine is down, so nothing is left to kill


class ContainerStreams(MultiplexedStream):
    """The streams of one exec (see Streams)."""

    def __init__(self, container: ContainerRef, command: NodeCommand) -> None:
        self._container = container
        self._token = new_token()
        self._exec = create(container, command.marked(self._token), stdin=True)
        self._errors = Tail()
        super().__init__(container.client, self._exec)

    def output(self) -> Iterator[bytes]:
        for number, data in self.frames():
            if number == STDERR:
                self._errors.add(data)
            else:
                yield data

    def kill(self) -> None:
        try:
            kill_all(self._container, self._exec, self._token)
        except LabError:
            self.break_off()  # the node is down, so the program is too

    def errors(self) -> str:
        return self._errors.text()

    def status(self) -> int:
        code = exit_code_of(inspect(self._container.client, self._exec))
        return 128 + 9 if code is None else code  # a container that went down killed it
