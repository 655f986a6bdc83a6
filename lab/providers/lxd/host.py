"""A node of the `lxd` provider: LXD's calls behind the seam that every host has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any

from cephlab.lab.base.errors import LabBroken, Unavailable
from cephlab.lab.base.process import Result
from cephlab.lab.providers import fileverbs
from cephlab.lab.providers.engine.host import EngineHost
from cephlab.lab.providers.engine.order import Order
from cephlab.lab.providers.engine.places import disk_file
from cephlab.lab.providers.host import Facts
from cephlab.lab.providers.lxd import execs, files, names, spawned
from cephlab.lab.providers.lxd.channel import ExecStreams
from cephlab.lab.providers.lxd.containers import Containers
from cephlab.lab.providers.lxd.kind import Kind
from cephlab.lab.providers.lxd.server import Server, status_of
from cephlab.lab.providers.lxd.spawned import LxdProcess
from cephlab.lab.providers.lxd.where import Where

_RUNNING = 103  # LXD's code for it
_NOT_FOUND = 404


@dataclass
class LxdHost(EngineHost):
    """One instance. mtu: of its interface, where it has to be set from inside."""

    server: Server
    project: str
    kind: Kind = field(default_factory=Containers)
    mtu: int | None = None

    @property
    def emulated(self) -> bool:
        return self.arch is not self.server.arch

    @property
    def instance(self) -> str:
        return names.instance_name(self.name)

    @property
    def where(self) -> Where:
        return Where(self.server, self.project, self.instance, self.name, self.kind.own_kernel)

    def execute(self, order: Order, timeout_s: float) -> Result:
        return execs.run(self.where, order, timeout_s)

    def start(self, order: Order, log: PurePosixPath) -> LxdProcess:
        return spawned.spawn(self.where, order, log)

    def find(self, ref: Mapping[str, Any]) -> LxdProcess:
        return LxdProcess(self.where, ref)

    def streams(self, order: Order) -> ExecStreams:
        return ExecStreams(self.where, order)

    def interactive(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, terminal: bool = True
    ) -> tuple[str, ...]:
        """Through the `lxc` command, which knows a socket by LXD_DIR; a machine elsewhere has no such short way.

        Without `--force-local` lxc asks the machine that its user made the default one, whichever that is.
        """
        socket = self.server.address.socket
        if socket is None:
            raise Unavailable(
                f"{self.name} is on {self.server.address.url}",
                "a terminal is possible on this machine's LXD only",
                f"lxc exec --project {self.project} REMOTE:{self.instance} -- {' '.join(argv)}",
            )
        options = ["--mode", "interactive" if terminal else "non-interactive"]
        options += [word for key, value in (env or {}).items() for word in ("--env", f"{key}={value}")]
        at = ("env", f"LXD_DIR={socket.parent}", "lxc", "--force-local", "--project", self.project)
        return (*at, "exec", *options, self.instance, "--", *argv)

    def push(self, source: Path | bytes, target: PurePosixPath, *, mode: int = 0o644) -> None:
        files.put(self.where, source, target, mode)

    def get(self, source: PurePosixPath, sink: IO[bytes]) -> None:
        files.get(self.where, source, sink)

    def disk(self, name: str) -> PurePosixPath:
        fileverbs.require_disk(self.name, name, self.disks)
        return disk_file(name)

    def facts(self) -> Facts:
        return self.kind.facts(self.where, self.node)

    def first_process(self) -> int:
        pid = int(self.server.get(f"looking at {self.name}", self.where.api.state)["pid"])
        if pid <= 0:
            raise LabBroken(f"{self.name} is down")
        return pid

    def up(self) -> bool:
        try:
            instance = self.server.get(f"looking at {self.name}", self.where.api)
        except LabBroken as error:
            if status_of(error) == _NOT_FOUND:
                return False
            raise
        return bool(instance["status_code"] == _RUNNING)
