"""What daemons may keep of a load: a leak, a thread or a file for each operation is found, a sound daemon passes."""

import os
from types import SimpleNamespace
from typing import cast

import pytest

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.ceph.daemon import Daemon
from cephlab.lab.ceph.memory import Footprint, footprint
from cephlab.lab.checks import CHECKS, Outcome, Verdict
from cephlab.lab.history.history import History
from cephlab.lab.spec.clusterspec import MIB
from cephlab.suites.baseline.growth import Held, judge

FIRST = Held(Footprint(80 * MIB, threads=60, files=70), accounted=10 * MIB, operations=1000)
COUNT = 3000


def judged(name: str = "osd.0", *, kept: int = 0, threads: int = 0, files: int = 0, count: int = COUNT) -> Verdict:
    """The verdict over a daemon that kept so much of a load."""
    print_ = Footprint(FIRST.footprint.resident + 4 * MIB + kept, 60 + threads, 70 + files)
    recorder = History().recorder("baseline.growth")
    judge(recorder, name, FIRST, Held(print_, FIRST.accounted + 4 * MIB, FIRST.operations + count))
    if not name.startswith("osd."):
        recorder.witness("operations of osd.0", got=count, least=1)
    return CHECKS["figures"](recorder.events())


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


def test_a_monitor_is_held_to_what_an_allocator_may_keep() -> None:
    assert judged("mon.n0", kept=20 * MIB, count=0).outcome is not Outcome.FAIL
    assert judged("mon.n0", kept=30 * MIB, count=0).outcome is Outcome.FAIL


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
    said = "12\nName:\tceph-mon\nVmRSS:\t    2048 kB\nThreads:\t7\n"
    host = SimpleNamespace(run=lambda _argv: SimpleNamespace(stdout=said))
    process = SimpleNamespace(pid=0, ref={"pid": 77})
    daemon = cast("Daemon", SimpleNamespace(name="mon.a", host=host, started=lambda: process))
    assert footprint(daemon) == Footprint(2 * MIB, threads=7, files=12)
