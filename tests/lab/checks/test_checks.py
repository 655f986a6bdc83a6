"""The plain checks on histories written out: each says what is wrong, and none is left out of a whole."""

import math
from dataclasses import replace
from typing import Any

import pytest

from cephlab.lab.checks import CHECKS, Outcome, Verdict, merge
from cephlab.lab.checks.aftermath import aftermath
from cephlab.lab.checks.regression import FOUND, RULE, SAME, STORED, judge
from cephlab.lab.checks.service import computed, ends_of, errors, longest_gap_s, longest_wait_s, service
from cephlab.lab.checks.witnessed import witnesses
from cephlab.lab.history.history import Event
from cephlab.lab.history.operations import Act, Ended, Operation, pack


def event(kind: str, **data: Any) -> Event:
    return Event("s", 1.0, kind, data)


def observation(got: object, wanted: object, what: str = "size") -> Event:
    return event("observation", what=what, got=got, wanted=wanted)


# One verdict of several

PASSED, FAILED = Verdict(Outcome.PASS, "fine", ("a",)), Verdict(Outcome.FAIL, "broken", ("b",))
DOUBT = Verdict(Outcome.INCONCLUSIVE, "unseen", ("c",))


def test_the_worst_verdict_gives_the_reason_and_all_give_their_facts() -> None:
    assert merge([PASSED, DOUBT, FAILED]) == Verdict(Outcome.FAIL, "broken", ("b", "c", "a"))
    assert merge([PASSED, DOUBT]) == Verdict(Outcome.INCONCLUSIVE, "unseen", ("c", "a"))
    assert merge([PASSED]) == PASSED
    assert merge([FAILED, Verdict(Outcome.FAIL, "later")]).reason == "broken"


def test_no_verdict_at_all_is_doubt() -> None:
    assert merge([]) == Verdict(Outcome.INCONCLUSIVE, "nothing was checked")
    assert Verdict(Outcome.FAIL, "broken", ("b",)) == FAILED
    assert Verdict(Outcome.PASS, "fine").derivation == ()


def test_outcomes_are_the_words_that_archives_hold() -> None:
    assert [outcome.value for outcome in Outcome] == ["pass", "fail", "inconclusive"]


# A recorded load as a whole


def operation(act: Act, began_s: float, ended_s: float | None, **data: Any) -> Operation:
    whole: dict[str, Any] = {"load": "l", "client": "n0", "worker": 0, "key": 1, "version": 1, "outcome": Ended.OK}
    return Operation(act=act, began_s=began_s, ended_s=ended_s, **{**whole, **data})


def history(*operations: Operation) -> list[Event]:
    return [event("operations", **data) for data in pack(operations)]


KEPT = history(operation(Act.WRITE, 1, 2), operation(Act.FINAL, 9, 10))
LOST = history(operation(Act.WRITE, 1, 2), operation(Act.FINAL, 9, 10, version=0))


def limit(metric: str, high: float, unit: str = "s") -> Event:
    return event("limit", metric=metric, high=high, unit=unit, why="agreed")


def figure(value: float, low: float, high: float, **data: Any) -> Event:
    unbound: dict[str, Any] = {"least": None, "most": None, "why": "a paper", "derivation": []}
    return event(
        "figure", **{"metric": "rate", "value": value, "low": low, "high": high, "unit": "1/s", **unbound, **data}
    )


def witness(got: float) -> Event:
    return event("witness", what="faults", got=got, least=1)


@pytest.mark.parametrize(
    ("events", "outcome"),
    [
        (KEPT, Outcome.PASS),
        (LOST, Outcome.FAIL),
        ([*KEPT, limit("longest_wait_s", 0.5)], Outcome.FAIL),
        ([*KEPT, limit("healthy_s", 5)], Outcome.INCONCLUSIVE),
        ([*KEPT, observation(1, 1)], Outcome.PASS),
        ([*KEPT, observation(1, 2)], Outcome.FAIL),
        ([*KEPT, observation(1, 1), witness(1)], Outcome.PASS),
        ([*KEPT, observation(1, 2), witness(1)], Outcome.FAIL),
        ([*KEPT, observation(1, 1), witness(0)], Outcome.INCONCLUSIVE),
        ([*KEPT, witness(1)], Outcome.INCONCLUSIVE),
    ],
)
def test_loss_service_observations_and_witnesses_all_count(events: list[Event], outcome: Outcome) -> None:
    assert CHECKS["recorded"](events).outcome is outcome


