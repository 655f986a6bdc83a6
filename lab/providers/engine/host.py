"""A node in an engine: the calls of a host, built on the few calls that each engine implements."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, ClassVar

from cephlab.lab.base.process import Result
from cephlab.lab.providers.dialogue import LineServer, Streams
from cephlab.lab.providers.engine import places
from cephlab.lab.providers.engine.process import EngineProcess, NodeCommand
from cephlab.lab.providers.host import content_of, pull_into
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import Disk, Node


@dataclass
class EngineHost(ABC):
    """One node. disks: those in the node now."""

    node: Node
    address: str
    disks: dict[str, Disk]
    directory: ClassVar = places.NODE_DIRECTORY
    root: ClassVar = PurePosixPath("/")

    # What each engine implements.

    @abstractmethod
    def execute(self, command: NodeCommand, timeout_s: float) -> Result:
        """Run to the end. The status is the command's own, or 128 plus the number of the signal that ended it.

        Raises CommandTimedOut after killing everything that the command started, LabBroken when the node is down.
        """

    @abstractmethod
    def start(self, command: NodeCommand, log: PurePosixPath) -> EngineProcess: ...

    @abstractmethod
    def find(self, ref: Mapping[str, Any]) -> EngineProcess: ...

    @abstractmethod
    def streams(self, command: NodeCommand) -> Streams: ...

    @abstractmethod
    def get(self, source: PurePosixPath, sink: IO[bytes]) -> None:
        """Copy a regular file into `sink`, following links. LabBroken when there is no such file."""

    @abstractmethod
    def up(self) -> bool: ...

    @abstractmethod
    def first_process(self) -> int:
        """Process id of the node's first process on the engine's machine; LabBroken when the node is down."""

    # What is built on that.

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def arch(self) -> Arch:
        return self.node.arch

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 60.0,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        check: bool = True,
        cwd: PurePosixPath | None = None,
    ) -> Result:
        result = self.execute(NodeCommand(argv, env or {}, cwd, stdin), timeout_s)
        return result.checked(self.name) if check else result

    def spawn(self, argv: Sequence[str], *, log: PurePosixPath, env: Mapping[str, str] | None = None) -> EngineProcess:
        return self.start(NodeCommand(argv, env or {}), log)

    def channel(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> LineServer:
        return LineServer(self.streams(NodeCommand(argv, env or {})), argv, self.name)

    def pull(self, source: PurePosixPath, target: Path) -> None:
        pull_into(partial(self.get, source), target)

    def read(self, source: PurePosixPath) -> bytes:
        return content_of(partial(self.get, source))

    def exists(self, path: PurePosixPath) -> bool:
        return self.run(("test", "-e", str(path)), check=False).code == 0

    def make_directory(self, path: PurePosixPath) -> None:
        self.run(("mkdir", "-p", "--", str(path)))

    def remove(self, path: PurePosixPath) -> None:
        self.run(("rm", "-rf", "--", str(path)))
