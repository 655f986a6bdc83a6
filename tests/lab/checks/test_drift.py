"""Verdicts over sampled series: drift, steps, gaps, and what stands still."""

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from cephlab.lab.checks.drift import _gap, drift, judge_series
from cephlab.lab.checks.trend import LEAST_SAMPLES
from cephlab.lab.checks.verdict import Outcome, Verdict
from cephlab.lab.history.history import Event

SAMPLES = 120
EVERY_S = 30.0
"""An hour in all."""

MEMORY = {"series": "memory", "unit": "MiB", "worse": "up", "per_hour": 20.0, "share": False, "least": None}
RATE = {"series": "rate", "unit": "/s", "worse": "down", "per_hour": 0.1, "share": True, "least": 0.0}


def judged(declared: Mapping[str, Any], value: Callable[[float], float | None], **more: Any) -> Verdict:
    """A verdict over one series whose value follows from the share of the hour that has passed."""
    series = {"steps": False, "why": "as tried", **declared, **more}
    events = [Event("s.t", 0.0, "sampled", series)]
    for number in range(SAMPLES):
        values = {series["series"]: value(number / SAMPLES)}
        events.append(Event("s.t", number * EVERY_S, "reading", {"at_s": number * EVERY_S, "values": values}))
    events.append(Event("s.t", 3600.0, "witness", {"what": "samples", "got": SAMPLES, "least": 1}))
    return drift(events)


def noise(scale: float) -> Callable[[float], float]:
    made = np.random.default_rng(5).standard_normal(SAMPLES) * scale
    return lambda share: float(made[round(share * SAMPLES)])


def test_a_series_that_stays_passes() -> None:
    around = noise(3)
    assert judged(MEMORY, lambda share: 500 + around(share)).outcome is Outcome.PASS


@pytest.mark.parametrize(("grown", "outcome"), [(40, Outcome.FAIL), (20, Outcome.INCONCLUSIVE), (5, Outcome.PASS)])
def test_growth_is_judged_by_its_whole_interval(grown: float, outcome: Outcome) -> None:
    around = noise(6)
    assert judged(MEMORY, lambda share: 500 + grown * share + around(share)).outcome is outcome


def test_growth_of_what_should_not_fall_is_no_failure() -> None:
    around = noise(3)
    assert judged(RATE, lambda share: 100 + 40 * share + around(share)).outcome is Outcome.PASS
    assert judged(RATE, lambda share: 100 - 40 * share + around(share)).outcome is Outcome.FAIL


def test_a_step_is_not_drift_and_no_pass_either_unless_it_was_expected() -> None:
    around = noise(3)

    def stepped(share: float) -> float:
        return 500 + (100 if share > 0.5 else 0) + around(share)

    verdict = judged(MEMORY, stepped)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "jumped" in verdict.reason
    assert judged(MEMORY, stepped, steps=True).outcome is Outcome.PASS


def test_what_settles_is_judged_by_its_later_half() -> None:
    around = noise(2)
    assert judged(MEMORY, lambda share: 500 + 60 * (1 - 2 ** (-10 * share)) + around(share)).outcome is Outcome.PASS


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_larger_allowance_ends_no_pass_but_for_a_jump(seed: int) -> None:
    made = np.random.default_rng(seed)
    around, rise, faster = made.standard_normal(SAMPLES) * 2, made.uniform(20, 80), made.uniform(5, 40)

    def settling(share: float) -> float:
        return 500 + rise * (1 - 2 ** (-faster * share)) + float(around[round(share * SAMPLES)])

    passed = False
    for per_hour in (3, 6, 12, 16, 25, 40, 60):
        verdict = judged(MEMORY, settling, per_hour=float(per_hour))
        if passed and verdict.outcome is not Outcome.PASS:
            assert verdict.outcome is Outcome.INCONCLUSIVE
            assert "jumped by" in verdict.reason
            assert judged(MEMORY, settling, per_hour=float(per_hour), steps=True).outcome is Outcome.PASS
        passed = passed or verdict.outcome is Outcome.PASS
    assert passed


