"""What daemons hold more than before, and what they wrote, by daemon; only those that ran all the time are compared."""

import os
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.ceph import logs
from cephlab.lab.ceph.daemon import Daemon
from cephlab.lab.ceph.logs import LogFile, LogMarks
from cephlab.lab.ceph.memory import Footprint, Held, grown, held_here, stored_here
from cephlab.lab.checks.aftermath import MOST_GROWN, aftermath, largest_growth
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
    ("what", "words"),
    [
        ("resident", "bytes of memory"),
        ("threads", "threads"),
        ("files", "open files"),
        ("stored", "bytes of its disk"),
    ],
)
def test_a_clear_excess_fails_a_scenario(what: str, words: str) -> None:
    most = MOST_GROWN[what]
    assert judged(held={"osd.0": {what: [5, 5 + most]}})[0] is Outcome.PASS
    outcome, reason = judged(held={"osd.0": {what: [5, 6 + most]}})
    assert outcome is Outcome.FAIL
    assert f"osd.0 has {1 + most} {words} more than before the scenario, at most {most}: in any scenario" in reason


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
    assert (outcome, "4 threads more than before the scenario, at most 3: what passes told" in reason) == (
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


def test_disks_are_told_by_the_manager_and_by_folders_here() -> None:
    def daemon(name: str, pid: int, said: str, code: int = 0) -> Daemon:
        answer = SimpleNamespace(code=code, stdout=said)
        host = SimpleNamespace(directory=PurePosixPath("/n0"), run=lambda *_, **__: answer)
        process = SimpleNamespace(pid=pid)
        return cast("Daemon", SimpleNamespace(name=name, kind=name[:3], host=host, process=process))

    client = SimpleNamespace(mgr=lambda _: {"nodes": [{"id": 0, "kb_used": 3}]})
    daemons = [
        daemon("osd.0", 7, "9 /n0/osd.0"),
        daemon("mon.a", 7, "50 /n0/mon.a\n50 total"),
        daemon("mon.b", 7, "", code=1),
        daemon("mgr.x", 0, "50 /n0/mgr.x\n50 total"),
    ]
    assert stored_here(cast("Any", client), daemons) == {"osd.0": 3072, "mon.a": 50}
