"""The stress suite: its length, what its readings become, what each series is held to, and what is found."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest

from cephlab.cli.plan import _time
from cephlab.fixtures.plan import PlannedScenario
from cephlab.fixtures.plan import plan as plan_of
from cephlab.fixtures.run import Request
from cephlab.lab.archive.durations import Pass, Place, limit_of
from cephlab.lab.base.errors import SpecError, Unavailable
from cephlab.lab.ceph.memory import Footprint
from cephlab.lab.checks import CHECKS, Outcome, Verdict
from cephlab.lab.faults import Layout, plan
from cephlab.lab.history.history import Event, History, data_of
from cephlab.lab.scenario.scenario import Tier
from cephlab.lab.spec.clusterspec import MIB
from cephlab.lab.telemetry.daemons import DaemonReading
from cephlab.lab.workloads.fiolatency import Window
from cephlab.suites.stress import SCENARIOS, buckets, mixed
from cephlab.suites.stress.length import LEAST_EVERY_S, MINUTES_VARIABLE, READINGS, Length, length_of
from cephlab.suites.stress.resumed import take_over
from cephlab.suites.stress.series import Values, beside_peers, declare, of_client, of_daemons
from cephlab.suites.stress.struck import MENU, osds_of, went_on
from tests.fake_stage import stage_of

NAMES = {"mon.a": "mon", "osd.0": "osd"}
WRITES_S = 60.0


def reading(operations: float = 0.0, cpu_s: float = 0.0, leaked: float = 0.0, log_bytes: float = 0.0) -> DaemonReading:
    held = Footprint(int(200 * MIB + leaked), threads=50, files=70)
    counted = {"osd.op": operations / 2, "osd.subop": operations / 2, "bluefs.db_used_bytes": 64.0 * MIB}
    return DaemonReading(held, cpu_s, int(log_bytes), accounted=90 * MIB, store_bytes=5 * MIB, counters=counted)


def judged(osd: Callable[[float], DaemonReading], hours: float, *, stops: float = 2.0, shared: bool = True) -> Verdict:
    """The verdict over a run whose osd.0 is what a function of the time in seconds says.

    stops: after which share of the run the client stops.
    """
    length = length_of(hours * 3600)
    recorder = History().recorder("stress.mixed")
    rng = np.random.default_rng(3)
    before = {"mon.a": reading(), "osd.0": osd(0)}
    values: Values = {}
    for number in range(1, READINGS + 1):
        at_s = number * length.every_s
        now = {"mon.a": reading(), "osd.0": osd(at_s)}
        values = of_daemons(NAMES, before, now, length.every_s)
        done = round(WRITES_S * length.every_s * (1 + 0.02 * rng.standard_normal())) if number < stops * READINGS else 0
        latency_s = 0.01 * float(np.exp(0.2 * rng.standard_normal()))
        values |= of_client("block writes", Window(at_s - length.every_s, at_s, done, latency_s, latency_s))
        before = now
        recorder.record("reading", at_s=at_s, values=values)
    declare(recorder, values, length.hours, shared=shared)
    recorder.witness("looks", got=READINGS, least=1)
    return CHECKS["drift"](recorder.events())


def sound(at_s: float, slower: float = 0.0, leak: float = 0.0, logged: float = 0.0) -> DaemonReading:
    """An OSD after so many seconds. slower: of its CPU an operation, for each minute; leak: bytes a write.

    logged: bytes a second. What it costs and holds trembles.
    """
    trembles = np.random.default_rng(int(at_s)).standard_normal()
    minutes = at_s / 60
    cpu_s = WRITES_S * 600e-6 * (at_s + slower * minutes * at_s / 2) + 0.002 * trembles
    return reading(WRITES_S * at_s, cpu_s, WRITES_S * at_s * leak + 2 * MIB * trembles, at_s * logged)


@pytest.mark.parametrize(("hours", "shared"), [(5 / 60, True), (0.5, True), (6, True), (6, False)])
def test_a_sound_cluster_passes(hours: float, shared: bool) -> None:
    assert judged(sound, hours, shared=shared).outcome is Outcome.PASS


@pytest.mark.parametrize(("hours", "shared"), [(0.5, False), (6, True)])
def test_an_osd_that_slows_by_one_percent_a_minute_is_found(hours: float, shared: bool) -> None:
    verdict = judged(lambda at_s: sound(at_s, slower=0.01), hours, shared=shared)
    assert verdict.outcome is Outcome.FAIL
    assert "osd.0: CPU of an operation" in verdict.reason


@pytest.mark.parametrize("hours", [0.5, 6])
def test_an_osd_that_leaks_two_kib_a_write_is_found(hours: float) -> None:
    verdict = judged(lambda at_s: sound(at_s, leak=2048), hours)
    assert verdict.outcome is Outcome.FAIL
    assert "osd.0: memory" in verdict.reason


def test_an_osd_that_logs_a_line_a_second_is_found() -> None:
    verdict = judged(lambda at_s: sound(at_s, logged=120), 6)
    assert verdict.outcome is Outcome.FAIL
    assert "osd.0: log" in verdict.reason


@pytest.mark.parametrize("hours", [5 / 60, 6])
def test_a_client_that_stops_is_found(hours: float) -> None:
    verdict = judged(sound, hours, stops=0.8)
    assert verdict.outcome is Outcome.FAIL
    assert "block writes: rate: stayed at or below 0" in verdict.reason


def test_a_run_of_days_keeps_no_more_readings_than_one_of_minutes() -> None:
    for seconds in (300.0, 21600.0, 3 * 86400.0):
        assert seconds / length_of(seconds).every_s == pytest.approx(READINGS)
    assert length_of(14).every_s == LEAST_EVERY_S


@pytest.mark.parametrize(("slower", "outcome"), [(0.0, Outcome.PASS), (0.01, Outcome.FAIL)])
def test_half_an_hour_shows_an_osd_that_slows_on_a_machine_that_others_share(slower: float, outcome: Outcome) -> None:
    """Neighbours that come and go double what every OSD pays; noise and rate are those of a busy machine."""
    recorder = History().recorder("stress.mixed")
    length = length_of(1800)
    rng = np.random.default_rng(5)
    names = ["osd.0", "osd.1"]
    for number in range(1, READINGS + 1):
        at_s = number * length.every_s
        busy = 1 + (number // 40) % 2
        costs = [busy * 1e-3 * (1 + 0.05 * rng.standard_normal()) for _ in names]
        costs[0] *= 1 + slower * at_s / 60
        values: Values = {f"{name}: CPU of an operation": cost for name, cost in zip(names, costs, strict=True)}
        told = beside_peers(values, [names])
        recorder.record("reading", at_s=at_s, values=told)
    declare(recorder, dict.fromkeys(f"{name}: CPU beside its peers" for name in names), length.hours, shared=True)
    recorder.witness("looks", got=READINGS, least=1)
    assert CHECKS["drift"](recorder.events()).outcome is outcome


def interrupted(looks: int, parts: tuple[str, ...] = ("",)) -> list[Event]:
    """What a run of daemons' looks recorded before it was cut short, once for each part."""
    recorder = History().recorder("stress.mixed")
    for part in parts:
        for number in range(1, looks + 1):
            memory = 100 + 0.1 * (-1) ** number
            recorder.record("reading", at_s=10.0 * number, values={f"osd.0{part}: memory": memory})
    return list(recorder.events())


