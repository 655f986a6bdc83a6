"""A command for an engine to run inside a node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from cephlab.lab.providers.marks import TOKEN_VARIABLE


@dataclass(frozen=True)
class NodeCommand:
    """argv and its surroundings. stdin: the whole input; cwd: None leaves the choice to the engine."""

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
