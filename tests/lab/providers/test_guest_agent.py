"""The agent of guests, run here as an ordinary process: programs, files, daemons and channels over its frames."""

import errno
import importlib
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any

import pytest

from cephlab.lab.base import clock
from cephlab.lab.base.errors import CommandFailed, CommandTimedOut, LabBroken
from cephlab.lab.providers.agent.wire import AGENT, Frame, Link
from cephlab.lab.providers.guest.host import GuestHost
from tests.agent_here import agent_here


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestHost]:
    with agent_here(tmp_path_factory.mktemp("guest")) as made:
        yield made


@pytest.fixture
def path(tmp_path: Path) -> PurePosixPath:
    return PurePosixPath(tmp_path)


def test_outputs_status_environment_and_folder_are_a_programs_own(host: GuestHost, path: PurePosixPath) -> None:
    argv = ("sh", "-c", 'echo "$WORD"; pwd >&2; exit 3')
    ended = host.run(argv, env={"WORD": "雪"}, cwd=path, check=False)
    assert (ended.stdout, ended.stderr, ended.code) == ("雪\n", f"{path}\n", 3)
    with pytest.raises(CommandFailed, match="n0"):
        host.run(argv)
    with pytest.raises(LabBroken, match="no-such-program"):
        host.run(("no-such-program",))


@pytest.mark.slow
def test_input_and_output_go_both_ways_at_once(host: GuestHost) -> None:
    data = os.urandom(3_000_000)
    assert host.run(("cat",), stdin=data).stdout_bytes == data
    for _ in range(20):
        assert host.run(("true",), stdin=data).code == 0


@pytest.mark.slow
def test_a_timeout_kills_the_whole_session(host: GuestHost) -> None:
    with pytest.raises(CommandTimedOut) as caught:
        host.run(("sh", "-c", "sleep 301 & echo $!; wait"), timeout_s=1)
    assert not Path(f"/proc/{caught.value.stdout.strip()}").exists()


class Endless(Link):
    """A connection that has more output whenever it is read."""

    reads = 0

    def _frames_so_far(self, received: bytearray) -> Iterator[Frame]:
        self.reads += 1
        assert self.reads < 100, "nobody ends it"
        yield Frame(b"1", b"word\n")


def test_a_program_that_never_stops_printing_is_late_too() -> None:
    near, far = socket.socketpair()
    with near, far:
        far.sendall(b"there is always something to read")
        with pytest.raises(TimeoutError):
            list(Endless(near, "n0").exchange(b"", clock.Deadline.after(0.0)))


