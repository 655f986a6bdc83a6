"""The only place that starts processes on this machine. Hosts, providers and image tools use it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import psutil

from cephlab.lab.base import clock
from cephlab.lab.base.alarms import HEARD
from cephlab.lab.base.births import birth_of, environment_of, state_and_birth
from cephlab.lab.base.errors import CommandFailed, CommandTimedOut, LabBroken, Unavailable

THIS_MACHINE = "this machine"
_POLL_S = 0.02
_DRAIN_S = 2.0
_SAME_START_S = 1.0
_ENDED = ("Z", "X")


@dataclass(frozen=True)
class Result:
    """How a command ended. Text is UTF-8; invalid bytes become U+FFFD. Alarms in its stderr are kept in HEARD."""

    argv: tuple[str, ...]
    code: int
    stdout_bytes: bytes
    stderr_bytes: bytes

    def __post_init__(self) -> None:
        HEARD.listen(self.argv, self.stderr)

    def checked(self, where: str) -> Result:
        """This result; CommandFailed when its status is not 0. where: the machine, for the error."""
        if self.code != 0:
            raise CommandFailed(self.argv, self.code, self.stdout, self.stderr, where)
        return self

    @property
    def stdout(self) -> str:
        return self.stdout_bytes.decode(errors="replace")

    @property
    def stderr(self) -> str:
        return self.stderr_bytes.decode(errors="replace")


@dataclass(frozen=True)
class Command:
    """A program to start. env: its whole environment; cwd: None for this process's own directory.

    where, shown: machine and command as errors name them, without the provider's wrapper.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    cwd: Path | None = None
    where: str = THIS_MACHINE
    shown: tuple[str, ...] = ()


def run(
    argv: Sequence[str],
    *,
    timeout_s: float = 60.0,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    check: bool = True,
) -> Result:
    """Run a program on this machine; see `run_command`. env: added to this process's environment."""
    return run_command(Command(tuple(argv), with_ours(env), cwd), timeout_s=timeout_s, stdin=stdin, check=check)


def run_command(command: Command, *, timeout_s: float = 60.0, stdin: bytes = b"", check: bool = True) -> Result:
    """Run a command in its own session and wait for it. Watchers are called meanwhile and may end it.

    Raises CommandFailed if check is set and the status is not 0, CommandTimedOut after killing the whole session,
    Unavailable if the program does not exist.
    """
    shown_argv = command.shown or command.argv
    child = _popen(command)
    try:
        with clock.spending(f"run {Path(shown_argv[0]).name}"):
            stdout, stderr = _communicate(child, stdin, clock.Deadline.after(timeout_s))
    except subprocess.TimeoutExpired:
        kill_session(child)
        raise CommandTimedOut(shown_argv, timeout_s, *_rest(child), command.where) from None
    except BaseException:
        with child:  # waits for it, and closes its streams
            kill_session(child)
        raise
    result = Result(shown_argv, child.returncode, stdout, stderr)
    return result.checked(command.where) if check else result


def _communicate(child: subprocess.Popen[bytes], stdin: bytes, deadline: clock.Deadline) -> tuple[bytes, bytes]:
    """Feed a child and read what it prints; subprocess.TimeoutExpired at the deadline."""
    if stdin:
        # `communicate` forgets its input when it is called again.
        threading.Thread(target=_feed, args=(child.stdin, stdin), daemon=True).start()
        child.stdin = None
    while True:
        try:
            return child.communicate(timeout=deadline.slice_s())
        except subprocess.TimeoutExpired:
            if deadline.passed():
                raise
            clock.look_on(deadline.elapsed_s())


def _rest(child: subprocess.Popen[bytes]) -> tuple[str, str]:
    """What a killed child has printed. It may have started a process in another session that holds its streams open."""
    with child:
        try:
            out, err = child.communicate(timeout=_DRAIN_S)
        except subprocess.TimeoutExpired as late:
            out, err = late.stdout or b"", late.stderr or b""
    return out.decode(errors="replace"), err.decode(errors="replace")


def _feed(stdin: IO[bytes], data: bytes) -> None:
    with suppress(BrokenPipeError), stdin:  # a program need not read all of it
        stdin.write(data)


