"""A node of the `container` provider: the engine's calls as a host."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.process import Result
from cephlab.lab.providers.container import execs, files, names, spawned
from cephlab.lab.providers.container.engine import Engine, engine_errors
from cephlab.lab.providers.container.execs import ContainerRef, ContainerStreams
from cephlab.lab.providers.container.spawned import ContainerProcess
from cephlab.lab.providers.engine.answers import NotThere
from cephlab.lab.providers.engine.host import EngineHost
from cephlab.lab.providers.engine.places import disk_file
from cephlab.lab.providers.engine.process import NodeCommand
from cephlab.lab.providers.host import Facts, require_disk


@dataclass
class ContainerHost(EngineHost):
    """One container. devices: the loop devices of those disks that have one."""

    engine: Engine
    container: str
    devices: dict[str, Path] = field(default_factory=dict)

    @property
    def emulated(self) -> bool:
        return self.arch is not self.engine.arch

    @property
    def _ref(self) -> ContainerRef:
        podman = self.engine.kind == "podman"
        return ContainerRef(self.engine.client, self.container, self.name, self.engine.local, podman)

    def execute(self, command: NodeCommand, timeout_s: float) -> Result:
        return execs.run(self._ref, command, timeout_s)

    def start(self, command: NodeCommand, log: PurePosixPath) -> ContainerProcess:
        return spawned.spawn(self._ref, command, log)

    def find(self, ref: Mapping[str, Any]) -> ContainerProcess:
        return ContainerProcess(self._ref, ref)

    def streams(self, command: NodeCommand) -> ContainerStreams:
        return ContainerStreams(self._ref, command)

    def interactive(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, terminal: bool = True
    ) -> tuple[str, ...]:
        endpoint = ("--host", self.engine.endpoint) if self.engine.kind == "docker" else ()
        options = ["--interactive", *(["--tty"] if terminal else [])]
        options += [f"--env={key}={value}" for key, value in (env or {}).items()]
        return (self.engine.kind, *endpoint, "exec", *options, self.container, *argv)

    def push(self, source: Path | bytes, target: PurePosixPath, *, mode: int = 0o644) -> None:
        files.put(self._ref, source, target, mode)

    def get(self, source: PurePosixPath, sink: IO[bytes]) -> None:
        files.get(self._ref, source, sink)

    def disk(self, name: str) -> PurePosixPath:
        require_disk(self.name, name, self.disks)
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
        except NotThere:
            return False

    def first_process(self) -> int:
        pid = int(self._state()["Pid"])
        if pid == 0:
            raise LabBroken(f"{self.name} is down")
        return pid

    def _state(self) -> dict[str, Any]:
        with engine_errors(f"inspecting {self.name}"):
            return dict(self.engine.client.api.inspect_container(self.container)["State"])
