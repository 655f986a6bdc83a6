"""Which instance a call is about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cephlab.lab.providers.lxd.server import Server


@dataclass(frozen=True)
class Where:
    """An instance by its project and name, the node's name for messages, and whether it runs a kernel of its own."""

    server: Server
    project: str
    instance: str
    node: str
    own_kernel: bool = False

    @property
    def sees_processes(self) -> bool:
        """Whether its processes can be found from here."""
        return self.server.sees_processes and not self.own_kernel

    @property
    def api(self) -> Any:
        return self.server.api(self.project).instances[self.instance]
