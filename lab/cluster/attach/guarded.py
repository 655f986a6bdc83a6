"""Hosts as a scenario gets them: whatever it does on a machine, or asks of Ceph from there, passes the guard first."""

from __future__ import annotations

import errno
import json
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from lab.arch import Arch
from lab.attach.guard import Guard, NotPermitted
from lab.errors import LabBroken, Unavailable
from lab.host import Channel, Facts, Host, HostProcess, Result
from lab.providers.guest.wire import Refused
from lab.providers.ssh.host import SshHost

AGENT = "agent.py"
"""The client's agent, below a host's own directory (see RadosClient)."""

_ADMIN = ("client.admin", "--name=client.admin", "--id=admin", "--clientname=admin")
_ADMIN_VARIABLE = {"CEPH_CLIENT_ID": "admin"}


def not_installed(error: LabBroken) -> bool:
    """Whether a program could not be started because the machine does not have it."""
    cause = error.__cause__
    return isinstance(cause, Refused) and cause.errno == errno.ENOENT


class GuardedChannel:
    """A client's agent, whose every request is judged before it is sent."""

    def __init__(self, channel: Channel, guard: Guard) -> None:
        self._channel = channel
        self._guard = guard

    def ask(self, line: bytes, *, timeout_s: float) -> bytes:
        self._guard.request(json.loads(line))
        return self._channel.ask(line, timeout_s=timeout_s)

    def alive(self) -> bool:
        return self._channel.alive()

    def close(self) -> None:
        self._channel.close()


class GuardedHost:
    """A machine of a cluster that exists.

    Below its own directory, which the run made, anything may be read and written. Programs run, and files elsewhere are
    looked at, where the list names the machine; the guard's clients run wherever they can.
    """

    def __init__(self, host: Host, guard: Guard) -> None:
        self._host = host
        self._guard = guard

    @property
    def name(self) -> str:
        return self._host.name

    @property
    def arch(self) -> Arch:
        return self._host.arch

    @property
    def address(self) -> str:
        return self._host.address

    @property
    def directory(self) -> PurePosixPath:
        return self._host.directory

    @property
    def root(self) -> PurePosixPath:
        return self._host.root

    @property
    def emulated(self) -> bool:
        return self._host.emulated

    @property
    def own_kernel(self) -> bool:
        """A machine has one (see OwnKernel)."""
        return True

    # Programs

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
        self._program(argv, env)
        try:
            return self._host.run(
                argv, timeout_s=timeout_s, stdin=stdin, env=env, check=check, preload=preload, cwd=cwd
            )
        except LabBroken as error:
            raise self._missing(argv[0], error) from error

    def spawn(
        self,
        argv: Sequence[str],
        *,
        log: PurePosixPath,
        env: Mapping[str, str] | None = None,
        preload: Sequence[PurePosixPath] = (),
    ) -> HostProcess:
        self._program(argv, env)
        self._file(log, f"writing {log}")
        try:
            return self._host.spawn(argv, log=log, env=env, preload=preload)
        except LabBroken as error:
            raise self._missing(argv[0], error) from error

    def find(self, ref: Mapping[str, Any]) -> HostProcess:
        return self._host.find(ref)

    def channel(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> Channel:
        if self.is_agent(argv):
            return GuardedChannel(self._host.channel(argv, env=env), self._guard)
        self._program(argv, env)
        return self._host.channel(argv, env=env)

    def interactive(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, terminal: bool = True
    ) -> tuple[str, ...]:
        self._program(argv, env)
        return self._host.interactive(argv, env=env, terminal=terminal)

    @contextmanager
    def reaching(self, other: Host, path: PurePosixPath, near: PurePosixPath) -> Iterator[None]:
        """As a machine's own (see lab/workloads/fioserver.py), between machines of the list."""
        if not isinstance(other, GuardedHost):
            raise NotPermitted(f"reaching {other.name}, which is no machine of its inventory")
        for host, place in ((other, path), (self, near)):
            host._program((f"a socket at {place}",), None)
        self._file(near, f"making {near}")
        if not isinstance(self._host, SshHost):
            raise LabBroken(f"{self.name} is entered without ssh")
        with self._host.reaching(other._host, path, near):
            yield

    def is_agent(self, argv: Sequence[str]) -> bool:
        """Whether a command is a client's agent."""
        return tuple(argv[:2]) == ("python3", str(self.directory / AGENT))

    def _program(self, argv: Sequence[str], env: Mapping[str, str] | None) -> None:
        self._guard.program(self.name, argv[0])
        if _ADMIN_VARIABLE.items() <= dict(env or {}).items() or any(word in _ADMIN for word in argv):
            raise NotPermitted(f"{argv[0]} on {self.name} as client.admin, whom nothing limits")

    def _missing(self, program: str, error: LabBroken) -> LabBroken | Unavailable:
        """A program that a machine does not have is a capability that is missing, not a broken lab."""
        if not_installed(error):
            what = f"{self.name} of the attached cluster has no program {program}"
            return Unavailable(what, error.detail, f"install the package that has it on {self.name}")
        return error

    # Files

    def push(self, source: Path | bytes, target: PurePosixPath, *, mode: int = 0o644) -> None:
        self._file(target, f"writing {target}")
        self._host.push(source, target, mode=mode)

    def pull(self, source: PurePosixPath, target: Path) -> None:
        self._file(source, f"reading {source}")
        self._host.pull(source, target)

    def read(self, source: PurePosixPath) -> bytes:
        self._file(source, f"reading {source}")
        return self._host.read(source)

    def exists(self, path: PurePosixPath) -> bool:
        self._file(path, f"looking for {path}")
        return self._host.exists(path)

    def make_directory(self, path: PurePosixPath) -> None:
        self._file(path, f"making {path}")
        self._host.make_directory(path)

    def remove(self, path: PurePosixPath) -> None:
        self._file(path, f"removing {path}")
        self._host.remove(path)

    def _file(self, path: PurePosixPath, what: str) -> None:
        """Below the run's own directory files are the run's; links are its own doing."""
        plain = PurePosixPath(posixpath.normpath(path))
        if not plain.is_relative_to(self.directory):
            self._guard.program(self.name, what)

    # The machine

    def disk(self, name: str) -> PurePosixPath:
        return PurePosixPath(self._guard.disk(self.name, name))

    def facts(self) -> Facts:
        return self._host.facts()

    def up(self) -> bool:
        return self._host.up()