def test_the_jumps_of_the_first_half_count_once_the_slope_of_the_whole_is_known() -> None:
    around = noise(2)
    for most, outcome in ((20.0, Outcome.PASS), (30.0, Outcome.INCONCLUSIVE)):
        verdict = judged(MEMORY, lambda share: 500 + 60 * (1 - 2 ** (-10 * share)) + around(share), per_hour=most)
        assert verdict.outcome is outcome


def test_what_grows_ever_faster_does_not_pass() -> None:
    around = noise(1)
    assert judged(MEMORY, lambda share: 500 + 2 ** (8 * share) + around(share)).outcome is not Outcome.PASS
    assert judged(MEMORY, lambda share: 500 + 80 * share**2 + around(share)).outcome is Outcome.FAIL


def test_what_never_leaves_its_allowance_passes_however_smooth_it_is() -> None:
    assert judged(MEMORY, lambda share: 500 + 15 * share**0.5).outcome is Outcome.PASS
    assert judged(MEMORY, lambda share: 500 + 60 * share**0.5).outcome is not Outcome.PASS


def test_without_an_allowance_only_standing_still_fails() -> None:
    assert judged(RATE, lambda share: 100 - 90 * share, per_hour=None).outcome is Outcome.PASS
    assert judged(RATE, lambda share: 0.0 if share > 0.5 else 100.0, per_hour=None).outcome is Outcome.FAIL


def test_a_step_for_the_better_passes() -> None:
    around = noise(3)
    assert judged(MEMORY, lambda share: 500 - (100 if share > 0.5 else 0) + around(share)).outcome is Outcome.PASS


def test_a_gap_is_inconclusive_even_where_both_sides_are_sound() -> None:
    around = noise(3)
    verdict = judged(MEMORY, lambda share: None if 0.4 < share < 0.5 else 500 + around(share))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "gap of" in verdict.reason


@pytest.mark.parametrize("lost", [lambda share: share > 0.9, lambda share: share < 0.1])
def test_a_series_that_ends_early_or_begins_late_has_a_gap(lost: Callable[[float], bool]) -> None:
    verdict = judged(MEMORY, lambda share: None if lost(share) else 500.0)
    assert verdict.outcome is Outcome.INCONCLUSIVE


def test_many_single_samples_that_are_missing_are_a_gap() -> None:
    verdict = judged(MEMORY, lambda share: None if round(share * SAMPLES) % 3 == 1 else 500.0)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "missing" in verdict.reason


def test_a_client_that_stops_fails_and_its_time_is_named() -> None:
    verdict = judged(RATE, lambda share: 0.0 if share >= 0.9 else 100.0)
    assert verdict.outcome is Outcome.FAIL
    assert "from 3240 s on" in verdict.reason


def test_two_empty_samples_are_no_stop() -> None:
    verdict = judged(RATE, lambda share: 0.0 if 0.5 <= share < 0.515 else 100.0)
    assert verdict.outcome is Outcome.PASS


def test_nothing_is_inconclusive() -> None:
    assert drift([]).outcome is Outcome.INCONCLUSIVE
    assert judged(MEMORY, lambda share: None).outcome is Outcome.INCONCLUSIVE
    assert judged(RATE, lambda share: -1.0, least=None).outcome is Outcome.INCONCLUSIVE


def test_without_a_witness_of_the_load_nothing_passes() -> None:
    events = [
        Event("s.t", 0.0, "sampled", {**MEMORY, "steps": False, "why": ""}),
        *(Event("s.t", 30.0 * n, "reading", {"at_s": 30.0 * n, "values": {"memory": 5.0}}) for n in range(SAMPLES)),
    ]
    assert drift(events).outcome is Outcome.INCONCLUSIVE


def test_the_order_of_the_samples_is_their_time() -> None:
    around = noise(3)
    declared = {"steps": False, "why": "as tried", **MEMORY}
    samples = [
        {"at_s": n * EVERY_S, "values": {"memory": 500 + 40 * n / SAMPLES + around(n / SAMPLES)}}
        for n in range(SAMPLES)
    ]
    twice = [*samples, {"at_s": samples[-1]["at_s"], "values": {"memory": None}}]
    assert judge_series(declared, twice[::-1]) == judge_series(declared, samples)


