"""What daemons may keep of a load: a leak, a thread or a file for each operation is found, a sound daemon passes."""

import os
import subprocess
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import cast

import psutil
import pytest

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.ceph.daemon import Daemon
from cephlab.lab.ceph.memory import Footprint, ThreadTime, footprint, size_of, threads_here
from cephlab.lab.checks import CHECKS, Outcome, Verdict
from cephlab.lab.cluster.attach.guard import NotPermitted
from cephlab.lab.history.history import History
from cephlab.lab.spec.clusterspec import MIB
from cephlab.suites.baseline.growth import (
    FEW_BLOCKS,
    MOST_BUSY,
    Held,
    allocated,
    busiest,
    growth,
    judge,
    note_commits,
    note_usage,
)
from tests.fake_stage import stage_of
from tests.lab.faults.test_faults import an_attached_cluster

FIRST = Held(Footprint(80 * MIB, threads=60, files=70), {"a": 4 * MIB, "b": 6 * MIB}, 1000, 2 * MIB, 20 * MIB)
COUNT = 3000


def judged(name: str = "osd.0", *, kept: int = 0, count: int = COUNT, **more: int) -> Verdict:
    """The verdict over a daemon that kept so much of a load. more: threads, files, log, disk."""
    print_ = Footprint(
        FIRST.footprint.resident + 4 * MIB + kept, 60 + more.get("threads", 0), 70 + more.get("files", 0)
    )
    written = (2 * MIB + more.get("log", 0), 20 * MIB + more.get("disk", 0))
    recorder = History().recorder("baseline.growth")
    judge(recorder, name, FIRST, Held(print_, {"a": 14 * MIB}, FIRST.operations + count, *written))
    if not name.startswith("osd."):
        recorder.witness("operations of osd.0", got=count, least=1)
    return CHECKS["figures"](recorder.events())


def test_an_existing_cluster_gets_no_load_for_what_cannot_be_looked_at() -> None:
    with pytest.raises(NotPermitted, match="of a cluster that the lab made"):
        growth(stage_of(an_attached_cluster()))


def test_what_a_sound_osd_keeps_passes() -> None:
    assert judged().outcome is Outcome.PASS
    assert judged(kept=COUNT * 3 << 10, threads=3, files=5).outcome is Outcome.PASS


@pytest.mark.parametrize("leak", [256 << 10, 32 << 10, 20 << 10])
def test_a_leak_with_each_operation_is_found(leak: int) -> None:
    verdict = judged(kept=COUNT * leak)
    assert verdict.outcome is Outcome.FAIL
    assert "osd.0: memory kept of the load" in verdict.reason


def test_threads_and_files_that_stay_are_found() -> None:
    assert "osd.0: threads kept of the load" in judged(threads=17).reason
    assert "osd.0: open files kept of the load" in judged(files=65).reason
    assert judged(threads=16, files=64).outcome is Outcome.PASS


def test_a_log_and_a_disk_that_grow_are_found() -> None:
    assert "osd.0: log grown" in judged(log=COUNT * 2048).reason
    assert "osd.0: disk grown" in judged(disk=COUNT * 32 << 10).reason
    assert judged(log=MIB, disk=32 * MIB).outcome is Outcome.PASS
    assert "mon.n0: log grown" in judged("mon.n0", count=0, log=2 * MIB).reason
    assert "mon.n0: disk grown" in judged("mon.n0", count=0, disk=40 * MIB).reason


def test_a_daemon_whose_files_nobody_can_see_has_no_such_figures() -> None:
    recorder = History().recorder("baseline.growth")
    judge(recorder, "mon.n0", Held(FIRST.footprint), Held(FIRST.footprint))
    assert not [event for event in recorder.events() if "grown" in event.data["metric"]]


def test_what_an_osd_allocated_is_read_in_either_spelling() -> None:
    bluefs = {"db_used_bytes": 5}
    assert allocated({"bluestore": {"allocated": 7}, "bluefs": bluefs}) == 12
    assert allocated({"bluestore": {"bluestore_allocated": 8}, "bluefs": bluefs}) == 13


@pytest.mark.parametrize(("code", "said", "size"), [(0, "10\ta\n20\tb\n30\ttotal\n", 30), (1, "", None)])
def test_a_size_is_the_total_of_what_is_there(code: int, said: str, size: int | None) -> None:
    host = SimpleNamespace(run=lambda _argv, check: SimpleNamespace(stdout=said, code=code))
    daemon = cast("Daemon", SimpleNamespace(host=host))
    assert size_of(daemon, PurePosixPath("/a"), PurePosixPath("/b")) == size


