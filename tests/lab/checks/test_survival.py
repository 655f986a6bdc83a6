"""Histories of clients, good and bad, written out: what the checks say about each."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cephlab.lab.checks import CHECKS, Outcome
from cephlab.lab.history.history import Event, current
from cephlab.lab.history.operations import Act, Ended, Operation, operations_of, pack
from cephlab.lab.workloads.recorded import parse_log

Row = tuple[str, float, float | None, int, str]
"""(act, began, ended, version, outcome), of one key, unless the act is followed by another key's number."""


def events(rows: tuple[Row, ...], *, clock_error_s: float = 0.0, others: tuple[Event, ...] = ()) -> tuple[Event, ...]:
    operations = [
        Operation(
            load="l",
            client="n0",
            worker=0,
            act=Act(act[0]),
            key=int(act[1:] or 1),
            version=version,
            began_s=began,
            ended_s=ended,
            outcome=Ended(outcome),
            note="torn" if version < 0 else "",
            clock_error_s=clock_error_s,
        )
        for act, began, ended, version, outcome in rows
    ]
    return (*(Event("s", 1.0, "operations", data) for data in pack(operations)), *others)


GOOD: dict[str, tuple[Row, ...]] = {
    "written and read back": (("w", 1, 2, 1, "o"), ("f", 9, 10, 1, "o")),
    "overwritten": (("w", 1, 2, 1, "o"), ("r", 2, 2, 1, "o"), ("w", 3, 4, 2, "o"), ("f", 9, 10, 2, "o")),
    "read while it is being overwritten, old": (
        ("w", 1, 2, 1, "o"),
        ("w", 3, 6, 2, "o"),
        ("r", 4, 5, 1, "o"),
        ("f", 9, 10, 2, "o"),
    ),
    "read while it is being overwritten, new": (
        ("w", 1, 2, 1, "o"),
        ("r", 2, 3, 1, "o"),
        ("w", 3, 6, 2, "o"),
        ("r", 4, 5, 2, "o"),
        ("f", 9, 10, 2, "o"),
    ),
    "nothing there before the first write ended": (("w", 1, 3, 1, "o"), ("r", 1.5, 2, 0, "o"), ("f", 9, 10, 1, "o")),
    "an unknown write that never happened": (("w", 1, 2, 1, "o"), ("w", 3, 4, 2, "u"), ("f", 9, 10, 1, "o")),
    "an unknown write that happened": (
        ("w", 1, 2, 1, "o"),
        ("r", 2, 3, 1, "o"),
        ("w", 3, None, 2, "u"),
        ("f", 9, 10, 2, "o"),
    ),
    "an unknown write that happened late": (
        ("w", 1, 2, 1, "o"),
        ("r", 2, 3, 1, "o"),
        ("w", 3, 4, 2, "u"),
        ("w", 5, 6, 3, "o"),
        ("f", 9, 10, 2, "o"),
    ),
    "a refused write": (("w", 1, 2, 1, "o"), ("w", 3, 4, 2, "f"), ("f", 9, 10, 1, "o")),
    "two concurrent writes, either may be last": (("w", 1, 4, 1, "o"), ("w", 2, 3, 2, "o"), ("f", 9, 10, 1, "o")),
    "two concurrent writes, the other is last": (("w", 1, 4, 1, "o"), ("w", 2, 3, 2, "o"), ("f", 9, 10, 2, "o")),
    "a write that nobody ever answered, and others after it": (
        ("w", 1, None, 1, "u"),
        ("w", 3, 4, 2, "o"),
        ("f", 9, 10, 2, "o"),
    ),
    "a read that failed": (("w", 1, 2, 1, "o"), ("r", 3, 4, 0, "f"), ("f", 9, 10, 1, "o")),
    "a read that began as the write was acknowledged, old": (
        ("w", 1, 2, 1, "o"),
        ("w", 3, 4, 2, "o"),
        ("r", 4, 5, 1, "o"),
        ("f", 9, 10, 2, "o"),
    ),
    "a read that ended as the write began, new": (("r", 1, 2, 1, "o"), ("w", 2, 3, 1, "o"), ("f", 9, 10, 1, "o")),
    "an unknown write that took effect between an acknowledged one and the next": (
        ("w", 1, 2, 1, "u"),
        ("w", 3, 4, 2, "o"),
        ("r", 5, 6, 1, "o"),
        ("w", 7, 8, 3, "o"),
        ("f", 9, 10, 3, "o"),
    ),
}

