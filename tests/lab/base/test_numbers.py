"""One thing and several, in words."""

import ast
import re

import pytest

from cephlab.lab.base.numbers import duration, how_many, percent, rise, si, six_digits
from tests.code_tree import PACKAGES, ROOT, modules, nodes, tree

EITHER = re.compile(r"[a-z]\((?:s|es|ies)\)")
OF_OTHERS = {"average latency(s)", "argument(s)", r"\b(\d+) (\w+)\(s\)"}
"""What rados bench and typer print, and what older archives have."""


@pytest.mark.parametrize(
    ("count", "words"), [(0, "0 clients"), (1, "1 client"), (2, "2 clients"), (1.0, "1 client"), (1.5, "1.5 clients")]
)
def test_one_is_told_from_several(count: float, words: str) -> None:
    assert how_many(count, "client") == words


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1.1e12, "1.1 TB"), (1e15, "1 PB"), (1.1e18, "1.1 EB"), (9.99e17, "999 PB"), (2e21, "2,000 EB")],
)
def test_sizes_go_on_to_the_largest_prefix(value: float, shown: str) -> None:
    assert si(value, "bytes") == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(2_256_526.4, "2,256,526"), (530590.0, "530,590"), (52.65523, "52.6552"), (1e-7, "1e-07"), (1e16, "1e+16")],
)
def test_a_figure_beside_its_limit_has_six_digits(value: float, shown: str) -> None:
    assert six_digits(value) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.04, "0.0 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 0 s"),
        (63.481, "1 min 3 s"),
        (3599.4, "59 min 59 s"),
        (3599.6, "1 h 0 min"),
        (90000, "25 h 0 min"),
    ],
)
def test_a_duration_has_two_units_at_most(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


def test_an_s_is_not_always_enough() -> None:
    assert [how_many(n, "try was", "tries were") for n in (1, 3)] == ["1 try was", "3 tries were"]


def test_no_text_leaves_it_to_the_reader_whether_it_is_one() -> None:
    said = {
        node.value
        for path in modules([package for package in PACKAGES if package != "tests"])
        if EITHER.search((ROOT / path).read_text())
        for node in nodes(tree(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and EITHER.search(node.value)
    }
    said |= {path.name for path in (ROOT / "lab/report").glob("*.j2") if EITHER.search(path.read_text())}
    assert said <= OF_OTHERS


def test_a_share_has_a_space_before_its_sign() -> None:
    assert (percent(0.0564), percent(0.9, ".0f")) == ("5.6 %", "90 %")
    assert (rise(1.0564), rise(0.9)) == ("+5.6 %", "-10.0 %")


def test_no_text_writes_a_share_by_hand() -> None:
    by_hand = [
        f"{path}:{node.lineno}"
        for path in modules([package for package in PACKAGES if package != "tests"])
        for node in nodes(tree(path))
        if isinstance(node, ast.FormattedValue)
        and isinstance(node.format_spec, ast.JoinedStr)
        and re.search(
            r"\d%$", "".join(str(part.value) for part in node.format_spec.values if isinstance(part, ast.Constant))
        )
    ]
    assert not by_hand
