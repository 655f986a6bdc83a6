"""Each figure that a scenario notes says what its limit rests on: correctness, shape, profile, or nothing."""

import ast
import html
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from cephlab.lab.archive.archive import ArchiveWriter, Ending, Record, read_archive
from cephlab.lab.history.history import Basis, Bound, History
from cephlab.lab.report.page import render_report
from tests.code_tree import functions, nodes, trees
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


def without_a_limit(path: str, tree: ast.Module) -> Iterator[str]:
    """Lines of a suite whose bound says that a profile decides, and has no limit that another profile would change.

    A function may give the limit on its own: `recorder.limit`.
    """
    apart = {id(node) for function in functions(tree) if limits_apart(function) for node in ast.walk(function)}
    for node in nodes(tree):
        if not isinstance(node, ast.Call) or ast.unparse(node.func).rpartition(".")[2] != "Bound" or id(node) in apart:
            continue
        given: dict[str | None, ast.expr] = {keyword.arg: keyword.value for keyword in node.keywords}
        given |= dict(zip(("why", "least", "most", "derivation", "basis"), node.args, strict=False))
        if "basis" not in given or "PROFILE" not in ast.unparse(given["basis"]):
            continue
        if not any(varies(given[end]) for end in ("least", "most") if end in given):
            yield f"{path}:{node.lineno} says that the profile decides, and has no limit that follows from it"


def limits_apart(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    called = (node.func for node in ast.walk(function) if isinstance(node, ast.Call))
    return any(isinstance(each, ast.Attribute) and each.attr == "limit" for each in called)


def varies(limit: ast.expr) -> bool:
    """Whether a limit is more than constants: numbers, and names in capitals."""
    names = (node.id for node in ast.walk(limit) if isinstance(node, ast.Name))
    return any(not name.isupper() for name in names)


@pytest.mark.slow
def test_a_figure_that_a_profile_decides_has_a_limit_of_the_profile() -> None:
    assert [line for path, tree in trees(["suites"]).items() for line in without_a_limit(path, tree)] == []


@pytest.mark.parametrize(
    ("source", "refused"),
    [
        ('Bound("noted", basis=Basis.PROFILE)', True),
        ('Bound("a number", most=1.0, basis=Basis.PROFILE)', True),
        ('Bound("a constant", 1 / WITHIN, _MOST, basis=Basis.PROFILE)', True),
        ('Bound("by the fifth field", None, None, (), Basis.PROFILE)', True),
        ('def note(one):\n    one.figure("a", 1, "", Bound(basis=Basis.PROFILE))', True),
        (
            'def note(one):\n    one.figure("a", 1, "", Bound(basis=Basis.PROFILE))\n    one.limit("a", 2, "", "")',
            False,
        ),
        ('Bound("of the profile", most=rated * SLACK, basis=Basis.PROFILE)', False),
        ('Bound("no profile decides", basis=Basis.NOTED)', False),
    ],
)
def test_a_limit_of_the_profile_is_told_from_none_and_from_a_constant(source: str, refused: bool) -> None:
    assert bool(list(without_a_limit("suites/x.py", ast.parse(source)))) is refused


@pytest.mark.slow
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
    limit = "at least 2 times wanted: of one run"
    row = f'<th scope="row">gain</th><td>3 [2.5 .. 3.5] times</td><td>{limit}</td><td>shape</td>'
    assert row in page


def test_the_basis_is_kept_with_the_figure() -> None:
    recorder = History().recorder("x.y")
    recorder.figure("ratio", 1.0, "", Bound("of one run", basis=Basis.SHAPE))
    recorder.figure("older", 1.0, "", Bound("of one run"))
    first, second = (event.data for event in recorder.events())
    assert first["basis"] == "shape"
    assert "basis" not in second
