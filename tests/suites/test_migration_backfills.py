"""Recovery with more backfills at once: what is moved and timed, what it is held to, and whether it had an effect."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base.errors import CephTrouble
from cephlab.lab.checks.figures import figures
from cephlab.lab.checks.verdict import Outcome, Verdict
from cephlab.lab.cluster import pools
from cephlab.lab.history.history import History, data_of
from cephlab.lab.spec.arch import Arch
from cephlab.suites.expected import DEAD_COUNT
from cephlab.suites.interop.mirror import WantedObject
from cephlab.suites.interop.recovery import SHORT_LOGS
from cephlab.suites.migration import backfills
from cephlab.suites.migration.backfills import (
    LOOK_S,
    OBJECT_BYTES,
    OBJECTS,
    PG_NUM,
    SCENARIOS,
    SWEEP,
    Leg,
    Move,
    Reserved,
    note_at_once,
    note_leg,
    predicted,
)
from cephlab.suites.migration.movement import PlacedPg
from cephlab.suites.migration.swap import NATIVE_3, PAIRS
from tests.fake_clock import VirtualClock
from tests.fake_stage import stage_of


def leg(backfills: int, *rates: float, at_once: int = 1, seconds: float = 1.0) -> Leg:
    return Leg(backfills, tuple(Move(rate * seconds, rate * seconds, seconds, at_once) for rate in rates))


SLOWEST, FASTEST = leg(1, 10, 14), leg(16, 90, 110)


def judged(recorder: Any) -> Verdict:
    recorder.witness("moved", got=1, least=1)
    return figures(recorder.events())


def test_a_leg_is_all_of_its_moves() -> None:
    both = Leg(2, (Move(60.0, 50.0, 3.0, 1), Move(30.0, 20.0, 6.0, 2)))
    assert (both.rate, both.low, both.moved, both.least, both.at_once) == (10.0, 5.0, 90.0, 70.0, 2)


@pytest.mark.parametrize(("number", "rate"), [(1, 12), (4, 48), (8, 96), (9, 100), (16, 100)])
def test_bandwidth_follows_the_backfills_up_to_a_ceiling(number: int, rate: float) -> None:
    assert predicted(SLOWEST, FASTEST, number) == rate
    assert predicted(leg(2, 24), FASTEST, number) == rate
    assert predicted(leg(1, 20), leg(16, 10), number) == 20, "one backfill alone is no slower than it was"


@pytest.mark.parametrize(
    ("rates", "outcome"),
    [
        ((40, 44), Outcome.PASS),
        ((19, 18), Outcome.FAIL),  # predicted is 40, trusted to a factor of two
        ((19, 24), Outcome.INCONCLUSIVE),
    ],
)
def test_a_setting_is_held_to_what_the_others_predict(rates: tuple[int, int], outcome: Outcome) -> None:
    recorder = History().recorder("s")
    note_leg(recorder, leg(4, *rates), leg(1, 10, 10), leg(16, 100, 100))
    assert judged(recorder).outcome is outcome


def test_a_limit_is_half_of_what_the_low_ends_predict_and_says_so() -> None:
    recorder = History().recorder("s")
    for number in (4, 16):
        note_leg(recorder, leg(number, 40.4, 44.2), SLOWEST, FASTEST)
    [figure, ceiling] = data_of(recorder.events(), "figure")
    assert figure == {
        "metric": "recovery bandwidth with osd_max_backfills=4",
        "value": 42,
        "low": 40,
        "high": 44,
        "unit": "B/s",
        "least": 20,
        "most": None,
        "why": "predicted 48 B/s (12 B/s with 1, at most 100 B/s with 16), at least 40; trusted to a factor of 2",
        "derivation": [],
        "basis": "shape",
    }
    assert ceiling["least"] == 45
    note_leg(recorder, leg(4, 40), leg(2, 10), FASTEST)
    assert data_of(recorder.events(), "figure")[-1]["least"] == 10, "two at once gave the rate that is taken for one"


def test_a_limit_and_an_interval_have_no_digits_that_nobody_measured() -> None:
    recorder = History().recorder("s")
    note_leg(recorder, leg(4, 40.4), leg(1, 10.3), FASTEST)
    [figure] = data_of(recorder.events(), "figure")
    assert [figure[key] for key in ("least", "low", "value", "high")] == [21, 40, 40, 40]


def test_the_settings_that_the_law_is_made_of_are_not_held_against_it() -> None:
    recorder = History().recorder("s")
    for either in (SLOWEST, FASTEST):
        note_leg(recorder, either, SLOWEST, FASTEST)
    noted = data_of(recorder.events(), "figure")
    assert [(data["least"], data["most"], data["basis"]) for data in noted] == [(None, None, "noted")] * 2


@pytest.mark.parametrize(
    ("backfills", "at_once", "outcome"),
    [
        (1, 1, Outcome.PASS),
        (1, 0, Outcome.FAIL),
        (1, 2, Outcome.FAIL),
        (2, 2, Outcome.PASS),
        (16, 2, Outcome.PASS),
        (16, 1, Outcome.FAIL),
        (16, 16, Outcome.PASS),
        (16, 17, Outcome.FAIL),
    ],
)
def test_a_setting_without_effect_is_found(backfills: int, at_once: int, outcome: Outcome) -> None:
    """With one bandwidth for all settings, the law holds whatever the setting does."""
    recorder = History().recorder("s")
    note_at_once(recorder, leg(backfills, 10, at_once=at_once))
    assert judged(recorder).outcome is outcome
    [figure] = data_of(recorder.events(), "figure")
    assert (figure["unit"], figure["basis"]) == ("PGs", "correctness")
    assert figure["why"] == "OSDs keep to the setting, and one above 1 lets more than one backfill run"
    assert figure["metric"] == f"backfills at once with osd_max_backfills={backfills}"


def reserved_of(*of_osds: dict[str, list[int]]) -> Reserved:
    """What OSDs tell: side -> the PGs that it has in progress."""
    held = [{side: {"in_progress": pgs, "queues": [1] * 9} for side, pgs in told.items()} for told in of_osds]

    def tell(name: str, prefix: str) -> Any:
        assert prefix == "dump_recovery_reservations"
        return held[int(name.removeprefix("osd."))]

    client = SimpleNamespace(tell=tell)
    return Reserved(cast("Any", SimpleNamespace(osd_ids=lambda: range(len(held)), client=client)))


def test_the_most_that_an_osd_has_reserved_on_either_side_counts() -> None:
    reserved = reserved_of(
        {"local_reservations": [1], "remote_reservations": []},
        {"local_reservations": [], "remote_reservations": [1, 2]},
    )
    reserved.look()
    assert reserved.most == 2
    other = reserved_of({"local_reservations": [1, 2, 3], "remote_reservations": [4]})
    other.look()
    assert other.most == 3


def test_an_earlier_look_that_saw_more_counts() -> None:
    reserved = reserved_of({"local_reservations": [1], "remote_reservations": []})
    assert reserved.most == 0
    reserved.most = 4
    reserved.look()
    assert reserved.most == 4


def test_reservations_are_looked_at_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def repeated(*of: object) -> AbstractContextManager[None]:
        asked.append(of)
        return nullcontext()

    monkeypatch.setattr(backfills, "repeated", repeated)
    reserved = reserved_of({"local_reservations": [], "remote_reservations": []})
    with reserved.watched():
        assert asked == [(reserved.look, LOOK_S, "reservations")]
    assert LOOK_S < 0.1, "a backfill of a few MiB takes no longer"


def test_an_osd_that_does_not_tell_what_it_has_reserved_ends_the_move() -> None:
    def silent(*_: str) -> None:
        raise CephTrouble("osd.0 does not answer")

    cluster = SimpleNamespace(osd_ids=lambda: [0], client=SimpleNamespace(tell=silent))
    reserved = Reserved(cast("Any", cluster))
    with pytest.raises(CephTrouble, match="does not answer"), reserved.watched():
        reserved.look()


class Moved:
    """A cluster whose data moves within 4 s of a change of the map; said: what was done, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock, self.said = VirtualClock(), list[Any]()
        self.client = SimpleNamespace(mon=self.mon)
        places = [
            [PlacedPg("1.0", ("a", "b"), 500, 0), PlacedPg("1.1", ("b", "a"), 70, 0)],
            [PlacedPg("1.0", ("a", "c"), 500, 0), PlacedPg("1.1", ("b", "a"), 70, 0)],
        ]
        monkeypatch.setattr(backfills, "SYSTEM", self.clock)
        monkeypatch.setattr(backfills, "placed", self.told("placed", lambda: places.pop(0)))
        monkeypatch.setattr(backfills, "Copied", self.told("copied", lambda: SimpleNamespace(bytes=510.0)))
        monkeypatch.setattr(pools, "wait_clean", self.clean)
        monkeypatch.setattr(Reserved, "watched", self.watching())

    def told(self, what: str, answer: Any) -> Any:
        def tell(cluster: object) -> Any:
            assert cluster is self
            self.said.append(what)
            return answer()

        return tell

    def watching(self) -> Any:
        @contextmanager
        def watched(reserved: Reserved) -> Iterator[None]:
            assert cast("object", reserved.cluster) is self
            self.said.append("watched")
            yield
            reserved.most = 3

        return watched

    def mon(self, prefix: str, **more: Any) -> None:
        self.said.append((prefix, more))

    def clean(self, cluster: object, timeout_s: float) -> None:
        assert cluster is self
        self.said.append(("clean", timeout_s))
        self.clock.now += 4.0

    def settle(self) -> None:
        self.said.append("settle")
        self.clock.now += 100.0


