"""A guest as a host. Its agent is on the run's own network, where only the network's keeper can connect to it."""

import json
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from cephlab.lab.base.process import LocalProcess
from cephlab.lab.providers.agent.host import AgentAccess, AgentHost
from cephlab.lab.providers.agent.wire import PORT
from cephlab.lab.providers.host import require_disk
from cephlab.lab.spec.clusterspec import Node

NODE_DIRECTORY = PurePosixPath("/cephlab/node")
DISKS_DIRECTORY = PurePosixPath("/dev/cephlab")
_ATTACH = Path(__file__).with_name("attach.py")


@dataclass(frozen=True)
class Endpoint:
    """Where a guest's agent listens. keeper: the folder of the network's keeper."""

    keeper: Path
    address: str
    port: int = PORT


class GuestHost(AgentHost):
    """One guest. index: its place on the network; disks: name -> slot; process: runs the machine.

    The lab sets disks, process and distortion (see `Hypervisor.distortion`).
    """

    distortion = ""

    def __init__(
        self, node: Node, index: int, address: str, *, emulated: bool, access: AgentAccess, endpoint: Endpoint
    ) -> None:
        super().__init__(node.name, node.arch, address, emulated=emulated, directory=NODE_DIRECTORY, access=access)
        self.node = node
        self.index = index
        self.disks: dict[str, int] = {}
        self.process: LocalProcess | None = None
        self.killing = threading.Lock()
        self._endpoint = endpoint

    def running(self) -> bool:
        return self.process is not None and self.process.alive()

    def interactive(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, terminal: bool = True
    ) -> tuple[str, ...]:
        request = {"argv": list(argv), "env": dict(env or {}), "terminal": terminal}
        at = self._endpoint
        return (sys.executable, "-I", str(_ATTACH), str(at.keeper), at.address, str(at.port), json.dumps(request))

    def disk(self, name: str) -> PurePosixPath:
        require_disk(self.name, name, self.disks)
        return DISKS_DIRECTORY / name
