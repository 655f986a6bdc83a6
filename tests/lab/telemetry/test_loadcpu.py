"""CPUs that a load uses on its machines: which threads are seen, since when they count, and what cannot be read."""

import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, cast

import pytest

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.scenario.scenario import Tier
from cephlab.lab.telemetry import account_program
from cephlab.lab.telemetry.loadcpu import EVERY_S, PROGRAMS, LoadCpu, LoadMeter, Look, used_in
from cephlab.suites.block.stand import SECONDS
from tests.agent_here import agent_here

JOB, MSGR = "7/7 fio", "7/11 msgr-worker-0"


def stat(name: str, user: int, system: int) -> str:
    return f"7 ({name}) S 1 7 7 0 -1 0 0 0 0 0 {user} {system} 0 0 20 0 3 0 1 2 3 4"


def planted(proc: Path, pid: int, cmdline: Sequence[str], **threads: str) -> None:
    """A process of a /proc: its command line, and the `stat` of each thread."""
    for thread, text in threads.items():
        (proc / str(pid) / "task" / thread[1:]).mkdir(parents=True)
        (proc / str(pid) / "task" / thread[1:] / "stat").write_text(text)
    (proc / str(pid) / "cmdline").write_bytes("\0".join(cmdline).encode() + b"\0")


