"""A host with its own kernel, reached through its agent. Its clock is set to the clock of this machine."""

from __future__ import annotations

import io
import json
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from signal import Signals
from typing import IO, Any
from uuid import uuid4

from cephlab.lab.base import clock
from cephlab.lab.base.errors import CommandTimedOut, LabBroken
from cephlab.lab.base.process import Result
from cephlab.lab.providers.agent.wire import CHUNK, Link, LinkStreams, Refused
from cephlab.lab.providers.dialogue import LineServer
from cephlab.lab.providers.host import Facts, content_of, pull_into
from cephlab.lab.spec.arch import Arch

_POLL_S = 0.02
SILENCE_S = 60.0
"""Longest time that an agent may take for its own operations."""
CLOCK_ENOUGH_S = 0.005
"""A tenth of the clock difference that Ceph's monitors tolerate (mon_clock_drift_allowed, 0.05 s)."""
_CLOCK_LOOKS = 5
"""How often the clock is read before it is moved. The quickest answer is used, as in NTP (RFC 5905, section 10)."""
_CLOCK_MOVES = 4


@dataclass(frozen=True)
class AgentAccess:
    """How an agent is reached. connect: opens a connection; OSError when the agent does not answer.

    running: whether its machine is on; patience: factor on the time that the agent has for an answer.
    """

    connect: Callable[[], socket.socket]
    running: Callable[[], bool]
    patience: float = 1.0


