"""Hosts for scenarios on an existing cluster. The guard judges every step on a machine and every Ceph command."""

import errno
import json
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from cephlab.lab.base.errors import LabBroken, Unavailable
from cephlab.lab.base.process import Result
from cephlab.lab.ceph.client import Started, start_agent
from cephlab.lab.cluster.attach.guard import Guard, NotPermitted
from cephlab.lab.cluster.attach.offered import Offered
from cephlab.lab.providers.agent.wire import Refused
from cephlab.lab.providers.host import Channel, Facts, Host, HostProcess
from cephlab.lab.providers.ssh.host import SshHost

_RESOLVE_S = 60.0


def own_folder(host: Host) -> PurePosixPath:
    """The scenarios' folder on a machine. Its parent is the lab's folder, with the lab's agents and keyring."""
    return host.directory / "own"


def not_installed(error: LabBroken) -> bool:
    """Whether an error means that the machine does not have the program."""
    cause = error.__cause__
    return isinstance(cause, Refused) and cause.errno == errno.ENOENT


class GuardedChannel:
    """A client's agent. Every request is judged before it is sent."""

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
    """A machine of an existing cluster.

    Everything below its own directory may be read and written. If the list names the machine, programs may run as the
    run's own cephx entity and use files elsewhere, but not the files of the lab. The guard's own clients may run on any
    machine. entity: empty if the run has none.
    """

    own_kernel = True
    """See OwnKernel."""

    def __init__(self, host: Host, guard: Guard, entity: str = "") -> None:
        self.name = host.name
        self.arch = host.arch
        self.address = host.address
        self.directory = own_folder(host)
        self.root = host.root
        self.emulated = host.emulated
        self._host = host
        self._guard = guard
        self._offered = Offered(host.name, self.directory, entity)

    # Programs

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
        self._program(argv, env, stdin, cwd)
        env = self._offered.environment(env)
        try:
            return self._host.run(argv, timeout_s=timeout_s, stdin=stdin, env=env, check=check, cwd=cwd)
        except LabBroken as error:
            raise self._missing(argv[0], error) from error

    def spawn(self, argv: Sequence[str], *, log: PurePosixPath, env: Mapping[str, str] | None = None) -> HostProcess:
        self._program(argv, env)
        self._file(log, f"writing {log}")
        try:
            return self._host.spawn(argv, log=log, env=self._offered.environment(env))
        except LabBroken as error:
            raise self._missing(argv[0], error) from error

    def find(self, ref: Mapping[str, Any]) -> HostProcess:
        self._guard.program(self.name, "a process")
        return self._host.find(ref)

    def channel(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> Channel:
        self._program(argv, env)
        return self._host.channel(argv, env=self._offered.environment(env))

    def start_agent(self, arguments: Sequence[str]) -> Started:
        """The lab's own agent for a client (see RadosClient), in the lab's folder. Each request to it is judged."""
        script, channel = start_agent(self._host, arguments)
        return script, GuardedChannel(channel, self._guard)

    def interactive(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, terminal: bool = True
    ) -> tuple[str, ...]:
        self._program(argv, env)
        return self._host.interactive(argv, env=self._offered.environment(env), terminal=terminal)

    @contextmanager
    def reaching(self, other: Host, path: PurePosixPath, near: PurePosixPath) -> Iterator[None]:
        """As `SshHost.reaching`, between machines on the list; see lab/workloads/fioserver.py."""
        if not isinstance(other, GuardedHost):
            raise NotPermitted(f"reaching {other.name}, which is not a machine of its inventory")
        for host, place in ((other, path), (self, near)):
            host._guard.program(host.name, f"a socket at {place}")
            host._file(place, f"a socket at {place}")
        if not isinstance(self._host, SshHost):
            raise LabBroken(f"{self.name} is not reached through ssh")
        with self._host.reaching(other._host, path, near):
            yield

    def _program(
        self,
        argv: Sequence[str],
        env: Mapping[str, str] | None,
        stdin: bytes = b"",
        cwd: PurePosixPath | None = None,
    ) -> None:
        self._guard.program(self.name, argv[0])
        if cwd is not None:
            self._file(cwd, f"{argv[0]} in {cwd}")
        self._offered.judge(argv, env, stdin, cwd)

    def _missing(self, program: str, error: LabBroken) -> LabBroken | Unavailable:
        """The error to raise. A program that is not installed is a missing capability, not a broken lab."""
        if not not_installed(error):
            return error
        what = f"{self.name} of the attached cluster has no program {program}"
        return Unavailable(what, error.detail, f"install the package that contains it on {self.name}")

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
        # Removing a link does not remove its target.
        self._file(path.parent, f"removing {path}")
        self._place(PurePosixPath(posixpath.normpath(path)), self.directory, f"removing {path}")
        self._host.remove(path)

    def _file(self, path: PurePosixPath, what: str) -> None:
        """Judge a file. Files in the scenarios' folder are allowed, unless a link leads out of it."""
        self._place(PurePosixPath(posixpath.normpath(path)), self.directory, what)
        own, real = self._real(self.directory, path)
        self._place(real, own, f"{what}, which is {real}")

    def _place(self, path: PurePosixPath, own: PurePosixPath, what: str) -> None:
        self._offered.place(path, what, own)
        if not path.is_relative_to(own):
            self._guard.program(self.name, what)

    def _real(self, *paths: PurePosixPath) -> list[PurePosixPath]:
        """The paths with all links followed. Missing parts stay as they are."""
        argv = ("realpath", "--canonicalize-missing", "--zero", "--", *map(str, paths))
        return [PurePosixPath(path) for path in self._host.run(argv, timeout_s=_RESOLVE_S).stdout.split("\0")[:-1]]

    # The machine

    def disk(self, name: str) -> PurePosixPath:
        return PurePosixPath(self._guard.disk(self.name, name))

    def facts(self) -> Facts:
        return self._host.facts()

    def up(self) -> bool:
        return self._host.up()