def test_a_move_is_timed_from_the_change_of_the_map_until_all_pgs_are_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Moved(monkeypatch)
    assert backfills.move(cast("Any", cluster), "osd in", "2") == Move(510.0, 500.0, 4.0, 3)
    before = ["settle", "placed", "copied", "watched"]
    assert cluster.said == [*before, ("osd in", {"ids": ["2"]}), ("clean", 300.0), "settle", "placed"]


def test_each_osd_has_the_setting_before_the_last_one_leaves_and_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Any] = []
    client = SimpleNamespace(mon=lambda prefix, **more: said.append((prefix, more)))
    cluster = SimpleNamespace(client=client, osd_ids=lambda: [0, 3, 7])

    def moved(of: object, verb: str, victim: str) -> Move:
        assert of is cluster
        said.append((verb, victim))
        return Move(1.0, 1.0, float(len(said)), 1)

    def await_option(of: object, osd: str, options: object) -> None:
        assert of is cluster
        said.append((osd, options))

    monkeypatch.setattr(backfills, "await_option", await_option)
    monkeypatch.setattr(backfills, "move", moved)
    made = backfills.leg(stage_of(cluster), 8)
    assert made == Leg(8, (Move(1.0, 1.0, 5.0, 1), Move(1.0, 1.0, 6.0, 1)))
    assert said == [
        ("config set", {"who": "osd", "name": "osd_max_backfills", "value": "8"}),
        ("osd.0", {"osd_max_backfills": "8"}),
        ("osd.3", {"osd_max_backfills": "8"}),
        ("osd.7", {"osd_max_backfills": "8"}),
        ("osd out", "7"),
        ("osd in", "7"),
    ]


