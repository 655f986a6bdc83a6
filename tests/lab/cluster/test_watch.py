"""A wait ends, and names the daemon, once one that should run was stopped or is down in the map although it lives."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

import pytest

from cephlab.lab.base import clock
from cephlab.lab.base.clock import Deadline, TimeLimit, watched
from cephlab.lab.base.errors import CephTrouble, CommandTimedOut, DaemonDied, LabBroken, NotReached
from cephlab.lab.base.process import Command, Pipe, run
from cephlab.lab.ceph.daemon import Daemon, Wanted
from cephlab.lab.cluster import watch as watch_module
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.watch import Watch, held_here
from cephlab.lab.history.history import History
from cephlab.lab.providers.host import Host, HostProcess
from tests.fake_clock import VirtualClock


@dataclass
class FakeDaemon:
    """A daemon with a pid, which is its place in the cluster."""

    name: str
    pid: int
    wanted: Wanted = Wanted.RUNNING
    lives: bool = True

    @property
    def kind(self) -> str:
        return self.name.partition(".")[0]

    @property
    def id(self) -> str:
        return self.name.partition(".")[2]

    @property
    def process(self) -> SimpleNamespace:
        return SimpleNamespace(pid=self.pid)

    def alive(self) -> bool:
        return self.lives

    def log_tail(self) -> str:
        return f"the end of the log of {self.name}"

    def check(self) -> None:
        if not self.lives:
            raise DaemonDied(self.name, "n0", "ceph-osd", self.log_tail(), "", 1)


@dataclass
class FakeCluster:
    """Two OSDs and a monitor. states: what /proc says of each pid; up: OSDs of the map, None where nobody answers."""

    clock: VirtualClock = field(default_factory=VirtualClock)
    states: dict[int, str] = field(default_factory=dict)
    up: list[int] | None = field(default_factory=lambda: [0, 1])
    patience: float = 2.0
    asked: int = 0

    def __post_init__(self) -> None:
        names = ("osd.0", "osd.1", "mon.a")
        self.daemons = {name: FakeDaemon(name, pid) for pid, name in enumerate(names, 1)}

    def daemon(self, name: str) -> FakeDaemon:
        return self.daemons[name]

    def up_osds(self) -> list[int]:
        self.asked += 1
        if self.up is None:
            raise LabBroken("nobody answers")
        return self.up

    def held(self, daemon: Daemon) -> bool:
        return self.states.get(self.daemons[daemon.name].pid) == "T"

    def wait(self, seconds: float) -> None:
        """Wait in vain for so long, watched."""
        watch = Watch(cast("Cluster", self), self.clock, self.held)
        with watched(watch):
            Deadline.after(seconds, self.clock).wait(lambda: False, bool, what="the end", interval_s=1.0)


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def test_a_wait_beside_sound_daemons_goes_on(cluster: FakeCluster) -> None:
    with pytest.raises(NotReached):
        cluster.wait(300)


def test_a_daemon_that_somebody_stopped_ends_the_wait(cluster: FakeCluster) -> None:
    cluster.states = {2: "T"}
    with pytest.raises(CephTrouble, match=r"osd\.1 is stopped \(SIGSTOP\) although nobody paused it"):
        cluster.wait(300)
    assert cluster.clock.now < 15


def test_one_look_at_a_stopped_daemon_is_not_enough(cluster: FakeCluster) -> None:
    letters: Iterator[str] = iter("ST" * 100)
    watch = Watch(
        cast("Cluster", cluster), cluster.clock, lambda daemon: daemon.name == "osd.0" and next(letters) == "T"
    )
    with watched(watch), pytest.raises(NotReached):
        Deadline.after(60, cluster.clock).wait(lambda: False, bool, what="the end", interval_s=1.0)


def test_a_daemon_that_the_scenario_paused_or_ended_is_its_own_affair(cluster: FakeCluster) -> None:
    cluster.states, cluster.up = {1: "T", 2: "T"}, []
    cluster.daemons["osd.0"].wanted = Wanted.PAUSED
    cluster.daemons["osd.1"].wanted = Wanted.STOPPED
    with pytest.raises(NotReached):
        cluster.wait(300)


def test_an_osd_that_lives_and_stays_down_in_the_map_ends_the_wait(cluster: FakeCluster) -> None:
    cluster.up = [1]
    with pytest.raises(
        CephTrouble, match=r"osd\.0 has been down in the map for \d+ s although its process runs"
    ) as end:
        cluster.wait(900)
    assert end.value.detail == "the end of the log of osd.0"
    assert 30 + 45 * cluster.patience <= cluster.clock.now < 150


def test_a_dead_daemon_ends_the_wait(cluster: FakeCluster) -> None:
    cluster.daemons["mon.a"].lives = False
    with pytest.raises(DaemonDied, match=r"mon\.a on n0 died"):
        cluster.wait(300)
    assert cluster.clock.now < 15


def test_a_dead_osd_of_another_machine_is_known_by_the_map(cluster: FakeCluster) -> None:
    cluster.up, cluster.daemons["osd.0"].lives, cluster.daemons["osd.0"].pid = [1], False, 0
    with pytest.raises(DaemonDied, match=r"osd\.0 on n0 died"):
        cluster.wait(900)
    assert 30 + 45 * cluster.patience <= cluster.clock.now < 150


def test_after_a_time_without_looks_an_osd_is_down_anew(cluster: FakeCluster) -> None:
    cluster.up = [1]
    watch = Watch(cast("Cluster", cluster), cluster.clock, cluster.held)
    for _ in range(10):
        cluster.clock.now += 60
        watch(waited_s=60)
    assert cluster.asked == 10


def test_an_osd_that_was_up_between_two_waits_is_down_anew(cluster: FakeCluster) -> None:
    """As when daemons are killed again and again: each wait for the cluster begins with an OSD that starts slowly."""
    watch = Watch(cast("Cluster", cluster), cluster.clock, cluster.held)
    for _ in range(10):
        for up, waited_s in (([1], range(5, 46, 5)), ([0, 1], range(5, 26, 5))):
            cluster.up = up
            for waited in waited_s:
                cluster.clock.now += 5
                watch(waited_s=waited)
    assert cluster.asked == 10 * 4


def test_an_osd_that_was_started_anew_is_down_anew(cluster: FakeCluster) -> None:
    """Another thread may wait all the time, so that the map is looked at while the OSD is killed and started."""
    cluster.up = [1]
    watch = Watch(cast("Cluster", cluster), cluster.clock, cluster.held)

    def look(*, anew_s: int) -> None:
        for waited in range(30, 600, 5):
            cluster.clock.now += 5
            if waited % anew_s == 0:
                cluster.daemons["osd.0"].pid += 10
            watch(waited_s=waited)

    look(anew_s=60)
    assert cluster.asked == 114, "it looked all the time"
    with pytest.raises(CephTrouble, match=r"osd\.0 has been down in the map for 90 s although its process runs"):
        look(anew_s=1000)


def test_each_thread_is_told_once_of_what_one_came_upon(cluster: FakeCluster) -> None:
    watch = Watch(cast("Cluster", cluster), cluster.clock, cluster.held)
    cluster.states = {1: "T"}

    def wait() -> None:
        Deadline.after(60, cluster.clock).wait(lambda: False, bool, what="the end", interval_s=1.0)

    with watched(watch), ThreadPoolExecutor(1) as pool:
        assert isinstance(pool.submit(wait).exception(), CephTrouble)
        with pytest.raises(CephTrouble, match=r"osd\.0 is stopped"):
            watch(0.0)
        watch.tell()


def test_a_look_that_waits_itself_is_not_looked_at(cluster: FakeCluster) -> None:
    depth = []

    def up_osds() -> list[int]:
        depth.append(1)
        cluster.clock.now += 10
        watch(waited_s=100)
        return [0, 1]

    watch = Watch(cast("Cluster", cluster), cluster.clock, cluster.held)
    cluster.up_osds = up_osds  # type: ignore[method-assign]
    cluster.clock.now += 10
    watch(waited_s=100)
    assert len(depth) == 1


def test_a_command_and_a_question_end_where_a_daemon_stands_still(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "SLICE_S", 0.1)
    watch = Watch(cast("Cluster", cluster), cluster.clock, cluster.held)
    cluster.states = {1: "T"}

    def at_once(waited_s: float) -> None:
        cluster.clock.now += 6
        watch(waited_s)

    with watched(at_once):
        began = time.monotonic()
        with pytest.raises(CephTrouble, match=r"osd\.0 is stopped"):
            run(["sleep", "60"], timeout_s=60)
        silent = Pipe(Command(("sleep", "60")))
        with pytest.raises(CephTrouble, match=r"osd\.0 is stopped"):
            silent.ask(b"anybody?", timeout_s=60)
        assert time.monotonic() - began < 10
    assert not silent.alive()
    silent.close()


def test_a_command_beside_sound_daemons_has_its_input_and_its_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "SLICE_S", 0.01)
    looks: list[float] = []
    text = b"words " * 100_000
    with watched(looks.append):
        assert run(["sh", "-c", "sleep 0.1; cat"], stdin=text, timeout_s=30).stdout_bytes == text
    assert len(looks) > 2


@pytest.mark.parametrize("wait_s", [20, 300])
def test_nobody_is_asked_for_the_map_in_a_short_wait_or_without_a_monitor(cluster: FakeCluster, wait_s: float) -> None:
    cluster.daemons["mon.a"].lives = wait_s < 30
    cluster.daemons["mon.a"].pid = 0
    with pytest.raises(NotReached):
        cluster.wait(wait_s)
    assert cluster.asked == 0


def test_monitors_that_do_not_answer_are_no_trouble_of_an_osd(cluster: FakeCluster) -> None:
    cluster.up = None
    with pytest.raises(NotReached):
        cluster.wait(300)
    assert cluster.asked > 1


def test_an_osd_is_not_down_in_a_map_that_nobody_tells(cluster: FakeCluster) -> None:
    """It was starting when the monitors lost their quorum, and may have been up in each map since."""
    watch = Watch(cast("Cluster", cluster), cluster.clock, cluster.held)
    for up in ([1], *[None] * 40, [0, 1]):
        cluster.up = up
        cluster.clock.now += 5
        watch(waited_s=60)
    assert cluster.asked == 42


def test_while_a_fault_holds_nobody_watches(cluster: FakeCluster) -> None:
    cluster.states = {1: "T"}
    watch = Watch(cast("Cluster", cluster), cluster.clock, cluster.held)
    with watched(watch), watched(), pytest.raises(NotReached):
        Deadline.after(60, cluster.clock).wait(lambda: False, bool, what="the end", interval_s=1.0)


def test_a_command_that_did_not_end_comes_from_the_daemon_that_stands_still(cluster: FakeCluster) -> None:
    watch = Watch(cast("Cluster", cluster), cluster.clock, cluster.held)
    late, other = CommandTimedOut(("rados", "bench"), 60, "", "", "n0"), LabBroken("the disk is full")
    assert (watch.cause(late), watch.cause(other)) == (late, other)
    cluster.states = {1: "T"}
    assert watch.cause(other) is other
    named = watch.cause(late)
    assert isinstance(named, CephTrouble)
    assert named.what == "osd.0 is stopped (SIGSTOP) although nobody paused it"
    assert "rados did not end within 60 s on n0" in named.detail
    wrapped = CephTrouble("rados failed")
    wrapped.__cause__ = late
    assert watch.cause(wrapped).what == named.what


def test_a_client_that_ended_does_not_end_the_samples() -> None:
    def ended(_prefix: str) -> None:
        raise LabBroken("python3 ended with status 1 on n0")

    client = SimpleNamespace(host=SimpleNamespace(name="n0"), mon=ended, close=lambda: None)
    sampled = SimpleNamespace(client=client, new_client=lambda _node, options: client)
    recorder = History().recorder("a.b")
    with watch_module.watched(cast("Cluster", sampled), recorder, period_s=0.01):
        clock.wait(recorder.events, lambda events: len(events) > 1, what="samples", timeout_s=5, interval_s=0.01)
    assert {event.data["unavailable"] for event in recorder.events()} == {"python3 ended with status 1 on n0"}


def test_a_process_of_this_machine_that_runs_is_not_held_nor_one_that_is_not_there() -> None:
    for pid in (1, 0, 4_194_305):
        assert not held_here(
            Daemon("osd.0", cast("Host", None), (), process=cast("HostProcess", SimpleNamespace(pid=pid)))
        )


def test_beyond_its_limit_a_scenario_ends_once_with_the_limit_and_where_it_comes_from(cluster: FakeCluster) -> None:
    limit = TimeLimit("interop.rbd", 60, "5 times the longest of 2 kept passes")
    watch = Watch(cast("Cluster", cluster), cluster.clock, cluster.held, limit)

    def wait() -> None:
        Deadline.after(300, cluster.clock).wait(lambda: False, bool, what="the end", interval_s=1.0)

    with watched(watch):
        with pytest.raises(CephTrouble, match=r"interop\.rbd has taken 6\d s, more than its limit of 60 s \(5 times"):
            wait()
        with pytest.raises(NotReached):
            wait()