def test_what_an_interrupted_run_saw_is_a_part_of_the_next() -> None:
    recorder = History().recorder("stress.mixed")
    assert take_over(recorder, interrupted(100), shared=True) == 1000.0
    again = History().recorder("stress.mixed")
    assert take_over(again, [*recorder.events(), *interrupted(50)], shared=True) == 1500.0
    declared = [data["series"] for data in data_of(again.events(), "sampled")]
    assert declared == ["osd.0 (part 1): memory", "osd.0 (part 2): memory"]
    verdict = CHECKS["drift"]([*again.events(), *witnessed()])
    assert verdict.outcome is Outcome.PASS


def witnessed() -> Sequence[Event]:
    recorder = History().recorder("stress.mixed")
    recorder.witness("looks", got=1, least=1)
    return recorder.events()


def test_a_part_that_leaks_fails_the_run_that_goes_on_with_it() -> None:
    recorder = History().recorder("stress.mixed")
    leaks = [
        Event(
            event.scenario,
            event.at_s,
            event.kind,
            {**event.data, "values": {"osd.0: memory": 2.0 * event.data["at_s"]}},
        )
        for event in interrupted(100)
    ]
    take_over(recorder, leaks, shared=True)
    verdict = CHECKS["drift"]([*recorder.events(), *witnessed()])
    assert verdict.outcome is Outcome.FAIL
    assert "osd.0 (part 1): memory" in verdict.reason


