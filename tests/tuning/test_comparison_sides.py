"""Which runs of a database are compared with which, and what is said of a finding that they decide or not."""

import pytest

from cephlab.lab.report.page import Agreement
from cephlab.lab.telemetry.demand import Interval
from cephlab.tuning.comparison import (
    ComparedSide,
    Direction,
    End,
    Held,
    PaperFinding,
    PaperFindings,
    compared,
    judge,
    runs,
)
from tests.tuning.test_comparison import HIGH, LOW, look, oltp


def finding(of: ComparedSide, beside: ComparedSide, wanted: Direction = Direction.MORE) -> PaperFinding:
    return PaperFinding("f", "5.1", of=of, beside=beside, wanted=wanted)


@pytest.mark.parametrize("wanted", [*Direction])
def test_two_sides_that_are_equal_decide_nothing(wanted: Direction) -> None:
    group = runs([oltp(cache, 1, [10.0] * 4) for cache in ("none", "writeback")])
    (verdict,) = judge(finding(ComparedSide("writeback"), ComparedSide("none"), wanted), {"s": group})
    assert verdict.agreement is Agreement.CANNOT_SAY
    assert verdict.words.startswith("s: 1 [1 .. 1]")


def test_a_range_holds_only_beyond_its_ends() -> None:
    group = runs([oltp("none", 1, [10.0] * 4)])
    for least, most in ((10.0, None), (None, 10.0)):
        exact = PaperFinding("f", "5.1", of=ComparedSide("none"), least=least, most=most)
        assert [verdict.agreement for verdict in judge(exact, {"s": group})] == [Agreement.CANNOT_SAY]


def test_a_verdict_says_where_the_finding_is_also_if_no_run_decides_it() -> None:
    wanted = finding(ComparedSide("writeback"), ComparedSide("none"))
    both = runs([oltp("none", 1, LOW), oltp("writeback", 1, HIGH)])
    assert [verdict.where for group in ([], both) for verdict in judge(wanted, {"s": group})] == ["5.1", "5.1"]


def test_many_threads_are_compared_with_few_and_the_lowest_count_is_one_that_both_have() -> None:
    group = runs([oltp("writeback", threads, HIGH) for threads in (1, 4)] + [oltp("none", n, LOW) for n in (2, 4)])
    apart = finding(ComparedSide("writeback", threads=End.HIGHEST), ComparedSide("none", threads=End.LOWEST))
    (verdict,) = judge(apart, {"s": group})
    assert "dm-cache (threads 4, rows 10) to no cache (threads 2, rows 10)" in verdict.words
    lowest = finding(ComparedSide("writeback", threads=End.LOWEST), ComparedSide("none", threads=End.LOWEST))
    (verdict,) = judge(lowest, {"s": group})
    assert "dm-cache (threads 4, rows 10) to no cache (threads 4, rows 10)" in verdict.words


def test_a_cache_without_a_name_of_its_own_is_called_by_its_mode() -> None:
    group = runs([oltp("none", 1, LOW), oltp("writethrough", 1, HIGH)])
    (verdict,) = judge(finding(ComparedSide("writethrough"), ComparedSide("none")), {"s": group})
    assert "as a ratio: writethrough (threads 1, rows 10) to no cache" in verdict.words


def test_latencies_below_a_millisecond_count() -> None:
    (run,) = runs([oltp("none", 1, (2000.0, 4000.0))])
    assert run.p95_ms == (0.5, 0.25)


def test_a_curve_weighs_every_second_of_its_runs_the_same() -> None:
    comparison = compared([oltp("none", 1, (1.0, 1.0, 1.0)), oltp("none", 1, (5.0,)), oltp("none", 2, (6.0, 6.0))])
    assert comparison is not None
    assert comparison.plots[0].data["panels"][0]["series"][0]["points"] == [(1.0, 2.0), (2.0, 6.0)]


def test_a_cache_that_was_only_written_to_has_hits() -> None:
    looks = [look("cache", stand="w", write_hits=hits) for hits in range(5)]
    (run,) = runs([*looks, oltp("writeback", 1, LOW, stand="w")])
    assert run.hits == (1.0, 1.0)
    assert run.evicted == 0


def test_no_miss_explains_an_opposite_where_misses_were_not_counted() -> None:
    assert Held(Interval(1.0, 0.4, 0.6, 8), 1.0, None, "").cold is False


def test_findings_need_no_note() -> None:
    assert PaperFindings("title", ()).note == ""
