"""The clocks of nodes and of clients that write down operations: how far each may be off is never taken for nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base.clock import SYSTEM
from cephlab.lab.checks import CHECKS, Outcome
from cephlab.lab.history.history import History
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.workloads.recorded import Load, RecordedLoad
from cephlab.suites.baseline import clocks


@dataclass
class Time:
    """This machine's clock, which only a host's answers move."""

    now_s: float = 1000.0

    def time(self) -> float:
        return self.now_s


@dataclass
class Far:
    """A host that is `ahead_s` and takes half of `trip_s` each way, the first answer much longer."""

    name: str
    clock: Time
    ahead_s: float
    trip_s: float
    closed: bool = field(default=False)
    asked: int = 0

    def channel(self, argv: list[str]) -> Far:
        assert argv[0] == "python3"
        return self

    def ask(self, question: bytes, timeout_s: float) -> bytes:
        assert question
        assert timeout_s == 60.0
        trip = self.trip_s if self.asked else 5.0
        self.asked += 1
        self.clock.now_s += trip
        return repr(self.clock.now_s - trip / 2 + self.ahead_s).encode()

    def close(self) -> None:
        self.closed = True


def writer(text: str) -> SimpleNamespace:
    """A daemon whose log ends with a text; an empty one cannot be read."""

    def run(_argv: list[str]) -> SimpleNamespace:
        assert text, "the log of a daemon was read"
        return SimpleNamespace(stdout=f"1.0\n{text}\n1.0\n")

    return SimpleNamespace(name="osd.0", log=Path("/nonexistent"), host=SimpleNamespace(emulated=False, run=run))


RIGHT = {"osd.0": writer("1970-01-01T00:00:01.000+0000 7f2c 1 osd.0 begins")}


def verdict(
    monkeypatch: pytest.MonkeyPatch,
    ahead_s: float,
    trip_s: float,
    daemons: dict[str, SimpleNamespace] = RIGHT,
) -> tuple[Outcome, list[dict[str, Any]]]:
    time = Time()
    monkeypatch.setattr("cephlab.suites.baseline.clocks.time", time)
    hosts = [Far("n0", time, 0.0, trip_s), Far("n1", time, ahead_s, trip_s)]
    answers = SimpleNamespace(tell=lambda daemon, command, *, var: {var: "0.05"})
    cluster = SimpleNamespace(
        client=answers,
        spec=SimpleNamespace(mons=[SimpleNamespace(name="n0")]),
        hosts={host.name: host for host in hosts},
        patience=2.0,
        daemons=daemons,
    )
    recorder = History().recorder("baseline.clocks")
    clocks.run(Stage(cast("Any", cluster), recorder, Random(7), Path("/nonexistent")))
    assert all(host.closed for host in hosts)
    noted = [dict(event.data) for event in recorder.events() if event.kind == "clock"]
    return CHECKS["figures"](recorder.events()).outcome, noted


@pytest.mark.parametrize(
    ("ahead_s", "trip_s", "outcome"),
    [
        (0.02, 0.01, Outcome.PASS),
        (0.2, 0.01, Outcome.FAIL),
        (-0.2, 0.01, Outcome.FAIL),
        (0.045, 0.01, Outcome.INCONCLUSIVE),
        (0.055, 0.01, Outcome.INCONCLUSIVE),
        (0.0, 0.2, Outcome.INCONCLUSIVE),
    ],
)
def test_an_offset_counts_with_its_doubt(
    monkeypatch: pytest.MonkeyPatch, ahead_s: float, trip_s: float, outcome: Outcome
) -> None:
    judged, noted = verdict(monkeypatch, ahead_s, trip_s)
    assert judged is outcome
    assert [note["host"] for note in noted] == ["n0", "n1"]
    assert [note["doubt_s"] for note in noted] == pytest.approx([trip_s / 2] * 2)
    assert [note["offset_s"] for note in noted] == pytest.approx([0.0, ahead_s])


@pytest.mark.parametrize(
    ("daemons", "outcome"),
    [
        ({"osd.0": writer("1970-01-01T00:00:41.000+0000 7f2c 1 osd.0 begins")}, Outcome.FAIL),
        ({}, Outcome.INCONCLUSIVE),
    ],
)
def test_a_daemon_with_another_time_is_found_and_so_are_none_at_all(
    monkeypatch: pytest.MonkeyPatch, daemons: dict[str, SimpleNamespace], outcome: Outcome
) -> None:
    assert verdict(monkeypatch, 0.0, 0.01, daemons)[0] is outcome


def test_on_an_existing_cluster_machines_are_compared_and_no_log_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cephlab.suites.baseline.clocks.AttachedCluster", SimpleNamespace)
    assert verdict(monkeypatch, 0.0, 0.01, {"osd.0": writer("")})[0] is Outcome.PASS
    assert verdict(monkeypatch, 0.2, 0.01, {"osd.0": writer("")})[0] is Outcome.FAIL


class Client:
    """A librados client on a node: its kernel's identity and its clock, after `trip_s` on the way."""

    def __init__(self, boot: str, trip_s: float) -> None:
        self.boot = boot
        self.trip_s = trip_s
        self.now_s = 500.0

    def monotonic(self) -> float:
        return self.now_s

    def call(self, name: str) -> dict[str, Any]:
        assert name == "clock"
        self.now_s += self.trip_s
        return {"boot": self.boot, "monotonic_s": 70.0}


def clock_of(client: Client, monkeypatch: pytest.MonkeyPatch) -> tuple[tuple[float, float], float]:
    history = History()
    cluster = SimpleNamespace(client_on=lambda node: client)
    load = RecordedLoad(cast("Any", cluster), history.recorder("s"), Load(pool="p", nodes=("c0",), seed=1))
    with monkeypatch.context() as patch:
        patch.setattr(type(SYSTEM), "monotonic", lambda _: client.monotonic())
        return load._clock("c0"), history.began_s


def test_another_kernel_s_clock_may_be_off_by_half_the_way_there_and_back(monkeypatch: pytest.MonkeyPatch) -> None:
    (offset_s, error_s), began_s = clock_of(Client("another", 0.4), monkeypatch)
    assert error_s == pytest.approx(0.2)
    assert offset_s == pytest.approx(500.2 - 70.0 - began_s)


def test_the_own_kernel_s_clock_is_the_same_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    (offset_s, error_s), began_s = clock_of(Client(boot, 0.4), monkeypatch)
    assert (offset_s, error_s) == (-began_s, 0.0)
