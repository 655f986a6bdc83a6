"""A daemon inside a container, found again by pid and birth here, or through the engine from afar."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from signal import Signals
from typing import Any

from cephlab.lab.base import clock
from cephlab.lab.base.errors import NotReached
from cephlab.lab.base.process import LocalProcess
from cephlab.lab.providers.container import execs
from cephlab.lab.providers.container.engine import engine_errors
from cephlab.lab.providers.container.execs import Where
from cephlab.lab.providers.container.stream import ExecStream
from cephlab.lab.providers.engine.order import Order
from cephlab.lab.providers.engine.process import EngineProcess, seen_as
from cephlab.lab.providers.marks import new_token

_SETTLE_S = 10.0
_STARTED_S = 1.0

# $1: the log; the rest is the command. No fork where the log's directory exists: emulated forks are slow.
_SCRIPT = '[[ -d ${1%/*} ]] || mkdir -p -- "${1%/*}"; exec 0</dev/null 1>>"$1" 2>&1; shift; exec "$@"'


class ContainerProcess(EngineProcess):
    """An exec of the engine."""

    def __init__(self, where: Where, ref: Mapping[str, Any]) -> None:
        super().__init__(ref)
        self._where = where
        self._exec = str(ref["exec"])

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
                lambda state: state is None or not state["Running"],
                what="the engine's notice that a process ended",
                timeout_s=_SETTLE_S,
                interval_s=0.01,
            )
        except NotReached:
            return None
        return None if state is None or state["ExitCode"] is None else int(state["ExitCode"])

    def signal_here(self, process: LocalProcess, number: Signals) -> bool:
        return execs.signal_here(process, number)

    def signal_inside(self, number: Signals) -> None:
        execs.signal_marked(self._where, self._token, int(number))


def spawn(where: Where, order: Order, log: PurePosixPath) -> ContainerProcess:
    """Start a daemon whose outputs are appended to `log`."""
    token = new_token()
    exec_id = execs.create(where, order.marked(token).under(_SCRIPT, str(log)), stdin=False)
    _start(where, exec_id, order.program)
    known = {"container": where.container, "exec": exec_id, "token": token}
    return ContainerProcess(where, known | seen_as(execs.here(where, exec_id)))


def _start(where: Where, exec_id: str, name: str) -> None:
    if not where.podman:
        with engine_errors(f"starting {name} on {where.node}"):
            where.client.api.exec_start(exec_id, detach=True)
        return
    # Podman never notices the end of a detached exec, but does of one whose streams were closed.
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
