"""A node of the `container` provider: the engine's calls behind the seam that every host has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import docker.errors

from lab.arch import Arch
from lab.errors import LabBroken
from lab.host import Facts
from lab.process import Result
from lab.providers import fileverbs
from lab.providers.container import execs, files, names, spawned
from lab.providers.container.channel import open_channel
from lab.providers.container.engine import Engine, engine_errors
from lab.providers.container.execs import Where
from lab.providers.container.spawned import ContainerProcess
from lab.providers.lines import LineServer
from lab.spec import Disk, Node


@dataclass
class ContainerHost:
    """One container. disks: those in the node now. devices: loop devices of those that have one."""

    engine: Engine
    container: str
    node: Node
    address: str
    disks: dict[str, Disk]
    devices: dict[str, Path] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def arch(self) -> Arch:
        return self.node.arch

    @property
    def directory(self) -> PurePosixPath:
        return names.NODE_DIRECTORY

    @property
    def root(self) -> PurePosixPath:
        return PurePosixPath("/")

    @property
    def emulated(self) -> bool:
        return self.arch is not self.engine.arch

    @property
    def _where(self) -> Where:
        return Where(self.engine.client, self.container, self.name, self.engine.local, self.engine.kind == "podman")

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 60.0,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        check: bool = True,
        preload: Sequence[PurePosixPath] = (),
        cwd: PurePosixPath | None = None,
    ) -> Result:
        return execs.run(
            self._where,
            argv,
            timeout_s=timeout_s,
            stdin=stdin,
            env=fileverbs.with_preload(env, preload),
            check=check,
            cwd=cwd,
        )

    def spawn(
        self,
        argv: Sequence[str],
        *,
        log: PurePosixPath,
        env: Mapping[str, str] | None = None,
        preload: Sequence[PurePosixPath] = (),
    ) -> ContainerProcess:
        return spawned.spawn(self._where, argv, log=log, env=fileverbs.with_preload(env, preload))

    def find(self, ref: Mapping[str, Any]) -> ContainerProcess:
        return ContainerProcess(self._where, ref)

    def channel(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> LineServer:
        return open_channel(self._where, argv, dict(env or {}))

    def interactive(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, terminal: bool = True
    ) -> tuple[str, ...]:
        endpoint = ("--host", self.engine.endpoint) if self.engine.kind == "docker" else ()
        options = ["--interactive", *(["--tty"] if terminal else [])]
        options += [f"--env={key}={value}" for key, value in (env or {}).items()]
        return (self.engine.kind, *endpoint, "exec", *options, self.container, *argv)

    def push(self, source: Path | bytes, target: PurePosixPath, *, mode: int = 0o644) -> None:
        files.put(self._where, source, target, mode)

    def pull(self, source: PurePosixPath, target: Path) -> None:
        fileverbs.pull(partial(files.get, self._where, source), target)

    def read(self, source: PurePosixPath) -> bytes:
        return fileverbs.read(partial(files.get, self._where, source))

    def exists(self, path: PurePosixPath) -> bool:
        return fileverbs.exists(self, path)

    def make_directory(self, path: PurePosixPath) -> None:
        fileverbs.make_directory(self, path)

    def remove(self, path: PurePosixPath) -> None:
        fileverbs.remove(self, path)

    def disk(self, name: str) -> PurePosixPath:
        fileverbs.require_disk(self.name, name, self.disks)
        return names.disk_device(name) if name in self.devices else names.disk_file(name)

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
            with engine_errors(f"looking at {self.name}"):
                return bool(self.engine.client.api.inspect_container(self.container)["State"]["Running"])
        except LabBroken as error:
            if isinstance(error.__cause__, docker.errors.NotFound):
                return False
            raise
