"""Databases over caches beside a publication: what is compared with what, and each of the three answers."""

from collections.abc import Sequence
from dataclasses import replace
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
    TITLE,
    WARM_S,
    ComparedSide,
    Direction,
    End,
    Held,
    Metric,
    PaperFinding,
    compared,
    held_in,
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
    comparison = compared(events)
    assert comparison is not None
    return [verdict for verdict in comparison.judged if verdict.name == name]


LOW, HIGH = (9.0, 10.0, 11.0, 10.0), (29.0, 30.0, 31.0, 30.0)
WIDE = (1.0, 30.0, 2.0, 25.0)


@pytest.mark.parametrize(
    ("cached", "agreement"),
    [
        (HIGH, Agreement.AGREED),
        ((14.0, 16.0, 15.0), Agreement.AGREED),
        (WIDE, Agreement.CANNOT_SAY),
        ((3.0, 3.1, 2.9, 3.0), Agreement.NOT_AGREED),
    ],
)
def test_a_finding_is_judged_by_the_whole_interval(cached: Sequence[float], agreement: Agreement) -> None:
    (verdict,) = of([oltp("none", 1, LOW), oltp("writeback", 1, cached)], MORE)
    assert verdict.agreement is agreement
    assert verdict.words.startswith(SCENARIO)
    assert "of 1 and 1 runs" in verdict.words


def test_few_and_many_are_by_order_and_one_count_alone_is_not_many() -> None:
    few = [oltp("none", 1, LOW), oltp("writeback", 1, HIGH)]
    (verdict,) = of(few, FEWER)
    assert (verdict.agreement, verdict.words[:8]) == (Agreement.CANNOT_SAY, "missing:")
    many = [oltp("none", 32, HIGH), oltp("writeback", 32, LOW)]
    assert [verdict.agreement for verdict in of(few + many, FEWER)] == [Agreement.AGREED]
    assert [verdict.agreement for verdict in of(few + many, MORE)] == [Agreement.AGREED]
    dearer = [oltp("none", 32, LOW), oltp("writeback", 32, (14.0, 16.0, 15.0))]
    assert [verdict.agreement for verdict in of(few + dearer, FEWER)] == [Agreement.NOT_AGREED]


@pytest.mark.parametrize("seconds", [((10.0,), HIGH), (LOW, (30.0,))])
def test_a_single_second_of_a_side_is_not_compared(seconds: tuple[Sequence[float], Sequence[float]]) -> None:
    (verdict,) = of([oltp("none", 1, seconds[0]), oltp("writeback", 1, seconds[1])], MORE)
    assert verdict.words.startswith("missing")
    (verdict,) = of([oltp("none", 1, LOW[:2]), oltp("writeback", 1, HIGH[:2])], MORE)
    assert f"over {2 + 2} seconds of 1 and 1 runs" in verdict.words


def test_what_only_one_side_has_is_not_compared() -> None:
    (verdict,) = of([oltp("none", 1, LOW), oltp("writeback", 2, HIGH)], MORE)
    assert verdict.words == "missing: runs with dm-cache, lowest threads and runs with no cache, lowest threads"
    (verdict,) = of([oltp("none", 1, LOW), oltp("writeback", 1, HIGH)], TIER)
    assert verdict.words == "missing: runs with cache tier, lowest threads and runs with no cache, lowest threads"
    (verdict,) = of([oltp("tier", 1, LOW)], CROWDED)
    assert verdict.words == "missing: runs with cache tier, evictions and runs with cache tier, no eviction"
    alone = PaperFinding("hits", "5.4", Metric.HITS, ComparedSide("writethrough"), least=0.75)
    (verdict,) = judge(alone, {SCENARIO: runs([oltp("writethrough", 1, LOW)])})
    assert (verdict.agreement, verdict.words) == (Agreement.CANNOT_SAY, "missing: runs with writethrough")


def test_a_finding_that_no_measurement_can_be_compared_with_says_why() -> None:
    beyond = PaperFinding("flushing", "5.3", beyond="nobody measures it")
    assert [*judge(beyond, {})] == [Judged("flushing", "5.3", Agreement.CANNOT_SAY, "nobody measures it")]
    assert held_in(beyond, []) is None


def test_a_side_that_did_not_run_has_no_end_to_compare() -> None:
    few, many = ComparedSide("none", threads=End.LOWEST), ComparedSide("writeback", threads=End.HIGHEST)
    finding = PaperFinding("f", "5", of=many, beside=few, wanted=Direction.MORE)
    assert held_in(finding, runs([oltp("none", 1, LOW)])) is None
    assert held_in(finding, runs([oltp("writeback", 2, LOW)])) is None
    assert held_in(finding, runs([oltp("none", 1, LOW), oltp("writeback", 1, LOW)])) is None
    assert held_in(finding, runs([oltp("none", 1, LOW), oltp("writeback", 2, LOW)])) is not None