def test_a_monitor_is_held_to_what_an_allocator_may_keep() -> None:
    assert judged("mon.n0", kept=20 * MIB, count=0).outcome is not Outcome.FAIL
    assert judged("mon.n0", kept=30 * MIB, count=0).outcome is Outcome.FAIL


@pytest.mark.parametrize(("used", "outcome"), [(20, Outcome.PASS), (0, Outcome.FAIL), (40, Outcome.FAIL)])
def test_an_osd_that_reports_another_use_of_its_disk_than_it_counts_is_found(used: int, outcome: Outcome) -> None:
    recorder = History().recorder("baseline.growth")
    recorder.witness("operations of osd.0", got=1, least=1)
    note_usage(recorder, {"osd.0": used * MIB}, {"osd.0": FIRST})
    assert CHECKS["figures"](recorder.events()).outcome is outcome


def test_hardly_any_operation_shows_nothing() -> None:
    assert judged(count=10).outcome is Outcome.INCONCLUSIVE


def test_a_process_of_this_machine_is_measured_with_what_it_started() -> None:
    daemon = cast("Daemon", SimpleNamespace(name="mon.a", started=lambda: SimpleNamespace(pid=os.getpid())))
    seen = footprint(daemon)
    assert seen.resident > MIB
    assert seen.threads >= 1
    assert seen.files >= 3
    gone = cast("Daemon", SimpleNamespace(name="mon.a", started=lambda: SimpleNamespace(pid=4_194_305)))
    with pytest.raises(LabBroken, match=r"mon\.a"):
        footprint(gone)


def test_a_process_elsewhere_is_asked_for_on_its_host() -> None:
    answer = "pid:77\nVmRSS:\t    2048 kB\nThreads:\t7\nFiles: 12\n"
    host = SimpleNamespace(name="n0", run=lambda _argv, env: SimpleNamespace(stdout=answer))
    process = SimpleNamespace(pid=0, ref={"pid": 77})
    daemon = cast("Daemon", SimpleNamespace(name="mon.a", host=host, started=lambda: process))
    assert footprint(daemon) == Footprint(2 * MIB, threads=7, files=12)
    answer = "pid:77\n"
    with pytest.raises(LabBroken, match=r"memory use of mon\.a cannot"):
        footprint(daemon)


def test_a_thread_that_spins_is_told_from_one_that_waits_for_a_processor() -> None:
    before = {1: ThreadTime(5.0, 100), 2: ThreadTime(3.0, 7)}
    idle = {1: ThreadTime(5.0 + 2 * MOST_BUSY, 100 + FEW_BLOCKS + 1), 2: ThreadTime(3.01, 8)}
    assert busiest(before, idle) == pytest.approx(0.01)
    assert busiest(before, {**idle, 3: ThreadTime(1.9, 0)}) == pytest.approx(1.9)
    assert busiest(before, {**before, 2: ThreadTime(4.8, 7)}) == pytest.approx(1.8)
    assert busiest({}, {}) == 0.0


def test_threads_of_a_process_of_this_machine_are_read() -> None:
    process = SimpleNamespace(pid=os.getpid())
    threads = threads_here(cast("Daemon", SimpleNamespace(started=lambda: process)))
    assert threads[os.getpid()].wanted_s > 0


def test_a_helper_of_a_daemon_that_has_just_ended_is_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that looks at a disk's health: it was listed, then ended before it was looked at."""
    with subprocess.Popen(["true"]) as helper:
        listed = [psutil.Process(helper.pid)]
    monkeypatch.setattr(psutil.Process, "children", lambda _self, recursive: listed)
    daemon = cast("Daemon", SimpleNamespace(name="osd.0", started=lambda: SimpleNamespace(pid=os.getpid())))
    assert footprint(daemon).resident > MIB
    assert threads_here(daemon)[os.getpid()].wanted_s > 0


@pytest.mark.parametrize(
    ("times_ms", "outcome"),
    [
        ({0: 4.7, 1: 4.6}, Outcome.PASS),
        ({0: 20.0, 1: 4.6}, Outcome.PASS),
        ({0: 60.0, 1: 4.6}, Outcome.FAIL),
        ({0: 4.6, 1: 4.7, 2: 60.0}, Outcome.FAIL),
    ],
    ids=["alike", "a busy machine", "the first is slow", "the last is slow"],
)
def test_a_disk_that_lags_behind_its_equals_is_red(times_ms: dict[int, float], outcome: Outcome) -> None:
    recorder = History().recorder("baseline.growth")
    recorder.witness("operations of osd.0", got=600, least=600)
    note_commits(recorder, times_ms)
    assert CHECKS["figures"](recorder.events()).outcome is outcome