def test_what_service_computes_is_what_the_operations_tell() -> None:
    assert computed(KEPT) == [("client_errors", 0.0, ""), ("longest_wait_s", 1.0, "s"), ("longest_gap_s", 1.0, "s")]
    ending = event("load_ending", load="l", run=1)
    assert computed([*history(operation(Act.WRITE, -9, -8)), ending])[2] == ("longest_gap_s", 9.0, "s")
    assert computed(history(operation(Act.READ, 2, 3, outcome=Ended.FAIL))) == [("client_errors", 1.0, "")]
    assert computed(history(operation(Act.FINAL, 9, 10))) == []


def test_a_recorded_load_says_what_was_written_and_how_it_was_served() -> None:
    verdict = CHECKS["recorded"]([*KEPT, limit("longest_wait_s", 1.0)])
    assert verdict.derivation == (
        "1 of 1 write acknowledged, 0 of unknown outcome; 0 reads meanwhile, 1 at the end",
        "client_errors 0 (no limit)",
        "longest_wait_s 1 s, at most 1 s: agreed",
        "longest_gap_s 1 s (no limit)",
    )


# Service


def test_an_operation_that_ended_with_an_error_is_one_and_a_hanging_one_is_not() -> None:
    refused = operation(Act.READ, 2, 3, outcome=Ended.FAIL)
    hanging = operation(Act.WRITE, 3, None, outcome=Ended.UNKNOWN)
    assert errors([operation(Act.WRITE, 1, 2), refused, hanging]) == [refused]


def test_waits_and_gaps_without_an_end_are_as_long_as_the_operations_tell() -> None:
    hanging = operation(Act.WRITE, 3, None, outcome=Ended.UNKNOWN)
    operations = [operation(Act.WRITE, 1, 2), hanging, operation(Act.READ, 5, 7)]
    assert longest_wait_s(operations) == 4
    assert longest_gap_s(operations) == 5
    # An operation that began last and never ended is as late as it began.
    assert longest_gap_s([operation(Act.WRITE, 1, 2), replace(hanging, began_s=6.0)]) == 4


def test_each_run_of_each_load_ends_by_itself() -> None:
    ends = ends_of([Event("s", 8.0, "load_ending", {"load": "l", "run": "2"}), Event("s", 9.0, "step", {})])
    assert ends == {("l", 2): 8.0}
    first, second = operation(Act.WRITE, 1, 2), operation(Act.WRITE, 3, 4, run=2)
    assert longest_gap_s([first, second], ends) == 4
    assert longest_gap_s([first, operation(Act.WRITE, 3, 4, load="m", run=2)], ends) == 1
    hanging = operation(Act.WRITE, 3, None, run=2, outcome=Ended.UNKNOWN)
    assert longest_wait_s([first, hanging], ends) == 5
    assert longest_wait_s([first, hanging], {}) == 1


def test_a_refusal_is_no_answer() -> None:
    refused = operation(Act.WRITE, 2, 3, outcome=Ended.FAIL)
    assert longest_gap_s([operation(Act.WRITE, 1, 2), refused, operation(Act.READ, 4, 6)]) == 4


def test_final_reads_are_no_service() -> None:
    late = history(
        operation(Act.WRITE, 1, 2), operation(Act.FINAL, 3, 60), operation(Act.FINAL, 61, 62, outcome=Ended.FAIL)
    )
    assert service(late).reason == "client_errors 0, longest_wait_s 1 s, longest_gap_s 1 s"
    assert service(history(operation(Act.FINAL, 3, 60))).reason == "nothing was checked"


