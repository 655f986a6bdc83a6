"""Processes of this machine: what ends by itself meanwhile, and files that threads write at once."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from cephlab.lab.base import births, clock, process
from cephlab.lab.base.births import birth_of, environment_of
from cephlab.lab.base.errors import CommandFailed, CommandTimedOut, LabBroken, unwritable
from cephlab.lab.base.home import Home
from cephlab.lab.base.process import Command, LocalProcess, Pipe, find_marked, recall, start_detached
from cephlab.lab.base.runs import Run, Runs, write_json, write_private


class _SeenAlive(LocalProcess):
    """One that ends right after it was seen alive."""

    def alive(self) -> bool:
        return True


def test_a_process_that_ends_by_itself_does_not_stop_a_clean_up(tmp_path: Path) -> None:
    ended = start_detached(["true"], log=tmp_path / "log")
    assert ended.wait(5)
    _SeenAlive(ended.pid, ended.birth).kill()


def test_a_killed_process_is_dead(tmp_path: Path) -> None:
    sleeper = start_detached(["sleep", "60"], log=tmp_path / "log")
    sleeper.kill()
    assert sleeper.wait(5)


def test_a_clean_up_by_marks_leaves_no_zombie_and_keeps_the_status(tmp_path: Path) -> None:
    sleeper = start_detached(["sleep", "60"], log=tmp_path / "log", env={"MARK": str(tmp_path)})
    (marked,) = find_marked({"MARK": str(tmp_path)})
    marked.kill()
    assert marked.wait(5)
    assert not psutil.pid_exists(sleeper.pid)
    assert sleeper.exit_code() == -signal.SIGKILL


def test_a_process_that_left_a_late_command_does_not_keep_whoever_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds the command's output open, and the command's session is not its own."""
    monkeypatch.setattr(process, "_DRAIN_S", 0.1)
    mark = {"MARK": str(tmp_path)}
    began = time.monotonic()
    try:
        with pytest.raises(CommandTimedOut) as caught:
            process.run(["sh", "-c", "setsid sleep 20 & echo word; wait"], timeout_s=0.3, env=mark)
    finally:
        for left in find_marked(mark):
            left.kill()
    assert time.monotonic() - began < 10
    assert caught.value.stdout == "word\n"


@dataclass
class Starting:
    """A process in execve, with an environment after some looks at that. looks: that were taken so far."""

    lasts: int
    pid: int = 7
    looks: int = 0

    def environ(self) -> dict[str, str]:
        return {"MARK": "here"} if self.looks >= self.lasts else {}

    def in_execve(self, pid: int) -> bool:
        assert pid == self.pid
        self.looks += 1
        return self.looks < self.lasts


def test_a_program_that_closes_its_output_and_goes_on_is_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "_DRAIN_S", 0.1)
    pipe = Pipe(Command(("bash", "-c", "exec 1>&-; exec sleep 30")))
    began = time.monotonic()
    with pytest.raises(CommandFailed, match="ended with status -9"):
        pipe.ask(b"hello", timeout_s=20.0)
    assert time.monotonic() - began < 15
    pipe.close()


@pytest.mark.parametrize("looks", [1, 3], ids=["started between the read and the look", "still starting"])
def test_a_process_that_is_just_starting_is_found_by_its_marks(monkeypatch: pytest.MonkeyPatch, looks: int) -> None:
    starting = Starting(looks)
    monkeypatch.setattr(births, "in_execve", starting.in_execve)
    assert environment_of(starting) == {"MARK": "here"}


