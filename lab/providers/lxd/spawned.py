"""A daemon inside an instance, found again by pid and birth on this machine, or through LXD elsewhere."""

import os
from collections.abc import Mapping
from pathlib import PurePosixPath
from signal import Signals
from typing import Any

from cephlab.lab.base import clock
from cephlab.lab.base.errors import LabBroken, LabError, NotReached
from cephlab.lab.base.process import LocalProcess
from cephlab.lab.providers.engine.process import EngineProcess, NodeCommand, seen_as
from cephlab.lab.providers.lxd import execs
from cephlab.lab.providers.lxd.server import RUNNING, InstanceRef
from cephlab.lab.providers.marks import new_token

_SETTLE_S = 10.0
_STARTED_S = 10.0

# $1: the log; the rest is the command. setsid, because LXD starts it in LXD's own session.
_SCRIPT = '[[ -d ${1%/*} ]] || mkdir -p -- "${1%/*}"; exec 0</dev/null 1>>"$1" 2>&1; shift; exec setsid "$@"'


class LxdProcess(EngineProcess):
    """A command of LXD. Only root sees its process from here."""

    def __init__(self, instance: InstanceRef, ref: Mapping[str, Any]) -> None:
        super().__init__(ref)
        self._instance = instance
        self._operation = str(ref["operation"])
        self._dead = False

    def alive(self) -> bool:
        if self._dead:
            return False
        alive = self._here.alive() if self._here else execs.running(self._instance, self._operation)
        if not alive:
            self._dead = True
            self._code = self._settled()  # now: LXD forgets it seconds after the end
        return alive

    def exit_code(self) -> int | None:
        """Status once ended, 128 + N after signal N.

        None while alive, if its instance went down with it, or if nobody asked within five seconds of its end.
        """
        self.alive()
        return self._code

    def _settled(self) -> int | None:
        """LXD notices the end of a process a moment after /proc shows it."""
        try:
            state = clock.wait(
                lambda: execs.look(self._instance, self._operation),
                lambda state: state is None or state["status_code"] != RUNNING,
                what="LXD's report that a process ended",
                timeout_s=_SETTLE_S,
                interval_s=0.01,
            )
        except LabError:
            return None
        return execs.code_of(state)

    def signal_here(self, process: LocalProcess, number: Signals) -> bool:
        clock.wait(
            lambda: _leads(process),
            bool,
            what="the start of a daemon's own session",
            timeout_s=_STARTED_S,
            interval_s=0.01,
            timed_out=clock.too_slow,
        )
        process.signal(number)
        return True

    def signal_inside(self, number: Signals) -> None:
        execs.signal_marked(self._instance, self._token, int(number))


def _leads(process: LocalProcess) -> bool:
    """Whether a process has ended or leads a session of its own, which signals are sent to."""
    try:
        return os.getpgid(process.pid) == process.pid
    except ProcessLookupError:
        return True


def spawn(instance: InstanceRef, command: NodeCommand, log: PurePosixPath) -> LxdProcess:
    """Start a daemon whose outputs are appended to `log`."""
    token = new_token()
    operation = execs.begin(instance, command.marked(token).under(_SCRIPT, str(log)), execs.ExecMode.SILENT).operation
    here = _here(instance, operation, token)
    return LxdProcess(instance, {"operation": operation, "token": token} | seen_as(here))


def _here(instance: InstanceRef, operation: str, token: str) -> LocalProcess | None:
    """The daemon as a process of this machine: the first with the token; None if processes are not visible here."""
    if not instance.sees_processes:
        return None
    try:
        _, processes = clock.wait(
            lambda: (execs.running(instance, operation), execs.marked_here(instance, token)),
            lambda state: not state[0] or bool(state[1]),
            what=f"the start of a daemon on {instance.node}",
            timeout_s=_STARTED_S,
            interval_s=0.01,
        )
    except NotReached as error:
        raise LabBroken(f"a daemon on {instance.node} started, but its process was not found", error.detail) from error
    return min(processes, key=lambda process: process.pid, default=None)