def test_load_of_which_nothing_was_answered_has_errors_and_no_times() -> None:
    refused = history(operation(Act.WRITE, 1, 2, outcome=Ended.FAIL, note="EIO"))
    verdict = service([*refused, limit("longest_wait_s", 5)])
    assert (verdict.outcome, verdict.reason) == (Outcome.INCONCLUSIVE, "longest_wait_s was not measured")
    assert service(refused).derivation == ("client_errors 1 (no limit)", "n0 at 1.000 s, write of l.1: EIO")


def test_ten_errors_are_shown_and_no_more() -> None:
    refused = [operation(Act.READ, n, n + 0.5, key=n, outcome=Ended.FAIL, note="EIO") for n in range(1, 13)]
    derivation = service(history(*refused)).derivation
    assert derivation[0] == "client_errors 12 (no limit)"
    assert len(derivation) == 11
    assert derivation[10] == "n0 at 10.000 s, read of l.10: EIO"


def test_a_limit_is_the_most_that_holds() -> None:
    healthy = figure(30, 30, 30, metric="healthy_s", unit="s")
    assert service([healthy, limit("healthy_s", 30)]).derivation == ("healthy_s 30 s, at most 30 s: agreed",)
    assert service([healthy, limit("healthy_s", 30)]).outcome is Outcome.PASS
    late = service([healthy, limit("healthy_s", 29.99)])
    assert (late.outcome, late.reason) == (Outcome.FAIL, "healthy_s 30 s, at most 29.99 s: agreed")
    endless = figure(math.inf, math.inf, math.inf, metric="healthy_s", unit="s")
    said = "cannot tell, not a finite number: healthy_s inf s"
    assert service([endless, limit("healthy_s", 30)]) == Verdict(Outcome.INCONCLUSIVE, said, (said,))


def test_a_figure_is_held_to_its_bound_to_its_limit_or_to_both() -> None:
    own, agreed = figure(8, 8, 8, most=9), "rate 8 1/s, at most 7 1/s: agreed"
    kept = service([own])
    assert (kept.reason, kept.derivation) == ("rate 8 1/s", ("rate: 8 1/s; at most 9 1/s wanted: a paper",))
    both = service([own, limit("rate", 7, "1/s")])
    assert (both.outcome, both.reason, both.derivation) == (Outcome.FAIL, agreed, (agreed, *kept.derivation))
    assert service([figure(8, 8, 8), limit("rate", 7, "1/s")]).derivation == (agreed,)
    assert service([figure(8, 8, 8)]).derivation == ("rate 8 1/s (no limit)",)


def test_a_figure_with_a_bound_of_its_own_is_held_to_that() -> None:
    slow = service([*KEPT, figure(8, 8, 8, least=9)])
    assert (slow.outcome, slow.reason) == (Outcome.FAIL, "rate: 8 1/s; at least 9 1/s wanted: a paper")
    assert service([*KEPT, figure(8, 8, 8, most=7)]).outcome is Outcome.FAIL
    assert "rate: 9 1/s; at least 9 1/s wanted: a paper" in service([*KEPT, figure(9, 9, 9, least=9)]).derivation


# Changes against a baseline


@pytest.mark.parametrize(
    ("numbers", "least", "outcome"),
    [
        ((1.07, 1.001, 1.2), 1.1, Outcome.FAIL),
        ((1.07, 1.0, 1.2), 1.1, Outcome.INCONCLUSIVE),
        ((SAME, 1.01, 1.11), 1.1, Outcome.INCONCLUSIVE),
        ((1.0, 0.9, 1.0999), 1.1, Outcome.PASS),
        ((1.0, 0.9, 1.1), 1.1, Outcome.INCONCLUSIVE),
        ((1.0, 0.9, 1.2), 1.25, Outcome.PASS),
        ((0.5, 0.4, 0.6), 1.1, Outcome.PASS),
    ],
)
def test_dearer_for_certain_not_dearer_or_neither(
    numbers: tuple[float, float, float], least: float, outcome: Outcome
) -> None:
    assert judge(*numbers, least) is outcome
    change = event("change", what="CPU", found=least, **dict(zip(("value", "low", "high"), numbers, strict=True)))
    assert CHECKS["regression"]([figure(1, 1, 1), witness(1), change]).outcome is outcome