def test_blocks_of_a_cache_are_no_difference_from_a_side_without_blocks() -> None:
    (verdict,) = of([oltp("none", 1, LOW), oltp("writeback", 1, HIGH, block_bytes=32768)], MORE)
    assert verdict.agreement is Agreement.AGREED
    sides = "dm-cache (threads 1, rows 10, blocks of 32 KiB) to no cache (threads 1, rows 10)"
    assert verdict.words.endswith(f" over 8 seconds of 1 and 1 runs, as a ratio: {sides}")


def test_scenarios_and_archives_are_never_mixed() -> None:
    slow = [oltp("none", 1, LOW)]
    fast = [oltp("writeback", 1, HIGH)]
    assert of(together(slow, [("other", fast)]), MORE)[0].words.startswith("missing")
    both = together(slow + fast, [("other", slow + fast)])
    assert [verdict.words.partition(":")[0] for verdict in of(both, MORE)] == [SCENARIO, f"{SCENARIO} of other"]


def test_a_cache_is_too_small_when_it_gave_something_up() -> None:
    ample = [*tier_looks(4, [7, 7, 7, 7, 7]), oltp("tier", 4, HIGH)]
    crowded = [*tier_looks(4, [7, 7, 7, 7, 8]), oltp("tier", 4, LOW)]
    assert of(ample, CROWDED)[0].words.startswith("missing")
    # The label is the same: what was looked at before a run belongs to it alone.
    assert [run.evicted for run in runs(ample + crowded)] == [0, 1]
    (verdict,) = of(ample + crowded, CROWDED)
    assert verdict.agreement is Agreement.AGREED
    assert verdict.words.endswith(": cache tier (threads 4, rows 10, evicting) to cache tier (threads 4, rows 10)")


def test_hit_shares_are_of_each_second_and_not_of_what_was_before() -> None:
    (run,) = runs([*tier_looks(1, [0] * 6), oltp("tier", 1, HIGH)])
    assert run.hits == pytest.approx((0.9, 0.9, 0.9))


def look(kind: str, **data: Any) -> Event:
    return Event(SCENARIO, 0.0, kind, {"stand": "x", **data})


def test_hit_shares_of_dm_cache_are_of_reads_and_writes_together_and_of_no_idle_second() -> None:
    looks = [
        look("cache", read_hits=100, demotions=5),
        look("cache", read_hits=100),
        look("cache", read_hits=100),
        look("cache", read_hits=100, write_misses=1),
        look("cache", read_hits=100, write_misses=1),
        look("cache", read_hits=102, write_hits=4, read_misses=3, write_misses=2, demotions=7),
    ]
    (run,) = runs([*looks, oltp("writeback", 1, LOW, stand="x")])
    assert run.hits == pytest.approx((0.0, 0.6))
    assert run.evicted == 2


def test_what_is_served_past_a_tier_is_read_or_written() -> None:
    counters = {"op_cache_hit": 0, "tier_proxy_read": 0, "tier_proxy_write": 0, "tier_evict": 0}
    after = {"op_cache_hit": 6, "tier_proxy_read": 3, "tier_proxy_write": 1, "tier_evict": 0}
    looks = [look("tier", counters=each) for each in (counters, counters, counters, after)]
    (run,) = runs([*looks, oltp("tier", 1, LOW, stand="x")])
    assert run.hits == pytest.approx((0.6,))


def test_the_first_two_seconds_of_a_run_do_not_count() -> None:
    event = oltp("none", 1, ())
    samples = [{"at_s": at_s, "tps": at_s, "p95_ms": 1.0} for at_s in (1.0, 2.0, 2.1, 3.0)]
    (run,) = runs([Event(SCENARIO, 0.0, "oltp", {**event.data, "samples": samples})])
    assert run.tps == (2.1, 3.0)


def test_misses_are_told_of_both_sides_if_both_have_a_cache() -> None:
    of_tier = PaperFinding("f", "5", of=ComparedSide("writeback"), beside=ComparedSide("tier"), wanted=Direction.MORE)
    half = [look("cache", read_hits=n, read_misses=n) for n in range(6)]
    cached = [*half, oltp("writeback", 1, LOW, stand="x")]
    tenth = [*tier_looks(1, [0] * 6), oltp("tier", 1, HIGH)]
    compared_sides = held_in(of_tier, runs(cached + tenth))
    assert compared_sides is not None
    assert compared_sides.by_misses == pytest.approx(0.1 / 0.5)
    never = [*(look("cache", read_hits=n) for n in range(6)), oltp("writeback", 1, LOW, stand="x")]
    for sides in (never + tenth, [oltp("writeback", 1, LOW), *tenth]):
        compared_sides = held_in(of_tier, runs(sides))
        assert compared_sides is not None
        assert compared_sides.by_misses is None


def test_block_sizes_are_compared_with_each_other_and_not_with_themselves() -> None:
    small, large = (oltp("writeback", 4, tps, block_bytes=size) for tps, size in ((HIGH, 32768), (LOW, 1048576)))
    assert [verdict.agreement for verdict in of([small, large] * 2, BLOCKS)] == [Agreement.AGREED]
    assert of([small, small], BLOCKS)[0].words.startswith("missing: several runs with dm-cache")
    assert of([small, large], BLOCKS)[0].words.startswith("missing: several runs with dm-cache")


