"""What is read of daemons and clients under stress, what each series may change by, and in which unit."""

from dataclasses import replace
from typing import Any

import pytest

from cephlab.lab.ceph.memory import Footprint
from cephlab.lab.history.history import History, data_of
from cephlab.lab.spec.clusterspec import MIB
from cephlab.lab.telemetry.daemons import DaemonReading
from cephlab.lab.workloads.fiolatency import Window
from cephlab.suites.stress.series import SHARED, Values, beside_peers, declare, kind_of, of_client, of_daemons

HELD = Footprint(200 * MIB, threads=50, files=70)
BEFORE = DaemonReading(HELD, cpu_s=5.0, log_bytes=512)
LOADED = {"osd.op": 40.0, "osd.subop": 20.0, "bluefs.db_used_bytes": 64.0 * MIB}


def allowed(series: str, hours: float, *, shared: bool = False) -> float | None:
    """What a series may change by in an hour of a run of so many."""
    may: float | None = kind_of(series).declared(series, hours, shared=shared)["per_hour"]
    return may


@pytest.mark.parametrize(
    ("series", "an_hour", "a_run", "a_shared_run"),
    [
        ("block writes: rate", 0.02, 0.1, None),
        ("block writes: mean latency", 0.05, 0.25, None),
        ("block writes: p99 latency", 0.1, 0.5, None),
        ("osd.0: CPU of an operation", 0.02, 0.1, 0.5),
        ("osd.0: memory", 4, 64, 64),
        ("osd.0: threads", 1, 8, 8),
        ("osd.0: open files", 2, 24, 24),
        ("osd.0: log", 256, 64, 64),
        ("mon.a: log", 4096, 512, 512),
        ("mgr.a: log", 2048, 256, 256),
        ("osd.0: DB", 32, 128, 128),
        ("mon.a: store", 16, 16, 16),
    ],
)
def test_the_wider_of_two_limits_is_that_of_docs_stress(
    series: str, an_hour: float, a_run: float, a_shared_run: float | None
) -> None:
    assert allowed(series, 0.01) == pytest.approx(100 * a_run)
    assert allowed(series, 0.01, shared=True) == (a_shared_run and pytest.approx(100 * a_shared_run))
    assert (allowed(series, 100), allowed(series, 100, shared=True)) == (an_hour, a_shared_run and an_hour)


@pytest.mark.parametrize("shared", [True, False])
def test_eighteen_minutes_judge_an_osd_beside_its_peers_and_fewer_do_not(shared: bool) -> None:
    series = "osd.0: CPU beside its peers"
    assert [allowed(series, hours, shared=shared) for hours in (100, 0.3, 0.29)] == [0.02, pytest.approx(0.5), None]


@pytest.mark.parametrize(
    ("series", "unit", "may_jump"),
    [
        ("osd.0: memory", "MiB", False),
        ("osd.0: threads", "", False),
        ("osd.0: open files", "", False),
        ("osd.0: log", "KiB", True),
        ("mon.a: log", "KiB", True),
        ("mgr.a: log", "KiB", True),
        ("osd.0: DB", "MiB", True),
        ("mon.a: store", "MiB", True),
    ],
)
def test_what_a_daemon_holds_may_grow_by_so_much_in_its_unit(series: str, unit: str, may_jump: bool) -> None:
    kind = kind_of(series)
    assert (kind.unit, kind.worse, kind.share, kind.steps, kind.least) == (unit, "up", False, may_jump, None)


@pytest.mark.parametrize(
    ("series", "unit", "worse", "least"),
    [
        ("a: rate", "operations/s", "down", 0.0),
        ("a: mean latency", "s", "up", None),
        ("a: p99 latency", "s", "up", None),
        ("osd.0: CPU beside its peers", "", "up", None),
        ("osd.0: CPU of an operation", "s", "up", None),
    ],
)
def test_speed_and_cost_may_change_by_a_share_of_themselves(
    series: str, unit: str, worse: str, least: float | None
) -> None:
    kind = kind_of(series)
    assert (kind.unit, kind.worse, kind.share, kind.steps, kind.least) == (unit, worse, True, False, least)


def test_each_series_is_declared_with_its_limit_and_where_that_comes_from() -> None:
    recorder = History().recorder("stress.mixed")
    declare(recorder, {"a: rate": None, "osd.0: threads": 1.0}, 0.5, shared=False)
    rate, threads = data_of(recorder.events(), "sampled")
    assert rate == {
        "series": "a: rate",
        "unit": "operations/s",
        "worse": "down",
        "per_hour": 0.2,
        "share": True,
        "least": 0.0,
        "steps": False,
        "why": "0.02 of its median an hour, or 0.1 over the run",
    }
    assert (threads["series"], threads["why"]) == ("osd.0: threads", "1 an hour, or 8 over the run")
    declare(recorder, {"a: rate": None}, 0.5, shared=True)
    assert data_of(recorder.events(), "sampled")[-1]["why"] == SHARED


@pytest.mark.parametrize(
    ("series", "hours", "why"),
    [
        ("a: rate", 0.5, SHARED),
        ("osd.0: CPU beside its peers", 0.1, "judged from 18 minutes on"),
        ("osd.0: memory", 0.5, "4 MiB an hour, or 64 over the run"),
    ],
)
def test_a_shared_machine_and_a_short_run_say_why_nothing_is_judged(series: str, hours: float, why: str) -> None:
    assert kind_of(series).declared(series, hours, shared=True)["why"] == why


