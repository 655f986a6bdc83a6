"""What counts as proof of a fault is what processes, hosts and Ceph say, never what the lab has asked of them."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base import process
from cephlab.lab.base.births import birth_of
from cephlab.lab.ceph.daemon import Daemon, Wanted, states, stopped
from cephlab.lab.checks import CHECKS, Outcome
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.faults import Layout, inflict
from cephlab.lab.faults import network as network_module
from cephlab.lab.faults.copies import repaired
from cephlab.lab.faults.daemons import decides, down, missed
from cephlab.lab.faults.fault import Aftermath, look_for
from cephlab.lab.faults.network import Partition
from cephlab.lab.faults.nodes import KillNode
from cephlab.lab.providers.host import Host
from tests.lab.faults.test_faults import Demo, a_cluster, recorder


@dataclass
class FakeDaemon:
    """wanted: what the lab asked of it; alive_, letters: what became of it, as the kernel tells."""

    wanted: Wanted = Wanted.RUNNING
    alive_: bool = True
    letters: str = "S"
    argv: tuple[str, ...] = ("ceph-mon", "-f")
    name: str = ""
    process: None = None

    def alive(self) -> bool:
        return self.alive_

    @property
    def host(self) -> Any:
        return SimpleNamespace(name="n1", run=self._run)

    def _run(self, argv: Sequence[str], *, stdin: bytes) -> Any:
        assert b"ceph-mon" in stdin
        return SimpleNamespace(stdout=self.letters)


KILLED = FakeDaemon(Wanted.STOPPED, alive_=False)
UNHURT = FakeDaemon(Wanted.STOPPED)
HELD = FakeDaemon(Wanted.PAUSED, letters="T T")
FREE = FakeDaemon(Wanted.PAUSED, letters="S")
RUNS = FakeDaemon()


@dataclass
class FakeCluster:
    """osd_up, quorum: what Ceph's maps say."""

    daemons: Mapping[str, FakeDaemon]
    osd_up: bool = True
    quorum: Sequence[str] = ("a", "b", "c")
    hosts: Mapping[str, Any] = field(default_factory=dict)
    patience: float = 0.0

    def daemon(self, name: str) -> FakeDaemon:
        return self.daemons[name]

    @property
    def client(self) -> Any:
        return SimpleNamespace(mon=self._mon)

    @property
    def deployer(self) -> Any:
        return SimpleNamespace(client_host=lambda: SimpleNamespace(name="c0"))

    def _mon(self, prefix: str) -> Any:
        if prefix == "osd dump":
            return {"osds": [{"osd": number, "up": int(self.osd_up)} for number in range(3)]}
        assert prefix == "quorum_status"
        return {"quorum_names": self.quorum}


def cluster_of(*mons: FakeDaemon, **more: Any) -> Any:
    others = more.pop("others", {})
    return FakeCluster({**{f"mon.{name}": mon for name, mon in zip("abc", mons, strict=False)}, **others}, **more)


@pytest.mark.parametrize(
    ("mons", "decided"),
    [
        ((RUNS, RUNS, RUNS), True),
        ((RUNS, RUNS, HELD), True),
        ((RUNS, KILLED, HELD), False),
        ((KILLED, KILLED, KILLED), False),
        ((RUNS, UNHURT, FREE), True),  # what was done to two of them did nothing
        ((RUNS, KILLED, FREE), True),
    ],
)
def test_a_majority_decides_while_its_processes_are_at_work(mons: tuple[FakeDaemon, ...], decided: bool) -> None:
    assert decides(cluster_of(*mons)) is decided


@pytest.mark.parametrize(("manager", "got"), [(KILLED, 1), (HELD, 1), (UNHURT, 0), (FREE, 0)])
def test_a_manager_is_missed_by_its_process_not_by_the_labs_intent(manager: FakeDaemon, got: int) -> None:
    sign = missed(cluster_of(RUNS, others={"mgr.x": manager}), "mgr.x")
    assert (sign.got, sign.least) == (got, 1)


