"""Running commands inside a container: to the end, or to a deadline at which it is killed with its children."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from signal import SIGKILL, Signals
from typing import Any

import docker
import docker.errors

from cephlab.lab.base.errors import CommandTimedOut, LabBroken, LabError
from cephlab.lab.base.process import LocalProcess, Result, birth_of
from cephlab.lab.providers.container.engine import engine_errors
from cephlab.lab.providers.container.stream import STDERR, ExecStream
from cephlab.lab.providers.engine.order import Order
from cephlab.lab.providers.marks import new_token, signalling

_DRAIN_S = 2.0
_NOT_FOUND = 127


@dataclass(frozen=True)
class Where:
    """A container by its name in the engine, and the node's name for messages.

    local: the engine shares this machine's /proc.
    """

    client: docker.DockerClient
    container: str
    node: str
    local: bool
    podman: bool = False


def create(where: Where, order: Order, *, stdin: bool) -> str:
    """Make an exec, not started yet; LabBroken when the node is down."""
    directory = str(order.cwd) if order.cwd else None
    try:
        with engine_errors(f"preparing {order.program} on {where.node}"):
            made: dict[str, Any] = where.client.api.exec_create(
                where.container, list(order.argv), environment=dict(order.env), stdin=stdin, workdir=directory
            )
    except LabBroken as error:
        if isinstance(error.__cause__, docker.errors.APIError) and error.__cause__.status_code in {404, 409}:
            raise LabBroken(f"{where.node} is down", f"{order.program} was not run: {error.detail}") from error
        raise
    return str(made["Id"])


def inspect(client: docker.DockerClient, exec_id: str) -> dict[str, Any] | None:
    """{Running, ExitCode, Pid, ...}; None once the engine has forgotten the exec or its container is down."""
    try:
        with engine_errors("looking at a command"):
            return dict(client.api.exec_inspect(exec_id))
    except LabBroken as error:
        if isinstance(error.__cause__, docker.errors.APIError):
            return None
        raise


def signal_marked(where: Where, token: str, number: int) -> None:
    """Signal every process in the container that carries the token, whoever its parent is by now.

    It does not see a daemon that has dropped root, as that hides its environment; `signal_here` does.
    """
    exec_id = create(where, Order(signalling(token, number)), stdin=False)
    with engine_errors(f"signalling on {where.node}"):
        where.client.api.exec_start(exec_id)


def here(where: Where, exec_id: str) -> LocalProcess | None:
    """An exec's process as this machine sees it; None when it has ended or runs elsewhere."""
    state = inspect(where.client, exec_id) if where.local else None
    if state is None or not state["Running"] or not state["Pid"]:
        return None
    pid = int(state["Pid"])
    birth = birth_of(pid)
    return LocalProcess(pid, birth) if birth else None


def signal_here(process: LocalProcess | None, number: Signals) -> bool:
    """Signal a process of this machine and its group; whether that was possible."""
    if process is None:
        return False
    try:
        process.signal(number)
    except PermissionError:  # an ordinary user of the engine's group
        return False
    return True


def kill_all(where: Where, exec_id: str, token: str) -> None:
    """Kill an exec's process and all that it started."""
    signal_here(here(where, exec_id), SIGKILL)
    signal_marked(where, token, int(SIGKILL))


def run(where: Where, order: Order, timeout_s: float) -> Result:
    """See EngineHost.execute."""
    token = new_token()
    exec_id = create(where, order.marked(token), stdin=bool(order.stdin))
    watch = _Watch(where, exec_id, token, timeout_s)
    stdout, stderr = watch.collect(order.stdin)
    if watch.expired:
        raise CommandTimedOut(
            order.argv, timeout_s, stdout.decode(errors="replace"), stderr.decode(errors="replace"), where.node
        )
    return _result(where, exec_id, tuple(order.argv), stdout, stderr)


def _result(where: Where, exec_id: str, argv: tuple[str, ...], stdout: bytes, stderr: bytes) -> Result:
    state = inspect(where.client, exec_id)
    code = None if state is None else state["ExitCode"]
    if state is None or code is None:
        raise LabBroken(f"{where.node} went down while {argv[0]} ran", stderr.decode(errors="replace"))
    if state["Pid"] == 0 and stdout.startswith(b"OCI runtime"):
        # Nothing was started: what came on standard output is the runtime's complaint, not the program's.
        return Result(argv, _NOT_FOUND, b"", stdout + stderr)
    return Result(argv, int(code), stdout, stderr)


class _Watch:
    """One command's streams under a deadline."""

    def __init__(self, where: Where, exec_id: str, token: str, timeout_s: float) -> None:
        self.expired = False
        self._where = where
        self._exec = exec_id
        self._token = token
        self._stream = ExecStream(where.client, exec_id)
        self._done = threading.Event()
        self._timer = threading.Timer(timeout_s, self._expire)
        self._timer.daemon = True

    def collect(self, stdin: bytes) -> tuple[bytes, bytes]:
        writer = threading.Thread(target=self._feed, args=(stdin,), daemon=True)
        self._timer.start()
        if stdin:
            writer.start()
        stdout, stderr = bytearray(), bytearray()
        try:
            for number, data in self._stream.frames():
                (stderr if number == STDERR else stdout).extend(data)
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
        return bytes(stdout), bytes(stderr)

    def _feed(self, stdin: bytes) -> None:
        if self._stream.send(stdin):
            self._stream.end_input()

    def _expire(self) -> None:
        if self._done.is_set():
            return
        self.expired = True
        self._kill()
        # Outputs stay open when something without the mark holds them.
        if not self._done.wait(_DRAIN_S):
            self._stream.break_off()

    def _kill(self) -> None:
        try:
            kill_all(self._where, self._exec, self._token)
        except LabError:
            self._stream.break_off()  # the node is down, or the engine: nothing is left to be killed