class Pool:
    """A client of one pool. sizes: what was written to each object, in order; start: of each PG's log."""

    host = SimpleNamespace(arch=Arch.X86_64)

    def __init__(self, start: str) -> None:
        self.sizes: dict[str, list[int]] = {}
        self.held: dict[str, bytes] = {}
        self.start = start

    def write_full(self, pool: str, name: str, data: bytes) -> None:
        assert pool == "still"
        self.sizes.setdefault(name, []).append(len(data))
        self.held[name] = bytes(data)

    def mon(self, prefix: str, poolstr: str) -> Any:
        assert (prefix, poolstr) == ("pg ls-by-pool", "still")
        return {"pg_stats": [{"pgid": "2.0", "log_start": self.start, "stat_sum": {"num_objects": 2}}]}

    def list_objects(self, _pool: str) -> Sequence[str]:
        return sorted(self.held)

    def digest(self, _pool: str, name: str, snap: str | None) -> Any:
        assert snap is None
        return WantedObject(bytearray(self.held[name])).digest()

    def read(self, _pool: str, name: str, snap: str | None) -> bytes:
        assert snap is None
        return self.held[name]


RESULTS = [(1, 100.0, 1), (2, 200.0, 2), (4, 400.0, 3), (8, 800.0, 3), (16, 800.0, 3)]
"""Of a sweep: the setting, bytes per second, and backfills at once."""