@pytest.mark.parametrize(("osd", "got"), [(KILLED, 1), (HELD, 1), (UNHURT, 0), (FREE, 0)])
def test_an_osd_without_a_quorum_likewise(osd: FakeDaemon, got: int) -> None:
    cluster = cluster_of(KILLED, KILLED, RUNS, others={"osd.0": osd})
    assert down(cluster, ["osd.0"]).got == got


def test_a_monitor_without_a_quorum_likewise() -> None:
    assert missed(cluster_of(KILLED, KILLED, HELD), "mon.c").got == 1
    assert missed(cluster_of(KILLED, KILLED, UNHURT), "mon.c").got == 0


def test_a_daemon_that_the_map_has_is_not_missed() -> None:
    assert missed(cluster_of(RUNS, RUNS, RUNS, others={"osd.0": KILLED}), "osd.0").got == 0
    assert missed(cluster_of(RUNS, RUNS, RUNS, others={"osd.0": KILLED}, osd_up=False), "osd.0").got == 1
    assert missed(cluster_of(RUNS, RUNS, KILLED, quorum=("a", "b")), "mon.c").got == 1


def node_of(host_up: bool, osd: FakeDaemon, *, osd_up: bool, mons: Sequence[FakeDaemon]) -> Any:
    osd.name = "osd.0"
    hosts = {"n1": SimpleNamespace(up=lambda: host_up)}
    cluster = cluster_of(*mons, others={"osd.0": osd}, osd_up=osd_up, hosts=hosts)
    cluster.daemons = {"osd.0": osd, **{name: mon for name, mon in cluster.daemons.items() if name != "osd.0"}}
    return cluster


@pytest.mark.parametrize(
    ("host_up", "alive", "osd_up", "quorum", "shown"),
    [
        (False, False, False, True, True),
        (False, False, False, False, True),
        (False, False, True, True, False),  # the map still has its OSD
        (True, False, False, False, False),  # the machine never stopped
        (False, True, False, False, False),  # its processes outlived it
    ],
)
def test_a_dead_node_is_shown_by_host_and_processes(
    monkeypatch: pytest.MonkeyPatch, host_up: bool, alive: bool, osd_up: bool, quorum: bool, shown: bool
) -> None:
    monkeypatch.setattr("cephlab.lab.faults.nodes.layout_of", lambda _cluster: Layout({"n1": ("osd.0",)}, "c0"))
    mons = (RUNS, RUNS, RUNS) if quorum else (RUNS, KILLED, KILLED)
    cluster = node_of(host_up, FakeDaemon(Wanted.STOPPED, alive_=alive), osd_up=osd_up, mons=mons)
    sign = KillNode("n1").sign(cluster)
    assert (sign.got >= sign.least) is shown


class ThisMachine:
    """A host that runs programs here."""

    name = "here"

    def run(self, argv: Sequence[str], *, stdin: bytes = b"") -> process.Result:
        return process.run([sys.executable, *argv[1:]], stdin=stdin)


@contextmanager
def sleeper(mark: str, *, here: bool = False) -> Iterator[tuple[subprocess.Popen[bytes], Daemon]]:
    """A process of its own, and the daemon that it could be. here: one whose pid is known to be of this machine."""
    argv = (sys.executable, "-c", "import time; print(flush=True); time.sleep(600)", mark)
    with subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True) as child:
        assert child.stdout is not None
        child.stdout.readline()
        try:
            daemon = Daemon("mgr.x", cast("Host", ThisMachine()), argv, wanted=Wanted.PAUSED)
            daemon.process = process.recall({"pid": child.pid, "birth": birth_of(child.pid)}) if here else None
            yield child, daemon
        finally:
            child.kill()


@pytest.mark.slow
@pytest.mark.parametrize("here", [True, False])
def test_a_held_process_is_told_from_one_that_runs(here: bool) -> None:
    with sleeper(f"a-mark-of-this-test-{here}", here=here) as (child, daemon):
        assert len(states(daemon)) == 1
        assert not stopped(daemon)
        child.send_signal(signal.SIGSTOP)
        assert look_for("held", lambda: int(stopped(daemon)), timeout_s=10).got == 1
        assert states(daemon) == ["T"]
    assert states(daemon) == []
    assert not stopped(daemon)