def test_seconds_without_a_transaction_have_no_latency() -> None:
    (run,) = runs([oltp("none", 1, (0.0, 10.0))])
    assert (run.tps, run.p95_ms) == ((0.0, 10.0), (100.0,))


def test_there_is_nothing_to_compare_without_runs_that_say_what_they_are() -> None:
    old = Event(SCENARIO, 0.0, "oltp", {"stand": "none, 1 threads", "threads": 1, "samples": []})
    assert compared([old]) is None


def test_curves_need_several_thread_counts() -> None:
    single, two = [oltp("none", 1, LOW)], [oltp("none", 1, LOW), oltp("none", 2, HIGH)]
    plots = [comparison.plots for events in (single, two) if (comparison := compared(events)) is not None]
    assert [len(drawn) for drawn in plots] == [0, 1]
    assert plots[1][0].title == f"{SCENARIO}: over threads"


def test_curves_are_of_each_cache_in_the_order_of_its_threads() -> None:
    events = [
        oltp(cache, threads, (threads * rate, threads * rate))
        for threads, cache, rate in ((2, "odd", 3.0), (1, "tier", 2.0), (1, "odd", 3.0), (2, "none", 1.0))
    ]
    events += [oltp("none", 1, (0.5, 1.5)), oltp("none", 1, (1.0, 1.0)), oltp("tier", 2, (4.0, 4.0))]
    comparison = compared(events)
    assert comparison is not None
    assert (comparison.title, comparison.source, comparison.note) == (
        TITLE,
        load_findings(PAPER).title,
        load_findings(PAPER).note,
    )
    [plot] = comparison.plots
    assert plot.data["unit"] == "threads"
    rates, latencies = plot.data["panels"]
    assert (rates["title"], latencies["title"]) == (
        "transactions a second",
        "95th percentile of a second's latency, ms",
    )
    assert [(series["label"], series["points"]) for series in rates["series"]] == [
        ("no cache", [(1.0, 1.0), (2.0, 2.0)]),
        ("cache tier", [(1.0, 2.0), (2.0, 4.0)]),
        ("odd", [(1.0, 3.0), (2.0, 6.0)]),
    ]


def test_a_range_is_held_against_a_side_alone() -> None:
    finding = PaperFinding("hits", "5.4", Metric.HITS, ComparedSide("tier"), least=0.75, most=0.96)
    group = runs([*tier_looks(1, [0] * 6), oltp("tier", 1, HIGH)])
    assert [verdict.agreement for verdict in judge(finding, {SCENARIO: group})] == [Agreement.AGREED]
    (verdict,) = judge(finding, {SCENARIO: group})
    assert verdict.words == f"{SCENARIO}: 0.9 [0.9 .. 0.9] over 3 seconds"
    for least, most in ((0.95, None), (0.75, 0.85)):
        other = replace(finding, least=least, most=most)
        assert [verdict.agreement for verdict in judge(other, {SCENARIO: group})] == [Agreement.NOT_AGREED]
    rates = PaperFinding("rate", "5.4", of=ComparedSide("none"), least=9.0, most=11.0, by_run=True)
    steady = runs([oltp("none", 1, tps) for tps in ((10.0, 10.0), (9.9, 10.1))])
    assert [verdict.words for verdict in judge(rates, {SCENARIO: steady})] == [f"{SCENARIO}: 10 [10 .. 10] over 2 runs"]
    assert next(judge(rates, {SCENARIO: steady[:1]})).words == "missing: several runs with no cache"


def test_the_papers_findings_can_be_read_and_name_their_sections() -> None:
    findings = load_findings(PAPER).findings
    assert {MORE, FEWER, TIER, CROWDED, BLOCKS} <= {finding.name for finding in findings}
    assert len({finding.name for finding in findings}) == len(findings)
    assert all(finding.where.startswith("5.") for finding in findings)


ONE = "title = 'x'\n[[findings]]\nname = 'a'\nwhere = 'b'\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("title = 'x'\nfindings = 1", "findings"),
        (ONE + "why = 'c'", "findings.0.why: unknown key"),
        (ONE, "exactly one"),
        (ONE + "of = { cache = 'tier' }\nbeside = { cache = 'none' }", "exactly one"),
        (ONE + "of = { cache = 'tier' }\nbeside = { cache = 'none' }\nleast = 2", "exactly one"),
        (ONE + "of = { cache = 'tier' }\nbeside = { cache = 'none' }\nwanted = 'more'\nmost = 2", "exactly one"),
        (ONE + "of = { cache = 'tier' }\nwanted = 'more'\nleast = 1", "exactly one"),
        (ONE + "beyond = 'c'\nbeside = { cache = 'none' }", "exactly one"),
        (ONE + "beyond = 'c'\nwanted = 'less'", "exactly one"),
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
    assert (older.reads, older.writes, older.evicted) == (0, 0, 0)
