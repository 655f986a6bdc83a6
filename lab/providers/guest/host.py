"""A node with a kernel of its own, reached through its agent."""

from __future__ import annotations

import io
import json
import socket
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any

from lab import clock
from lab.arch import Arch
from lab.errors import CommandFailed, CommandTimedOut, LabBroken
from lab.host import Facts
from lab.process import Result
from lab.providers import fileverbs
from lab.providers.guest.channel import open_channel
from lab.providers.guest.clocks import set_clock
from lab.providers.guest.spawned import GuestProcess
from lab.providers.guest.wire import CHUNK, PORT, Link, Refused
from lab.providers.lines import LineServer

NODE_DIRECTORY = PurePosixPath("/cephlab/node")
DISKS_DIRECTORY = PurePosixPath("/dev/cephlab")
_ATTACH = Path(__file__).with_name("attach.py")
SILENCE_S = 60.0
"""Longest time that an agent may take for what it does itself."""


class GuestHost:
    """Its disks and whether it is up are the lab's to say; everything else is asked of the agent."""

    def __init__(
        self,
        name: str,
        arch: Arch,
        address: str,
        *,
        control: str,
        emulated: bool,
        connect: Callable[[str, int], socket.socket],
        running: Callable[[], bool],
        folder: Path,
        port: int = PORT,
        patience: float = 1.0,
    ) -> None:
        self.name = name
        self.arch = arch
        self.address = address
        self.emulated = emulated
        self.own_kernel = True
        self.directory = NODE_DIRECTORY
        self.root = PurePosixPath("/")
        self.disks: dict[str, int] = {}
        self._control = control
        self._connect = connect
        self._running = running
        self._folder = folder
        self._port = port
        self._patience = patience
        self._lock = threading.Lock()
        self._kept: Link | None = None
        self._boot = ""
        self._links: weakref.WeakSet[Link] = weakref.WeakSet()
        self._links_lock = threading.Lock()

    # Connections

    def link(self) -> Link:
        """A connection of one's own; LabBroken when the host is down or does not answer."""
        if not self.up():
            raise LabBroken(f"{self.name} is down", hint="start the node")
        try:
            made = Link(self._connect(self._control, self._port), self.name)
        except OSError as error:
            raise LabBroken(f"{self.name} does not answer", str(error)) from error
        with self._links_lock:
            self._links.add(made)
        return made

    def ask(self, operation: str, **arguments: Any) -> Any:
        """A short request over the one connection that is kept."""
        with self._lock, self._troubles(operation):
            if self._kept is not None:
                try:
                    return self._kept.request(operation, SILENCE_S * self._patience, **arguments)
                except ConnectionError:
                    # The guest has been away since; nothing of this kind does harm when it is asked twice.
                    self.hang_up()
            self._kept = self.link()
            # A lab that was only looked up has no end of its own.
            weakref.finalize(self, self._kept.close)
            return self._kept.request(operation, SILENCE_S * self._patience, **arguments)

    def hang_up(self) -> None:
        """Forget the kept connection, and which boot it was of."""
        if self._kept is not None:
            self._kept.close()
        self._kept = None
        self._boot = ""

    @contextmanager
    def _troubles(self, operation: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.hang_up()
            down = "" if self.up() else f"{self.name} is down; "
            raise LabBroken(f"{operation} on {self.name} failed", f"{down}{error}") from error

    def let_go(self) -> None:
        """End every connection, for threads that wait at one as well: a machine without power takes no leave."""
        with self._links_lock:
            links = list(self._links)
        for link in links:
            link.hang_up()
        self.hang_up()

    def boot(self) -> str:
        """Which boot of the guest this is: asked once for each connection that is kept."""
        if self._boot == "" or self._kept is None:
            self._boot = str(self.greet()["boot"])
        return self._boot

    def greet(self) -> dict[str, Any]:
        """Who the guest is (see the agent's `op_hello`); sets its clock to this machine's."""
        found: dict[str, Any] = self.ask("hello", now=time.time())
        if found["own_clock"]:
            set_clock(self.ask)
        return found

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
        outputs = {b"1": bytearray(), b"2": bytearray()}
        code = pid = 0
        link = self.link()
        try:
            pid = self._begin(link, argv, fileverbs.with_preload(env, preload), cwd, timeout_s)
            for frame in link.exchange(stdin, clock.Deadline.after(timeout_s)):
                if frame.kind == b"x":
                    code = int(json.loads(frame.payload)["code"])
                else:
                    outputs[frame.kind] += frame.payload
        except TimeoutError:
            if pid:  # else not even its start was answered: it ends with the connection
                self.ask("end", pid=pid)
            out, err = (bytes(outputs[kind]).decode(errors="replace") for kind in (b"1", b"2"))
            raise CommandTimedOut(argv, timeout_s, out, err, self.name) from None
        except OSError as error:
            raise LabBroken(f"{self.name} went away while {argv[0]} ran on it", str(error)) from error
        finally:
            link.close()
        result = Result(tuple(argv), code, bytes(outputs[b"1"]), bytes(outputs[b"2"]))
        if check and code != 0:
            raise CommandFailed(argv, code, result.stdout, result.stderr, self.name)
        return result

    def _begin(
        self, link: Link, argv: Sequence[str], env: Mapping[str, str], cwd: PurePosixPath | None, timeout_s: float
    ) -> int:
        where = str(cwd) if cwd else None
        try:
            return int(link.request("run", timeout_s, argv=list(argv), env=dict(env), cwd=where))
        except Refused as error:
            raise LabBroken(f"{argv[0]} could not be started on {self.name}", error.detail) from error

    def spawn(
        self,
        argv: Sequence[str],
        *,
        log: PurePosixPath,
        env: Mapping[str, str] | None = None,
        preload: Sequence[PurePosixPath] = (),
    ) -> GuestProcess:
        boot = self.boot()
        try:
            found = self.ask("spawn", argv=list(argv), log=str(log), env=fileverbs.with_preload(env, preload))
        except Refused as error:
            raise LabBroken(f"{argv[0]} could not be started on {self.name}", error.detail) from error
        return GuestProcess(self, {**found, "boot": boot})

    def find(self, ref: Mapping[str, Any]) -> GuestProcess:
        return GuestProcess(self, ref)

    def channel(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> LineServer:
        link = self.link()
        try:
            pid = self._begin(link, argv, dict(env or {}), None, SILENCE_S * self._patience)
        except BaseException:
            link.close()
            raise
        return open_channel(link, argv, lambda: self.ask("end", pid=pid))

    def interactive(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, terminal: bool = True
    ) -> tuple[str, ...]:
        order = {"argv": list(argv), "env": dict(env or {}), "terminal": terminal}
        words = (str(self._folder), self._control, str(self._port), json.dumps(order))
        return (sys.executable, "-I", str(_ATTACH), *words)

    # Files

    def push(self, source: Path | bytes, target: PurePosixPath, *, mode: int = 0o644) -> None:
        opened: IO[bytes] = io.BytesIO(source) if isinstance(source, bytes) else source.open("rb")
        with opened, self._one_use("put") as link:
            link.begin("put", SILENCE_S * self._patience, path=str(target), mode=mode)
            while piece := opened.read(CHUNK):
                link.send(b"0", piece)
            link.send(b"0")
            link.answer("put")

    def pull(self, source: PurePosixPath, target: Path) -> None:
        fileverbs.pull(partial(self._get, source), target)

    def read(self, source: PurePosixPath) -> bytes:
        return fileverbs.read(partial(self._get, source))

    def _get(self, source: PurePosixPath, sink: IO[bytes]) -> None:
        with self._one_use("get") as link:
            link.begin("get", SILENCE_S * self._patience, path=str(source))
            while (frame := link.receive()).kind == b"1":
                sink.write(frame.payload)
            found = json.loads(frame.payload)
            if "error" in found:
                raise LabBroken(f"{source} on {self.name} cannot be read", found["error"]["message"])

    @contextmanager
    def _one_use(self, operation: str) -> Iterator[Link]:
        link = self.link()
        try:
            with self._troubles(operation):
                yield link
        finally:
            link.close()

    def exists(self, path: PurePosixPath) -> bool:
        return bool(self.ask("exists", path=str(path)))

    def make_directory(self, path: PurePosixPath) -> None:
        self.ask("mkdir", path=str(path))

    def remove(self, path: PurePosixPath) -> None:
        fileverbs.remove(self, path, timeout_s=SILENCE_S * self._patience)

    # The machine

    def disk(self, name: str) -> PurePosixPath:
        fileverbs.require_disk(self.name, name, self.disks)
        return DISKS_DIRECTORY / name

    def facts(self) -> Facts:
        found = self.greet()
        return Facts(
            arch=self.arch,
            emulated=self.emulated,
            kernel=str(found["kernel"]),
            cores=float(found["cores"]),
            memory_bytes=int(found["memory_bytes"]),
        )

    def up(self) -> bool:
        return self._running()
