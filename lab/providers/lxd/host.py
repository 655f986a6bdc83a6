"""A node of the `lxd` provider: LXD's calls behind the seam that every host has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from lab.arch import Arch
from lab.errors import LabBroken, Unavailable
from lab.host import Facts
from lab.process import Result
from lab.providers import fileverbs
from lab.providers.lines import LineServer
from lab.providers.lxd import execs, files, names, spawned
from lab.providers.lxd.channel import open_channel
from lab.providers.lxd.containers import Containers
from lab.providers.lxd.kind import Kind
from lab.providers.lxd.server import Server, status_of
from lab.providers.lxd.spawned import LxdProcess
from lab.providers.lxd.where import Where
from lab.spec import Disk, Node

_RUNNING = 103  # LXD's code for it
_NOT_FOUND = 404


@dataclass
class LxdHost:
    """One instance. disks: those in the node now; mtu: of its interface, where it has to be set from inside."""

    server: Server
    project: str
    node: Node
    address: str
    disks: dict[str, Disk]
    kind: Kind = field(default_factory=Containers)
    mtu: int | None = None

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
        return self.arch is not self.server.arch

    @property
    def instance(self) -> str:
        return names.instance_name(self.name)

    @property
    def where(self) -> Where:
        return Where(self.server, self.project, self.instance, self.name, self.kind.own_kernel)

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
            self.where,
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
    ) -> LxdProcess:
        return spawned.spawn(self.where, argv, log=log, env=fileverbs.with_preload(env, preload))

    def find(self, ref: Mapping[str, Any]) -> LxdProcess:
        return LxdProcess(self.where, ref)

    def channel(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> LineServer:
        return open_channel(self.where, argv, dict(env or {}))

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
                "a terminal is had on this machine's LXD only",
                f"lxc exec --project {self.project} REMOTE:{self.instance} -- {' '.join(argv)}",
            )
        options = ["--mode", "interactive" if terminal else "non-interactive"]
        options += [word for key, value in (env or {}).items() for word in ("--env", f"{key}={value}")]
        at = ("env", f"LXD_DIR={socket.parent}", "lxc", "--force-local", "--project", self.project)
        return (*at, "exec", *options, self.instance, "--", *argv)

    def push(self, source: Path | bytes, target: PurePosixPath, *, mode: int = 0o644) -> None:
        files.put(self.where, source, target, mode)

    def pull(self, source: PurePosixPath, target: Path) -> None:
        fileverbs.pull(partial(files.get, self.where, source), target)

    def read(self, source: PurePosixPath) -> bytes:
        return fileverbs.read(partial(files.get, self.where, source))

    def exists(self, path: PurePosixPath) -> bool:
        return fileverbs.exists(self, path)

    def make_directory(self, path: PurePosixPath) -> None:
        fileverbs.make_directory(self, path)

    def remove(self, path: PurePosixPath) -> None:
        fileverbs.remove(self, path)

    def disk(self, name: str) -> PurePosixPath:
        fileverbs.require_disk(self.name, name, self.disks)
        return names.disk_file(name)

    def facts(self) -> Facts:
        return self.kind.facts(self.where, self.node)

    def first_process(self) -> int:
        """Process id of the instance's first process on LXD's machine; LabBroken when it is down."""
        pid = int(self.server.get(f"looking at {self.name}", self.where.api.state)["pid"])
        if pid <= 0:
            raise LabBroken(f"{self.name} is down")
        return pid

    def up(self) -> bool:
        try:
            found = self.server.get(f"looking at {self.name}", self.where.api)
        except LabBroken as error:
            if status_of(error) == _NOT_FOUND:
                return False
            raise
        return bool(found["status_code"] == _RUNNING)