@pytest.mark.slow
def test_another_program_with_the_same_arguments_is_not_taken_for_it() -> None:
    with sleeper("another-mark-of-this-test") as (_, daemon):
        daemon.argv = ("ceph-mgr", *daemon.argv[1:])
        assert states(daemon) == []


class Mended(Demo):
    """A fault whose harm stays until it is mended, which it may not be."""

    def __init__(self, left: Sequence[str] = ()) -> None:
        super().__init__()
        self.left = list(left)

    @classmethod
    def aim(cls, layout: Layout, rng: Random) -> Mended | None:
        return cls()

    @contextmanager
    def prey(self, _cluster: Cluster) -> Iterator[bytes]:
        self.said.append("made")
        yield b"content"
        self.said.append("removed")

    def aftermath(self, _cluster: Cluster, before: bytes) -> Iterator[Aftermath]:
        self.said.append(f"looked at {before!r}")
        yield Aftermath("damage", self.left, [], of=1)


@pytest.mark.parametrize(("left", "outcome"), [((), Outcome.PASS), (("1.0",), Outcome.FAIL)])
def test_what_was_struck_is_looked_at_when_healed_and_before_it_goes(left: Sequence[str], outcome: Outcome) -> None:
    fault, told = Mended(left), recorder()
    with inflict(fault, a_cluster(), told):
        pass
    assert fault.said == ["made", "harm", "heal", "looked at b'content'", "removed"]
    assert CHECKS["witnessed"](told.events()).outcome is outcome


SPREAD = Layout(
    {
        "c0": (),
        "n0": ("mon.n0", "osd.0"),
        "n1": ("mon.n1", "osd.1"),
        "n2": ("mon.n2", "osd.2"),
    },
    "c0",
)


@pytest.mark.parametrize(
    ("away", "rest", "osds"),
    [
        (("n2",), ("c0", "n0", "n1"), ["osd.2"]),
        (("n1", "n2"), ("c0", "n0"), []),  # the client is on the side that cannot decide
        (("c0", "n0", "n1"), ("n2",), ["osd.2"]),
        (("n2",), ("c0", "n0"), []),  # n1 hears both
        (("n1",), ("n0", "n2"), ["osd.1"]),  # the client hears both, and carries nothing
    ],
)
def test_the_side_without_a_quorum_is_called_down(away: Any, rest: Any, osds: list[str]) -> None:
    assert Partition(away, rest).cut_off(SPREAD) == osds


@pytest.mark.parametrize(("packets", "osd_up", "shown"), [(5, False, True), (5, True, False), (0, False, False)])
def test_a_partition_is_shown_by_lost_packets_and_by_the_map(
    monkeypatch: pytest.MonkeyPatch, packets: int, osd_up: bool, shown: bool
) -> None:
    monkeypatch.setattr(network_module, "_links", lambda _cluster: SimpleNamespace(cut_packets=lambda: packets))
    monkeypatch.setattr(network_module, "layout_of", lambda _cluster: SPREAD)
    sign = Partition(("n2",), ("c0", "n0", "n1")).sign(cluster_of(RUNS, RUNS, RUNS, osd_up=osd_up))
    assert (sign.got >= sign.least) is shown


@pytest.mark.parametrize("number", [0, 2])
def test_a_manager_that_has_just_begun_is_waited_for(number: int) -> None:
    told: list[list[dict[str, int]]] = [
        [{"osd": osd, "num_shards_repaired": 5 + osd} for osd in known] for known in ((0, 1, 2), (0, 1), ())
    ]

    def dump(_prefix: str, *, dumpcontents: Sequence[str]) -> dict[str, Any]:
        assert dumpcontents == ["osds"]
        return {"osd_stats": told.pop()}

    cluster = SimpleNamespace(client=SimpleNamespace(mgr=dump), patience=1.0)
    assert repaired(cast("Cluster", cluster), f"osd.{number}") == 5 + number
