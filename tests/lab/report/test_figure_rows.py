"""The table of figures in a report: which limit judges each value, what the limit is based on, and what has none."""

import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cephlab.lab.archive.archive import ArchiveWriter, Ending, Record, read_archive
from cephlab.lab.checks import CHECKS
from cephlab.lab.history.history import Basis, Bound, Event, History, Recorder, current
from cephlab.lab.history.operations import Act, Ended, Operation, pack
from cephlab.lab.report.figures import FigureRow, figure_rows
from cephlab.lab.report.page import render_report
from tests.lab.archive.test_archive import MANIFEST

SERVED = (
    Operation("l", "n0", 0, Act.WRITE, 1, 1, 1.0, 2.5, Ended.OK),
    Operation("l", "n0", 0, Act.READ, 1, 1, 3.0, 3.5, Ended.FAIL),
    Operation("l", "n0", 0, Act.FINAL, 1, 1, 50.0, 90.0, Ended.OK),
)
"""One error, a wait of 1.5 s and then a second without an answer; reading back at the end does not count."""
NOTED = Bound("recorded only", basis=Basis.NOTED)


def recorded(*operations: Operation) -> Recorder:
    recorder = History().recorder("x.y")
    for data in pack(operations) if operations else ():
        recorder.record("operations", **data)
    return recorder


def rows(recorder: Recorder) -> list[FigureRow]:
    return list(figure_rows(recorder.events()))


def test_a_limit_of_a_computed_metric_has_a_row_with_the_value_that_was_judged() -> None:
    recorder = recorded(*SERVED)
    recorder.limit("client_errors", 0, "", "none may fail", basis=Basis.CORRECTNESS)
    recorder.limit("longest_wait_s", 9.0, "s", "as long as copying", basis=Basis.PROFILE)
    recorder.limit("longest_gap_s", 1.25, "s", "as before", basis=Basis.SHAPE)
    assert rows(recorder) == [
        FigureRow("client_errors", "1", "at most 0 wanted: none may fail", "correctness"),
        FigureRow("longest_wait_s", "1.5 s", "at most 9 s wanted: as long as copying", "profile"),
        FigureRow("longest_gap_s", "1.5 s", "at most 1.25 s wanted: as before", "shape"),
    ]
    said = CHECKS["service"](recorder.events()).derivation
    assert {"client_errors 1, at most 0: none may fail", "longest_gap_s 1.5 s, at most 1.25 s: as before"} < set(said)


def test_a_metric_without_a_limit_of_its_own_or_another_has_no_row_unless_it_is_a_figure() -> None:
    recorder = recorded(*SERVED)
    recorder.figure("rate", 3.0, "1/s", NOTED)
    assert rows(recorder) == [FigureRow("rate", "3 1/s", "no limit: recorded only", "noted")]


def test_a_figure_shows_the_limit_that_was_recorded_for_it() -> None:
    recorder = recorded()
    recorder.figure("gain", 3.0, "times", Bound("of one run", least=2.0, basis=Basis.SHAPE), interval=(2.5, 3.5))
    recorder.figure("moved_bytes", 3.0, "B", NOTED)
    recorder.limit("moved_bytes", 2.0, "B", "an earlier one", basis=Basis.SHAPE)
    recorder.limit("moved_bytes", 4.0, "B", "the maps allow it", basis=Basis.CORRECTNESS)
    assert rows(recorder) == [
        FigureRow("gain", "3 [2.5 .. 3.5] times", "at least 2 times wanted: of one run", "shape"),
        FigureRow("moved_bytes", "3 B", "at most 4 B wanted: the maps allow it", "correctness"),
    ]


def test_a_figure_that_two_limits_judge_shows_both() -> None:
    recorder = recorded()
    recorder.figure("healthy_s", 3.0, "s", Bound("by the model", most=9.0, basis=Basis.PROFILE))
    recorder.limit("healthy_s", 4.0, "s", "by the settings", basis=Basis.CORRECTNESS)
    assert [(row.limit, row.basis) for row in rows(recorder)] == [
        ("at most 9 s wanted: by the model", "profile"),
        ("at most 4 s wanted: by the settings", "correctness"),
    ]


