"""dm-log-writes: logs every write to a device in the order of flushes, so that writes can be replayed up to any flush.

Source: the kernel's Documentation/admin-guide/device-mapper/log-writes.rst.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from cephlab.lab.blockstack.mapper import Mapper
from cephlab.lab.providers.host import Host

PROGRAM = Path(__file__).with_name("replay_program.py")
MODULE = "dm-log-writes"
_REPLAY_S = 300.0


@dataclass(frozen=True)
class Survey:
    """Contents of a log. written_bytes: bytes of data; flushes: entries with a flush or FUA; marks: name -> index."""

    entries: int
    written_bytes: int
    flushes: int
    marks: Mapping[str, int]


@dataclass(frozen=True)
class LoggedDevice:
    """A device whose writes also go to a log."""

    host: Host
    name: str
    origin: PurePosixPath
    log: PurePosixPath

    @property
    def path(self) -> PurePosixPath:
        return Mapper.path(self.name)

    def create(self) -> None:
        """Make `path`: writes to it go to the origin and to the log, which must be empty (zeros)."""
        self.host.run(["modprobe", MODULE])
        mapper = Mapper(self.host)
        mapper.create(self.name, f"0 {mapper.sectors(self.origin)} log-writes {self.origin} {self.log}")

    def mark(self, text: str) -> None:
        """Put a mark into the log: every flush acknowledged so far comes before it."""
        Mapper(self.host).message(self.name, f"mark {text}")

    def remove(self) -> None:
        """Remove `path`, which no program may have open; the log is then complete."""
        Mapper(self.host).remove(self.name)


@dataclass(frozen=True)
class Replay:
    """A log, and the device that it is replayed onto: a copy of the origin from before the log."""

    host: Host
    log: PurePosixPath
    target: PurePosixPath

    def survey(self) -> Survey:
        """Read through the log; CommandFailed if the device holds none."""
        report = json.loads(self._run())
        return Survey(report["entries"], report["bytes"], report["flushes"], report["marks"])

    def forward(self, first: int, until: int) -> None:
        """Replay the entries first <= index < until."""
        self._run(str(self.target), str(first), str(until))

    def _run(self, *arguments: str) -> str:
        program = self.host.directory / PROGRAM.name
        self.host.push(PROGRAM.read_bytes(), program)
        return self.host.run(["python3", str(program), str(self.log), *arguments], timeout_s=_REPLAY_S).stdout


def copy_device(host: Host, source: PurePosixPath, target: PurePosixPath) -> None:
    """Copy a whole device to an empty one; zeros are skipped."""
    argv = ["dd", f"if={source}", f"of={target}", "bs=1M", "conv=sparse,fsync", "status=none"]
    host.run(argv, timeout_s=_REPLAY_S)
