"""The check of measured figures: each of its three answers, and that it never answers out of nothing."""

from dataclasses import replace
from typing import Any

import pytest

from cephlab.lab.checks import CHECKS, Outcome
from cephlab.lab.checks.figures import judge_figure
from cephlab.lab.history.history import Bound, Event, History

WITNESS = Event("s", 0, "witness", {"what": "operations", "got": 10.0, "least": 1.0})


def figure(value: float = 10.0, **data: Any) -> Event:
    recorder = History().recorder("s")
    recorder.figure("rate", value, "1/s", Bound("a paper"))
    (made,) = recorder.events()
    return replace(made, data={**made.data, **data})


@pytest.mark.parametrize(
    ("event", "outcome"),
    [
        (figure(), Outcome.PASS),
        (figure(least=10.0, most=10.0), Outcome.PASS),
        (figure(least=11.0), Outcome.FAIL),
        (figure(most=9.0), Outcome.FAIL),
        (figure(low=8.0, high=12.0, least=8.0, most=12.0), Outcome.PASS),
        (figure(low=8.0, high=12.0, least=9.0), Outcome.INCONCLUSIVE),
        (figure(low=8.0, high=12.0, most=11.0), Outcome.INCONCLUSIVE),
        (figure(low=8.0, high=12.0, least=13.0), Outcome.FAIL),
        (figure(low=8.0, high=12.0, most=7.0), Outcome.FAIL),
    ],
)
def test_a_figure_is_judged_by_its_whole_interval(event: Event, outcome: Outcome) -> None:
    assert CHECKS["figures"]([event, WITNESS]).outcome is outcome


@pytest.mark.parametrize(
    "data",
    [
        {"value": float("nan")},
        {"value": float("inf"), "least": 1.0},
        {"value": float("inf")},
        {"low": float("nan"), "least": 1.0},
        {"high": float("nan"), "most": 20.0},
        {"least": float("nan")},
        {"most": float("inf")},
    ],
)
def test_what_is_no_finite_number_is_inconclusive(data: dict[str, float]) -> None:
    verdict = CHECKS["figures"]([figure(**data), WITNESS])
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "not a finite number" in verdict.reason


def test_the_derivation_has_the_figure_the_limit_and_where_it_comes_from() -> None:
    verdict = CHECKS["figures"]([figure(low=9.0, high=11.0, least=5.0), WITNESS])
    assert verdict.derivation[0] == "rate: 10 [9 .. 11] 1/s; at least 5 1/s wanted: a paper"
    assert CHECKS["figures"]([figure(), WITNESS]).derivation[0] == "rate: 10 1/s; no limit: a paper"


def test_nothing_measured_and_no_load_are_inconclusive() -> None:
    assert CHECKS["figures"]([WITNESS]).outcome is Outcome.INCONCLUSIVE
    assert CHECKS["figures"]([figure()]).outcome is Outcome.INCONCLUSIVE
    idle = Event("s", 0, "witness", {"what": "operations", "got": 0.0, "least": 1.0})
    assert CHECKS["figures"]([figure(least=1.0), idle]).outcome is Outcome.INCONCLUSIVE


def test_a_wrong_observation_beside_good_figures_fails() -> None:
    wrong = Event("s", 0, "observation", {"what": "check value", "got": 1, "wanted": 2})
    assert CHECKS["figures"]([figure(), WITNESS, wrong]).outcome is Outcome.FAIL


def test_a_witness_that_is_no_number_witnesses_nothing() -> None:
    nothing = Event("s", 0, "witness", {"what": "operations", "got": float("nan"), "least": 1.0})
    assert CHECKS["figures"]([figure(), nothing]).outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(
    "numbers", [(float("nan"), 0.9, 1.0), (1.0, float("nan"), 1.0), (1.0, 0.9, float("nan")), (2.0, 1.5, float("inf"))]
)
def test_a_change_that_is_no_number_tells_neither(numbers: tuple[float, float, float]) -> None:
    change = Event("s", 0, "change", dict(zip(("what", "value", "low", "high"), ("CPU", *numbers), strict=True)))
    assert CHECKS["regression"]([figure(), WITNESS, change]).outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize("limits", [[], [Event("s", 0, "limit", {"metric": "m", "high": 1, "unit": "s", "why": ""})]])
def test_a_metric_that_is_no_number_is_not_served(limits: list[Event]) -> None:
    event = figure(float("nan"), metric="m")
    assert CHECKS["service"]([event, *limits]).outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(
    ("value", "unit", "told"),
    [
        (4.5e9, "bytes/s", "4.5 GB/s; at least 4.5 GB/s wanted"),
        (3.0 * 2**30, "bytes", "3 GiB; at least 3 GiB wanted"),
        (569_717_000_000_000.0, "bytes", "569.717 TB; at least 569.717 TB wanted"),
        (0.0012, "s", "1.2 ms; at least 1.2 ms wanted"),
        (1_234_567.0, "ops/s", "1,234,567 ops/s; at least 1,234,567 ops/s wanted"),
        (0.0, "s", "0 s; at least 0 s wanted"),
    ],
)
def test_a_figure_and_its_limit_are_told_in_the_unit_that_fits(value: float, unit: str, told: str) -> None:
    data = {"metric": "it", "value": value, "low": value, "high": value, "unit": unit, "least": value, "most": None}
    verdict = judge_figure({**data, "why": "", "derivation": []})
    assert (verdict.outcome, verdict.reason) == (Outcome.PASS, f"it: {told}")