def test_a_part_of_a_few_looks_is_noted_and_its_time_does_not_count() -> None:
    recorder = History().recorder("stress.mixed")
    assert take_over(recorder, interrupted(20), shared=True) == 0.0
    assert [event.kind for event in recorder.events()] == ["left out"]
    assert length_of(3600).after(3000).seconds == pytest.approx(40 * 24)
    assert length_of(3600).after(1000) == Length(2600, 24)


def test_the_time_limit_knows_of_a_load_of_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CEPHLAB_STRESS_MINUTES", "360")
    (mixed,) = [scenario for scenario in SCENARIOS if scenario.name == "stress.mixed"]
    assert mixed.lasts_s is not None
    place = Place("stress.mixed", "quick", "local")
    limit = limit_of({place: [Pass(350, 1.0)]}, place, 1.0, lasts_s=mixed.lasts_s(Tier.QUICK))
    assert limit.seconds > 6 * 3600
    assert limit.why.endswith("and 21600 s of load")


def went_on_after(last_heal_s: float, *rates: float, clients: Sequence[str] = ("block writes",)) -> Verdict:
    """The verdict over clients of which one had these rates, a second apart; last_heal_s: when the last fault ended."""
    recorder = History().recorder("stress.struck")
    for client in clients:
        recorder.record("calibrated", job=client, full_iops=9.0, rate=5)
    for at_s, rate in enumerate(rates):
        recorder.record("reading", at_s=float(at_s), values={"block writes: rate": rate})
    went_on(recorder, last_heal_s)
    return CHECKS["witnessed"](recorder.events())


def test_a_client_has_to_go_on_after_the_last_fault() -> None:
    assert went_on_after(1.5, 50.0, 0.0, 0.0, 40.0).outcome is Outcome.PASS
    stopped = went_on_after(1.5, 50.0, 50.0, 0.0, 0.0)
    assert stopped.outcome is Outcome.FAIL
    assert "block writes goes on after the last fault" in stopped.reason
    assert went_on_after(9.0, 50.0, 50.0).outcome is Outcome.INCONCLUSIVE
    silent = went_on_after(1.5, 50.0, 0.0, 0.0, 40.0, clients=("block writes", "S3"))
    assert silent.outcome is Outcome.INCONCLUSIVE
    assert "looks at S3 after the last fault" in silent.reason


def test_only_osds_are_struck_under_the_stress_load() -> None:
    layout = Layout({"n0": ("mgr.n0", "mon.n0", "osd.0", "rgw.n0"), "n1": ("osd.1",)}, client_node="c0")
    assert osds_of(layout) == Layout({"n0": ("osd.0",), "n1": ("osd.1",)}, client_node="c0")
    steps = plan(osds_of(layout), Random(5), MENU)
    targets = {fault.target for _, step in zip(range(50), steps, strict=False) for fault in step.faults}
    assert targets == {"osd.0", "osd.1"}


def planned(tmp_path: Path) -> list[PlannedScenario]:
    return plan_of(Request(tmp_path / "a", tmp_path / "home", suites=("stress",), expression="mixed"))


@pytest.mark.slow
def test_a_plan_says_how_long_the_load_will_be_and_refuses_what_is_no_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MINUTES_VARIABLE, "360")
    (mixed,) = planned(tmp_path)
    assert mixed.load_s == 6 * 3600
    assert _time(mixed) == "unknown; 6 h 0 min of load now"
    assert _time(replace(mixed, last_s=90.0, load_s=None)) == "1 min 30 s"

    monkeypatch.setenv(MINUTES_VARIABLE, "bananas")
    with pytest.raises(SpecError, match="is not a length"):
        planned(tmp_path)


def test_a_daemon_that_cannot_be_sampled_is_told_before_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    readable = next(scenario for scenario in SCENARIOS if scenario.name == "stress.readable")
    wanted = SimpleNamespace(
        daemons={name: SimpleNamespace(kind=name.partition(".")[0]) for name in ("osd.0", "exporter.n0")}
    )

    def refuse(_cluster: object, daemons: Iterable[SimpleNamespace]) -> None:
        assert [daemon.kind for daemon in daemons] == ["osd"]
        raise Unavailable("osd.0 of the attached cluster cannot be looked at")

    monkeypatch.setattr(mixed, "require_read", refuse)
    monkeypatch.setattr(buckets, "client_of", Mock(side_effect=AssertionError("it is loaded")))
    with pytest.raises(Unavailable, match="cannot be looked at"):
        readable.run(stage_of(wanted))