def kill_session(child: subprocess.Popen[bytes]) -> None:
    """SIGKILL the child and everything it started in its session."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        child.kill()


def with_ours(env: Mapping[str, str] | None) -> dict[str, str]:
    """This process's environment with more variables."""
    return {**os.environ, **(env or {})}


def start_detached(argv: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None) -> LocalProcess:
    """As `start_command`. env: added to this process's environment."""
    return start_command(Command(tuple(argv), with_ours(env)), log)


def start_command(command: Command, log: Path) -> LocalProcess:
    """Start a process that outlives this one, in its own session. Its output and errors are appended to `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as sink, _refusals(command.argv):
        pid = os.posix_spawnp(
            command.argv[0],
            list(command.argv),
            command.env,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, sink.fileno(), 1),
                (os.POSIX_SPAWN_DUP2, sink.fileno(), 2),
            ],
            setsid=True,
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # which Python itself ignores
        )
    started = LocalProcess(pid, birth_of(pid), ours=True)
    _CHILDREN[pid] = started
    return started


class Pipe:
    """A child process that answers line by line. It ends with this process, because its stdin closes."""

    def __init__(self, command: Command) -> None:
        self._child = _popen(command)
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        assert self._child.stderr is not None
        self._stdin, self._stdout, self._stderr = self._child.stdin, self._child.stdout, self._child.stderr
        self._argv, self._where = command.shown or command.argv, command.where
        self._lock = threading.Lock()
        self._errors: list[bytes] = []
        self._reader = threading.Thread(target=self._drain, daemon=True)
        self._reader.start()

    def _drain(self) -> None:
        for line in self._stderr:
            self._errors.append(line)
            del self._errors[:-200]

    def ask(self, line: bytes, *, timeout_s: float) -> bytes:
        """Send one line and return the one-line answer. The child is killed if it does not answer in time."""
        with self._lock:
            expired = threading.Event()
            timer = threading.Timer(timeout_s, self._expire, [expired])
            timer.daemon = True
            timer.start()
            try:
                self._stdin.write(line + b"\n")
                self._stdin.flush()
                self._await_answer()
                answer = self._stdout.readline()
            except (BrokenPipeError, ValueError):
                answer = b""
            except BaseException:
                # The answer would stay in the pipe and be taken for the answer to the next question.
                kill_session(self._child)
                self._child.wait()
                raise
            finally:
                timer.cancel()
        if answer.endswith(b"\n"):
            return answer[:-1]
        self._end()  # it may have closed its output and go on
        stderr = b"".join(self._errors).decode(errors="replace")
        if expired.is_set():
            raise CommandTimedOut(self._argv, timeout_s, "", stderr, self._where)
        raise CommandFailed(self._argv, self._child.returncode, "", stderr, self._where)

    def _await_answer(self) -> None:
        """Wait until there is something to read or the child ends. Watchers are called meanwhile."""
        answer = select.poll()
        answer.register(self._stdout, select.POLLIN)
        while not answer.poll(clock.SLICE_S * 1000):
            clock.look_on(0.0)

    def _expire(self, expired: threading.Event) -> None:
        expired.set()  # first, because the kill lets the reading thread continue
        kill_session(self._child)

    @property
    def pid(self) -> int:
        return self._child.pid

    def alive(self) -> bool:
        return self._child.poll() is None

    def close(self) -> None:
        """End the child by closing its input, and by force if that is not enough."""
        try:
            self._stdin.close()
        except BrokenPipeError:
            self._errors.append(b"(input was already closed)\n")
        self._end()
        self._stdout.close()
        self._stderr.close()

    def _end(self) -> None:
        try:
            self._child.wait(timeout=_DRAIN_S)
        except subprocess.TimeoutExpired:
            kill_session(self._child)
            self._child.wait()
        self._reader.join(timeout=_DRAIN_S)


class LocalProcess:
    """A process on this machine, identified by pid and birth, so that a reused pid is not mistaken for it.

    birth: see `birth_of`. ours: this process started it, so it must be reaped here and its status is known.
    """

    def __init__(self, pid: int, birth: str, *, ours: bool = False) -> None:
        self.pid = pid
        self.birth = birth
        self._ours = ours
        self._exit_code: int | None = None
        self._lock = threading.Lock()

    @property
    def ref(self) -> dict[str, int | str]:
        """A later cephlab process finds it again with this (`recall`)."""
        return {"pid": self.pid, "birth": self.birth}

    def alive(self) -> bool:
        if self._ours:
            self._reap()
            return self._ours
        state, birth = state_and_birth(self.pid)
        return birth != "" and birth == self.birth and state not in _ENDED

    def _reap(self) -> None:
        with self._lock:
            if not self._ours:
                return
            # Another thread of this process may have reaped it already.
            with suppress(ChildProcessError):
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if not pid:
                    return
                self._exit_code = os.waitstatus_to_exitcode(status)
            self._ours = False
            _CHILDREN.pop(self.pid, None)

    def exit_code(self) -> int | None:
        """Status after its end (negative: the signal). None while alive, or if another process started it."""
        self.alive()
        return self._exit_code

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to it and its children. Nothing happens if it has ended."""
        if self.alive():
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def kill(self) -> None:
        """SIGKILL this process alone, whichever session it is in."""
        if self.alive():
            # It may end by itself between the two lines.
            with suppress(psutil.NoSuchProcess):
                psutil.Process(self.pid).kill()

    def wait(self, timeout_s: float) -> bool:
        """Whether it ended within timeout_s seconds."""
        return clock.ended_within(self.alive, timeout_s, _POLL_S)


