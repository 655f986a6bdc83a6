"""The seam to a machine of the lab: everything that touches one goes through `Host`."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Protocol, runtime_checkable

from cephlab.lab.base.process import Result
from cephlab.lab.spec.arch import Arch

__all__ = [
    "PRELOAD",
    "Channel",
    "Facts",
    "Host",
    "HostProcess",
    "OwnKernel",
    "Result",
    "cpu_time_distortion",
    "has_own_kernel",
    "lacks_aio",
    "preloading",
]

PRELOAD = "LD_PRELOAD"
"""Environment variable; hosts see to it that it reaches an emulated program and not its emulator."""


def preloading(libraries: Sequence[PurePosixPath], env: Mapping[str, str] | None = None) -> dict[str, str]:
    """An environment in which a program loads shared objects of its host first."""
    return {**(env or {}), **({PRELOAD: ":".join(map(str, libraries))} if libraries else {})}


@dataclass(frozen=True)
class Facts:
    """What a host is. emulated: its programs run through an emulator on this machine."""

    arch: Arch
    emulated: bool
    kernel: str
    cores: float
    memory_bytes: int


class HostProcess(Protocol):
    """A process on a host that outlives the cephlab process which started it."""

    @property
    def ref(self) -> dict[str, Any]:
        """JSON from which the host finds the process again (`Host.find`).

        Where `pid` is 0: `pid`, as the host's own kernel counts, or `token`, which marks it (lab/providers/marks.py).
        """
        ...

    @property
    def pid(self) -> int:
        """Process id on this machine, for its accounting under /proc; 0 where the host is elsewhere."""
        ...

    def alive(self) -> bool: ...
    def exit_code(self) -> int | None: ...
    def signal(self, number: signal.Signals) -> None: ...
    def wait(self, timeout_s: float) -> bool: ...


class Channel(Protocol):
    """A program on a host that answers one line for each line it is sent."""

    def ask(self, line: bytes, *, timeout_s: float) -> bytes: ...
    def alive(self) -> bool: ...
    def close(self) -> None: ...


@runtime_checkable
class OwnKernel(Protocol):
    """What a host has beyond the rest whose kernel is its own, emulated or not: all of Linux, asynchronous I/O too."""

    own_kernel: bool


def lacks_aio(host: Host) -> bool:
    """Whether an emulator of single programs is between the host's programs and this machine's kernel."""
    return host.emulated and not has_own_kernel(host)


def has_own_kernel(host: Host) -> bool:
    """Whether a host's kernel is neither this machine's nor shared with another host."""
    return isinstance(host, OwnKernel) and host.own_kernel


@runtime_checkable
class Distorting(Protocol):
    """What a host has beyond the rest whose programs take another CPU time than they would on a machine."""

    distortion: str


def cpu_time_distortion(host: Host) -> str:
    """Why the CPU time of a host's programs says nothing of hardware; empty where it does say something."""
    if host.emulated:
        return "emulated processors: the time is the emulator's"
    return host.distortion if isinstance(host, Distorting) else ""


class Host(Protocol):
    """One machine of the lab.

    A program is named as in the image: `ceph-osd`, `/usr/bin/rados`. Nothing goes through a shell.
    """

    @property
    def name(self) -> str: ...
    @property
    def arch(self) -> Arch: ...
    @property
    def address(self) -> str:
        """IPv4 address that the other hosts of the lab reach it under."""
        ...

    @property
    def directory(self) -> PurePosixPath:
        """Directory of this host's own, writable; short enough for sockets below it."""
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
        """Run and wait. cwd: its working directory, which exists; env: see also `preloading`.

        Raises CommandFailed, CommandTimedOut, LabBroken when the host is down.
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
        """Start a line server that ends with this cephlab process."""
        ...

    def interactive(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, terminal: bool = True
    ) -> tuple[str, ...]:
        """The command that, run on this machine's own streams, runs argv on the host.

        terminal: whether those streams are one. A shell started so finds the image's programs by their names.
        """
        ...

    def push(self, source: Path | bytes, target: PurePosixPath, *, mode: int = 0o644) -> None:
        """Copy a file or bytes to the host; directories above `target` are made."""
        ...

    def pull(self, source: PurePosixPath, target: Path) -> None:
        """Copy a file from the host; LabBroken when it is not there."""
        ...

    def read(self, source: PurePosixPath) -> bytes: ...
    def exists(self, path: PurePosixPath) -> bool: ...
    def make_directory(self, path: PurePosixPath) -> None: ...
    def remove(self, path: PurePosixPath) -> None:
        """Remove a file or a whole directory; nothing happens when it is not there."""
        ...

    def disk(self, name: str) -> PurePosixPath:
        """Path of an attached disk on the host; LabBroken when the disk is not in this host."""
        ...

    def facts(self) -> Facts: ...
    def up(self) -> bool: ...
