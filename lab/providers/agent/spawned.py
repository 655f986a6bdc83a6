"""A daemon on an agent's machine, known by pid, birth and the boot that it was started in."""

from __future__ import annotations

from collections.abc import Mapping
from signal import Signals
from typing import Any, Protocol

from cephlab.lab.base import clock
from cephlab.lab.base.errors import LabBroken, NotReached


class _Host(Protocol):
    """What a daemon asks of its host."""

    def up(self) -> bool: ...
    def ask(self, operation: str, **arguments: Any) -> Any: ...
    def boot(self) -> str: ...


class AgentProcess:
    """Polling it costs one short exchange with the agent."""

    pid = 0

    def __init__(self, host: _Host, ref: Mapping[str, Any]) -> None:
        self._host = host
        self._ref = {"pid": int(ref["pid"]), "birth": str(ref["birth"]), "boot": str(ref["boot"])}
        self._ended = False
        self._code: int | None = None

    @property
    def ref(self) -> dict[str, Any]:
        """pid, birth: on its machine; boot: which of its boots."""
        return dict(self._ref)

    def alive(self) -> bool:
        if self._ended or not self._host.up():
            return False
        try:
            self._look()
        except LabBroken:
            # The machine may go down while it is asked.
            if self._host.up():
                raise
            return False
        return not self._ended

    def _look(self) -> None:
        if self._host.boot() != self._ref["boot"]:
            self._ended = True
            return
        state = self._host.ask("state", pid=self._ref["pid"], birth=self._ref["birth"])
        self._ended = not state["alive"]
        self._code = state["code"]

    def exit_code(self) -> int | None:
        """Status once ended, -N after signal N; None while alive, and when its machine went down with it."""
        self.alive()
        return self._code

    def signal(self, number: Signals) -> None:
        """Send a signal to it and its children; nothing happens when it has ended."""
        if self.alive():
            self._host.ask("signal", pid=self._ref["pid"], birth=self._ref["birth"], number=int(number))

    def wait(self, timeout_s: float) -> bool:
        """Whether it ended within timeout_s seconds."""
        try:
            clock.wait(
                self.alive, lambda alive: not alive, what="the end of a process", timeout_s=timeout_s, interval_s=0.02
            )
        except NotReached:
            return False
        return True
