"""Databases over caches beside a publication: what is compared with what, and each of the three answers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cephlab.cli.main import app
from cephlab.lab.archive.archive import ArchiveWriter
from cephlab.lab.base.errors import SpecError
from cephlab.lab.history.history import Event
from cephlab.lab.report.page import Agreement, Judged, render_report
from cephlab.lab.telemetry.demand import Interval
from cephlab.tuning.comparison import (
    PAPER,
    WARM_S,
    ComparedSide,
    Direction,
    Held,
    Metric,
    PaperFinding,
    compared,
    judge,
    load_findings,
    runs,
    together,
)
from tests.lab.archive.test_archive import MANIFEST

SCENARIO = "cachetier.oltp-threads"
MORE = "dm-cache commits more transactions at few threads"
FEWER = "dm-cache commits fewer transactions at many threads"
TIER = "a cache tier commits more transactions at few threads"
CROWDED = "a cache tier that is too small commits fewer transactions"
BLOCKS = "small cache blocks commit more transactions before threads saturate"


def oltp(cache: str, threads: int, tps: Sequence[float], scenario: str = SCENARIO, **more: Any) -> Event:
    """A run; the seconds that warm it up are made up and must not count."""
    warm = [{"at_s": second, "tps": 1e6, "p95_ms": 1e6} for second in range(1, WARM_S + 1)]
    counted = [
        {"at_s": WARM_S + n, "tps": value, "p95_ms": 1000 / value if value else 0} for n, value in enumerate(tps, 1)
    ]
    data = {"stand": f"{cache}, {threads}", "cache": cache, "threads": threads, "rows": 10, "block_bytes": 0, **more}
    return Event(scenario, 0.0, "oltp", {**data, "samples": warm + counted})


def tier_looks(threads: int, evictions: Sequence[int]) -> list[Event]:
    """One look a second: nine hits and an operation served past the cache in each."""
    return [
        Event(
            SCENARIO,
            0.0,
            "tier",
            {
                "stand": f"tier, {threads}",
                "counters": {
                    "op_cache_hit": 9 * n,
                    "tier_proxy_read": n,
                    "tier_proxy_write": 0,
                    "tier_evict": evicted,
                },
            },
        )
        for n, evicted in enumerate(evictions)
    ]


def of(events: Sequence[Event], name: str) -> list[Judged]:
    found = compared(events)
    assert found is not None
    return [one for one in found.judged if one.name == name]


LOW, HIGH = (9.0, 10.0, 11.0, 10.0), (29.0, 30.0, 31.0, 30.0)
WIDE = (1.0, 30.0, 2.0, 25.0)


@pytest.mark.parametrize(
    ("cached", "agreement"),
    [(HIGH, Agreement.AGREED), (WIDE, Agreement.CANNOT_SAY), ((3.0, 3.1, 2.9, 3.0), Agreement.NOT_AGREED)],
)
def test_a_finding_is_judged_by_the_whole_interval(cached: Sequence[float], agreement: Agreement) -> None:
    (one,) = of([oltp("none", 1, LOW), oltp("writeback", 1, cached)], MORE)
    assert one.agreement is agreement
    assert one.words.startswith(SCENARIO)
    assert "of 1 and 1 runs" in one.words


def test_few_and_many_are_by_order_and_one_count_alone_is_not_many() -> None:
    few = [oltp("none", 1, LOW), oltp("writeback", 1, HIGH)]
    (one,) = of(few, FEWER)
    assert (one.agreement, one.words[:8]) == (Agreement.CANNOT_SAY, "missing:")
    many = [oltp("none", 32, HIGH), oltp("writeback", 32, LOW)]
    assert [found.agreement for found in of(few + many, FEWER)] == [Agreement.AGREED]
    assert [found.agreement for found in of(few + many, MORE)] == [Agreement.AGREED]


def test_what_only_one_side_has_is_not_compared() -> None:
    (one,) = of([oltp("none", 1, LOW), oltp("writeback", 2, HIGH)], MORE)
    assert one.words == "missing: runs with dm-cache, lowest threads and runs with no cache, lowest threads"
    (one,) = of([oltp("none", 1, LOW), oltp("writeback", 1, HIGH)], TIER)
    assert "cache tier" in one.words


def test_scenarios_and_archives_are_never_mixed() -> None:
    slow = [oltp("none", 1, LOW)]
    fast = [oltp("writeback", 1, HIGH)]
    assert of(together(slow, [("other", fast)]), MORE)[0].words.startswith("missing")
    both = together(slow + fast, [("other", slow + fast)])
    assert [one.words.partition(":")[0] for one in of(both, MORE)] == [SCENARIO, f"{SCENARIO} of other"]


def test_a_cache_is_too_small_when_it_gave_something_up() -> None:
    ample = [*tier_looks(4, [7, 7, 7, 7, 7]), oltp("tier", 4, HIGH)]
    crowded = [*tier_looks(4, [0, 5, 9, 12, 20]), oltp("tier", 4, LOW)]
    assert of(ample, CROWDED)[0].words.startswith("missing")
    # The label is the same: what was looked at before a run belongs to it alone.
    assert [run.evicted for run in runs(ample + crowded)] == [0, 20]
    assert [one.agreement for one in of(ample + crowded, CROWDED)] == [Agreement.AGREED]


def test_hit_shares_are_of_each_second_and_not_of_what_was_before() -> None:
    (run,) = runs([*tier_looks(1, [0] * 6), oltp("tier", 1, HIGH)])
    assert run.hits == pytest.approx((0.9, 0.9, 0.9))


def test_block_sizes_are_compared_with_each_other_and_not_with_themselves() -> None:
    small, large = (oltp("writeback", 4, tps, block_bytes=size) for tps, size in ((HIGH, 32768), (LOW, 1048576)))
    assert [one.agreement for one in of([small, large] * 2, BLOCKS)] == [Agreement.AGREED]
    assert of([small, small], BLOCKS)[0].words.startswith("missing: several runs with dm-cache")
    assert of([small, large], BLOCKS)[0].words.startswith("missing: several runs with dm-cache")


def test_seconds_without_a_transaction_have_no_latency() -> None:
    (run,) = runs([oltp("none", 1, (0.0, 10.0))])
    assert (run.tps, run.p95_ms) == ((0.0, 10.0), (100.0,))


def test_there_is_nothing_to_compare_without_runs_that_say_what_they_are() -> None:
    old = Event(SCENARIO, 0.0, "oltp", {"stand": "none, 1 threads", "threads": 1, "samples": []})
    assert compared([old]) is None


def test_curves_need_several_thread_counts() -> None:
    one, two = [oltp("none", 1, LOW)], [oltp("none", 1, LOW), oltp("none", 2, HIGH)]
    plots = [found.plots for events in (one, two) if (found := compared(events)) is not None]
    assert [len(found) for found in plots] == [0, 1]
    assert "threads" in plots[1][0].title


def test_a_range_is_held_against_a_side_alone() -> None:
    finding = PaperFinding("hits", "5.4", Metric.HITS, ComparedSide("tier"), least=0.75, most=0.96)
    group = runs([*tier_looks(1, [0] * 6), oltp("tier", 1, HIGH)])
    assert [one.agreement for one in judge(finding, {SCENARIO: group})] == [Agreement.AGREED]
    stricter = PaperFinding("hits", "5.4", Metric.HITS, ComparedSide("tier"), least=0.95)
    assert [one.agreement for one in judge(stricter, {SCENARIO: group})] == [Agreement.NOT_AGREED]


def test_the_papers_findings_can_be_read_and_name_their_sections() -> None:
    found = load_findings(PAPER).findings
    assert {MORE, FEWER, TIER, CROWDED, BLOCKS} <= {one.name for one in found}
    assert len({one.name for one in found}) == len(found)
    assert all(one.where.startswith("5.") for one in found)


ONE = "title = 'x'\n[[findings]]\nname = 'a'\nwhere = 'b'\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("title = 'x'\nfindings = 1", "findings"),
        (ONE + "why = 'c'", "findings.0.why: unknown key"),
        (ONE, "exactly one"),
        (
            ONE + "beyond = 'c'\nof = { cache = 'tier' }\nleast = 1",
            "exactly",
        ),
        (
            ONE + "of = { cache = 'tier', rows = 'most' }\nleast = 1",
            "rows",
        ),
        ("title =", "TOML"),
    ],
)
def test_findings_that_make_no_sense_are_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "paper.toml"
    path.write_text(text)
    with pytest.raises(SpecError) as error:
        load_findings(path)
    assert words in str(error.value)
    assert "paper.toml" in str(error.value)


def test_the_report_takes_runs_of_other_archives_beside_its_own(tmp_path: Path) -> None:
    for name, cached in (("one", HIGH), ("two", LOW)):
        writer = ArchiveWriter(tmp_path / name, {**MANIFEST, "clusters": []})
        for event in (oltp("none", 1, LOW), oltp("writeback", 1, cached)):
            writer.history.record(event.scenario, event.kind, event.data)
        writer.seal(render_report)
    page = tmp_path / "page.html"
    argv = ["report", str(tmp_path / "one"), "--beside", str(tmp_path / "two"), "--output", str(page)]
    done = CliRunner().invoke(app, argv)
    assert done.exit_code == 0, done.output
    html = page.read_text()
    assert f"{SCENARIO}: 3 [" in html
    assert f"{SCENARIO} of two: 1 [" in html


def test_what_is_not_judged_says_why() -> None:
    with pytest.raises(ValueError, match="anywhere needs here"):
        PaperFinding("a finding", "5.1", of=ComparedSide("none"), least=0.5, anywhere=True)


@pytest.mark.parametrize(
    ("by_run", "answer", "said"),
    [(False, Agreement.NOT_AGREED, "over 32 seconds"), (True, Agreement.CANNOT_SAY, "over 4 runs")],
)
def test_an_interval_over_runs_includes_what_differs_between_them(by_run: bool, answer: Agreement, said: str) -> None:
    """Each run is steady; one of the two with a cache is as slow as those without."""
    sides = ComparedSide("writeback"), ComparedSide("none")
    finding = PaperFinding("f", "5.1", of=sides[0], beside=sides[1], wanted=Direction.LESS, by_run=by_run)
    rates = (("none", 10.0), ("none", 11.0), ("writeback", 11.0), ("writeback", 40.0))
    group = runs([oltp(cache, 1, [tps, tps + 0.5] * 4) for cache, tps in rates])
    [verdict] = judge(finding, {"s": group})
    assert verdict.agreement is answer
    assert f"{said} of 2 and 2 runs" in verdict.words
    assert next(judge(finding, {"s": group[1:3]})).words.startswith("missing: several runs" if by_run else "s: ")


@pytest.mark.parametrize(
    ("low", "high", "least", "most", "by_misses", "cold"),
    [
        (0.4, 0.6, 1.0, None, 0.6, True),
        (0.4, 0.6, 1.0, None, 0.61, False),
        (0.4, 0.6, 1.0, None, None, False),
        (0.4, 1.1, 1.0, None, 0.5, False),
        (1.5, 2.5, None, 1.0, 1.5, True),
        (1.5, 2.5, None, 1.0, 1.4, False),
        (0.5, 0.9, None, 1.0, 9.0, False),
    ],
)
def test_misses_explain_an_opposite_that_is_no_larger_than_their_ratio(
    low: float, high: float, least: float | None, most: float | None, by_misses: float | None, cold: bool
) -> None:
    assert Held(Interval(1.0, low, high, 8), least, most, "", by_misses).cold is cold


def test_a_run_has_its_requests_to_the_image() -> None:
    (run,) = runs([oltp("none", 1, LOW, traffic={"rbd": {"reads": 0.1, "writes": 1.4}, "cache": {"reads": 9}})])
    assert (run.reads, run.writes) == (0.1, 1.4)
    (older,) = runs([oltp("none", 1, LOW)])
    assert (older.reads, older.writes) == (0, 0)