def test_the_limits_of_a_change_are_those_of_the_experiment() -> None:
    assert (SAME, FOUND, STORED) == (1.06, 1.10, 1.25)
    assert judge(1.0, 0.9, 1.0999) is Outcome.PASS
    assert judge(1.0, 0.9, 1.1) is Outcome.INCONCLUSIVE
    assert judge(1.04, 1.01, 1.2, same=1.03) is Outcome.FAIL


def test_a_change_is_told_in_percent_with_its_interval() -> None:
    numbers = {"value": 1.2, "low": 1.15, "high": 1.25}
    verdict = CHECKS["regression"]([figure(1, 1, 1), witness(1), event("change", what="CPU", **numbers)])
    assert verdict.reason == "CPU: +20.0 % [+15.0 % .. +25.0 %]"
    assert verdict.derivation[0] == f"{verdict.reason}; {RULE}"
    doubtful = event("change", what="CPU", **{**numbers, "low": 0.9})
    assert CHECKS["regression"]([figure(1, 1, 1), witness(1), doubtful]).reason.startswith("cannot tell: CPU: +20.0 %")


def test_the_rule_is_told_with_its_figures() -> None:
    assert RULE == (
        "fails if it is above +6 % and its whole interval is above 0, passes if its whole interval is below "
        "+10 % (CPU against a stored baseline or earlier runs: +25 %)"
    )


def test_changes_without_figures_or_figures_without_changes() -> None:
    numbers = {"value": 1.0, "low": 0.99, "high": 1.01}
    assert CHECKS["regression"]([figure(1, 1, 1), witness(1)]).outcome is Outcome.PASS
    assert CHECKS["regression"]([event("change", what="CPU", **numbers)]).outcome is Outcome.INCONCLUSIVE


# Figures and witnesses


@pytest.mark.parametrize(
    ("recorded", "outcome", "said"),
    [
        (figure(10, 9, 11, least=5), Outcome.PASS, "rate: 10 [9 .. 11] 1/s; at least 5 1/s wanted: a paper"),
        (figure(10, 9, 11, least=12), Outcome.FAIL, "rate: 10 [9 .. 11] 1/s; at least 12 1/s wanted: a paper"),
        (
            figure(10, 9, 11, least=10, most=20, why=""),
            Outcome.INCONCLUSIVE,
            "cannot tell: rate: 10 [9 .. 11] 1/s; at least 10 and at most 20 1/s wanted",
        ),
        (
            figure(10, 9, float("nan"), most=20, unit=""),
            Outcome.INCONCLUSIVE,
            "cannot tell, not a finite number: rate: 10 [9 .. nan]; at most 20 wanted: a paper",
        ),
        (figure(10, 10, 10), Outcome.PASS, "rate: 10 1/s; no limit: a paper"),
        (figure(10, 10, 11), Outcome.PASS, "rate: 10 [10 .. 11] 1/s; no limit: a paper"),
        (figure(10, 9, 10), Outcome.PASS, "rate: 10 [9 .. 10] 1/s; no limit: a paper"),
    ],
)
def test_a_figure_is_told_with_its_limit_and_the_steps_to_it(recorded: Event, outcome: Outcome, said: str) -> None:
    step = replace(recorded, data={**recorded.data, "derivation": ["a step"]})
    verdict = CHECKS["figures"]([step, witness(1)])
    assert (verdict.outcome, verdict.reason) == (outcome, said)
    assert verdict.derivation == (said, "a step", "faults: 1, at least 1 wanted")