def test_a_process_is_found_as_soon_as_it_was_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of eight was missed before, where it was looked at first."""
    seen = []
    for number in range(60):
        started = start_detached(["sleep", "60"], log=tmp_path / "log", env={"MARK": f"{tmp_path}{number}"})
        monkeypatch.setattr(psutil, "process_iter", lambda pid=started.pid: iter([psutil.Process(pid)]))
        seen.append([marked.pid for marked in find_marked({"MARK": f"{tmp_path}{number}"})] == [started.pid])
        started.kill()
    assert seen == [True] * 60


STAT = "7 (a name) S 1 " + " ".join(["0"] * 18) + " {vsize} " + " ".join(["5"] * 27) + " {env_end} 0\n"


@pytest.mark.parametrize(
    ("vsize", "env_end", "starting"),
    [(0, 0, False), (4096, 0, True), (4096, 140731, False)],
    ids=["kernel thread or zombie", "in execve", "program"],
)
def test_only_a_process_with_memory_and_no_environment_yet_is_starting(
    monkeypatch: pytest.MonkeyPatch, *, vsize: int, env_end: int, starting: bool
) -> None:
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: STAT.format(vsize=vsize, env_end=env_end))
    assert births.in_execve(7) is starting


def test_a_process_without_an_environment_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every scan meets it."""
    bare = start_detached(["env", "-i", "sleep", "60"], log=tmp_path / "log")
    clock.wait(lambda: psutil.Process(bare.pid).environ(), lambda env: not env, what="no environment", timeout_s=5)
    clock.wait(lambda: births.in_execve(bare.pid), lambda starting: not starting, what="a program", timeout_s=5)
    monkeypatch.setattr(clock.SystemClock, "sleep", None)
    assert environment_of(psutil.Process(bare.pid)) == {}
    bare.kill()


def test_a_process_that_never_gets_an_environment_is_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(births, "_EXECUTED_S", 0.01)
    stuck = Starting(lasts=1000)
    monkeypatch.setattr(births, "in_execve", stuck.in_execve)
    assert environment_of(stuck) == {}


_WITHOUT_FIRST_THREAD = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_process_lives_while_any_of_its_threads_does(tmp_path: Path) -> None:
    """For a moment so is one of which another thread executes a program, such as a manager that begins anew."""
    started = start_detached([sys.executable, "-c", _WITHOUT_FIRST_THREAD], log=tmp_path / "log")
    try:
        first_thread = psutil.Process(started.pid)
        clock.wait(first_thread.status, lambda status: status == psutil.STATUS_ZOMBIE, what="its end", timeout_s=10)
        assert recall(started.ref).alive()
    finally:
        started.kill()
        assert started.wait(5)
    assert not recall(started.ref).alive()


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[LocalProcess]:
    started = start_detached(["sleep", "60"], log=tmp_path / "log")
    yield started
    started.kill()
    assert started.wait(5)


