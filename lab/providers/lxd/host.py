"""A node of the `lxd` providers: LXD's calls as a host."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any

from cephlab.lab.base.errors import LabBroken, Unavailable
from cephlab.lab.base.process import Result
from cephlab.lab.providers.engine.answers import NotThere
from cephlab.lab.providers.engine.host import EngineHost
from cephlab.lab.providers.engine.places import disk_file
from cephlab.lab.providers.engine.process import NodeCommand
from cephlab.lab.providers.host import Facts, require_disk
from cephlab.lab.providers.lxd import execs, files, names, spawned
from cephlab.lab.providers.lxd.channel import InstanceStreams
from cephlab.lab.providers.lxd.containers import Containers
from cephlab.lab.providers.lxd.kind import InstanceKind
from cephlab.lab.providers.lxd.server import RUNNING, InstanceRef, Server
from cephlab.lab.providers.lxd.spawned import LxdProcess


@dataclass
class LxdHost(EngineHost):
    """One instance. mtu: of its interface, if it must be set from inside."""

    server: Server
    project: str
    kind: InstanceKind = field(default_factory=Containers)
    mtu: int | None = None

    @property
    def emulated(self) -> bool:
        return self.arch is not self.server.arch

    @property
    def instance(self) -> str:
        return names.instance_name(self.name)

    @property
    def instance_ref(self) -> InstanceRef:
        return InstanceRef(self.server, self.project, self.instance, self.name, self.kind.own_kernel)

    def execute(self, command: NodeCommand, timeout_s: float) -> Result:
        return execs.run(self.instance_ref, command, timeout_s)

    def start(self, command: NodeCommand, log: PurePosixPath) -> LxdProcess:
        return spawned.spawn(self.instance_ref, command, log)

    def find(self, ref: Mapping[str, Any]) -> LxdProcess:
        return LxdProcess(self.instance_ref, ref)

    def streams(self, command: NodeCommand) -> InstanceStreams:
        return InstanceStreams(self.instance_ref, command)

    def interactive(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, terminal: bool = True
    ) -> tuple[str, ...]:
        """Uses the `lxc` command, which finds a local socket by LXD_DIR and no other machine.

        Without `--force-local`, lxc asks the remote that its user made the default.
        """
        socket = self.server.address.socket
        if socket is None:
            raise Unavailable(
                f"{self.name} is on {self.server.address.url}",
                "a terminal is possible only on this machine's LXD",
                f"lxc exec --project {self.project} REMOTE:{self.instance} -- {' '.join(argv)}",
            )
        options = ["--mode", "interactive" if terminal else "non-interactive"]
        options += [word for key, value in (env or {}).items() for word in ("--env", f"{key}={value}")]
        at = ("env", f"LXD_DIR={socket.parent}", "lxc", "--force-local", "--project", self.project)
        return (*at, "exec", *options, self.instance, "--", *argv)

    def push(self, source: Path | bytes, target: PurePosixPath, *, mode: int = 0o644) -> None:
        files.put(self.instance_ref, source, target, mode)

    def get(self, source: PurePosixPath, sink: IO[bytes]) -> None:
        files.get(self.instance_ref, source, sink)

    def disk(self, name: str) -> PurePosixPath:
        require_disk(self.name, name, self.disks)
        return disk_file(name)

    def facts(self) -> Facts:
        return self.kind.facts(self.instance_ref, self.node)

    def first_process(self) -> int:
        pid = int(self.server.get(f"inspecting {self.name}", self.instance_ref.api.state)["pid"])
        if pid <= 0:
            raise LabBroken(f"{self.name} is down")
        return pid

    def up(self) -> bool:
        try:
            instance = self.server.get(f"inspecting {self.name}", self.instance_ref.api)
        except NotThere:
            return False
        return bool(instance["status_code"] == RUNNING)
