"""Each figure and each limit of a scenario says what it rests on: correctness, shape, profile, or nothing."""

import ast
from collections.abc import Iterator
from textwrap import dedent

import pytest

from tests.code_tree import nodes, trees


def without_basis(path: str, tree: ast.Module) -> Iterator[str]:
    """Lines of a suite that make a bound or a limit without a basis, or note a figure without a bound."""
    for node in nodes(tree):
        if isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node).rpartition(".")[2] == "UNBOUND":
            yield f"{path}:{node.lineno} uses the bound without a basis"
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func).rpartition(".")[2]
        given = {keyword.arg for keyword in node.keywords}
        # The fifth field is the basis, and the fourth argument of a figure its bound.
        if name == "Bound" and "basis" not in given and len(node.args) < 5:
            yield f"{path}:{node.lineno} makes a bound without a basis"
        if name == "figure" and "bound" not in given and len(node.args) < 4:
            yield f"{path}:{node.lineno} notes a figure without a bound"
        if name == "limit" and isinstance(node.func, ast.Attribute) and "basis" not in given:
            yield f"{path}:{node.lineno} records a limit without a basis"


def unlike_its_basis(path: str, tree: ast.Module) -> Iterator[str]:
    """Lines of a suite whose bound has no limit although its basis says that it has, or one that does not fit it."""
    for node in nodes(tree):
        if not isinstance(node, ast.Call) or ast.unparse(node.func).rpartition(".")[2] != "Bound":
            continue
        given: dict[str | None, ast.expr] = {keyword.arg: keyword.value for keyword in node.keywords}
        given |= dict(zip(("why", "least", "most", "derivation", "basis"), node.args, strict=False))
        basis = ast.unparse(given["basis"]) if "basis" in given else ""
        limits = [given[end] for end in ("least", "most") if end in given and constant(given[end]) is not None]
        if "NOTED" not in basis:
            if not limits:
                yield f"{path}:{node.lineno} has a basis other than NOTED, and no limit"
        elif "why" not in given or constant(given["why"]) == "":
            yield f"{path}:{node.lineno} is NOTED, and does not say why there is no limit"
        elif limits and basis == "Basis.NOTED":
            yield f"{path}:{node.lineno} is NOTED, and has a limit"
        if "PROFILE" in basis and limits and not any(map(varies, limits)):
            yield f"{path}:{node.lineno} says that the profile decides, and has no limit that follows from it"


def constant(given: ast.expr) -> object:
    """The value of a constant; of anything else, the expression."""
    return given.value if isinstance(given, ast.Constant) else given


def varies(limit: ast.expr) -> bool:
    """Whether a limit is more than constants: numbers, and names in capitals."""
    names = (node.id for node in ast.walk(limit) if isinstance(node, ast.Name))
    return any(not name.isupper() for name in names)


@pytest.mark.slow
def test_a_bound_of_a_suite_has_the_limit_that_its_basis_says() -> None:
    assert [line for path, tree in trees(["suites"]).items() for line in unlike_its_basis(path, tree)] == []


_NONE = "has a basis other than NOTED, and no limit"
_FIXED = "says that the profile decides, and has no limit that follows from it"
_SILENT = "is NOTED, and does not say why there is no limit"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ('Bound("noted", basis=Basis.PROFILE)', _NONE),
        ('Bound("noted", basis=Basis.SHAPE)', _NONE),
        ('Bound("noted", basis=Basis.CORRECTNESS)', _NONE),
        ('Bound("noted", None, basis=Basis.SHAPE)', _NONE),
        ('Bound("noted", most=None, basis=Basis.SHAPE)', _NONE),
        ('Bound("noted", basis=copied.basis)', _NONE),
        ('history.Bound("by the fifth field", None, None, (), Basis.PROFILE)', _NONE),
        (
            'def note(one):\n    one.figure("a", 1, "", Bound(basis=Basis.SHAPE))\n    one.limit("a", 2, "", "")',
            _NONE,
        ),
        ('Bound("a number", most=1.0, basis=Basis.PROFILE)', _FIXED),
        ('Bound("a constant", 1 / WITHIN, _MOST, basis=Basis.PROFILE)', _FIXED),
        ("Bound(basis=Basis.NOTED)", _SILENT),
        ('Bound("", basis=Basis.NOTED)', _SILENT),
        ('Bound(why="", basis=Basis.NOTED)', _SILENT),
        ('Bound("not judged", most=limit, basis=Basis.NOTED)', "is NOTED, and has a limit"),
    ],
)
def test_a_bound_unlike_its_basis_is_refused(source: str, said: str) -> None:
    assert [line.partition(" ")[2] for line in unlike_its_basis("suites/x.py", ast.parse(source))] == [said]


@pytest.mark.parametrize(
    "source",
    [
        'Bound("of the profile", most=rated * SLACK, basis=Basis.PROFILE)',
        'Bound("no profile decides", basis=Basis.NOTED)',
        'Bound(f"{why}: recorded only", basis=Basis.NOTED)',
        'Bound("a number", least=1.0, basis=Basis.SHAPE)',
        'Bound("only for some hosts", most=limit if judged else None, basis=Basis.CORRECTNESS)',
        'Bound("only for some hosts", most=most, basis=Basis.PROFILE if most else Basis.NOTED)',
        'Bound("of settings", most=settings_s + copied.seconds, basis=copied.basis)',
    ],
)
def test_a_bound_like_its_basis_is_not(source: str) -> None:
    assert list(unlike_its_basis("suites/x.py", ast.parse(source))) == []


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
        ('recorder.figure("rate", 5.0, "1/s", UNBOUND)', "uses the bound without a basis"),
        ('recorder.figure("rate", 5.0, "1/s", bound=history.UNBOUND)', "uses the bound without a basis"),
        ('recorder.figure("rate", 5.0, "1/s", bound if judged else UNBOUND)', "uses the bound without a basis"),
        ('stage.recorder.limit("longest_gap_s", 5.0, "s", "as agreed")', "records a limit without a basis"),
    ],
)
def test_a_figure_without_one_is_refused(source: str, said: str) -> None:
    assert [line.partition(" ")[2] for line in without_basis("suites/x.py", ast.parse(dedent(source)))] == [said]


def test_a_figure_with_one_is_not() -> None:
    for source in (
        'recorder.figure("a", 1, "", Bound("b", basis=Basis.SHAPE))',
        'recorder.figure("a", 1, "", bound)',
        'recorder.limit("a", 1, "", "b", basis=Basis.SHAPE)',
        "limit(stage)",
    ):
        assert list(without_basis("suites/x.py", ast.parse(source))) == []
