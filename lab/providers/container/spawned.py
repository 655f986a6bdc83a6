"""A daemon inside a container, found again by pid and birth on this machine, or through the engine elsewhere."""

from collections.abc import Mapping
from pathlib import PurePosixPath
from signal import Signals
from typing import Any

from cephlab.lab.base import clock
from cephlab.lab.base.errors import NotReached
from cephlab.lab.base.process import LocalProcess
from cephlab.lab.providers.container import execs
from cephlab.lab.providers.container.engine import engine_errors
from cephlab.lab.providers.container.execs import ContainerRef, MultiplexedStream
from cephlab.lab.providers.engine.process import EngineProcess, NodeCommand, seen_as
from cephlab.lab.providers.marks import new_token

_SETTLE_S = 10.0
_STARTED_S = 1.0

# $1: the log; the rest is the command. It forks only if the log's directory is missing: emulated forks are slow.
_SCRIPT = '[[ -d ${1%/*} ]] || mkdir -p -- "${1%/*}"; exec 0</dev/null 1>>"$1" 2>&1; shift; exec "$@"'


class ContainerProcess(EngineProcess):
    """An exec of the engine."""

    def __init__(self, container: ContainerRef, ref: Mapping[str, Any]) -> None:
        super().__init__(ref)
        self._container = container
        self._exec = str(ref["exec"])

    def alive(self) -> bool:
        if self._code is not None:
            return False
        if self._here is not None:
            return self._here.alive()
        state = execs.inspect(self._container.client, self._exec)
        return state is not None and bool(state["Running"])

    def exit_code(self) -> int | None:
        """Status once ended, 128 + N after signal N; None while alive, or if its container went down with it."""
        if self._code is None and not self.alive():
            self._code = self._settled()
        return self._code

    def _settled(self) -> int | None:
        """The engine notices the end of a process a moment after /proc shows it."""
        try:
            state = clock.wait(
                lambda: execs.inspect(self._container.client, self._exec),
                lambda state: state is None or not state["Running"],
                what="the engine's report that a process ended",
                timeout_s=_SETTLE_S,
                interval_s=0.01,
            )
        except NotReached:
            return None
        return execs.exit_code_of(state)

    def signal_here(self, process: LocalProcess, number: Signals) -> bool:
        return execs.signal_here(process, number)

    def signal_inside(self, number: Signals) -> None:
        execs.signal_marked(self._container, self._token, int(number))


def spawn(container: ContainerRef, command: NodeCommand, log: PurePosixPath) -> ContainerProcess:
    """Start a daemon whose outputs are appended to `log`."""
    token = new_token()
    exec_id = execs.create(container, command.marked(token).under(_SCRIPT, str(log)), stdin=False)
    _start(container, exec_id, command.argv[0])
    known = {"container": container.name, "exec": exec_id, "token": token}
    return ContainerProcess(container, known | seen_as(execs.here(container, exec_id)))


def _start(container: ContainerRef, exec_id: str, program: str) -> None:
    if not container.podman:
        with engine_errors(f"starting {program} on {container.node}"):
            container.client.api.exec_start(exec_id, detach=True)
        return
    # Podman never notices the end of a detached exec, but notices that of an exec whose streams were closed.
    stream = MultiplexedStream(container.client, exec_id)
    try:
        clock.wait(
            lambda: execs.inspect(container.client, exec_id),
            lambda state: state is not None and bool(state["Running"]),
            what=f"the start of {program} on {container.node}",
            timeout_s=_STARTED_S,
            interval_s=0.01,
        )
    except NotReached:
        return  # it ended before we looked
    finally:
        stream.close()
