"""Signals by a mark: they reach every process with the mark and no other, also one that is executing a program."""

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGTERM, Signals

import pytest

from cephlab.lab.base import clock
from cephlab.lab.base.process import LocalProcess, run, start_detached
from cephlab.lab.providers.marks import TOKEN_VARIABLE, kill_marked, new_token, signalling
from cephlab.lab.providers.ssh.host import SWEEP

# It lists, of the files with the mark, those whose numbers the next line of a file names, and none of any other.
GREP = """#!/bin/bash
read -r pids <"$LINES_LEFT"
sed -i 1d "$LINES_LEFT"
for pid in $pids; do echo "/proc/$pid/environ"; done
"""
ENDS_S = 10.0


@pytest.fixture
def marked(tmp_path: Path) -> Iterator[tuple[str, list[LocalProcess]]]:
    """A token, two processes that have it, and one that has another."""
    token = new_token()
    started = [
        start_detached(["sleep", "60"], log=tmp_path / "log", env={TOKEN_VARIABLE: each})
        for each in (token, token, f"{token}0")
    ]
    yield token, started
    for each in started:
        each.kill()


def send(token: str, number: Signals, **env: str) -> None:
    run(signalling(token, number), env=env)


@pytest.mark.parametrize("number", [SIGTERM, SIGKILL])
def test_a_signal_reaches_all_with_the_mark_and_no_other(
    marked: tuple[str, list[LocalProcess]], number: Signals
) -> None:
    token, (*those, other) = marked
    send(token, number)
    assert all(each.wait(ENDS_S) for each in those)
    assert other.alive()


def test_no_signal_but_kill_is_sent_twice(tmp_path: Path) -> None:
    """A second SIGINT ends fio at once."""
    token, heard = new_token(), tmp_path / "heard"
    script = f"trap 'echo signal >>{heard}' INT; echo ready >>{heard}; while :; do sleep 0.02; done"
    # A shell cannot trap a signal that whoever started it ignores, as for a job in the background of a script.
    argv = ["env", "--default-signal=INT", "bash", "-c", script]
    counting = start_detached(argv, log=tmp_path / "log", env={TOKEN_VARIABLE: token})
    try:
        clock.wait(heard.exists, bool, what="a program that counts signals", timeout_s=ENDS_S)
        send(token, SIGINT)
        clock.wait(heard.read_text, lambda text: "signal" in text, what="a signal", timeout_s=ENDS_S)
    finally:
        counting.kill()
    assert heard.read_text().split() == ["ready", "signal"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "passes"), [(SIGTERM, "\n{0} {1}\n"), (SIGKILL, "\n{0}\n\n{1}\n"), (SIGKILL, "{0}\n{1}\n")]
)
def test_a_process_that_one_pass_does_not_see_is_reached_by_the_next(
    marked: tuple[str, list[LocalProcess]], number: Signals, passes: str, tmp_path: Path
) -> None:
    """Within execve(2) the kernel shows no environment, and a pass that found nothing ended the search."""
    token, (first, second, _) = marked
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/grep").write_text(GREP)
    (tmp_path / "bin/grep").chmod(0o755)
    lines = tmp_path / "lines"
    lines.write_text(passes.format(first.pid, second.pid))
    send(token, number, PATH=f"{tmp_path}/bin:{os.environ['PATH']}", LINES_LEFT=str(lines))
    assert first.wait(ENDS_S)
    assert second.wait(ENDS_S)


def test_what_a_clean_up_kills_is_named_by_its_command_and_how_long_it_ran(tmp_path: Path) -> None:
    mark = {"MARK": str(tmp_path)}
    sleeper = start_detached(["/bin/sleep", "60"], log=tmp_path / "log", env=mark)
    [words] = kill_marked(mark, "one")
    assert re.fullmatch(rf"process {sleeper.pid} \(sleep 60, ran for \d\.\d s\)", words), words
    assert not sleeper.alive()


@pytest.mark.slow
def test_on_a_machine_reached_by_ssh_too(tmp_path: Path) -> None:
    sleeper = start_detached(["/bin/sleep", "60"], log=tmp_path / "log", env={"CEPHLAB_REMOTE": str(tmp_path)})
    swept = run((sys.executable, "-I", "-c", SWEEP.read_text(), str(tmp_path), "", ""))
    [words] = json.loads(swept.stdout)["ok"]
    assert re.fullmatch(rf"process {sleeper.pid} \(sleep 60, ran for \d s\)", words), words