def test_a_gap_is_one_of_ten_seconds_however_often_is_looked() -> None:
    asked = [number / 2 for number in range(200)]
    assert _gap(asked, [at for at in asked if not 5 < at < 15.5]) == "a gap of 10 s from 5 s on"
    assert _gap(asked, [at for at in asked if not 5 < at < 15]) == ""
    assert _gap([5.0], [5.0]) == ""
    assert _gap([0, 0, 0, 20], [0, 0, 0, 20]) == ""  # most looks at one time tell no usual one


def test_a_jump_is_told_in_the_units_of_its_series() -> None:
    around = noise(1)
    verdict = judged(RATE, lambda share: 200 - (50 if share > 0.5 else 0) + around(share))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert re.search(r"jumped by (4[7-9]|5[0-3])\S* /s and stayed there", verdict.reason)
    assert any(re.search(r"steps: -(4[7-9]|5[0-3])\S* at 18\d\d s", line) for line in verdict.derivation)


def test_a_jump_is_held_to_what_may_drift_in_the_time_of_the_series() -> None:
    around = noise(0.5)
    declared = {"steps": False, "why": "as tried", **MEMORY}
    samples = [
        {"at_s": n * EVERY_S / 2, "values": {"memory": 500 + (15 if n > 60 else 0) + around(n / SAMPLES)}}
        for n in range(SAMPLES)
    ]
    assert judge_series(declared, samples).outcome is Outcome.INCONCLUSIVE


def test_a_jump_after_it_settled_is_told() -> None:
    around = noise(1)
    verdict = judged(MEMORY, lambda share: 500 + 60 * (1 - 2 ** (-10 * share)) + 40 * (share > 0.75) + around(share))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert re.search(r"jumped by (3[89]|4[0-2])\S* MiB and stayed there", verdict.reason)


def test_a_band_is_as_wide_as_the_whole_time_allows() -> None:
    last = (SAMPLES - 1) / SAMPLES
    samples = [
        {"at_s": n * EVERY_S, "values": {"memory": 500 + 19.75 * (n / SAMPLES / last) ** 0.5}} for n in range(SAMPLES)
    ]
    verdict = judge_series({"steps": False, "why": "as tried", **MEMORY}, samples)
    assert verdict.outcome is Outcome.PASS
    assert verdict.reason == verdict.derivation[0] == "memory: all values lie between 500 and 519.75 MiB"


def test_a_band_that_is_exactly_as_wide_as_allowed_passes() -> None:
    declared = {"steps": False, "why": "as tried", **MEMORY, "per_hour": 16.0}
    samples = [{"at_s": n * 28.125, "values": {"memory": 512 + 16 * (n / 128) ** 0.5}} for n in range(129)]
    assert judge_series(declared, samples).outcome is Outcome.PASS


def test_a_jump_of_exactly_what_may_drift_passes() -> None:
    quarters = np.random.default_rng(0).integers(-2, 3, 129) / 4
    declared = {"steps": False, "why": "as tried", **MEMORY, "per_hour": 16.0}
    samples = [{"at_s": n * 28.125, "values": {"memory": 512 + 16 * (n > 64) + float(quarters[n])}} for n in range(129)]
    assert judge_series(declared, samples).outcome is Outcome.PASS


# What was planted into a made series, each as an issue of the field shows itself.


def test_an_osd_that_leaks_two_kib_a_write_is_found() -> None:
    """50 writes a second for an hour: 352 MiB."""
    around = noise(4)
    assert judged(MEMORY, lambda share: 700 + 50 * 3600 * share * 2 / 1024 + around(share)).outcome is Outcome.FAIL


def test_an_osd_that_slows_by_one_percent_a_minute_is_found() -> None:
    around = noise(0.1)
    cost = {**RATE, "series": "cost", "unit": "us", "worse": "up", "least": None}
    assert judged(cost, lambda share: 400 * 1.01 ** (60 * share) * (1 + around(share))).outcome is Outcome.FAIL


def test_an_osd_that_logs_a_line_a_second_is_found() -> None:
    around = noise(4)
    log = {**MEMORY, "series": "log", "unit": "KiB", "per_hour": 150.0}
    assert judged(log, lambda share: 20 + 3600 * share * 120 / 1024 + around(share)).outcome is Outcome.FAIL
    assert judged(log, lambda share: 20 + 3600 * share * 20 / 1024 + around(share)).outcome is Outcome.PASS


