"""A daemon inside an instance, found again by pid and birth here, or through LXD from afar."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from signal import Signals
from typing import Any

from lab import clock
from lab.errors import LabBroken, LabError, NotReached
from lab.process import LocalProcess, recall
from lab.providers.lxd import execs
from lab.providers.lxd.where import Where
from lab.providers.marks import TOKEN_VARIABLE, new_token

_SETTLE_S = 10.0
_STARTED_S = 10.0

# $1: the log; the rest is the command. It gets a session of its own, in place, as LXD leaves it in the LXD's.
_SCRIPT = '[[ -d ${1%/*} ]] || mkdir -p -- "${1%/*}"; exec 0</dev/null 1>>"$1" 2>&1; shift; exec setsid "$@"'


class LxdProcess:
    """A command of LXD that nobody is attached to. Where root asks, polling it costs one look into /proc."""

    def __init__(self, where: Where, ref: Mapping[str, Any]) -> None:
        self._where = where
        self._operation = str(ref["operation"])
        self._token = str(ref["token"])
        self._code: int | None = None
        self._dead = False
        self._here = recall(ref) if ref["pid"] else None

    @property
    def ref(self) -> dict[str, Any]:
        """operation: LXD's id; token: mark in the environment; pid, birth: on this machine, or 0 and empty."""
        here = self._here
        return {
            "operation": self._operation,
            "token": self._token,
            "pid": here.pid if here else 0,
            "birth": here.birth if here else "",
        }

    @property
    def pid(self) -> int:
        return self._here.pid if self._here else 0

    def alive(self) -> bool:
        if self._dead:
            return False
        alive = self._here.alive() if self._here else execs.running(self._where, self._operation)
        if not alive:
            self._dead = True
            self._code = self._settled()  # now: LXD forgets it seconds after the end
        return alive

    def exit_code(self) -> int | None:
        """Status once ended, 128 + N after signal N.

        None while alive, when its instance went down with it, and when nobody looked within five seconds of its end.
        """
        self.alive()
        return self._code

    def _settled(self) -> int | None:
        """LXD hears of an end a moment after /proc shows it."""
        try:
            state = clock.wait(
                lambda: execs.look(self._where, self._operation),
                lambda found: found is None or found["status_code"] != execs.RUNNING,
                what="LXD's notice that a process ended",
                timeout_s=_SETTLE_S,
                interval_s=0.01,
            )
        except LabError:
            return None
        return execs.code_of(state)

    def signal(self, number: Signals) -> None:
        """Send a signal to it and its children; nothing happens when it has ended."""
        if not self.alive():
            return
        if self._here is not None:
            clock.wait(
                lambda: _leads(self._here),
                bool,
                what="a daemon's session of its own",
                timeout_s=_STARTED_S,
                interval_s=0.01,
                timed_out=lambda what, timeout_s, _last: LabBroken(f"{what} did not begin within {timeout_s:g} s"),
            )
            self._here.signal(number)
            return
        try:
            execs.signal_marked(self._where, self._token, int(number))
        except LabError:
            if self.alive():
                raise

    def wait(self, timeout_s: float) -> bool:
        """Whether it ended within timeout_s seconds."""
        try:
            clock.wait(
                self.alive,
                lambda alive: not alive,
                what="the end of a process",
                timeout_s=timeout_s,
                interval_s=0.02 if self._here else 0.1,
            )
        except NotReached:
            return False
        return True


def _leads(process: LocalProcess | None) -> bool:
    """Whether a process has its session, to which signals go, or has ended."""
    try:
        return process is None or os.getpgid(process.pid) == process.pid
    except ProcessLookupError:
        return True


def spawn(where: Where, argv: Sequence[str], *, log: PurePosixPath, env: Mapping[str, str]) -> LxdProcess:
    """Start a daemon whose outputs are appended to `log`."""
    token = new_token()
    command = ("bash", "-c", _SCRIPT, "bash", str(log), *argv)
    begun = execs.begin(where, command, env={**env, TOKEN_VARIABLE: token}, mode=execs.Mode.SILENT)
    here = _here(where, begun.operation, token)
    found = here.ref if here else {"pid": 0, "birth": ""}
    return LxdProcess(where, {"operation": begun.operation, "token": token, **found})


def _here(where: Where, operation: str, token: str) -> LocalProcess | None:
    """The daemon as a process of this machine: of those with the mark the first; None where they cannot be seen."""
    if not where.sees_processes:
        return None
    try:
        _, found = clock.wait(
            lambda: (execs.running(where, operation), execs.marked_here(where, token)),
            lambda state: not state[0] or bool(state[1]),
            what=f"the start of a daemon on {where.node}",
            timeout_s=_STARTED_S,
            interval_s=0.01,
        )
    except NotReached as error:
        raise LabBroken(f"a daemon on {where.node} was begun and is not to be seen", error.detail) from error
    return min(found, key=lambda process: process.pid, default=None)