class AgentHost:
    """A host that is reached through an agent. Each provider adds `disk` and `interactive`."""

    own_kernel = True
    root = PurePosixPath("/")

    def __init__(
        self, name: str, arch: Arch, address: str, *, emulated: bool, directory: PurePosixPath, access: AgentAccess
    ) -> None:
        self.name = name
        self.arch = arch
        self.address = address
        self.emulated = emulated
        self.directory = directory
        self._access = access
        self._silence_s = SILENCE_S * access.patience
        self._lock = threading.Lock()
        self._control: Link | None = None
        self._boot = ""
        self._links: weakref.WeakSet[Link] = weakref.WeakSet()
        self._links_lock = threading.Lock()

    # Connections

    def link(self) -> Link:
        """A new connection; LabBroken when the host is down or does not answer."""
        if not self.up():
            raise LabBroken(f"{self.name} is down", hint="start the node")
        try:
            link = Link(self._access.connect(), self.name)
        except OSError as error:
            raise LabBroken(f"{self.name} does not answer", str(error)) from error
        with self._links_lock:
            self._links.add(link)
        return link

    def ask(self, operation: str, **arguments: Any) -> Any:
        """A short request, over a control connection that stays open for the next request."""
        with self._lock, self._troubles(operation):
            if self._control is not None:
                try:
                    return self._control.request(operation, self._silence_s, **arguments)
                except ConnectionError:
                    # The machine was down meanwhile, or ssh lost it. A request that was served before its answer was
                    # lost may be repeated: the agent recognises a `spawn` by its id.
                    self.hang_up()
            self._control = self.link()
            # Nobody closes a lab that was only looked up.
            weakref.finalize(self, self._control.close)
            return self._control.request(operation, self._silence_s, **arguments)

    def hang_up(self) -> None:
        """Close the control connection and forget the boot."""
        if self._control is not None:
            self._control.close()
        self._control = None
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
        """End every connection, also for waiting threads, because a machine without power does not close them."""
        with self._links_lock:
            links = list(self._links)
        for link in links:
            link.hang_up()
        self.hang_up()

    def boot(self) -> str:
        """Id of the machine's current boot, asked once per control connection."""
        if self._boot == "" or self._control is None:
            self._boot = str(self.greet()["boot"])
        return self._boot

    def greet(self) -> dict[str, Any]:
        """Facts about the machine (see the agent's `op_hello`). Sets its clock to this machine's."""
        greeting: dict[str, Any] = self.ask("hello", now=time.time())
        if greeting["own_clock"]:
            set_clock(self.ask)
        return greeting

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
        outputs = {b"1": bytearray(), b"2": bytearray()}
        code = pid = 0
        link = self.link()
        try:
            with clock.spending(f"run {PurePosixPath(argv[0]).name}"):
                pid = self._begin(link, argv, env, cwd, timeout_s)
                for frame in link.exchange(stdin, clock.Deadline.after(timeout_s)):
                    if frame.kind == b"x":
                        code = int(json.loads(frame.payload)["code"])
                    else:
                        outputs[frame.kind] += frame.payload
        except TimeoutError:
            if pid:  # without an answer to the start there is no pid, and the program ends with the connection
                self.ask("end", pid=pid)
            out, err = (bytes(outputs[kind]).decode(errors="replace") for kind in (b"1", b"2"))
            raise CommandTimedOut(argv, timeout_s, out, err, self.name) from None
        except OSError as error:
            raise LabBroken(f"the connection to {self.name} was lost while {argv[0]} ran on it", str(error)) from error
        finally:
            link.close()
        result = Result(tuple(argv), code, bytes(outputs[b"1"]), bytes(outputs[b"2"]))
        return result.checked(self.name) if check else result

    def _begin(
        self,
        link: Link,
        argv: Sequence[str],
        env: Mapping[str, str] | None,
        cwd: PurePosixPath | None,
        timeout_s: float,
    ) -> int:
        where = str(cwd) if cwd else None
        try:
            return int(link.request("run", timeout_s, argv=list(argv), env=dict(env or {}), cwd=where))
        except Refused as error:
            raise LabBroken(f"{argv[0]} could not be started on {self.name}", error.detail) from error

    def spawn(self, argv: Sequence[str], *, log: PurePosixPath, env: Mapping[str, str] | None = None) -> AgentProcess:
        boot = self.boot()  # an agent of an earlier version does not tell it
        try:
            started = self.ask("spawn", id=uuid4().hex, argv=list(argv), log=str(log), env=dict(env or {}))
        except Refused as error:
            raise LabBroken(f"{argv[0]} could not be started on {self.name}", error.detail) from error
        return AgentProcess(self, {"boot": boot, **started})

    def find(self, ref: Mapping[str, Any]) -> AgentProcess:
        return AgentProcess(self, ref)

    def channel(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> LineServer:
        link = self.link()
        try:
            pid = self._begin(link, argv, env, None, self._silence_s)
        except BaseException:
            link.close()
            raise
        return LineServer(LinkStreams(link, lambda: self.ask("end", pid=pid)), argv, self.name)

    # Files

    def push(self, source: Path | bytes, target: PurePosixPath, *, mode: int = 0o644) -> None:
        opened: IO[bytes] = io.BytesIO(source) if isinstance(source, bytes) else source.open("rb")
        with opened, self._one_use("put") as link:
            link.begin("put", self._silence_s, path=str(target), mode=mode)
            while piece := opened.read(CHUNK):
                link.send(b"0", piece)
            link.send(b"0")
            link.answer("put")

    def pull(self, source: PurePosixPath, target: Path) -> None:
        pull_into(partial(self._get, source), target)

    def read(self, source: PurePosixPath) -> bytes:
        return content_of(partial(self._get, source))

    def _get(self, source: PurePosixPath, sink: IO[bytes]) -> None:
        with self._one_use("get") as link:
            link.begin("get", self._silence_s, path=str(source))
            while (frame := link.receive()).kind == b"1":
                sink.write(frame.payload)
            ending = json.loads(frame.payload)
            if "error" in ending:
                raise LabBroken(f"{source} on {self.name} cannot be read", ending["error"]["message"])

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
        self.run(("rm", "-rf", "--", str(path)), timeout_s=self._silence_s)

    # The machine

    def facts(self) -> Facts:
        greeting = self.greet()
        return Facts(
            arch=self.arch,
            emulated=self.emulated,
            kernel=str(greeting["kernel"]),
            cores=float(greeting["cores"]),
            memory_bytes=int(greeting["memory_bytes"]),
        )

    def up(self) -> bool:
        return self._access.running()


class AgentProcess:
    """A daemon, known by pid, birth and boot. Polling it costs one short exchange with the agent."""

    pid = 0

    def __init__(self, host: AgentHost, ref: Mapping[str, Any]) -> None:
        self._host = host
        self._ref = {"pid": int(ref["pid"]), "birth": str(ref["birth"]), "boot": str(ref["boot"])}
        self._ended = False
        self._code: int | None = None

    @property
    def ref(self) -> dict[str, Any]:
        """pid, birth: on its machine; boot: which of its boots."""
        return dict(self._ref)

    def alive(self) -> bool:
        if self._ended or not self._host.up():
            return False
        try:
            self._look()
        except LabBroken:
            # The machine may go down while it is asked.
            if self._host.up():
                raise
            return False
        return not self._ended

    def _look(self) -> None:
        if self._host.boot() != self._ref["boot"]:
            self._ended = True
            return
        state = self._host.ask("state", pid=self._ref["pid"], birth=self._ref["birth"])
        self._ended = not state["alive"]
        self._code = state["code"]

    def exit_code(self) -> int | None:
        """Status once ended, -N after signal N; None while alive, or if its machine went down with it."""
        self.alive()
        return self._code

    def signal(self, number: Signals) -> None:
        if self.alive():
            self._host.ask("signal", pid=self._ref["pid"], birth=self._ref["birth"], number=int(number))

    def wait(self, timeout_s: float) -> bool:
        return clock.ended_within(self.alive, timeout_s, _POLL_S)


def set_clock(ask: Callable[..., Any], now: Callable[[], float] = time.time) -> float:
    """Move the clock behind `ask("clock", step_s=...)` until it is as accurate as a message's round trip allows.

    Returns the remaining possible error, in s.

    One step is not enough: if a guest waits for a CPU before it sets its clock, the clock is late by that time and
    stays late. A monitor on the guest would warn about clock skew until the guest is switched off.
    """
    behind, doubt = _best_look(ask, now)
    for _ in range(_CLOCK_MOVES):
        if abs(behind) <= max(CLOCK_ENOUGH_S, doubt):
            break
        ask("clock", step_s=behind)
        behind, doubt = _best_look(ask, now)
    return abs(behind) + doubt


def _best_look(ask: Callable[..., Any], now: Callable[[], float]) -> tuple[float, float]:
    return min((_look(ask, now) for _ in range(_CLOCK_LOOKS)), key=lambda look: look[1])


def _look(ask: Callable[..., Any], now: Callable[[], float]) -> tuple[float, float]:
    """How far the clock is behind, and the possible error of that: half of the round trip. Both in s."""
    sent = now()
    remote = float(ask("clock", step_s=0.0))
    received = now()
    return (sent + received) / 2 - remote, (received - sent) / 2