class Swept:
    """A run over all settings with made-up legs. start: of each PG's log; loses: whether an object changes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, start: str = "4'2", *, loses: bool = False) -> None:
        self.client, self.said = Pool(start), list[Any]()
        self.stage = stage_of(SimpleNamespace(client=self.client, settle=lambda: self.said.append("settle")))

        @contextmanager
        def pool(cluster: object, name: str, kind: object, **more: Any) -> Iterator[str]:
            assert cluster is self.stage.cluster
            self.said.append((name, kind, more))
            yield name

        legs = {number: leg(number, rate, at_once=at_once) for number, rate, at_once in RESULTS}

        def swept(stage: object, number: int) -> Leg:
            assert stage is self.stage
            if loses:
                self.client.held["o1"] = b"lost"
            return legs[number]

        monkeypatch.setattr(pools, "pool", pool)
        monkeypatch.setattr(backfills, "leg", swept)
        monkeypatch.setattr(backfills, "OBJECTS", 2)
        monkeypatch.setattr(backfills, "OBJECT_BYTES", 64)
        backfills.run(self.stage)


def test_a_run_measures_each_setting_with_backfill_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Swept(monkeypatch)
    assert run.said == [("still", PAIRS, {"pg_num": PG_NUM, "options": {"min_size": "1"}}), "settle"]
    assert run.client.sizes == {"o0": [1, 1, 1, 1, 1, 64], "o1": [1, 1, 1, 1, 1, 64]}
    events = run.stage.recorder.events()
    assert figures(events).outcome is Outcome.PASS
    measured = [data["metric"] for data in data_of(events, "figure")]
    assert measured == [
        f"{what}{number}{end}"
        for number in SWEEP
        for what, end in (
            ("recovery bandwidth with osd_max_backfills=", ""),
            ("backfills at once with osd_max_backfills=", ""),
            ("copied_bytes[osd_max_backfills=", "]"),
        )
    ]
    bases = [data["basis"] for data in data_of(events, "figure") if data["unit"] == "B/s"]
    assert bases == ["noted", "shape", "shape", "shape", "noted"], "the first and the last make the law"
    assert [(data["what"], data["got"], data["least"]) for data in data_of(events, "witness")] == [
        (f"bytes to move with osd_max_backfills={number}", 100 * min(number, 8), 64) for number in SWEEP
    ]
    swept = [{"backfills": number, "moves": [asdict(Move(r, r, 1.0, n))]} for number, r, n in RESULTS]
    assert data_of(events, "sweep") == swept
    observed = [data["what"] for data in data_of(events, "observation")]
    assert "PGs whose log could replace a backfill" in observed
    assert {"o0 after every move", "content of o1 after every move"} <= set(observed)


def test_a_log_that_reaches_back_and_an_object_that_is_lost_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for run in (Swept(monkeypatch, start="0'0"), Swept(monkeypatch, loses=True)):
        assert figures(run.stage.recorder.events()).outcome is Outcome.FAIL


def test_a_move_of_less_than_an_object_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Leg, "least", 63.0)
    monkeypatch.setattr(Leg, "moved", 63.0)
    assert figures(Swept(monkeypatch).stage.recorder.events()).outcome is Outcome.INCONCLUSIVE


def test_the_sweep_has_more_pgs_to_move_than_backfills_at_once() -> None:
    """An OSD of three that leaves has two thirds of them, half of which each of the others receives."""
    assert tuple(2**power for power in range(5)) == SWEEP
    assert PG_NUM & (PG_NUM - 1) == 0, "Ceph warns of any other number"
    assert (OBJECTS, OBJECT_BYTES > 1) == (2 * PG_NUM, True)
    assert max(SWEEP) < PG_NUM * 2 / 3 / 2


def test_the_scenario_says_what_it_must_see_and_lets_the_setting_have_its_effect() -> None:
    [scenario] = SCENARIOS
    assert (scenario.name, scenario.run, scenario.check) == ("migration.backfills", backfills.run, "figures")
    assert scenario.expects == DEAD_COUNT
    assert scenario.sees == tuple(
        f"{what} with osd_max_backfills={number}"
        for number in (1, 2, 4, 8, 16)
        for what in ("recovery bandwidth", "backfills at once")
    )
    override = ("osd_mclock_override_recovery_settings", "true")
    assert scenario.topology == replace(NATIVE_3, options=(*SHORT_LOGS, override))
