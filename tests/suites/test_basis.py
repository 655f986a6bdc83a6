"""Each figure that a scenario notes says what its limit rests on: correctness, shape or profile."""

import ast
import html
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from cephlab.lab.archive.archive import ArchiveWriter, Ending, Record, read_archive
from cephlab.lab.history.history import Basis, Bound, History
from cephlab.lab.report.page import render_report
from tests.code_tree import nodes, trees
from tests.lab.archive.test_archive import MANIFEST


def without_basis(path: str, tree: ast.Module) -> Iterator[str]:
    """Lines of a suite that make a bound without a basis, or note a figure without a bound."""
    for node in nodes(tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func).rpartition(".")[2]
        given = {keyword.arg for keyword in node.keywords}
        # The fifth field is the basis, and the fourth argument of a figure its bound.
        if name == "Bound" and "basis" not in given and len(node.args) < 5:
            yield f"{path}:{node.lineno} makes a bound without a basis"
        if name == "figure" and "bound" not in given and len(node.args) < 4:
            yield f"{path}:{node.lineno} notes a figure without a bound"


def test_every_figure_of_every_suite_says_what_its_limit_rests_on() -> None:
    suites = trees(["suites"])
    assert len(suites) > 100
    assert [line for path, tree in suites.items() for line in without_basis(path, tree)] == []


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ('recorder.figure("rate", 5.0, "1/s")', "notes a figure without a bound"),
        ('stage.recorder.figure("time", 5.0, "s", interval=(4, 6))', "notes a figure without a bound"),
        ('recorder.figure("size", 5.0, "B", Bound("noted"))', "makes a bound without a basis"),
        ('history.Bound(least=1.0, why="much")', "makes a bound without a basis"),
    ],
)
def test_a_figure_without_one_is_refused(source: str, said: str) -> None:
    assert [line.partition(" ")[2] for line in without_basis("suites/x.py", ast.parse(dedent(source)))] == [said]


def test_a_figure_with_one_is_not() -> None:
    for source in ('recorder.figure("a", 1, "", Bound("b", basis=Basis.SHAPE))', 'recorder.figure("a", 1, "", bound)'):
        assert list(without_basis("suites/x.py", ast.parse(source))) == []


def test_the_report_shows_it_for_each_figure(tmp_path: Path) -> None:
    writer = ArchiveWriter(tmp_path / "a", MANIFEST)
    bound = Bound("of one run", least=2.0, basis=Basis.SHAPE)
    writer.history.recorder("x.y").figure("gain", 3.0, "times", bound, interval=(2.5, 3.5))
    writer.add(Record("x.y", "x", Ending.PASS, "", (), began_s=0.0, seconds=1.0))
    writer.save()
    page = html.unescape(render_report(read_archive(tmp_path / "a")))
    row = '<th scope="row">gain</th><td>3 [2.5 .. 3.5] times</td><td>at least 2 wanted: of one run</td><td>shape</td>'
    assert row in page


def test_the_basis_is_kept_with_the_figure() -> None:
    recorder = History().recorder("x.y")
    recorder.figure("ratio", 1.0, "", Bound("of one run", basis=Basis.SHAPE))
    recorder.figure("older", 1.0, "", Bound("of one run"))
    first, second = (event.data for event in recorder.events())
    assert first["basis"] == "shape"
    assert "basis" not in second