# The edges of what is judged.


def sparse(lost: Collection[int], samples: int = SAMPLES) -> Verdict:
    """A flat series of which the samples of these numbers could not be read."""
    events = [Event("s.t", 0.0, "sampled", {**MEMORY, "steps": False, "why": "as tried"})]
    for number in range(samples):
        value = None if number in lost else 500.0
        events.append(Event("s.t", 0.0, "reading", {"at_s": number * EVERY_S, "values": {"memory": value}}))
    return drift([*events, Event("s.t", 0.0, "witness", {"what": "samples", "got": samples, "least": 1})])


def test_a_gap_is_longer_than_three_of_the_usual_distances_and_is_told() -> None:
    assert sparse({50, 51}).outcome is Outcome.PASS
    verdict = sparse({50, 51, 52})
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "cannot tell: memory: a gap of 120 s from 1470 s on" in (verdict.reason, *verdict.derivation)


@pytest.mark.parametrize(
    ("lost", "text"), [({0, 1, 2, 3}, "120 s from 0 s"), ({116, 117, 118, 119}, "120 s from 3450 s")]
)
def test_a_gap_at_either_end_counts_from_the_end(lost: set[int], text: str) -> None:
    assert f"a gap of {text} on" in sparse(lost).reason


def test_a_tenth_of_the_samples_may_be_missing() -> None:
    assert sparse(range(0, 120, 10)).outcome is Outcome.PASS
    verdict = sparse({*range(0, 120, 10), 5})
    assert (verdict.outcome, verdict.reason) == (
        Outcome.INCONCLUSIVE,
        "cannot tell: memory: 13 of 120 samples are missing",
    )


@pytest.mark.parametrize(("last", "outcome"), [(3, Outcome.FAIL), (2, Outcome.PASS)])
def test_three_samples_at_the_end_are_a_stop(last: int, outcome: Outcome) -> None:
    stopped = (SAMPLES - last) / SAMPLES
    assert judged(RATE, lambda share: 0.0 if share >= stopped - 1e-9 else 100.0, per_hour=None).outcome is outcome


def test_a_verdict_says_what_it_saw() -> None:
    around = noise(0.1)
    verdict = judged(MEMORY, lambda share: 500 + (100 if share >= 0.5 else 0) + around(share), steps=True)
    assert verdict.outcome is Outcome.PASS
    (seen,) = [line for line in verdict.derivation if "independent" in line]
    assert seen.startswith("120 samples over 0.992 h are worth ")
    (steps,) = [line for line in verdict.derivation if line.startswith("steps: ")]
    assert re.fullmatch(r"steps: \+(99\.\d+|100(\.\d+)?) at 1800 s", steps)


def test_a_share_is_of_the_median_and_its_steps_are_told_in_the_unit() -> None:
    around = noise(0.1)
    verdict = judged(RATE, lambda share: (200 if share < 0.5 else 100) + around(share))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert re.fullmatch(r"cannot tell: rate jumped by 100\.0\d+ /s and stayed there", verdict.reason)


def test_a_series_that_could_be_read_at_no_time_names_itself() -> None:
    assert judged(MEMORY, lambda share: None).reason == "cannot tell: memory: nothing was sampled"
    assert judged(MEMORY, lambda share: float("inf")).reason == "cannot tell: memory: nothing was sampled"
    assert drift([]).reason == "no series was declared"


def late(declared: Mapping[str, Any], values: Sequence[float], *more: Event) -> Verdict:
    """A verdict over one series that begins ten hours after the history does."""
    series = {"steps": False, "why": "as tried", **declared}
    events = [Event("s.t", 0.0, "sampled", series), *more]
    for number, value in enumerate(values):
        data = {"at_s": 36000 + number * EVERY_S, "values": {series["series"]: value}}
        events.append(Event("s.t", 0.0, "reading", data))
    return drift([*events, Event("s.t", 0.0, "witness", {"what": "samples", "got": len(values), "least": 1})])