def test_a_step_of_the_clock_does_not_make_another_process_of_it(
    sleeper: LocalProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = json.loads(json.dumps(sleeper.ref))
    began = psutil.Process(sleeper.pid).create_time()
    monkeypatch.setattr(psutil.Process, "create_time", lambda _self: began + 3600)
    assert recall(record).alive()


def test_another_process_of_the_same_pid_is_not_taken_for_it(sleeper: LocalProcess) -> None:
    boot, _, ticks = sleeper.birth.partition("/")
    assert not LocalProcess(sleeper.pid, f"{boot}/{int(ticks) - 1}").alive()
    assert not LocalProcess(sleeper.pid, f"another-boot/{ticks}").alive()


def test_a_record_of_an_older_cephlab_still_finds_its_process(sleeper: LocalProcess) -> None:
    began = psutil.Process(sleeper.pid).create_time()
    assert recall({"pid": sleeper.pid, "start_time": began + 0.5}).birth == sleeper.birth
    assert not recall({"pid": sleeper.pid, "start_time": began - 5}).alive()
    assert not recall({"pid": sleeper.pid}).alive()


def test_what_never_was_is_not_alive() -> None:
    nobody = 2**22 + 1
    assert birth_of(nobody) == ""
    assert not LocalProcess(nobody, "").alive()


def test_a_name_with_spaces_and_parentheses_does_not_move_the_fields(tmp_path: Path) -> None:
    program = tmp_path / "a) b (c"
    program.symlink_to("/bin/sleep")
    started = start_detached([str(program), "60"], log=tmp_path / "log")
    try:
        assert LocalProcess(started.pid, birth_of(started.pid)).alive()
        assert birth_of(started.pid).partition("/")[0] == birth_of(os.getpid()).partition("/")[0]
    finally:
        started.kill()
        assert started.wait(5)


@pytest.mark.slow
def test_threads_that_save_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    target = tmp_path / "state.json"
    errors: list[OSError] = []

    def save(number: int) -> None:
        try:
            for _ in range(100):
                write_json(target, {"number": number})
        except OSError as error:
            errors.append(error)

    threads = [threading.Thread(target=save, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert json.loads(target.read_text())["number"] in range(6)
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


def test_a_file_that_cannot_be_written_leaves_no_scratch_behind(tmp_path: Path) -> None:
    (tmp_path / "state.json").mkdir()
    with pytest.raises(LabBroken, match=r"state\.json"):
        write_json(tmp_path / "state.json", {})
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


def test_a_file_is_private_before_anything_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a file of another mode, or somebody who has it open, was there before."""
    target = tmp_path / "keyring"
    target.write_text("old")
    target.chmod(0o644)
    modes: list[int] = []
    real = os.fdopen

    class Watched:
        def __init__(self, descriptor: int) -> None:
            self.sink = real(descriptor, "wb")

        def __enter__(self) -> Watched:
            return self

        def __exit__(self, *_error: object) -> None:
            self.sink.close()

        def write(self, content: bytes) -> None:
            modes.append(os.fstat(self.sink.fileno()).st_mode & 0o777)
            self.sink.write(content)

    monkeypatch.setattr(os, "fdopen", lambda descriptor, _mode: Watched(descriptor))
    with target.open() as reader:
        write_private(target, b"secret")
        assert reader.read() == "old"
    assert modes == [0o600]
    assert (target.read_bytes(), target.stat().st_mode & 0o777) == (b"secret", 0o600)


def test_a_full_disk_is_named() -> None:
    with pytest.raises(LabBroken, match=r"the disk of state\.json is full"):
        raise unwritable("state.json", OSError(errno.ENOSPC, "No space left on device"))


def with_files(home: Home) -> Run:
    run = Runs(home).create("local", "one")
    for name in ("a", "b", "c"):
        (run.directory / name).write_text("x")
    return run


def test_a_run_is_forgotten_although_files_of_it_go_away_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path)
    run = with_files(home)
    real = os.unlink

    def gone_already(path: str, **options: int) -> None:
        real(path, **options)
        if path == "a":
            raise FileNotFoundError(path)

    monkeypatch.setattr(os, "unlink", gone_already)
    Runs(home).forget(run)
    assert not run.directory.exists()
    Runs(home).forget(run)


def test_what_cannot_be_forgotten_is_named_and_the_rest_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(tmp_path)
    run = with_files(home)
    real = os.unlink

    def stuck(path: str, **options: int) -> None:
        if path == "a":
            raise PermissionError(path)
        real(path, **options)

    monkeypatch.setattr(os, "unlink", stuck)
    with pytest.raises(LabBroken, match="one/a"):
        Runs(home).forget(run)
    assert [path.name for path in run.directory.iterdir()] == ["a"]


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["/usr/bin/ceph-osd", "-f", "-i", "0", "-c", "/nodes/n0/ceph.conf"], "ceph-osd -f -i 0 -c ceph.conf"),
        (
            [
                "/lib/ld-linux.so",
                "--library-path",
                "/a/x86_64-linux-gnu:/b/ceph-17.2.7",
                "/b/bin/ceph-osd",
                "-f",
                "-i",
                "0",
            ],
            "ld-linux.so --library-path ceph-17.2.7 ceph-osd -f -i 0",
        ),
        (["/usr/bin/qemu-aarch64", *["-L"] * 30, "ceph-osd", "-i", "0"], f"qemu-aarch64 ...{' -L' * 15} ceph-osd -i 0"),
        (["/bin/sh", "-c", f"exec {'x' * 80}"], "sh ..."),
        (["ceph-osd", "--key", "AQBmR3FfAAAAABAAGPhBuvlv9s8IumlmVYDeYA=="], "ceph-osd --key [key removed]"),
        ([], "no command"),
    ],
)
def test_a_command_is_shown_short_and_without_keys(argv: list[str], text: str) -> None:
    assert births.command_text(argv) == text


def test_a_process_that_ended_is_its_number() -> None:
    assert births.described(2**22 + 1) == f"process {2**22 + 1}"
