"""The interface to a machine of the lab: everything that touches one goes through `Host`."""

from __future__ import annotations

import io
import signal
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, Protocol, runtime_checkable

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.process import Result
from cephlab.lab.spec.arch import Arch

PRELOAD = "LD_PRELOAD"
"""Environment variable. Hosts pass it to an emulated program and not to its emulator."""


def preloading(libraries: Sequence[PurePosixPath], env: Mapping[str, str] | None = None) -> dict[str, str]:
    """An environment in which a program loads these shared objects of its host first."""
    return {**(env or {}), **({PRELOAD: ":".join(map(str, libraries))} if libraries else {})}


@dataclass(frozen=True)
class Facts:
    """Describes a host. emulated: its programs run through an emulator on this machine."""

    arch: Arch
    emulated: bool
    kernel: str
    cores: float
    memory_bytes: int


class HostProcess(Protocol):
    """A process on a host. It outlives the cephlab process that started it."""

    @property
    def ref(self) -> dict[str, Any]:
        """JSON from which the host finds the process again (`Host.find`).

        If the property `pid` is 0, it has the `pid` in the host's own kernel, or a `token` (lab/providers/marks.py).
        """
        ...

    @property
    def pid(self) -> int:
        """Process id on this machine, for accounting under /proc; 0 if the host is elsewhere."""
        ...

    def alive(self) -> bool: ...
    def exit_code(self) -> int | None: ...
    def signal(self, number: signal.Signals) -> None:
        """Send a signal to it and its children, unless it has ended."""
        ...

    def wait(self, timeout_s: float) -> bool: ...


class Channel(Protocol):
    """A program on a host that answers each line it is sent with one line."""

    def ask(self, line: bytes, *, timeout_s: float) -> bytes: ...
    def alive(self) -> bool: ...
    def close(self) -> None: ...


@runtime_checkable
class OwnKernel(Protocol):
    """A host with a kernel of its own, emulated or not: all of Linux, including asynchronous I/O."""

    own_kernel: bool


@runtime_checkable
class FilesHere(Protocol):
    """A host whose directory and disks are files of this machine, under the same paths."""

    files_here: bool


def files_are_here(host: Host) -> bool:
    """Whether another process of this machine can copy a host's files."""
    return isinstance(host, FilesHere) and host.files_here


def lacks_aio(host: Host) -> bool:
    """Whether a host's programs run under a user-mode emulator, which has no asynchronous I/O."""
    return host.emulated and not has_own_kernel(host)


def has_own_kernel(host: Host) -> bool:
    """Whether a host's kernel is neither this machine's nor shared with another host."""
    return isinstance(host, OwnKernel) and host.own_kernel


@runtime_checkable
class Distorting(Protocol):
    """A host whose programs take a different CPU time than on a real machine. distortion: why."""

    distortion: str


def cpu_time_distortion(host: Host) -> str:
    """Why the CPU time of a host's programs does not reflect hardware; empty if it is meaningful."""
    if host.emulated:
        return "emulated processors: the time is that of the emulator"
    return host.distortion if isinstance(host, Distorting) else ""


class Host(Protocol):
    """One machine of the lab. Programs are named as in the image (`ceph-osd`, `/usr/bin/rados`); no shell is used."""

    @property
    def name(self) -> str: ...
    @property
    def arch(self) -> Arch: ...
    @property
    def address(self) -> str:
        """IPv4 address under which the other hosts of the lab reach it."""
        ...

    @property
    def directory(self) -> PurePosixPath:
        """This host's own writable directory, with a path short enough for sockets in it."""
        ...

    @property
    def root(self) -> PurePosixPath:
        """Where programs on the host find the image's root: `/`, or the image's directory."""
        ...

    @property
    def emulated(self) -> bool:
        """Whether its programs run through an emulator."""
        ...

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
        """Run and wait. cwd: an existing directory; env: see also `preloading`.

        Raises CommandFailed, CommandTimedOut, or LabBroken when the host is down.
        """
        ...

    def spawn(
        self,
        argv: Sequence[str],
        *,
        log: PurePosixPath,
        env: Mapping[str, str] | None = None,
    ) -> HostProcess:
        """Start a daemon; outputs are appended to `log` on the host. env: see also `preloading`."""
        ...

    def find(self, ref: Mapping[str, Any]) -> HostProcess: ...

    def channel(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> Channel:
        """Start a program that answers line by line and ends with this cephlab process."""
        ...

    def interactive(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, terminal: bool = True
    ) -> tuple[str, ...]:
        """The command on this machine that runs argv on the host, connected to this machine's own streams.

        terminal: whether those streams are a terminal. A shell started this way finds the image's programs by name.
        """
        ...

    def push(self, source: Path | bytes, target: PurePosixPath, *, mode: int = 0o644) -> None:
        """Copy a file or bytes to the host. Missing directories above `target` are made."""
        ...

    def pull(self, source: PurePosixPath, target: Path) -> None:
        """Copy a file from the host; LabBroken when it does not exist."""
        ...

    def read(self, source: PurePosixPath) -> bytes: ...
    def exists(self, path: PurePosixPath) -> bool: ...
    def make_directory(self, path: PurePosixPath) -> None: ...
    def remove(self, path: PurePosixPath) -> None:
        """Remove a file or a whole directory, if it exists."""
        ...

    def disk(self, name: str) -> PurePosixPath:
        """Path of an attached disk on the host; LabBroken when the disk is not in this host."""
        ...

    def facts(self) -> Facts: ...
    def up(self) -> bool: ...


Get = Callable[[IO[bytes]], None]
"""Writes the content of one file of a node into its argument."""


def pull_into(get: Get, target: Path) -> None:
    """Copy into a file of this machine. No partial file is left after an error."""
    try:
        with target.open("wb") as sink:
            get(sink)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def content_of(get: Get) -> bytes:
    """The whole of a file."""
    sink = io.BytesIO()
    get(sink)
    return sink.getvalue()


_CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 1).close()"


def reaches(host: Host, address: str, port: int) -> bool:
    """Whether something listens at an address: tries to connect from this host, with a timeout of 1 s."""
    return host.run(["python3", "-c", _CONNECT, address, str(port)], check=False).code == 0


def require_disk(host: str, name: str, disks: Collection[str]) -> None:
    """LabBroken when the disk is not in the host."""
    if name not in disks:
        raise LabBroken(f"disk {name!r} is not in {host}", f"its disks: {', '.join(disks) or 'none'}")
