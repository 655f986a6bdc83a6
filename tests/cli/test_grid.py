"""A table loses nothing on a narrow terminal: it wraps, and where that is not enough it becomes a list of its rows."""

import io

import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cephlab.cli.output import table, toned

HEADS = ("archive", "state", "tier", "verdicts")
ROWS: list[list[str | Text]] = [
    ["20261127-140357-full-18819", toned("complete"), "full", "2 inconclusive, 1 pass"],
    ["a", toned("x"), "", "1 fail"],
]


def printed(grid: Table, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    with console.capture() as capture:
        console.print(grid, crop=False)
    return capture.get().splitlines()


def shown(width: int) -> list[str]:
    grid = table(HEADS, ROWS, title="kept", wrapped=("verdicts",))
    return [line.rstrip() for line in printed(grid, width)]


def test_a_table_that_fits_has_a_row_for_each() -> None:
    assert shown(80) == [
        "kept",
        "archive                     state     tier  verdicts",
        "20261127-140357-full-18819  complete  full  2 inconclusive, 1 pass",
        "a                           x               1 fail",
    ]


def test_a_column_wraps_between_words() -> None:
    assert shown(60)[2:4] == [
        "20261127-140357-full-18819  complete  full  2 inconclusive,",
        "                                            1 pass",
    ]


def test_a_table_that_would_be_cut_is_a_list() -> None:
    assert shown(40) == [
        "kept",
        "20261127-140357-full-18819",
        "  state: complete  tier: full",
        "  verdicts: 2 inconclusive, 1 pass",
        "a",
        "  state: x  verdicts: 1 fail",
    ]


@pytest.mark.parametrize("width", [10, 20, 30, 40])
def test_nothing_is_lost(width: int) -> None:
    """The terminal wraps names itself, so that they can be copied."""
    lines = shown(width)
    text = "".join("".join(lines).split())
    assert all("".join(str(cell).split()) in text for row in ROWS for cell in row)
    assert lines[1] == ROWS[0][0]
    assert max(len(line) for line in lines if line not in [row[0] for row in ROWS]) <= width


def test_what_stands_before_the_first_heading_leads_the_row() -> None:
    grid = table(("", "need", "remedy"), [["ok", "a long name here", "none"]], wrapped=("remedy",))
    assert printed(grid, 20) == ["ok  a long name here", "  remedy: none      "]


def test_bars_are_left_out_before_figures_are() -> None:
    grid = table(("depth", "rate", "", "latency"), [["1", "56.4", "#####", "284 us"]], wrapped=())
    assert [line.rstrip() for line in printed(grid, 24)] == ["depth  rate  latency", "1      56.4  284 us"]
    assert "#####" in printed(grid, 80)[1], "where they fit they are shown"
