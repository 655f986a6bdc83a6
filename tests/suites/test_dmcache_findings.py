"""Findings of the 2015 paper as figures: each with its unit and ends, and the bound that where it ran allows."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.history.history import Basis, Bound, History, data_of
from cephlab.lab.providers.host import Host
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.telemetry.demand import Interval
from cephlab.lab.telemetry.statistics import interval
from cephlab.suites.dmcache import findings
from cephlab.suites.dmcache.findings import UNITS, judged_by, note_findings, thread_counts
from cephlab.tuning.comparison import (
    PAPER,
    ComparedSide,
    Direction,
    Held,
    Metric,
    PaperFinding,
    PaperFindings,
    held_in,
    runs,
)
from tests.suites.test_dmcache_suite import stage_of
from tests.tuning.test_comparison import oltp

FEW = ComparedSide("writeback")
MORE = PaperFinding("more", "section 1", of=FEW, beside=ComparedSide("none"), wanted=Direction.MORE)
FAST = PaperFinding("fast", "section 2", metric=Metric.P95_MS, of=FEW, most=50.0)
KEPT = PaperFinding("kept", "section 3", of=FEW, least=1.0, here="one CPU", by_run=True)
ELSEWHERE = PaperFinding("elsewhere", "section 4", of=ComparedSide("tier"), least=1.0)


def held(low: float, high: float, least: float | None = 1.0, most: float | None = None) -> Held:
    return Held(Interval(1.0, low, high, 8), least, most, "")


@pytest.mark.parametrize("at_home", [True, False])
def test_a_finding_that_a_lab_can_show_is_judged_anywhere(at_home: bool) -> None:
    wanted = Bound("finding of the paper, section 1", 1.0, 3.0, basis=Basis.SHAPE)
    assert judged_by(MORE, held(0.1, 0.2, 1.0, 3.0), at_home=at_home) == wanted


@pytest.mark.parametrize("range_", [(1.0, None), (None, 1.0)])
@pytest.mark.parametrize("anywhere", [True, False])
@pytest.mark.parametrize("by_run", [True, False])
@pytest.mark.parametrize("at_home", [True, False])
def test_a_finding_that_a_lab_cannot_show_is_judged_at_home_or_where_runs_show_its_opposite(
    at_home: bool, by_run: bool, anywhere: bool, range_: tuple[float | None, float | None]
) -> None:
    finding = replace(KEPT, by_run=by_run, anywhere=anywhere)
    why = "finding of the paper, section 3"
    noted = Bound(f"{why}: not judged, one CPU", basis=Basis.NOTED)
    whole = Bound(why, *range_, basis=Basis.SHAPE)
    included = Bound(f"{why}; one CPU, which the interval includes", *range_, basis=Basis.SHAPE)
    below, above, across = (held(*ends, *range_) for ends in ((0.1, 0.2), (2.0, 3.0), (0.5, 2.0)))
    opposite, agreed = (below, above) if range_[0] else (above, below)
    judged = at_home and not anywhere
    assert judged_by(finding, agreed, at_home=at_home) == (whole if judged else noted)
    assert judged_by(finding, across, at_home=at_home) == (whole if judged else noted)
    assert judged_by(finding, opposite, at_home=at_home) == (whole if judged else included if by_run else noted)


def noted(
    monkeypatch: pytest.MonkeyPatch,
    *cached: float,
    lab: str = "uml",
    plain: Sequence[float] = (9.0, 11.0),
) -> tuple[dict[str, Mapping[str, Any]], Stage]:
    """Figures of a run without a cache and two with it, by these transactions a second; the two share their seconds."""

    def read(path: object) -> PaperFindings:
        assert path == PAPER
        return PaperFindings("of 2015", (ELSEWHERE, MORE, FAST, KEPT))

    monkeypatch.setattr(findings, "load_findings", read)
    recorder = History().recorder("dmcache.threads")
    for cache, tps in (("none", plain), ("writeback", cached[::2]), ("writeback", cached[1::2])):
        run = oltp(cache, 1, tps)
        recorder.record(run.kind, **run.data)
    stage = stage_of(recorder, lab)
    note_findings(stage)
    return {event.data["metric"]: event.data for event in recorder.events() if event.kind == "figure"}, stage


def test_each_finding_that_ran_is_a_figure_with_its_unit_and_its_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    figures, stage = noted(monkeypatch, 20.0, 22.0, 24.0)
    assert figures.keys() == {"more", "fast", "kept"}
    group = runs(stage.recorder.events())
    for finding, unit in ((MORE, "times"), (FAST, "ms"), (KEPT, "transactions/s")):
        held = held_in(finding, group)
        assert held is not None
        figure = figures[finding.name]
        measured = held.measured
        assert (figure["value"], figure["unit"]) == (measured.mean, unit)
        assert (figure["low"], figure["high"]) == (measured.low, measured.high)
    assert (figures["more"]["least"], figures["more"]["why"]) == (1.0, "finding of the paper, section 1")
    assert (figures["fast"]["most"], figures["fast"]["basis"]) == (50.0, "shape")
    assert figures["kept"]["basis"] == "noted"


def test_the_opposite_of_a_finding_is_judged_by_the_interval_over_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    figures, stage = noted(monkeypatch, 0.4, 0.5, 0.4, 0.5, 0.45)
    held = held_in(KEPT, runs(stage.recorder.events()))
    assert held is not None
    figure, over_runs = figures["kept"], interval([(0.4 + 0.4 + 0.45) / 3, 0.5])
    assert (figure["value"], figure["low"], figure["high"]) == (over_runs.mean, over_runs.low, over_runs.high)
    assert held.measured == over_runs
    assert over_runs.high < 1.0
    assert (figure["least"], figure["basis"]) == (1.0, "shape")


@pytest.mark.parametrize(
    ("by_run", "by_misses", "explained"), [(True, 0.5, True), (True, 0.8, False), (False, 0.5, False)]
)
def test_the_opposite_of_a_finding_does_not_count_where_misses_explain_it(
    monkeypatch: pytest.MonkeyPatch, by_run: bool, by_misses: float, explained: bool
) -> None:
    shown = replace(held(0.3, 0.6), by_misses=by_misses)
    monkeypatch.setattr(findings, "held_in", lambda finding, _: shown if finding.name == "kept" else None)
    monkeypatch.setattr(f"{__name__}.KEPT", replace(KEPT, by_run=by_run))
    figures, stage = noted(monkeypatch, 1.0, 2.0, lab="ssh")
    figure = figures["kept"]
    why = "finding of the paper, section 3"
    witnesses = data_of(stage.recorder.events(), "witness")
    if explained:
        assert figure["why"] == f"{why}: not judged, more misses of one cache explain it"
        assert (figure["least"], figure["most"], figure["basis"]) == (None, None, "noted")
        told = "caches as warm as each other, before the opposite counts: kept"
        assert witnesses == [{"what": told, "got": 0, "least": 1}]
    else:
        assert (figure["least"], figure["basis"], figure["why"]) == (1.0, "shape", why)
        assert witnesses == []


def test_on_a_profiles_machines_what_a_lab_cannot_show_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    figures, _ = noted(monkeypatch, 20.0, 22.0, lab="ssh")
    assert (figures["kept"]["least"], figures["kept"]["basis"]) == (1.0, "shape")


def test_an_end_without_limit_is_as_large_as_a_history_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    figures, _ = noted(monkeypatch, 1.0, 90.0, plain=(0.0, 30.0))
    assert figures["more"]["high"] == 1e9


def test_each_metric_has_a_unit() -> None:
    assert UNITS == {Metric.TPS: "transactions/s", Metric.P95_MS: "ms", Metric.HITS: "of accesses"}


@pytest.mark.parametrize(
    ("cores", "at_least", "counts"),
    [
        (40.0, 8, (1, 2, 4, 8, 16, 32, 64, 128, 152)),
        (1.0, 8, (1, 2, 4, 8)),
        (1.0, 1, (1, 2, 4)),
        (0.1, 1, (1,)),
        (0.1, 5, (1, 2, 4, 5)),
        (400.0, 5, (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1520)),
    ],
)
def test_threads_double_up_to_the_papers_number_for_each_processor(
    cores: float, at_least: int, counts: tuple[int, ...]
) -> None:
    host = SimpleNamespace(facts=lambda: SimpleNamespace(cores=cores))
    assert thread_counts(cast("Host", host), at_least) == counts