BAD: dict[str, tuple[tuple[Row, ...], str]] = {
    "the last acknowledged write is lost": (
        (("w", 1, 2, 1, "o"), ("w", 3, 4, 2, "o"), ("f", 9, 10, 1, "o")),
        "lost: n0 at 9.000 s found version 1 although version 2 had been acknowledged",
    ),
    "everything is lost": ((("w", 1, 2, 1, "o"), ("f", 9, 10, 0, "o")), "lost: n0 at 9.000 s found nothing"),
    "a stale read": (
        (("w", 1, 2, 1, "o"), ("w", 3, 4, 2, "o"), ("r", 5, 6, 1, "o"), ("f", 9, 10, 2, "o")),
        "stale read: n0 at 5.000 s found version 1",
    ),
    "a read that goes back behind another": (
        (("w", 1, 2, 1, "o"), ("w", 3, None, 2, "u"), ("r", 4, 5, 2, "o"), ("f", 9, 10, 1, "o")),
        "although version 2 had been read before",
    ),
    "an unknown write, seen, overwritten, and seen again": (
        (("w", 1, 2, 1, "u"), ("r", 2, 3, 1, "o"), ("w", 4, 5, 2, "o"), ("f", 9, 10, 1, "o")),
        "lost: n0 at 9.000 s found version 1 although version 2",
    ),
    "lost, and then overwritten": (
        (("w", 1, 2, 1, "o"), ("w", 3, 4, 2, "o"), ("r", 5, 6, 1, "o"), ("w", 7, 8, 3, "o"), ("f", 9, 10, 3, "o")),
        "stale read: n0 at 5.000 s found version 1 although version 2 had been acknowledged",
    ),
    "what cannot be read any more": (
        (("w", 1, 2, 1, "o"), ("f", 9, 10, 0, "f")),
        "lost: n0 at 9.000 s could not read back acknowledged data",
    ),
    "a torn value": ((("w", 1, 2, 1, "o"), ("f", 9, 10, -1, "o")), "found data that nobody wrote: torn"),
    "a version nobody wrote": ((("w", 1, 2, 1, "o"), ("f", 9, 10, 7, "o")), "version 7, which nobody wrote"),
    "a refused write that is there": (
        (("w", 1, 2, 1, "o"), ("w", 3, 4, 2, "f"), ("f", 9, 10, 2, "o")),
        "version 2, whose write was refused",
    ),
    "a value read before it was written": (
        (("r", 1, 2, 1, "o"), ("w", 3, 4, 1, "o"), ("f", 9, 10, 1, "o")),
        "before it was written",
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_good_histories_pass(name: str) -> None:
    verdict = CHECKS["survival"](events(GOOD[name]))
    assert verdict.outcome is Outcome.PASS, verdict


@pytest.mark.parametrize("name", BAD)
def test_bad_histories_fail_by_name(name: str) -> None:
    rows, reason = BAD[name]
    verdict = CHECKS["survival"](events(rows))
    assert verdict.outcome is Outcome.FAIL
    assert verdict.reason.startswith("l.1: ")
    assert reason in verdict.reason


ONE_SECOND_APART = (
    "the last acknowledged write is lost",
    "a stale read",
    "an unknown write, seen, overwritten, and seen again",
    "a value read before it was written",
)


@pytest.mark.parametrize("name", ONE_SECOND_APART)
def test_times_of_two_clocks_count_only_as_far_as_they_agree(name: str) -> None:
    rows = BAD[name][0]
    assert CHECKS["survival"](events(rows, clock_error_s=0.4)).outcome is Outcome.FAIL
    assert CHECKS["survival"](events(rows, clock_error_s=0.6)).outcome is not Outcome.FAIL


def test_a_client_whose_clock_is_far_off_accuses_nobody() -> None:
    """Its read of the older version may have begun a second sooner, before the newer one was acknowledged at 9.7 s."""
    exact = (("w", 1, 2, 1, "o"), ("w", 3, 9.7, 2, "o"), ("r", 10, 11, 2, "o"), ("f", 20, 21, 2, "o"))
    vague = events((("r", 10.5, 11, 1, "o"),), clock_error_s=1.0)
    assert CHECKS["survival"]((*events(exact), *vague)).outcome is Outcome.PASS
    sharper = events((("r", 10.5, 11, 1, "o"),), clock_error_s=0.7)
    assert CHECKS["survival"]((*events(exact), *sharper)).outcome is Outcome.FAIL


def test_all_that_is_wrong_is_counted_and_the_first_ten_are_shown() -> None:
    lost = [row for key in range(1, 12) for row in ((f"w{key}", 1, 2, 1, "o"), (f"f{key}", 9, 10, 0, "o"))]
    of_one, of_two, of_eleven = (CHECKS["survival"](events(tuple(lost[: 2 * count]))) for count in (1, 2, 11))
    said = (
        "l.1: lost: n0 at 9.000 s found nothing although version 1 had been acknowledged (written from 1.000 s on)",
        "1 of 1 write acknowledged, 0 of unknown outcome; 0 reads meanwhile, 1 at the end",
    )
    assert (of_one.reason, of_one.derivation) == (said[0], said)
    assert of_two.reason == f"{said[0]} (and 1 more)"
    assert of_eleven.reason == f"{said[0]} (and 10 more)"
    assert [line.partition(":")[0] for line in of_eleven.derivation[:-1]] == [f"l.{key}" for key in range(1, 11)]


def test_a_pass_says_what_it_rests_on() -> None:
    rows: tuple[Row, ...] = (
        ("w", 1, 2, 1, "o"),
        ("r", 2, 3, 1, "o"),
        ("r", 2, 3, 0, "f"),
        ("r", 2, 3, 1, "o"),
        ("w", 4, 5, 2, "o"),
        ("w", 6, 7, 3, "u"),
        ("w", 6, 7, 4, "u"),
        ("w", 6, 7, 5, "f"),
        ("f", 9, 10, 2, "o"),
    )
    facts = "2 of 5 writes acknowledged, 2 of unknown outcome; 3 reads meanwhile, 1 at the end"
    verdict = CHECKS["survival"](events(rows))
    assert (verdict.outcome, verdict.reason) == (Outcome.PASS, f"nothing lost, made up or stale: {facts}")
    assert verdict.derivation == (facts,)


NOT_READ_BACK = "1 of 1 key was not read back at the end, e.g. l.1"
UNSEEN = "1 acknowledged write was overwritten before anybody read it, e.g. version {} of l.1"

DOUBTFUL: dict[str, tuple[tuple[Row, ...], str]] = {
    "nothing was acknowledged, and nothing can be read": (
        (("w", 1, 2, 1, "u"), ("f", 9, 10, 0, "f")),
        "no write was acknowledged",
    ),
    "read meanwhile, and never at the end": ((("w", 1, 2, 1, "o"), ("r", 3, 4, 1, "o")), NOT_READ_BACK),
    "read at the end, but no later than it was written": ((("w", 1, 2, 1, "o"), ("f", 1, 3, 1, "o")), NOT_READ_BACK),
    "overwritten, and only what came later was read": (
        (
            ("w", 1, 2, 1, "o"),
            ("w", 3, 4, 2, "o"),
            ("r", 5, 6, 2, "o"),
            ("w", 7, 8, 3, "o"),
            ("f", 9, 10, 3, "o"),
        ),
        UNSEEN.format(1),
    ),
    "overwritten the moment that it was acknowledged": (
        (("w", 1, 2, 1, "o"), ("w", 2, 4, 2, "o"), ("f", 9, 10, 2, "o")),
        UNSEEN.format(1),
    ),
    "overwritten, after a write that needs no reader": (
        (("w", 1, 2, 1, "u"), ("w", 3, 4, 2, "o"), ("w", 5, 6, 3, "o"), ("f", 9, 10, 3, "o")),
        UNSEEN.format(2),
    ),
    "overwritten, and the only reader may have come before it": (
        (("w", 1, 2, 1, "u"), ("w", 3, 4, 2, "o"), ("r", 4, 5, 1, "o"), ("w", 7, 8, 3, "o"), ("f", 9, 10, 3, "o")),
        UNSEEN.format(2),
    ),
    "overwritten, and the only reader may have come after that": (
        (("w", 1, 2, 1, "u"), ("w", 3, 4, 2, "o"), ("r", 5, 7, 1, "o"), ("w", 7, 8, 3, "o"), ("f", 9, 10, 3, "o")),
        UNSEEN.format(2),
    ),
}


@pytest.mark.parametrize("name", DOUBTFUL)
def test_what_nobody_can_tell_is_doubt(name: str) -> None:
    rows, reason = DOUBTFUL[name]
    verdict = CHECKS["survival"](events(rows))
    assert (verdict.outcome, verdict.reason) == (Outcome.INCONCLUSIVE, reason)


def test_doubt_is_doubt() -> None:
    survival = CHECKS["survival"]
    assert survival(()).outcome is Outcome.INCONCLUSIVE
    assert survival(events((("w", 1, 2, 1, "u"), ("f", 3, 4, 1, "o")))).reason == "no write was acknowledged"
    unread = survival(events((("w", 1, 2, 1, "o"), ("w2", 1, 2, 1, "o"), ("f", 3, 4, 1, "o"))))
    assert unread.reason == "1 of 2 keys were not read back at the end, e.g. l.2"
    replaced = survival(events((("w", 1, 2, 1, "o"), ("w", 3, 4, 2, "o"), ("f", 5, 6, 2, "o"))))
    assert replaced.reason == "1 acknowledged write was overwritten before anybody read it, e.g. version 1 of l.1"
    too_early = survival(events((("w", 1, 2, 1, "o"), ("f", 3, 4, 1, "o"), ("w", 5, 6, 2, "o"))))
    assert too_early.outcome is Outcome.INCONCLUSIVE
    cut = Event("s", 1.0, "load_cut_short", {"load": "l", "client": "n0", "said": "Killed"})
    assert "cut short: Killed" in survival(events(GOOD["overwritten"], others=(cut,))).reason


def test_damage_beats_doubt() -> None:
    rows = (*BAD["a torn value"][0], ("w2", 1.0, 2.0, 1, "o"))
    assert CHECKS["survival"](events(rows)).outcome is Outcome.FAIL


def limit(metric: str, high: float) -> Event:
    return Event("s", 0.0, "limit", {"metric": metric, "high": high, "unit": "s", "why": "so it was agreed"})


STALLED: tuple[Row, ...] = (("w", 1, 2, 1, "o"), ("w", 2, 9, 2, "o"), ("r", 9, 10, 2, "o"), ("f", 11, 12, 2, "o"))


def test_waits_and_gaps_are_held_against_their_limits() -> None:
    verdict = CHECKS["service"](events(STALLED, others=(limit("longest_wait_s", 6.5),)))
    assert verdict.outcome is Outcome.FAIL
    assert verdict.reason == "longest_wait_s 7 s, at most 6.5 s: so it was agreed"
    held = CHECKS["service"](events(STALLED, others=(limit("longest_wait_s", 7), limit("longest_gap_s", 7))))
    assert held.outcome is Outcome.PASS
    assert held.reason == "client_errors 0, longest_wait_s 7 s, longest_gap_s 7 s"


def test_an_operation_that_never_ends_is_a_wait_and_no_error() -> None:
    rows: tuple[Row, ...] = (("w", 1, 2, 1, "o"), ("w", 2, None, 2, "u"), ("r", 9, 10, 1, "o"))
    verdict = CHECKS["service"](events(rows, others=(limit("client_errors", 0), limit("longest_wait_s", 7.9))))
    assert verdict.reason.startswith("longest_wait_s 8 s, at most 7.9 s")


def test_all_operations_that_hang_until_the_load_ends_have_waited_until_then() -> None:
    rows: tuple[Row, ...] = (("w", 1, 2, 1, "o"), ("w", 2, None, 2, "u"))
    ending = Event("s", 40.0, "load_ending", {"load": "l", "run": 1})
    verdict = CHECKS["service"](events(rows, others=(limit("longest_wait_s", 37.9), ending)))
    assert verdict.outcome is Outcome.FAIL
    assert verdict.reason.startswith("longest_wait_s 38 s, at most 37.9 s")
    held = CHECKS["service"](events(rows, others=(limit("longest_gap_s", 38), ending)))
    assert held.reason == "client_errors 0, longest_wait_s 38 s, longest_gap_s 38 s"


def test_the_pause_between_two_runs_of_a_load_is_no_gap() -> None:
    first, second = events(GOOD["overwritten"]), events((("w", 60, 61, 3, "o"), ("f", 70, 71, 3, "o")))
    again = [Event("s", 1.0, "operations", {**event.data, "run": 2}) for event in second]
    verdict = CHECKS["service"]((*first, *again))
    assert verdict.reason == "client_errors 0, longest_wait_s 1 s, longest_gap_s 2 s"


def test_silence_until_the_end_is_a_gap() -> None:
    rows: tuple[Row, ...] = (("w", 1, 2, 1, "o"), ("w", 2, None, 2, "u"), ("r", 9, 12, 0, "f"))
    assert "longest_gap_s 10 s" in CHECKS["service"](events(rows)).reason


def test_errors_count_and_are_shown() -> None:
    rows: tuple[Row, ...] = (("w", 1, 2, 1, "o"), ("w", 3, 4, 2, "u"), ("r", 5, 6, 0, "f"))
    verdict = CHECKS["service"](events(rows, others=(limit("client_errors", 1),)))
    assert verdict.outcome is Outcome.FAIL
    assert verdict.reason.startswith("client_errors 2, at most 1")
    assert "n0 at 3.000 s, write of l.1: " in verdict.derivation


def test_a_figure_is_judged_and_a_limit_without_its_figure_is_doubt() -> None:
    figure = Event("s", 0.0, "figure", current("figure", {"metric": "healthy_s", "value": 30.0, "unit": "s"}))
    seen = events(STALLED, others=(figure, limit("healthy_s", 20)))
    assert CHECKS["service"](seen).outcome is Outcome.FAIL
    missing = CHECKS["service"](events(STALLED, others=(limit("healthy_s", 20),)))
    assert (missing.outcome, missing.reason) == (Outcome.INCONCLUSIVE, "healthy_s was not measured")


def test_a_recorded_load_is_judged_as_a_whole() -> None:
    good = events(GOOD["overwritten"])
    wrong = Event("s", 1.0, "observation", {"what": "hashes", "got": 1, "wanted": 2})
    assert CHECKS["recorded"](good).outcome is Outcome.PASS
    assert CHECKS["recorded"]((*good, wrong)).outcome is Outcome.FAIL
    assert CHECKS["recorded"](events(BAD["everything is lost"][0])).outcome is Outcome.FAIL
    assert CHECKS["recorded"](()).outcome is Outcome.INCONCLUSIVE


LOG = """began 1000000
0 i 1000100 w 3 1
1 i 1000200 r 3 0
0 o 1002100 o 1
1 o 1002200 f 0 TimedOut 110 the wait is over
0 i 1003000 w 3 2
1 i 100"""


def test_a_log_that_was_cut_off_is_read_as_far_as_it_goes() -> None:
    first, second, third = parse_log(LOG, load="l", client="n0")
    assert (first.key, first.version, first.outcome) == (3, 1, Ended.OK)
    assert (first.began_s, first.ended_s) == (1.0001, 1.0021)
    assert (second.act, second.outcome, second.note) == (Act.READ, Ended.FAIL, "TimedOut 110 the wait is over")
    assert (third.version, third.ended_s, third.outcome) == (2, None, Ended.UNKNOWN)


times = st.floats(0, 1e5).map(lambda value: round(value, 6))
packed = st.builds(
    Operation,
    load=st.just("l"),
    client=st.just("n0"),
    worker=st.integers(0, 9),
    act=st.sampled_from(Act),
    key=st.integers(0, 99),
    version=st.integers(-1, 1 << 40),
    began_s=times,
    ended_s=st.none() | times,
    outcome=st.sampled_from(Ended),
    note=st.text(max_size=3),
    clock_error_s=st.just(0.001),
    run=st.just(2),
)


@pytest.mark.slow
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(packed, max_size=20))
def test_packing_loses_nothing_but_fractions_of_microseconds(operations: list[Operation]) -> None:
    unpacked = operations_of([Event("s", 0.0, "operations", data) for data in pack(operations)])
    ordered = sorted(operations, key=lambda operation: operation.began_s)
    for after, before in zip(unpacked, ordered, strict=True):
        assert after.began_s == pytest.approx(before.began_s, abs=2e-6)
        assert (after.ended_s is None) == (before.ended_s is None)
        assert (after.ended_s or 0.0) == pytest.approx(before.ended_s or 0.0, abs=2e-6)
        assert replace(after, began_s=0, ended_s=None) == replace(before, began_s=0, ended_s=None)
