"""A cost against those of earlier runs: which runs are taken, and how wide the interval is."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from cephlab.lab.checks.regression import FOUND, STORED
from cephlab.lab.checks.verdict import Outcome
from cephlab.lab.telemetry.compare import ALONE, LEAST_AMOUNT
from cephlab.lab.telemetry.demand import Interval, Resource, Role
from cephlab.lab.telemetry.demandfile import Measurement
from cephlab.lab.telemetry.measure import intervals
from cephlab.lab.telemetry.regression import CONFIDENCE
from cephlab.lab.telemetry.usual import HOUR_S, LEAST_HOURS, MOST_HOURS, Earlier, Since, by_hour, rise, since
from tests.lab.telemetry.test_compare import measured


def runs(costs: Sequence[float], *, image: str = "key", first: int = 0) -> list[Earlier]:
    """One run in each hour, whose OSDs cost so many times the usual."""
    made = []
    for number, factor in enumerate(costs, first):
        measurement = measured(number, factor=factor, count=6)
        of_image = replace(measurement, demand=replace(measurement.demand, image=image))
        made.append(Earlier(f"run-{number:02}", number * HOUR_S, of_image))
    return made


def with_pace(measurement: Measurement, pace: float) -> Measurement:
    """The same costs on a machine whose reference work took this long; 0: it was not measured."""
    reference = {"memory": pace} if pace else {}
    return replace(measurement, batches=tuple(replace(batch, reference=reference) for batch in measurement.batches))


def sending(measurement: Measurement, factor: float) -> Measurement:
    """The same, with a primary that sends so many times as much."""

    def more(role: Role, resource: Resource) -> float:
        return factor if (role, resource) == (Role.PRIMARY, Resource.WIRE_SENT_BYTES) else 1.0

    batches = tuple(
        replace(
            batch,
            costs={
                role: {resource: value * more(role, resource) for resource, value in costs.items()}
                for role, costs in batch.costs.items()
            },
        )
        for batch in measurement.batches
    )
    return replace(measurement, batches=batches, demand=replace(measurement.demand, costs=intervals(batches)))


STEADY = (1.0, 1.01, 0.99, 1.02, 0.98, 1.0)


def test_without_earlier_runs_there_is_nothing_to_say() -> None:
    assert since([], measured(1)) is None


def test_runs_within_an_hour_count_once() -> None:
    earlier = [replace(run, began_s=at) for run, at in zip(runs([1.0] * 5), (7200, 0, 3599, 3600, 10_799), strict=True)]
    assert [[run.began_s for run in hour] for hour in by_hour(earlier)] == [[0, 3599], [3600], [7200, 10_799]]


def test_one_earlier_run_is_compared_with_as_a_baseline_is() -> None:
    compared = since(runs([1.0]), measured(50))
    assert compared is not None
    assert compared.words == "compared with 1 earlier run of 1 hour: run-00"
    assert (compared.hours, compared.runs) == (1, ("run-00",))
    assert [change.outcome for change in compared.changes if change.what == "CPU of OSDs"] == [Outcome.PASS]


def test_an_earlier_run_that_cannot_be_compared_with_says_why() -> None:
    run, *_ = runs([1.0])
    bare = replace(run, measured=replace(run.measured, batches=run.measured.batches[:1]))
    compared = since([bare], measured(50))
    assert compared is not None
    assert (compared.changes, compared.why_none.endswith("has two batches on both sides")) == ((), True)


def test_of_few_runs_the_newest_is_taken_and_one_of_the_same_image_before_it() -> None:
    compared = since(runs([1.0, 1.0, 1.0]), measured(50))
    assert compared is not None
    assert (compared.hours, compared.runs) == (3, ("run-02",))
    mixed = [*runs([1.0]), *runs([1.0], image="later", first=1)]
    compared = since(mixed, measured(50))
    assert compared is not None
    assert (compared.hours, compared.runs) == (2, ("run-00",))


def test_runs_of_enough_hours_are_all_compared_with() -> None:
    compared = since(list(reversed(runs(STEADY))), measured(50))
    assert compared is not None
    assert compared.words == "compared with 6 earlier runs of 6 hours: run-00 to run-05"
    (change,) = compared.changes
    assert (change.what, change.outcome, change.least) == ("CPU of OSDs", Outcome.PASS, STORED)
    assert change.ratio.value == pytest.approx(1.0, abs=0.05)
    assert change.after / change.before == pytest.approx(change.ratio.value)
    assert "CPU of OSDs: 7" in change.line


def test_a_large_rise_over_enough_hours_is_a_regression() -> None:
    compared = since(runs(STEADY), measured(50, factor=1.5))
    assert compared is not None
    assert [change.outcome for change in compared.changes] == [Outcome.FAIL]


def test_what_can_be_told_is_judged_and_the_rest_is_shown() -> None:
    (plain,) = since(runs(STEADY), measured(50)).changes  # type: ignore[union-attr]
    passed, failed, doubtful = (replace(plain, what=outcome, outcome=outcome) for outcome in Outcome)
    many = Since(LEAST_HOURS, ("a",), (passed, failed, doubtful), "")
    assert (many.judged, many.untold) == ((passed, failed), f"not judged: {doubtful.line}")
    few = replace(many, hours=LEAST_HOURS - 1)
    assert few.judged == (passed,)
    assert few.untold == f"not judged with fewer than 6 hours: {failed.line}; {doubtful.line}"
    assert replace(few, changes=(passed,)).untold == ""


def test_the_first_hours_are_kept_so_that_a_slow_drift_shows() -> None:
    """Each run costs 2 % more than the one before; no run differs from its neighbour by what could be found."""
    drift = runs([1.0, 1.02, 0.98, 1.0, 1.02, 0.98] * 3 + [1.02**step for step in range(20)])
    compared = since(drift, measured(50, factor=1.02**20))
    assert compared is not None
    assert MOST_HOURS == 16
    assert (compared.hours, compared.runs[0], compared.runs[-1]) == (MOST_HOURS, "run-00", f"run-{MOST_HOURS - 1:02}")
    assert compared.changes[0].outcome is Outcome.FAIL
    newest = since(drift[-1:], measured(50, factor=1.02**20))
    assert newest is not None
    assert all(change.outcome is Outcome.PASS for change in newest.changes)


def test_runs_of_the_same_image_are_enough_where_there_are_enough() -> None:
    others = runs([1.5] * 7, image="earlier build")
    compared = since([*others, *runs(STEADY, first=7)], measured(50))
    assert compared is not None
    assert compared.runs == tuple(f"run-{number:02}" for number in range(7, 13))
    fewer = since([*others, *runs(STEADY[:5], first=7)], measured(50))
    assert fewer is not None
    assert (len(fewer.runs), fewer.hours) == (12, 12)


def test_a_machine_that_became_slower_gives_no_regression() -> None:
    slower = with_pace(measured(50, factor=1.5), 1.5e-4)
    usual = [replace(run, measured=with_pace(run.measured, 1e-4)) for run in runs(STEADY)]
    compared = since(usual, slower)
    assert compared is not None
    assert [change.outcome for change in compared.changes] == [Outcome.INCONCLUSIVE]
    as_fast = since(usual, with_pace(slower, 1e-4))
    assert as_fast is not None
    assert [change.outcome for change in as_fast.changes] == [Outcome.FAIL]


def test_runs_on_a_machine_of_unknown_pace_are_of_no_hour() -> None:
    compared = since(runs(STEADY), with_pace(measured(50), 0))
    assert compared is not None
    assert (compared.hours, compared.runs) == (0, ("run-05",))
    assert compared.words == "compared with 1 earlier run: run-05"
    blind = [replace(run, measured=with_pace(run.measured, 0)) for run in runs(STEADY)]
    compared = since([*blind[:1], *runs(STEADY, first=1)], measured(50))
    assert compared is not None
    assert (compared.hours, "run-00" in compared.runs) == (6, False)


def test_a_wire_that_carries_more_than_in_every_hour_is_found() -> None:
    compared = since(runs(STEADY), sending(measured(50), 1.2))
    assert compared is not None
    cpu, sent = compared.changes
    assert (cpu.what, sent.what, sent.outcome) == ("CPU of OSDs", "sent by osd.primary", Outcome.FAIL)
    assert sent.resource is Resource.WIRE_SENT_BYTES
    assert sent.least == FOUND


def test_little_traffic_is_that_of_heartbeats_and_is_not_looked_at() -> None:
    least = LEAST_AMOUNT[Resource.WIRE_SENT_BYTES]
    usual = [replace(earlier, measured=exactly(earlier.measured, least / 2)) for earlier in runs(STEADY)]
    for after, count in ((2 * least, 2), (least, 1), (least - 1, 1)):
        difference = since(usual, exactly(measured(50), after))
        assert difference is not None
        assert len(difference.changes) == count


def exactly(measurement: Measurement, sent: float) -> Measurement:
    """The same, with a primary that sends this much, always."""
    costs = {role: dict(of_role) for role, of_role in measurement.demand.costs.items()}
    costs[Role.PRIMARY][Resource.WIRE_SENT_BYTES] = Interval(sent, sent, sent, 6)
    return replace(measurement, demand=replace(measurement.demand, costs=costs))


def test_a_cost_that_begins_is_a_rise_from_the_least_amount() -> None:
    least = LEAST_AMOUNT[Resource.WIRE_SENT_BYTES]
    idle = [replace(earlier, measured=sending(earlier.measured, 0.0)) for earlier in runs(STEADY)]
    difference = since(idle, measured(50))
    assert difference is not None
    _, sent = difference.changes
    assert (sent.what, sent.outcome) == ("sent by osd.primary, less than 1024 B counted as that", Outcome.FAIL)
    assert sent.ratio.value == pytest.approx(12_000 / least, rel=0.01)


def test_a_cost_that_was_not_measured_did_not_rise() -> None:
    costs = {role: dict(of_role) for role, of_role in measured(50).demand.costs.items()}
    costs[Role.PRIMARY][Resource.INSTRUCTIONS] = Interval(5e5, 5e5, 5e5, 6)
    difference = since(runs(STEADY), replace(measured(50), demand=replace(measured(50).demand, costs=costs)))
    assert difference is not None
    assert [change.what for change in difference.changes] == ["CPU of OSDs"]


def test_a_cpu_cost_of_nothing_has_no_ratio() -> None:
    still = measured(50)
    costs = {role: {Resource.CPU_USER_S: Interval(0, 0, 0, 6)} for role in still.demand.costs}
    difference = since(runs(STEADY), replace(still, demand=replace(still.demand, costs=costs)))
    assert difference is not None
    assert difference.changes == ()


def test_the_interval_is_that_of_one_more_hour() -> None:
    before = [[math.exp(0.1)], [math.exp(-0.1)], [1.0]]
    ratio = rise(before, 1.0, 0.0, 0.0, confidence=0.98)
    half = 6.96456 * 0.1 * math.sqrt(4 / 3)
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((1.0, math.exp(-half), math.exp(half)), rel=1e-5)
    moved = rise(before, 1.0, 0.0, 0.2, confidence=0.98)
    assert math.log(moved.high) == pytest.approx(6.96456 * math.sqrt(0.01 * 4 / 3 + 0.04), rel=1e-5)
    least = rise(before, 1.0, 0.2, 0.0, confidence=0.98)
    assert math.log(least.high) == pytest.approx(2 * half, rel=1e-5)
    together = rise([[math.exp(0.3), math.exp(-0.1)], [math.exp(-0.1)], [1.0]], 1.0, 0.0, 0.0, confidence=0.98)
    assert together.high == pytest.approx(ratio.high)


def test_one_hour_has_no_interval() -> None:
    ratio = rise([[1.0, 1.1]], 1.2, 0.0, 0.0, confidence=CONFIDENCE)
    assert (ratio.low, ratio.high) == (0.0, math.inf)
    assert ratio.value == pytest.approx(1.2 / math.sqrt(1.1))
    assert math.isfinite(rise([[1.0], [1.1]], 1.2, 0.0, 0.0, confidence=CONFIDENCE).high)


def test_traffic_is_judged_by_the_stricter_interval() -> None:
    """About ten kinds of it are looked at, and together they may err as often as the CPU time."""
    compared = since(runs(STEADY), sending(measured(50), 1.2))
    assert compared is not None
    cpu, sent = compared.changes
    spread = 0.005 * math.sqrt(7 / 6)
    assert ALONE > CONFIDENCE
    assert math.log(sent.ratio.high / sent.ratio.value) >= 5.89343 * spread * 0.999
    assert sent.ratio.high / sent.ratio.value < cpu.ratio.high / cpu.ratio.value
