"""What daemons hold more than before, and what they wrote, by daemon; only those that ran all the time are compared."""

import os
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.ceph import logs
from cephlab.lab.ceph.daemon import Daemon
from cephlab.lab.ceph.logs import LogFile, LogMarks
from cephlab.lab.ceph.memory import Footprint, Held, grown, held_here
from cephlab.lab.checks.aftermath import MOST_GROWN, MOST_LOGGED, aftermath
from cephlab.lab.checks.verdict import Outcome
from cephlab.lab.history.history import History


def held(pid: int, resident: int = 10, threads: int = 2, files: int = 3) -> Held:
    return Held({"pid": pid}, Footprint(resident, threads, files))


def test_only_a_daemon_that_ran_all_the_time_is_compared() -> None:
    before = {"osd.0": held(1), "osd.1": held(2), "osd.2": held(3)}
    now = {"osd.0": held(1, 12, 2, 9), "osd.1": held(22), "osd.3": held(4)}
    assert grown(before, now) == {"osd.0": {"resident": [10, 12], "threads": [2, 2], "files": [3, 9]}}


def test_daemons_of_this_machine_are_looked_at_and_no_others() -> None:
    def daemon(name: str, pid: int) -> Daemon:
        process = SimpleNamespace(pid=pid, ref={"pid": pid}) if pid >= 0 else None
        return cast("Daemon", SimpleNamespace(name=name, process=process, started=lambda: process))

    looked = held_here([daemon("mon.a", os.getpid()), daemon("a", 0), daemon("b", -1), daemon("c", 4_194_305)])
    assert list(looked) == ["mon.a"]
    assert looked["mon.a"].footprint.resident > 1 << 20


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
    ("what", "words"), [("resident", "bytes of memory"), ("threads", "threads"), ("files", "open files")]
)
def test_a_clear_excess_fails_a_scenario(what: str, words: str) -> None:
    most = MOST_GROWN[what]
    assert judged(held={"osd.0": {what: [5, 5 + most]}})[0] is Outcome.PASS
    outcome, reason = judged(held={"osd.0": {what: [5, 6 + most]}})
    assert outcome is Outcome.FAIL
    assert f"osd.0 holds {6 + most} {words}, 5 before the scenario; at most {most} more" in reason


def test_a_log_that_runs_over_fails_a_scenario() -> None:
    assert judged(logged={"osd.0": MOST_LOGGED})[0] is Outcome.PASS
    assert judged(logged={"osd.0": MOST_LOGGED + 1})[0] is Outcome.FAIL
