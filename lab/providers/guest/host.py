"""A guest as a host: its agent is on the run's own network, which only the network's keeper can connect to."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from cephlab.lab.providers import fileverbs
from cephlab.lab.providers.agent.host import AgentHost, Way
from cephlab.lab.providers.agent.wire import PORT
from cephlab.lab.spec.arch import Arch

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
    """Its disks (name -> slot) are the lab's to say, and what kind of machine it is: see `Machines.distortion`."""

    distortion = ""

    def __init__(self, name: str, arch: Arch, address: str, *, emulated: bool, way: Way, endpoint: Endpoint) -> None:
        super().__init__(name, arch, address, emulated=emulated, directory=NODE_DIRECTORY, way=way)
        self.disks: dict[str, int] = {}
        self._endpoint = endpoint

    def interactive(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, terminal: bool = True
    ) -> tuple[str, ...]:
        order = {"argv": list(argv), "env": dict(env or {}), "terminal": terminal}
        at = self._endpoint
        return (sys.executable, "-I", str(_ATTACH), str(at.keeper), at.address, str(at.port), json.dumps(order))

    def disk(self, name: str) -> PurePosixPath:
        fileverbs.require_disk(self.name, name, self.disks)
        return DISKS_DIRECTORY / name