def test_only_the_time_between_the_first_and_the_last_look_counts() -> None:
    """Jumps up to what it may change in that time pass, whenever the series began."""
    jump = [500.0 + (19.8 if number >= 60 else 0.0) for number in range(120)]
    assert late(MEMORY, [value + 0.01 * (number % 2) for number, value in enumerate(jump)]).outcome is Outcome.PASS
    jump = [500.0 + (20.2 if number >= 60 else 0.0) for number in range(120)]
    assert late(MEMORY, [value + 0.01 * (number % 2) for number, value in enumerate(jump)]).outcome is not Outcome.PASS


def test_what_stays_within_its_allowance_says_between_what() -> None:
    wave = [500 + 9.8 * math.sin(number / 19) for number in range(120)]
    verdict = late(MEMORY, wave)
    assert verdict.outcome is Outcome.PASS
    line = f"memory: all values lie between {min(wave):.6g} and {max(wave):.6g} MiB"
    assert line in (verdict.reason, *verdict.derivation)
    assert any("120 samples over 0.992 h" in each for each in verdict.derivation)


def test_a_wrong_observation_fails_a_sound_series() -> None:
    wrong = Event("s.t", 0.0, "observation", {"what": "errors", "got": 3, "wanted": 0, "of": 5})
    assert late(MEMORY, [500.0] * 120).outcome is Outcome.PASS
    assert late(MEMORY, [500.0] * 120, wrong).outcome is Outcome.FAIL


def test_a_short_series_without_an_allowance_is_written_down_as_unchanged() -> None:
    verdict = late({**RATE, "per_hour": None}, [100.0] * 5)
    assert verdict.outcome is Outcome.PASS
    (said,) = [line for line in verdict.derivation if line.startswith("rate: change an hour: ")]
    assert said.startswith("rate: change an hour: 0 [-inf .. inf] of its median")
    assert late(RATE, [100.0, 90.0, 95.0, 80.0, 99.0]).outcome is Outcome.INCONCLUSIVE
    risen = late({**RATE, "per_hour": None}, [100.0 + number for number in range(120)])
    assert any(re.match(r"rate: change an hour: 0\.7\d* \[0\.7", line) for line in risen.derivation)


def test_what_is_no_share_is_told_in_its_unit_and_a_share_with_its_median() -> None:
    flat = late(MEMORY, [500.0] * 120)
    assert any("memory: change an hour: 0 MiB" in line for line in flat.derivation)
    assert any(line.endswith("are worth 120 independent ones") for line in flat.derivation)
    assert not any(line.startswith("steps: ") for line in flat.derivation)
    share = late(RATE, [200.0] * 120)
    assert any(line.endswith("are worth 120 independent ones; median 200") for line in share.derivation)


def test_a_stop_and_a_gap_are_in_the_derivation_too() -> None:
    stopped = late(RATE, [100.0] * 60 + [0.0] * 60)
    assert stopped.reason in stopped.derivation
    assert stopped.reason == "rate: stayed at or below 0 /s from 37800 s on"
    missing = sparse({50, 51, 52})
    assert missing.reason in missing.derivation


def test_the_later_half_is_named_and_keeps_what_the_whole_said() -> None:
    settled = [500 + 60 * (1 - 2 ** (-10 * number / SAMPLES)) for number in range(SAMPLES)]
    around = noise(2)
    verdict = late(MEMORY, [value + around(number / SAMPLES) for number, value in enumerate(settled)])
    assert verdict.outcome is Outcome.PASS
    text = "\n".join((verdict.reason, *verdict.derivation))
    assert "60 samples over 0.492 h" in text
    assert "120 samples over 0.992 h" in text


def test_a_median_of_nothing_has_no_share() -> None:
    verdict = late({**RATE, "least": None}, [0.0] * 120)
    assert verdict.reason == "cannot tell: rate: its median is 0, so a share of it means nothing"


@pytest.mark.parametrize("count", [1, 2, LEAST_SAMPLES - 1])
def test_too_few_samples_do_not_pass_because_they_are_equal(count: int) -> None:
    declared = {"steps": False, "why": "as tried", **MEMORY}
    samples = [{"at_s": n * EVERY_S, "values": {"memory": 500.0}} for n in range(LEAST_SAMPLES)]
    assert judge_series(declared, samples[:count]).outcome is Outcome.INCONCLUSIVE
    assert judge_series(declared, samples).outcome is Outcome.PASS
