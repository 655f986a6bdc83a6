"""A program that an engine is asked to run inside a node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from cephlab.lab.providers.marks import TOKEN_VARIABLE


@dataclass(frozen=True)
class Order:
    """What to run, and in what. stdin: all of its input; cwd: None is the engine's choice."""

    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: PurePosixPath | None = None
    stdin: bytes = b""

    @property
    def program(self) -> str:
        return self.argv[0]

    def marked(self, token: str) -> Order:
        """The same, with a mark by which all that it starts is found."""
        return replace(self, env={**self.env, TOKEN_VARIABLE: token})

    def under(self, script: str, *arguments: str) -> Order:
        """The same, started by a script of bash, whose own arguments come before the program's words."""
        return replace(self, argv=("bash", "-c", script, "bash", *arguments, *self.argv))
