"""An existing machine as a host: its agent is reached through a socket that ssh forwards."""

import io
import shlex
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.providers.agent.host import AgentAccess, AgentHost
from cephlab.lab.providers.agent.wire import AGENT
from cephlab.lab.providers.host import Host, require_disk
from cephlab.lab.providers.ssh.connection import SshConnection, no_forwarding
from cephlab.lab.spec.inventory import Machine

_REMOTE = Path(__file__).with_name("remote")
START = _REMOTE / "start.py"
SWEEP = _REMOTE / "sweep.py"
_SOCKET = "agent"


class SshHost(AgentHost):
    """A folder on a machine, with an agent that starts programs.

    above: the run's folder there; mark: in the environment of every process of this node; disks: files, by name.
    """

    def __init__(
        self,
        name: str,
        connection: SshConnection,
        *,
        above: PurePosixPath,
        mark: str,
        running: Callable[[], bool],
        disks: Sequence[str] = (),
    ) -> None:
        machine = connection.machine
        super().__init__(
            name,
            machine.arch,
            machine.cluster_address,
            emulated=False,
            directory=above / name,
            access=AgentAccess(lambda: connection.socket_to(self._socket), running),
        )
        self.connection = connection
        self._socket = str(self.directory / _SOCKET)
        self.mark = mark
        self.disks = {disk: self.directory / "disks" / disk for disk in disks}

    @property
    def machine(self) -> Machine:
        return self.connection.machine

    def begin(self, *, again: bool = False) -> None:
        """Start the agent in its folder, which must be new unless `again`."""
        folders = (str(self.directory.parent), str(self.directory))
        how = "again" if again else "new"
        self.connection.python(START, *folders, self._socket, self.mark, self.machine.path, how, stdin=agent_zip())

    def check(self) -> None:
        """LabBroken when the running agent cannot be reached through ssh, or the inventory is wrong."""
        try:
            self.greet()
        except LabBroken as error:
            raise no_forwarding(self.machine, error.detail) from error
        arch = self.run(("uname", "-m")).stdout.strip()
        if arch != self.arch.value:
            raise LabBroken(
                f"{self.machine.name} is not what the inventory says",
                f"architecture: got {arch} from `uname -m`, the inventory has {self.arch}",
                "correct `architecture` in the inventory",
            )

    def make_disk(self, name: str, size_bytes: int) -> None:
        path = self.directory / "disks" / name
        self.make_directory(path.parent)
        self.run(("truncate", "--size", str(size_bytes), str(path)))
        self.disks[name] = path

    def disk(self, name: str) -> PurePosixPath:
        require_disk(self.name, name, self.disks)
        return self.disks[name]

    def interactive(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, terminal: bool = True
    ) -> tuple[str, ...]:
        if not self.up():
            raise LabBroken(f"{self.name} is down", hint="start the node")
        words = ["env", *(f"{key}={value}" for key, value in (env or {}).items()), *argv]
        front = f"PATH={shlex.quote(self.machine.path)}:$PATH; export PATH; " if self.machine.path else ""
        return self.connection.interactive(f"{front}exec {shlex.join(words)}", terminal=terminal)

    @contextmanager
    def reaching(self, other: Host, path: PurePosixPath, near: PurePosixPath) -> Iterator[None]:
        """Makes `near`, a socket on this host that leads through this process to `path` on the other host."""
        if not isinstance(other, SshHost):
            raise LabBroken(f"{other.name} is not reached through ssh")
        with self.connection.far(str(near), other.connection.near(str(path))):
            yield

    def end_processes(self) -> list[str]:
        """Kill this node's processes, including the agent; returns what was killed."""
        self.hang_up()
        ended: list[str] = self.connection.python(SWEEP, self.mark, "", "")
        return ended

    def remove_all(self) -> list[str]:
        """Kill this node's processes and remove its folder, and the run's folder if it is then empty."""
        self.hang_up()
        removed: list[str] = self.connection.python(SWEEP, self.mark, str(self.directory), str(self.directory.parent))
        return removed


def agent_zip() -> bytes:
    """The agent as one file that Python can run."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path in sorted(AGENT.glob("*.py")):
            archive.write(path, path.name)
    return packed.getvalue()
