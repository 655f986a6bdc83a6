"""Every provider: daemons that outlive their starter, and programs to talk to."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM

import psutil
import pytest

from cephlab.lab.base import clock
from cephlab.lab.base.errors import CommandFailed, CommandTimedOut
from cephlab.lab.providers.host import Host, preloading
from tests.contract import other_process, probes
from tests.contract.conftest import Place
from tests.contract.probes import python, scratch

pytestmark = [pytest.mark.real]

ROOT = Path(__file__).resolve().parents[2]
KILLED = {-9, 128 + 9, None}


def wait_for_text(host: Host, log: str, text: bytes) -> None:
    path = type(host.directory)(log)
    clock.wait(
        lambda: host.read(path) if host.exists(path) else b"",
        lambda content: text in content,
        what=f"{text!r} in {log}",
        timeout_s=30,
    )


def test_a_daemon_runs_answers_a_signal_and_ends(host: Host) -> None:
    log = scratch(host) / "log"
    daemon = host.spawn(python(probes.POLITE), log=log)
    assert daemon.alive()
    assert daemon.exit_code() is None
    assert not daemon.wait(0.1)
    wait_for_text(host, str(log), b"ready")
    daemon.signal(SIGTERM)
    assert daemon.wait(30)
    assert not daemon.alive()
    assert daemon.exit_code() == 4
    assert host.read(log).endswith(b"bye\n")
    daemon.signal(SIGTERM)


def test_a_daemon_killed_is_dead(host: Host) -> None:
    daemon = host.spawn(("sleep", "300"), log=scratch(host))
    daemon.signal(SIGKILL)
    assert daemon.wait(30)
    assert not daemon.alive()
    assert daemon.exit_code() in KILLED


def test_a_daemon_that_ends_at_once_has_its_status(host: Host) -> None:
    daemon = host.spawn(("sh", "-c", "exit 5"), log=scratch(host))
    assert daemon.wait(30)
    assert daemon.exit_code() == 5


def test_a_stopped_daemon_goes_on_later(host: Host) -> None:
    log = scratch(host)
    daemon = host.spawn(python(probes.POLITE), log=log)
    wait_for_text(host, str(log), b"tick")
    daemon.signal(SIGSTOP)
    time.sleep(0.2)
    halted = host.read(log)
    time.sleep(0.3)
    assert host.read(log) == halted
    assert daemon.alive()
    daemon.signal(SIGCONT)
    wait_for_text(host, str(log), halted + b"tick")
    daemon.signal(SIGKILL)
    assert daemon.wait(30)


def test_both_outputs_are_appended_to_the_log(host: Host) -> None:
    log = scratch(host) / "new directory" / "log"
    for word in ("one", "zwölf"):
        daemon = host.spawn(("sh", "-c", 'echo "$WORD"; echo err >&2'), log=log, env={"WORD": word})
        assert daemon.wait(30)
    assert host.read(log).decode() == "one\nerr\nzwölf\nerr\n"


def test_a_preload_reaches_the_program(host: Host) -> None:
    # The loader names the object that it cannot load, which proves that it was told to.
    missing = host.directory / "no-such-preload.so"
    result = host.run(("true",), env=preloading([missing]), check=False)
    assert missing.name in result.stderr
    log = scratch(host)
    assert host.spawn(("true",), log=log, env=preloading([missing])).wait(10)
    assert missing.name in host.read(log).decode()


def test_a_pid_here_is_the_daemons(place: Place) -> None:
    word = probes.mark()
    daemon = place.native.spawn(("sleep", word), log=scratch(place.native))
    if daemon.pid:
        clock.wait(
            lambda: psutil.Process(daemon.pid).cmdline(), lambda line: word in line, what="the program", timeout_s=30
        )
    daemon.signal(SIGKILL)
    assert daemon.wait(30)


def test_polling_is_cheap(host: Host) -> None:
    daemon = host.spawn(("sleep", "300"), log=scratch(host))
    began = time.process_time()
    for _ in range(200):
        assert daemon.alive()
    # Ten daemons polled ten times a second then cost less than a third of a CPU even where each takes a call.
    assert (time.process_time() - began) / 200 < 0.003
    daemon.signal(SIGKILL)
    assert daemon.wait(30)


def test_a_second_process_finds_and_ends_a_daemon(place: Place, host: Host) -> None:
    daemon = host.spawn(("sleep", "300"), log=scratch(host))
    order = {
        "run": place.run.id,
        "directory": str(place.run.directory),
        "provider": place.provider.name,
        "state": json.dumps(place.lab.state),
        "node": host.name,
        "ref": json.dumps(daemon.ref),
    }
    done = subprocess.run(
        [sys.executable, other_process.__file__, "find", json.dumps(order)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"before": True, "ended": True}
    assert daemon.wait(30)
    assert not daemon.alive()


def test_a_reference_to_what_has_ended_is_dead(host: Host) -> None:
    daemon = host.spawn(("true",), log=scratch(host))
    assert daemon.wait(30)
    same_daemon = host.find(json.loads(json.dumps(daemon.ref)))
    assert not same_daemon.alive()
    assert same_daemon.wait(1)
    same_daemon.signal(SIGTERM)


def test_a_channel_answers_line_by_line(host: Host) -> None:
    channel = host.channel(python(probes.LINES), env={"PYTHONIOENCODING": "utf-8"})
    try:
        for text in ("one", "Grüße 雪", "", "x" * 2_000_000):
            assert channel.ask(text.encode(), timeout_s=20).decode() == text
        assert channel.alive()
    finally:
        channel.close()
    assert not channel.alive()


def test_a_channel_has_its_environment(host: Host) -> None:
    channel = host.channel(("sh", "-c", 'while read -r line; do echo "$line $NAME"; done'), env={"NAME": "雪"})
    try:
        assert channel.ask(b"hello", timeout_s=10).decode() == "hello 雪"
    finally:
        channel.close()


def test_a_channel_that_does_not_answer_is_killed(host: Host) -> None:
    word = probes.mark()
    channel = host.channel(("sleep", word))
    try:
        with pytest.raises(CommandTimedOut):
            channel.ask(b"hello", timeout_s=1)
        assert not channel.alive()
        assert probes.processes_with(host, word) == []
        with pytest.raises(CommandFailed):
            channel.ask(b"again", timeout_s=5)
    finally:
        channel.close()


def test_a_channel_that_ends_says_why(host: Host) -> None:
    channel = host.channel(("sh", "-c", "read -r line; echo because >&2; exit 3"))
    try:
        with pytest.raises(CommandFailed) as caught:
            channel.ask(b"hello", timeout_s=10)
    finally:
        channel.close()
    assert caught.value.code == 3
    assert "because" in caught.value.stderr


def test_closing_ends_a_program_that_does_not_want_to(host: Host) -> None:
    word = probes.mark()
    channel = host.channel(("sleep", word))
    channel.close()
    assert probes.processes_with(host, word) == []


def test_an_interactive_command_runs_on_the_host(place: Place) -> None:
    host = place.native
    words = host.interactive(("uname", "-n"), terminal=False)
    shown = subprocess.run(words, capture_output=True, text=True, check=True, timeout=30)
    assert shown.stdout == host.run(("uname", "-n")).stdout