def test_a_figure_named_as_a_computed_metric_hides_no_row_of_it() -> None:
    recorder = recorded(*SERVED)
    recorder.figure("longest_wait_s", 0.25, "s", NOTED)
    recorder.limit("longest_wait_s", 9.0, "s", "as agreed", basis=Basis.CORRECTNESS)
    assert [row.value for row in rows(recorder)] == ["250 ms", "1.5 s"]


@pytest.mark.parametrize("operations", [(), SERVED[1:2], SERVED[2:]])
def test_a_limit_whose_metric_nothing_told_says_so(operations: Sequence[Operation]) -> None:
    recorder = recorded(*operations)
    recorder.limit("longest_gap_s", 9.0, "s", "as agreed", basis=Basis.CORRECTNESS)
    [row] = rows(recorder)
    assert row == FigureRow("longest_gap_s", "not measured", "at most 9 s wanted: as agreed", "correctness")
    assert "longest_gap_s was not measured" in CHECKS["service"](recorder.events()).reason


OLD: dict[str, Any] = {"metric": "moved_bytes", "unit": "B"}


@pytest.mark.parametrize(("of_figure", "basis"), [({}, ""), ({"basis": "correctness"}, "correctness")])
def test_a_limit_of_an_older_archive_is_shown_without_a_basis(of_figure: dict[str, str], basis: str) -> None:
    """A while, such a figure had a basis and its limit had none."""
    figure = Event("x.y", 0.0, "figure", current("figure", {**OLD, "value": 3, **of_figure}))
    limit = Event("x.y", 0.0, "limit", {**OLD, "high": 4, "why": "the maps allow it"})
    lone = Event("x.y", 0.0, "limit", {"metric": "client_errors", "high": 0, "unit": "", "why": "none"})
    assert [(row.metric, row.limit, row.basis) for row in figure_rows([figure, limit, lone])] == [
        ("moved_bytes", "at most 4 B wanted: the maps allow it", basis),
        ("client_errors", "at most 0 wanted: none", ""),
    ]


def page(folder: Path, *kinds: tuple[str, dict[str, Any]]) -> str:
    writer = ArchiveWriter(folder / "a", MANIFEST)
    for kind, data in kinds:
        writer.history.record("x.y", kind, data)
    writer.add(Record("x.y", "x", Ending.PASS, "", (), began_s=0.0, seconds=1.0))
    writer.save()
    return html.unescape(render_report(read_archive(folder / "a")))


def test_the_report_has_the_rows_of_a_run_and_of_one_without_any_basis(tmp_path: Path) -> None:
    recorder = recorded(*SERVED)
    recorder.figure("gain", 3.0, "times", Bound("of one run", least=2.0, basis=Basis.SHAPE), interval=(2.5, 3.5))
    recorder.limit("longest_wait_s", 9.0, "s", "as agreed", basis=Basis.CORRECTNESS)
    shown = page(tmp_path, *((event.kind, dict(event.data)) for event in recorder.events()))
    gain = "<td>3 [2.5 .. 3.5] times</td><td>at least 2 times wanted: of one run</td><td>shape</td>"
    wait = "<td>1.5 s</td><td>at most 9 s wanted: as agreed</td><td>correctness</td>"
    assert f'<th scope="row">gain</th>{gain}' in shown
    assert f'<th scope="row">longest_wait_s</th>{wait}' in shown
    assert "2 figures, with the basis of each limit" in shown
    old = page(tmp_path / "old", ("limit", {**OLD, "high": 4, "why": "the maps allow it"}))
    row = "<td>not measured</td><td>at most 4 B wanted: the maps allow it</td><td>not recorded</td>"
    assert f'<th scope="row">moved_bytes</th>{row}' in old
    assert "1 figure, with the basis of each limit" in old