def test_a_daemons_own_kind_comes_first() -> None:
    assert kind_of("osd.0 (part 1): log") is kind_of("osd.0: log")
    assert kind_of("mon.a: log") is kind_of("mon.n0.example.org: log") is not kind_of("osd.0: log")
    assert kind_of("block: writes: rate") is kind_of("a: rate")


def test_each_daemon_has_the_series_of_its_kind() -> None:
    names = {"mon.a": "mon", "mgr.a": "mgr", "rgw.a": "rgw", "osd.0": "osd"}
    reading = DaemonReading(HELD, 8.0, log_bytes=3072, accounted=90 * MIB, store_bytes=5 * MIB, counters=LOADED)
    values = of_daemons(names, {"osd.0": BEFORE}, dict.fromkeys(names, reading), 4.0)
    held = {"memory": 110.0, "threads": 50.0, "open files": 70.0}
    assert values == {
        **{f"{name}: {what}": value for name in names for what, value in held.items()},
        **{f"{name}: log": 3.0 for name in names if name != "rgw.a"},
        "mon.a: store": 5.0,
        "osd.0: DB": 64.0,
        "osd.0: CPU of an operation": pytest.approx(3.0 / 60),
        "osd.0: rate": 15.0,
    }


@pytest.mark.parametrize(
    ("done", "cost", "rate"), [({}, None, 0.0), ({"osd.op": 1.0}, 3.0, 0.25), ({"osd.subop": 1.0}, 3.0, 0.25)]
)
def test_an_osd_without_an_operation_has_a_rate_and_no_cost(
    done: dict[str, float], cost: float | None, rate: float
) -> None:
    before = replace(BEFORE, counters=LOADED)
    now = replace(before, cpu_s=8.0, counters={name: LOADED[name] + done.get(name, 0.0) for name in LOADED})
    values = of_daemons({"osd.0": "osd"}, {"osd.0": before}, {"osd.0": now}, 4.0)
    assert (values["osd.0: CPU of an operation"], values["osd.0: rate"]) == (cost, rate)
    nothing = of_daemons({"osd.0": "osd"}, {"osd.0": BEFORE}, {"osd.0": BEFORE}, 4.0)
    assert (nothing["osd.0: rate"], nothing["osd.0: DB"]) == (0.0, 0.0)


NAMES = {"mon.a": "mon", "osd.0": "osd"}
OF_MON = {f"mon.a: {what}" for what in ("memory", "threads", "open files", "log", "store")}
OF_OSD = {f"osd.0: {what}" for what in ("memory", "threads", "open files", "log", "DB")}
OF_TWO_LOOKS = {"osd.0: CPU of an operation", "osd.0: rate"}


@pytest.mark.parametrize(
    ("before", "now", "missing"),
    [
        ({}, {}, OF_MON | OF_OSD | OF_TWO_LOOKS),
        ({"osd.0": BEFORE}, {"mon.a": BEFORE}, OF_OSD | OF_TWO_LOOKS),
        ({}, {"mon.a": BEFORE, "osd.0": BEFORE}, OF_TWO_LOOKS),
    ],
    ids=["nobody", "no OSD now", "no OSD before"],
)
def test_a_daemon_that_cannot_be_read_is_a_gap(before: Any, now: Any, missing: set[str]) -> None:
    values = of_daemons(NAMES, before, now, 1.0)
    assert set(values) == OF_MON | OF_OSD | OF_TWO_LOOKS
    assert {name for name, value in values.items() if value is None} == missing


def costs(*of_osds: float | None) -> Values:
    return {f"osd.{number}: CPU of an operation": cost for number, cost in enumerate(of_osds)}


def test_an_osd_is_held_to_its_peers_of_the_same_architecture() -> None:
    told = beside_peers(costs(0.003, 0.001, 0.002, None), [["osd.0", "osd.1", "osd.2"], ["osd.3"]])
    assert told == {
        "osd.0: CPU beside its peers": pytest.approx(2.0),
        "osd.1: CPU beside its peers": pytest.approx(0.4),
        "osd.2: CPU beside its peers": pytest.approx(1.0),
    }


@pytest.mark.parametrize(
    ("of_osds", "first"),
    [((0.002, None), None), ((None, 0.002), None), ((0.002, 0.0), None), ((0.0, 0.002), 0.0), ((4.0, None, 2.0), 2.0)],
)
def test_an_osd_whose_peers_show_nothing_is_beside_none(of_osds: tuple[float | None, ...], first: float | None) -> None:
    told = beside_peers(costs(*of_osds), [[f"osd.{number}" for number in range(len(of_osds))]])
    assert told["osd.0: CPU beside its peers"] == first


def test_a_window_without_operations_has_a_rate_but_no_latency() -> None:
    assert of_client("reads", Window(10.0, 12.0, 0)) == {"reads: rate": 0.0}
    assert of_client("reads", Window(10.0, 12.0, 1, 0.25, 0.5)) == {
        "reads: rate": 0.5,
        "reads: mean latency": 0.25,
        "reads: p99 latency": 0.5,
    }
