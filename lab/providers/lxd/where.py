"""Which instance a call is about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lab.providers.lxd.server import Server


@dataclass(frozen=True)
class Where:
    """An instance by its project and name, and the node's name for messages."""

    server: Server
    project: str
    instance: str
    node: str

    @property
    def api(self) -> Any:
        return self.server.api(self.project).instances[self.instance]
