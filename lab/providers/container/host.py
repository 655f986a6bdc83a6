"""A node of the `container` provider: the engine's calls behind the seam that every host has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any

import docker.errors

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.process import Result
from cephlab.lab.providers import fileverbs
from cephlab.lab.providers.container import execs, files, names, spawned
from cephlab.lab.providers.container.channel import ExecStreams
from cephlab.lab.providers.container.engine import Engine, engine_errors
from cephlab.lab.providers.container.execs import Where
from cephlab.lab.providers.container.spawned import ContainerProcess
from cephlab.lab.providers.engine.host import EngineHost
from cephlab.lab.providers.engine.order import Order
from cephlab.lab.providers.engine.places import disk_file
from cephlab.lab.providers.host import Facts


@dataclass
class ContainerHost(EngineHost):
    """One container. devices: loop devices of the disks that have one."""

    engine: Engine
    container: str
    devices: dict[str, Path] = field(default_factory=dict)

    @property
    def emulated(self) -> bool:
        return self.arch is not self.engine.arch

    @property
    def _where(self) -> Where:
        return Where(self.engine.client, self.container, self.name, self.engine.local, self.engine.kind == "podman")

    def execute(self, order: Order, timeout_s: float) -> Result:
        return execs.run(self._where, order, timeout_s)

    def start(self, order: Order, log: PurePosixPath) -> ContainerProcess:
        return spawned.spawn(self._where, order, log)

    def find(self, ref: Mapping[str, Any]) -> ContainerProcess:
        return ContainerProcess(self._where, ref)

    def streams(self, order: Order) -> ExecStreams:
        return ExecStreams(self._where, order)

    def interactive(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, terminal: bool = True
    ) -> tuple[str, ...]:
        endpoint = ("--host", self.engine.endpoint) if self.engine.kind == "docker" else ()
        options = ["--interactive", *(["--tty"] if terminal else [])]
        options += [f"--env={key}={value}" for key, value in (env or {}).items()]
        return (self.engine.kind, *endpoint, "exec", *options, self.container, *argv)

    def push(self, source: Path | bytes, target: PurePosixPath, *, mode: int = 0o644) -> None:
        files.put(self._where, source, target, mode)

    def get(self, source: PurePosixPath, sink: IO[bytes]) -> None:
        files.get(self._where, source, sink)

    def disk(self, name: str) -> PurePosixPath:
        fileverbs.require_disk(self.name, name, self.disks)
        return names.disk_device(name) if name in self.devices else disk_file(name)

    def facts(self) -> Facts:
        info = self.engine.info
        return Facts(
            arch=self.arch,
            emulated=self.emulated,
            kernel=str(info["KernelVersion"]),
            cores=self.node.cores or float(info["NCPU"]),
            memory_bytes=self.node.memory_bytes or int(info["MemTotal"]),
        )

    def up(self) -> bool:
        try:
            return bool(self._state()["Running"])
        except LabBroken as error:
            if isinstance(error.__cause__, docker.errors.NotFound):
                return False
            raise

    def first_process(self) -> int:
        pid = int(self._state()["Pid"])
        if pid == 0:
            raise LabBroken(f"{self.name} is down")
        return pid

    def _state(self) -> dict[str, Any]:
        with engine_errors(f"looking at {self.name}"):
            return dict(self.engine.client.api.inspect_container(self.container)["State"])
