"""A command, and a daemon, inside a node. The engine knows it by an id, this machine by pid and birth if visible."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from signal import Signals
from typing import Any

from cephlab.lab.base.clock import ended_within
from cephlab.lab.base.errors import LabError
from cephlab.lab.base.process import LocalProcess, recall
from cephlab.lab.providers.marks import TOKEN_VARIABLE

_SEEN_HERE_S = 0.02
_FROM_AFAR_S = 0.1


@dataclass(frozen=True)
class NodeCommand:
    """A command for an engine to run in a node. stdin: the whole input; cwd: None leaves the choice to the engine."""

    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: PurePosixPath | None = None
    stdin: bytes = b""

    def marked(self, token: str) -> NodeCommand:
        """The same, with a mark in the environment of every process that it starts."""
        return replace(self, env={**self.env, TOKEN_VARIABLE: token})

    def under(self, script: str, *arguments: str) -> NodeCommand:
        """The same, started by a bash script: its own arguments come first, then this command."""
        return replace(self, argv=("bash", "-c", script, "bash", *arguments, *self.argv))


class EngineProcess(ABC):
    """A daemon without attached streams. If it is visible from here, polling it costs one read of /proc."""

    def __init__(self, ref: Mapping[str, Any]) -> None:
        self._ref = dict(ref)
        self._token = str(ref["token"])
        self._code: int | None = None
        self._here = recall(ref) if ref["pid"] else None

    @property
    def ref(self) -> dict[str, Any]:
        """The engine's id; token: mark in the environment; pid, birth: on this machine, else 0 and empty."""
        return self._ref | seen_as(self._here)

    @property
    def pid(self) -> int:
        return self._here.pid if self._here else 0

    @abstractmethod
    def alive(self) -> bool: ...

    @abstractmethod
    def exit_code(self) -> int | None: ...

    @abstractmethod
    def signal_here(self, process: LocalProcess, number: Signals) -> bool:
        """Signal it as a process of this machine; whether that was possible."""

    @abstractmethod
    def signal_inside(self, number: Signals) -> None:
        """Signal it by its mark, from inside the node."""

    def signal(self, number: Signals) -> None:
        if not self.alive() or (self._here is not None and self.signal_here(self._here, number)):
            return
        try:
            self.signal_inside(number)
        except LabError:
            if self.alive():
                raise

    def wait(self, timeout_s: float) -> bool:
        return ended_within(self.alive, timeout_s, _SEEN_HERE_S if self._here else _FROM_AFAR_S)


def seen_as(process: LocalProcess | None) -> dict[str, Any]:
    """pid and birth of a process as part of a `ref`; 0 and empty if it is not visible from here."""
    return dict(process.ref) if process else {"pid": 0, "birth": ""}