def test_every_thread_of_a_load_is_seen_and_no_other_program(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu  300 0 100 900 0 0 0 0 0 0\ncpu0 1 2 3\n")
    planted(tmp_path, 7, ["/lib/ld.so", "/usr/bin/fio", "--name=x"], t7=stat("fio", 100, 20), t9=stat("a) b", 300, 50))
    planted(tmp_path, 8, ["/usr/bin/ceph-osd", "fiord"], t8=stat("ceph-osd", 900, 900))
    planted(tmp_path, 9, ["rados", "bench"], t9=stat("rados", 1, 1))
    (tmp_path / "10").mkdir()
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    seen = account_program.threads({"programs": list(PROGRAMS)}, tmp_path)
    assert seen["threads"] == {"7/7 fio": 120 * tick_s, "7/9 a) b": 350 * tick_s, "9/9 rados": 2 * tick_s}
    assert seen["busy"] == "cpu  300 0 100 900 0 0 0 0 0 0"
    assert seen["cpus"] >= 1


def test_a_thread_counts_after_its_ramp_and_the_busiest_is_named() -> None:
    looks = [
        Look(0.0, {}, 10.0, 8),
        Look(10.0, {JOB: 0.0, MSGR: 0.0}, 11.0, 8),
        Look(14.0, {JOB: 4.0, MSGR: 4.0}, 20.0, 8),
        Look(15.0, {JOB: 4.0, MSGR: 4.0}, 30.0, 8),
        Look(25.0, {JOB: 6.0, MSGR: 13.0}, 60.0, 8),
        Look(26.0, {}, 90.0, 8),
    ]
    later, all_of_it = used_in(looks, 5.0), used_in(looks, 0.0)
    assert later is not None
    assert all_of_it is not None
    assert (later.load, all_of_it.load) == pytest.approx((1.1, 19 / 15))
    assert replace(later, load=0.0) == LoadCpu("msgr-worker-0", 0.9, 0.0, 3.0, 8)
    assert replace(all_of_it, load=0.0) == LoadCpu("msgr-worker-0", 13 / 15, 0.0, 49 / 15, 8)


def test_a_load_that_was_seen_only_once_is_not_known() -> None:
    at = [Look(at_s, {JOB: at_s}, 0.0, 1) for at_s in (0.0, 4.0, 6.0)]
    assert used_in([], 0.0) is None
    assert used_in([at[0], Look(9.0, {}, 0.0, 1)], 0.0) is None
    assert used_in(at, 5.0) is None
    assert used_in(at, 4.0) == LoadCpu("fio", 1.0, 1.0, 0.0, 1)


@pytest.mark.parametrize(("ended_s", "busiest", "load"), [(4.0, 1.0, 1.25), (3.9, 0.25, 0.25)])
def test_a_thread_that_only_began_the_load_is_not_its_busiest(ended_s: float, busiest: float, load: float) -> None:
    seen = [(0.0, {JOB: 0.0, "7/9 two words": 0.0}), (ended_s, {JOB: ended_s / 4, "7/9 two words": ended_s})]
    used = used_in([Look(100 + at_s, threads, 0.0, 1) for at_s, threads in (*seen, (8.0, {JOB: 2.0}))], 0.0)
    assert used is not None
    assert (used.busiest, used.load) == pytest.approx((busiest, load))
    assert used.thread == ("two words" if ended_s == 4.0 else "fio")


def test_even_the_shortest_load_is_seen_twice() -> None:
    assert SECONDS[Tier.QUICK] > 2 * EVERY_S


class Machine:
    """A host whose load uses a quarter of a CPU more at each look; refuses: why its counters may not be read."""

    def __init__(self, refuses: str = "", *, shows: bool = True) -> None:
        self.name, self.looks, self.refuses, self.shows = "c0", 0, refuses, shows
        self.open = self.left = False

    def channel(self, argv: Sequence[str]) -> Any:
        assert argv[:2] == ["python3", "-c"]
        self.open = True
        return self

    def alive(self) -> bool:
        return self.open

    def close(self) -> None:
        self.open = False

    def ask(self, line: bytes, *, timeout_s: float) -> bytes:
        assert json.loads(line) == {"do": "threads", "programs": ["fio", "rados"]}
        assert timeout_s > 0
        self.looks += 1
        time.sleep(0.005)
        self.left |= not self.open
        if self.refuses:
            return json.dumps({"error": self.refuses, "own_s": 0.0}).encode()
        threads = {JOB: self.looks / 4} if self.shows else {}
        busy = f"cpu  {self.looks * 25} 0 0 900 0 0 0 0 0 0"
        units = {"ticks_s": 50, "cpus": 4}
        seen = {"at_s": float(self.looks), "threads": threads, "busy": busy, **units}
        return json.dumps({"ok": seen, "own_s": 0.0}).encode()


def looked(ramp_s: float = 0.0, **machines: Machine) -> LoadMeter:
    """A meter that looked at each readable machine at least three times."""
    meter = LoadMeter(cast("Any", machines), ramp_s)
    with meter.looking(0.001):
        until = time.monotonic() + 5
        while time.monotonic() < until and any(each.looks < 3 for each in machines.values() if not each.refuses):
            time.sleep(0.001)
    return meter


def test_a_meter_looks_until_the_block_ends_and_leaves_no_program() -> None:
    machine = Machine()
    meter = looked(c0=machine)
    assert meter.used() == {"c0": LoadCpu("fio", 0.25, 0.25, 0.5, 4)}
    assert meter.unread == {}
    assert not machine.open
    seen = machine.looks
    time.sleep(0.02)
    assert machine.looks == seen
    assert not machine.left


def test_a_meter_looks_before_the_load_begins() -> None:
    machine = Machine()
    with LoadMeter(cast("Any", {"c0": Machine("OSError: no /proc"), "c1": machine})).looking(60.0):
        assert machine.looks == 1


def test_what_cannot_be_read_is_named_and_asked_once() -> None:
    refusing = Machine("OSError: no /proc")
    meter = looked(c0=Machine(), c1=refusing, c2=Machine(shows=False), c3=Machine())
    assert list(meter.used()) == ["c0", "c3"]
    assert refusing.looks == 1
    assert meter.unread["c1"].endswith("cannot be read: OSError: no /proc")
    assert meter.unread["c2"] == "the load was not seen there"
    assert looked(60_000.0, c0=Machine()).used() == {}


def test_a_load_that_breaks_leaves_no_program() -> None:
    machine = Machine()
    with pytest.raises(LabBroken), LoadMeter(cast("Any", {"c0": machine})).looking():
        raise LabBroken("fio failed")
    assert not machine.open


BURNING = """
import threading, time
def burn():
    while time.thread_time() < 20:
        pass
threading.Thread(target=burn, daemon=True).start()
time.sleep(20)
"""


@pytest.mark.slow
def test_the_threads_of_a_running_program_are_seen_where_it_runs(tmp_path: Path) -> None:
    """A program called fio burns a CPU in a thread of its own; the thread that began it sleeps."""
    (tmp_path / "fio").symlink_to(sys.executable)
    with agent_here(tmp_path) as host:
        program, log = str(tmp_path / "fio"), PurePosixPath(tmp_path / "words")
        process = host.spawn([program, "-S", "-c", BURNING], log=log)
        meter = LoadMeter({"n0": host})
        with meter.looking(0.1):
            time.sleep(1.0)
        process.signal(signal.SIGKILL)
    [used] = meter.used().values()
    assert 0.02 < used.busiest < 1.2, "others may need the CPUs too"
    assert used.load >= used.busiest
    assert used.whole >= used.busiest - 0.1
