"""A daemon inside a container, found again by pid and birth here, or through the engine from afar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from signal import Signals
from typing import Any

from lab import clock
from lab.errors import LabError, NotReached
from lab.process import recall
from lab.providers.container import execs
from lab.providers.container.engine import engine_errors
from lab.providers.container.execs import Where
from lab.providers.container.stream import ExecStream
from lab.providers.marks import TOKEN_VARIABLE, new_token

_SETTLE_S = 10.0
_STARTED_S = 1.0

# $1: the log; the rest is the command. No fork where the log's directory exists: emulated forks are dear.
_SCRIPT = '[[ -d ${1%/*} ]] || mkdir -p -- "${1%/*}"; exec 0</dev/null 1>>"$1" 2>&1; shift; exec "$@"'


class ContainerProcess:
    """An exec of the engine that nobody is attached to. On a local engine, polling it costs one look into /proc."""

    def __init__(self, where: Where, ref: Mapping[str, Any]) -> None:
        self._where = where
        self._exec = str(ref["exec"])
        self._token = str(ref["token"])
        self._code: int | None = None
        self._here = recall(ref) if ref["pid"] else None

    @property
    def ref(self) -> dict[str, Any]:
        """exec: the engine's id; token: mark in the environment; pid, birth: on this machine, or 0 and empty."""
        here = self._here
        return {
            "container": self._where.container,
            "exec": self._exec,
            "token": self._token,
            "pid": here.pid if here else 0,
            "birth": here.birth if here else "",
        }

    @property
    def pid(self) -> int:
        return self._here.pid if self._here else 0

    def alive(self) -> bool:
        if self._code is not None:
            return False
        if self._here is not None:
            return self._here.alive()
        state = execs.inspect(self._where.client, self._exec)
        return state is not None and bool(state["Running"])

    def exit_code(self) -> int | None:
        """Status once ended, 128 + N after signal N; None while alive, and when its container went down with it."""
        if self._code is None and not self.alive():
            self._code = self._settled()
        return self._code

    def _settled(self) -> int | None:
        """The engine hears of an end a moment after /proc shows it."""
        try:
            state = clock.wait(
                lambda: execs.inspect(self._where.client, self._exec),
                lambda found: found is None or not found["Running"],
                what="the engine's notice that a process ended",
                timeout_s=_SETTLE_S,
                interval_s=0.01,
            )
        except NotReached:
            return None
        return None if state is None or state["ExitCode"] is None else int(state["ExitCode"])

    def signal(self, number: Signals) -> None:
        """Send a signal to it and its children; nothing happens when it has ended."""
        if not self.alive():
            return
        if not execs.signal_here(self._here, number):
            self._signal_inside(number)

    def _signal_inside(self, number: Signals) -> None:
        try:
            execs.signal_marked(self._where, self._token, int(number))
        except LabError:
            if self.alive():
                raise

    def wait(self, timeout_s: float) -> bool:
        """Whether it ended within timeout_s seconds."""
        if self._here is not None:
            return self._here.wait(timeout_s)
        try:
            clock.wait(self.alive, lambda alive: not alive, what="the end of a process", timeout_s=timeout_s)
        except NotReached:
            return False
        return True


def spawn(
    where: Where,
    argv: Sequence[str],
    *,
    log: PurePosixPath,
    env: Mapping[str, str],
) -> ContainerProcess:
    """Start a daemon whose outputs are appended to `log`."""
    token = new_token()
    marked = {**env, TOKEN_VARIABLE: token}
    command = ("bash", "-c", _SCRIPT, "bash", str(log), *argv)
    exec_id = execs.create(where, command, env=marked, stdin=False)
    _start(where, exec_id, argv[0])
    here = execs.here(where, exec_id)
    found = here.ref if here else {"pid": 0, "birth": ""}
    return ContainerProcess(where, {"exec": exec_id, "token": token, **found})


def _start(where: Where, exec_id: str, name: str) -> None:
    if not where.podman:
        with engine_errors(f"starting {name} on {where.node}"):
            where.client.api.exec_start(exec_id, detach=True)
        return
    # Podman never notices the end of what it started detached; of this it does, although nobody stays to listen.
    stream = ExecStream(where.client, exec_id)
    try:
        clock.wait(
            lambda: execs.inspect(where.client, exec_id),
            lambda state: state is not None and bool(state["Running"]),
            what=f"the start of {name} on {where.node}",
            timeout_s=_STARTED_S,
            interval_s=0.01,
        )
    except NotReached:
        return  # it was quicker than we looked
    finally:
        stream.close()