def test_a_program_whose_start_was_not_answered_in_time_takes_nothing_with_it(
    host: GuestHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its number is not known, and 0 would be the agent's own session."""
    in_time = Link.request

    def late(link: Link, operation: str, timeout_s: float, **arguments: Any) -> Any:
        if operation == "run":
            raise TimeoutError
        return in_time(link, operation, timeout_s, **arguments)

    with monkeypatch.context() as slow:
        slow.setattr(Link, "request", late)
        with pytest.raises(CommandTimedOut):
            host.run(("sleep", "303"), timeout_s=3)
    assert host.run(("true",)).code == 0


def test_whoever_waits_for_a_machine_that_lost_its_power_is_let_go(host: GuestHost) -> None:
    ended: list[LabBroken] = []

    def wait() -> None:
        with pytest.raises(LabBroken, match="was lost while") as caught:
            host.run(("sleep", "302"), timeout_s=60.0)
        ended.append(caught.value)

    waiting = threading.Thread(target=wait)
    before = list(host._links)
    waiting.start()
    clock.wait(
        lambda: [link for link in host._links if link not in before],
        bool,
        what="the program",
        timeout_s=10,
        interval_s=0.01,
    )
    host.let_go()
    waiting.join(timeout=10)
    assert len(ended) == 1
    assert host.run(("true",)).code == 0


def test_files_appear_whole_with_their_mode(host: GuestHost, path: PurePosixPath) -> None:
    target = path / "below" / "grüße"
    host.push(b"first", target, mode=0o600)
    host.push(b"second" * 100_000, target, mode=0o640)
    assert host.read(target) == b"second" * 100_000
    assert Path(target).stat().st_mode & 0o777 == 0o640
    assert [file.name for file in Path(path / "below").iterdir()] == ["grüße"]
    with pytest.raises(LabBroken, match="File exists"):
        host.push(b"lost" * 1_000_000, target / "below a file")
    with pytest.raises(LabBroken, match="nothing-here"):
        host.read(path / "nothing-here")
    host.remove(path / "below")
    assert not host.exists(path / "below")


def test_a_daemon_is_found_again_and_tells_how_it_ended(host: GuestHost, path: PurePosixPath) -> None:
    daemon = host.spawn(
        ("sh", "-c", "trap 'exit 4' TERM; echo up; while :; do sleep 0.01; done"), log=path / "d" / "log"
    )
    again = host.find(daemon.ref)
    assert again.alive()
    assert again.exit_code() is None
    while host.read(path / "d" / "log") != b"up\n":
        assert again.alive()
    again.signal(signal.SIGTERM)
    assert daemon.wait(5)
    assert (daemon.exit_code(), again.alive()) == (4, False)
    stale = host.find({**daemon.ref, "boot": "another boot"})
    assert not stale.alive()


def test_a_daemon_whose_answer_was_lost_is_started_once(
    host: GuestHost, path: PurePosixPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = Link.answer
    lost: list[dict[str, Any]] = []

    def losing(link: Link, operation: str) -> Any:
        told = answer(link, operation)
        if operation == "spawn" and not lost:
            lost.append(told)
            raise ConnectionResetError
        return told

    assert host.exists(path)  # over a connection that is there to be lost
    monkeypatch.setattr(Link, "answer", losing)
    daemon, other = (host.spawn(("true",), log=path / "log") for _ in range(2))
    assert lost == [daemon.ref]
    assert other.ref != daemon.ref
    monkeypatch.setattr(host, "_boot", "the one before")
    assert host.spawn(("true",), log=path / "log").ref["boot"] == other.ref["boot"], "the boot that started it"


def test_a_channel_answers_line_by_line_and_says_why_it_ended(host: GuestHost) -> None:
    channel = host.channel(("sh", "-c", 'while read -r line; do echo "$line!"; done; echo because >&2; exit 3'))
    assert channel.ask(b"x" * 300_000, timeout_s=5) == b"x" * 300_000 + b"!"
    assert channel.alive()
    channel.close()
    assert not channel.alive()
    ended = host.channel(("sh", "-c", "echo because >&2; exit 3"))
    with pytest.raises(CommandFailed, match="status 3") as caught:
        ended.ask(b"hello", timeout_s=5)
    assert "because" in caught.value.stderr
    ended.close()


def test_a_channel_that_does_not_answer_is_killed(host: GuestHost) -> None:
    channel = host.channel(("sleep", "301"))
    with pytest.raises(CommandTimedOut):
        channel.ask(b"hello", timeout_s=0.2)
    assert not channel.alive()
    channel.close()


@pytest.mark.parametrize(("script", "wanted"), [("tr a-z A-Z; exit 5", 5), ("kill -TERM $$", 128 + 15)])
def test_streams_of_this_machine_are_carried(host: GuestHost, script: str, wanted: int) -> None:
    words = host.interactive(("sh", "-c", script), terminal=False)
    done = subprocess.run(words, input=b"hello", capture_output=True, check=False, timeout=20)
    assert done.returncode == wanted, done.stderr
    assert done.stdout in (b"HELLO", b"")


def test_a_disk_gets_a_name_only_where_there_is_one(host: GuestHost) -> None:
    with pytest.raises(LabBroken, match="d0"):
        host.disk("d0")


def test_a_program_on_a_terminal_has_it_to_itself(host: GuestHost) -> None:
    link = host.link()
    script = "tty; stty size; read -r line; echo got $line; exit 6"
    link.request("run", 5, argv=["sh", "-c", script], env={}, cwd=None, terminal=[33, 77])
    link.send(b"0", b"word\n")
    frames = [link.receive()]
    while frames[-1].kind != b"x":
        frames.append(link.receive())
    shown = b"".join(frame.payload for frame in frames[:-1]).decode()
    assert "/dev/pts/" in shown
    assert "33 77" in shown
    assert "got word" in shown
    assert frames[-1].payload == b'{"code": 6}'
    link.close()


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The agent's part that starts programs."""
    monkeypatch.syspath_prepend(AGENT)
    return importlib.import_module("programs")


def refused(number: int) -> Callable[[int], int]:
    def pidfd_open(pid: int) -> int:
        raise OSError(number, os.strerror(number))

    return pidfd_open


@pytest.mark.slow
@pytest.mark.parametrize("number", [errno.ESRCH, errno.EINVAL])
def test_a_program_that_ended_before_it_was_watched_was_started(
    programs: ModuleType, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux 6.1 says EINVAL where the program is reaped while pidfd_open looks it up."""
    monkeypatch.setattr(os, "pidfd_open", refused(number))
    assert programs.opened(1) == -1


@pytest.mark.slow
def test_another_reason_why_a_program_cannot_be_watched_is_told(
    programs: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "pidfd_open", refused(errno.EMFILE))
    with pytest.raises(OSError, match=os.strerror(errno.EMFILE)):
        programs.opened(1)