def test_witnesses_are_told_and_those_that_are_missing_named() -> None:
    assert witnesses([witness(1), witness(2.5)]) == Verdict(
        Outcome.PASS,
        "2 witnesses of the load",
        ("faults: 1, at least 1 wanted", "faults: 2.5, at least 1 wanted"),
    )
    missing = "faults: 0.5, at least 1 wanted"
    assert witnesses([witness(1), witness(0.5)]) == Verdict(
        Outcome.INCONCLUSIVE, f"the load or the fault was not real: {missing}", (missing,)
    )
    assert witnesses([]) == Verdict(Outcome.INCONCLUSIVE, "no witness shows that the load was real")


# What a scenario left behind

SOUND = {"crashes": [], "dead": [], "complaints": [], "health": "HEALTH_OK", "healthy": True}


def complaints(count: int) -> list[dict[str, str]]:
    return [{"daemon": "osd.0", "text": f"line {number}"} for number in range(count)]


def test_nothing_looked_at_is_no_verdict() -> None:
    assert aftermath([observation(1, 2)]) is None


def test_a_sound_aftermath_passes() -> None:
    verdict = aftermath([event("aftermath", **SOUND), observation(1, 2)])
    assert verdict == Verdict(
        Outcome.PASS, "no crash, no dead daemon, no unexpected log line, and the cluster is healthy"
    )


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"crashes": ["2026 osd.1"]}, "crash record: 2026 osd.1"),
        ({"dead": ["osd.1"]}, "osd.1 is dead although nobody stopped it"),
        ({"complaints": complaints(1)}, "unexpected line in the log of osd.0: line 0"),
        ({"strangers": ["osd.1 says x86_64"]}, "osd.1 says x86_64"),
        (
            {"complaints": [{"daemon": "osd.0", "level": "output", "text": "odd"}]},
            "unexpected line in the output of osd.0: odd",
        ),
        (
            {"complaints": [{"daemon": "rados", "level": "tool", "text": "free(): invalid pointer"}]},
            "unexpected line in the output of the command rados: free(): invalid pointer",
        ),
        ({"healthy": False, "health": "HEALTH_ERR"}, "the cluster did not become healthy again: HEALTH_ERR"),
    ],
)
def test_what_was_left_behind_fails_by_its_name(wrong: dict[str, Any], said: str) -> None:
    verdict = aftermath([event("aftermath", **SOUND), event("aftermath", **{**SOUND, **wrong})])
    assert verdict == Verdict(Outcome.FAIL, f"afterwards: {said}", (said,))


def test_all_that_was_left_behind_is_counted_and_ten_lines_are_shown() -> None:
    both = aftermath(
        [event("aftermath", **{**SOUND, "dead": ["osd.1"]}), event("aftermath", **{**SOUND, "crashes": ["c"]})]
    )
    assert both is not None
    assert both.derivation == ("osd.1 is dead although nobody stopped it", "crash record: c")
    few = aftermath([event("aftermath", **{**SOUND, "dead": ["osd.1"], "complaints": complaints(10)})])
    many = aftermath([event("aftermath", **{**SOUND, "complaints": complaints(12)})])
    assert few is not None
    assert many is not None
    assert few.reason == "afterwards: osd.1 is dead although nobody stopped it (and 10 more)"
    assert few.derivation[-1].endswith("line 9")
    assert many.derivation[-2:] == ("unexpected line in the log of osd.0: line 9", "2 more unexpected log lines")
    two = aftermath([event("aftermath", **{**SOUND, "dead": ["a", "b"]})])
    assert two is not None
    assert two.reason.endswith("(and 1 more)")


@pytest.mark.parametrize(("blame", "outcome"), [("ceph", Outcome.FAIL), ("lab", Outcome.INCONCLUSIVE)])
def test_a_look_around_that_failed_is_blamed_on_who_was_in_the_way(blame: str, outcome: Outcome) -> None:
    unseen = event("unseen", blame=blame, what="no answer", detail="one\ntwo")
    reason = "the cluster could not be examined after the scenario: no answer"
    assert aftermath([unseen]) == Verdict(outcome, reason, ("one", "two"))
    assert aftermath([unseen, event("aftermath", **SOUND)]) == Verdict(outcome, reason, ("one", "two"))