_CHILDREN: dict[int, LocalProcess] = {}
"""Detached processes that this one started and has not reaped. A clean-up finds them by their marks and reaps them."""


def find_marked(marks: Mapping[str, str], *, of_all: bool = False) -> list[LocalProcess]:
    """Processes whose environment has all marks, whoever started them. of_all: of other users too."""
    listed = environments(of_all=of_all)
    return [candidate for candidate, environment in listed if marks.items() <= environment.items()]


def environments(*, of_all: bool = False) -> Iterator[tuple[LocalProcess, dict[str, str]]]:
    """Every other process with its environment, which anybody can forge. of_all: of other users too."""
    for candidate in psutil.process_iter():
        try:
            if candidate.pid != os.getpid() and (of_all or candidate.uids().real == os.getuid()):
                running = _CHILDREN.get(candidate.pid) or LocalProcess(candidate.pid, birth_of(candidate.pid))
                yield running, environment_of(candidate)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue


def run_attached(argv: Sequence[str]) -> int:
    """Run a command on this process's terminal and streams. Returns its status as a shell does.

    Ctrl-C reaches the command, which decides what it means. This process keeps waiting.
    """
    # A handler and not SIG_IGN, which the command would inherit.
    before = signal.signal(signal.SIGINT, lambda _number, _frame: None)
    try:
        with _refusals(argv):
            code = subprocess.call(list(argv))
    finally:
        signal.signal(signal.SIGINT, before)
    return code if code >= 0 else 128 - code


def recall(record: Mapping[str, Any]) -> LocalProcess:
    """The process that a `LocalProcess.ref` describes.

    A record of cephlab 0.1 has `start_time`, in seconds since the epoch, instead of a birth. It means the process with
    that pid if that process started within a second of this time.
    """
    pid = int(record["pid"])
    if "birth" in record:
        return LocalProcess(pid, str(record["birth"]))
    try:
        same = abs(psutil.Process(pid).create_time() - float(record.get("start_time", 0.0))) < _SAME_START_S
    except psutil.NoSuchProcess:
        same = False
    return LocalProcess(pid, birth_of(pid) if same else "")


@contextmanager
def _refusals(argv: Sequence[str]) -> Iterator[None]:
    """Raise a LabError when the operating system refuses to start a program."""
    try:
        yield
    except FileNotFoundError:
        raise Unavailable(
            f"{argv[0]} is not installed",
            f"command: {' '.join(argv)}",
            "run `cephlab doctor`, or `ci/bootstrap --check`",
        ) from None
    except PermissionError as error:
        raise LabBroken(f"{argv[0]} could not be started", str(error)) from error


def _popen(command: Command) -> subprocess.Popen[bytes]:
    """Start a command with pipes as its streams."""
    with _refusals(command.argv):
        return subprocess.Popen(
            list(command.argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=command.cwd,
            env=command.env,
            start_new_session=True,
        )
