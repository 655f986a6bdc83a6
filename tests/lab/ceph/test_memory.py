"""What daemons hold more than before, and what they wrote, by daemon; only those that ran all the time are compared."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.ceph import logs
from cephlab.lab.ceph.daemon import Daemon
from cephlab.lab.ceph.logs import LogFile, LogMarks
from cephlab.lab.ceph.memory import Footprint, Held, disk_use, footprint, grown, holdings, parsed_footprints
from cephlab.lab.checks.aftermath import MOST_GROWN, aftermath, largest_growth
from cephlab.lab.checks.verdict import Outcome
from cephlab.lab.history.history import History
from cephlab.lab.providers.marks import TOKEN_VARIABLE


def held(pid: int, resident: int = 10, threads: int = 2, files: int = 3) -> Held:
    return Held({"pid": pid}, Footprint(resident, threads, files))


def test_only_a_daemon_that_ran_all_the_time_is_compared() -> None:
    before = {"osd.0": held(1), "osd.1": held(2), "osd.2": held(3)}
    now = {"osd.0": held(1, 12, 2, 9), "osd.1": held(22), "osd.3": held(4)}
    assert grown(before, now) == {"osd.0": {"resident": [10, 12], "threads": [2, 2], "files": [3, 9]}}


class ThisMachine:
    """A host whose processes have a number there and none here, so that it is asked by a program."""

    name = "guest"
    directory = PurePosixPath("/n0")

    def __init__(self, *, is_up: bool = True, answers: bool = True) -> None:
        self.is_up, self.answers, self.calls = is_up, answers, 0

    def up(self) -> bool:
        return self.is_up

    def run(self, argv: list[str], env: Mapping[str, str] | None = None) -> Any:
        self.calls += 1
        if not self.answers:
            raise LabBroken("it went away")
        made = subprocess.run(argv, env={**os.environ, **(env or {})}, check=True, capture_output=True, text=True)
        return SimpleNamespace(stdout=made.stdout)


def daemon(name: str, pid: int, ref: Mapping[str, Any] | None = None, host: ThisMachine | None = None) -> Daemon:
    """pid: on this machine, 0 for none there, -1 for a daemon that was never started."""
    process = SimpleNamespace(pid=pid, ref=ref or {"pid": pid}) if pid >= 0 else None
    return cast("Daemon", SimpleNamespace(name=name, process=process, started=lambda: process, host=host))


def test_daemons_of_this_machine_are_looked_at() -> None:
    looked = holdings([daemon("mon.a", os.getpid()), daemon("b", -1), daemon("c", 4_194_305)])
    assert list(looked) == ["mon.a"]
    assert looked["mon.a"].footprint.resident > 1 << 20


def test_daemons_elsewhere_are_asked_for_by_one_program_for_each_host() -> None:
    host = ThisMachine()
    with subprocess.Popen(["sleep", "60"], env={TOKEN_VARIABLE: "0a1b"}) as marked:
        try:
            looked = holdings(
                [
                    daemon("mon.a", 0, {"pid": os.getpid()}, host),
                    daemon("osd.0", 0, {"pid": 0, "token": "0a1b"}, host),
                    daemon("osd.1", 0, {"pid": 4_194_305}, host),
                    daemon("osd.2", 0, {"pid": 0, "token": "0a1c"}, host),
                ]
            )
            here = footprint(daemon("osd.0", marked.pid))
        finally:
            marked.kill()
    assert (list(looked), host.calls) == (["mon.a", "osd.0"], 1)
    assert looked["mon.a"].process == {"pid": os.getpid()}
    assert looked["osd.0"].footprint == here


def test_a_host_that_is_down_or_goes_away_shows_nothing() -> None:
    for host in (ThisMachine(is_up=False), ThisMachine(answers=False)):
        assert holdings([daemon("mon.a", 0, {"pid": os.getpid()}, host)]) == {}


def test_what_a_daemon_holds_is_the_sum_of_its_processes_and_one_that_ended_holds_nothing() -> None:
    said = "token:ab\nVmRSS:\t 4 kB\nThreads:\t1\nFiles: 3\nVmRSS:\t 8 kB\nThreads:\t2\nFiles: 4\n"
    zombie = "pid:7\nThreads:\t1\nFiles: 0\npid:8\n"
    assert parsed_footprints(said + zombie) == {"token:ab": Footprint(12 << 10, threads=3, files=7)}


def test_a_process_that_ended_and_is_not_waited_for_yet_holds_nothing() -> None:
    with subprocess.Popen(["sleep", "60"]) as ended:
        ended.kill()
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        assert holdings([daemon("osd.0", ended.pid)]) == {}
        with pytest.raises(LabBroken, match=r"memory use of .* cannot be read"):
            footprint(daemon("osd.0", ended.pid))


def test_what_was_written_is_counted_by_daemon() -> None:
    host = SimpleNamespace(name="n0")
    files = [
        LogFile(daemon, cast("Any", host), cast("Any", path), output=False)
        for daemon, path in (("osd.0", "l"), ("osd.0", "o"), ("mon.a", "m"), ("new", "n"))
    ]
    before = LogMarks({("n0", "l"): 10, ("n0", "o"): 5, ("n0", "m"): 7})
    now = LogMarks({("n0", "l"): 30, ("n0", "o"): 6, ("n0", "m"): 2, ("n0", "n"): 4}, tuple(files))
    assert logs.grown(before, now) == {"osd.0": 21, "mon.a": 0, "new": 4}


def judged(**more: Any) -> tuple[Outcome, str]:
    recorder = History().recorder("demo.x")
    data = {"crashes": [], "dead": [], "complaints": [], "healthy": True, "health": "", **more}
    recorder.record("aftermath", **data)
    verdict = aftermath(recorder.events())
    assert verdict is not None
    return verdict.outcome, verdict.reason


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("resident", "bytes of memory"),
        ("threads", "threads"),
        ("files", "open files"),
        ("stored", "bytes on its disk"),
    ],
)
def test_a_clear_excess_fails_a_scenario(what: str, words: str) -> None:
    most = MOST_GROWN[what]
    assert judged(held={"osd.0": {what: [5, 5 + most]}})[0] is Outcome.PASS
    outcome, reason = judged(held={"osd.0": {what: [5, 6 + most]}})
    assert outcome is Outcome.FAIL
    wanted = f"osd.0 has {1 + most} {words} more than before the scenario, at most {most} allowed: the limit of every"
    assert wanted in reason


def test_what_an_osd_cached_is_no_growth() -> None:
    most = MOST_GROWN["resident"]
    held = {"resident": [5, 5 + 2 * most], "cached": [0, most]}
    assert judged(held={"osd.0": held})[0] is Outcome.PASS
    assert judged(held={"osd.0": {**held, "cached": [0, most - 1]}})[0] is Outcome.FAIL
    assert largest_growth({"held": {"osd.0": held}}) == {"osd resident": most}


def test_a_log_that_runs_over_fails_a_scenario() -> None:
    assert judged(logged={"osd.0": MOST_GROWN["logged"]})[0] is Outcome.PASS
    assert judged(logged={"osd.0": MOST_GROWN["logged"] + 1})[0] is Outcome.FAIL


def test_kept_passes_limit_it_further_and_never_less() -> None:
    most = {"osd threads": [3, "what passes told"], "osd logged": [1 << 40, "passes that wrote much"]}
    assert judged(most=most, held={"osd.0": {"threads": [5, 8]}, "mon.a": {"threads": [5, 9]}})[0] is Outcome.PASS
    outcome, reason = judged(most=most, held={"osd.0": {"threads": [5, 9]}})
    assert (outcome, "4 threads more than before the scenario, at most 3 allowed: what passes told" in reason) == (
        Outcome.FAIL,
        True,
    )
    assert judged(most=most, logged={"osd.0": MOST_GROWN["logged"] + 1})[0] is Outcome.FAIL


def test_the_largest_growth_is_by_kind_of_daemon() -> None:
    held = {"osd.0": {"threads": [5, 8]}, "osd.1": {"threads": [5, 9]}, "mon.a": {"files": [9, 2]}}
    assert largest_growth({"held": held, "logged": {"mon.a": 7}}) == {
        "osd threads": 4,
        "mon files": 0,
        "mon logged": 7,
    }


def test_disks_are_told_by_the_manager_and_by_folders() -> None:
    asked: list[list[str]] = []

    def run(argv: list[str], *, check: bool) -> Any:
        asked.append(argv)
        assert not check  # of a folder that is not there only du's code tells
        return SimpleNamespace(stdout="50\t/n0/mon.a\n60\t/n0/mgr.x\n")

    host = SimpleNamespace(name="n0", directory=PurePosixPath("/n0"), run=run, up=lambda: True)
    down = SimpleNamespace(name="n1", directory=PurePosixPath("/n1"), up=lambda: False)

    def of(name: str, host: Any, pid: int | None = 7) -> Daemon:
        process = None if pid is None else SimpleNamespace(pid=pid)
        return cast("Daemon", SimpleNamespace(name=name, kind=name[:3], host=host, process=process))

    client = SimpleNamespace(mgr=lambda _: {"nodes": [{"id": 0, "kb_used": 3}]})
    daemons = [of("osd.0", host), of("mon.a", host), of("mgr.x", host, 0), of("mon.b", host), of("mon.c", down)]
    assert disk_use(cast("Any", client), [*daemons, of("mon.d", host, None)]) == {
        "osd.0": 3072,
        "mon.a": 50,
        "mgr.x": 60,
    }
    assert asked == [["du", "-sb", "/n0/mon.a", "/n0/mgr.x", "/n0/mon.b"]]
