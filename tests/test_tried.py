"""The tables of what was tried are what ci/tried.toml says, and what it says stands in the measured pages."""

import re
from pathlib import Path

import pytest

from cephlab.lab.base.errors import SpecError
from tests.tried import KEPT, NotRun, Tried, parts, read_kept, section_of

ROOT = Path(__file__).resolve().parent.parent
TRIED, NOT_RUN = read_kept()
ROWS: tuple[Tried | NotRun, ...] = (*TRIED, *NOT_RUN)


def named(row: Tried | NotRun) -> str:
    return row.where if isinstance(row, Tried) else row.what


def missing(row: Tried | NotRun) -> list[str]:
    """What a row says that its section does not: the command, and each figure."""
    section = " ".join(section_of(row.section).split())
    told = [row.outcome] if isinstance(row, Tried) else [row.why, row.instead or ""]
    figures = [figure for text in told for figure in re.findall(r"\d+(?:\.\d+)?", text)]
    lost = [figure for figure in figures if not re.search(rf"(?<![\d.]){re.escape(figure)}(?!\.?\d)", section)]
    command = row.command if isinstance(row, Tried) else None
    return [*lost, *([command] if command and f"`{command}`" not in section else [])]


def test_the_pages_are_what_the_file_says() -> None:
    made = parts(TRIED, NOT_RUN)
    assert {page.name for page, _ in made} == {"README.md", "simulation.md"}
    for (page, mark), table in made.items():
        stands = page.read_text().partition(f"<!-- {mark} -->\n\n")[2].partition(f"\n<!-- end of {mark} -->")[0]
        assert stands == table, f"{page.name}: write it anew: python -m tests.tried"


def test_every_row_is_on_a_page_with_its_link() -> None:
    text = (ROOT / "docs/simulation.md").read_text()
    targets = dict(re.findall(r"^\[(\d+)\]: measured/(\S+)$", text, re.MULTILINE))
    linked = {(cell, targets[label]) for cell, label in re.findall(r"^\| \[([^]]+)\]\[(\d+)\] \|", text, re.MULTILINE)}
    assert linked == {(named(row), row.section) for row in ROWS}
    assert len(linked) == len(ROWS) >= 40


@pytest.mark.parametrize("row", ROWS, ids=named)
def test_what_a_row_says_stands_in_its_section(row: Tried | NotRun) -> None:
    assert section_of(row.section), f"docs/measured has no {row.section}"
    assert missing(row) == []


def test_what_no_section_says_is_seen() -> None:
    row = TRIED[0]
    assert section_of("machines.md#no-such-machine") == ""
    assert missing(row.model_copy(update={"outcome": "healthy after 9 s, 267 passed"})) == ["9", "267"]
    assert missing(row.model_copy(update={"command": "cephlab up --lab moon"})) == ["cephlab up --lab moon"]
    assert missing(NOT_RUN[1].model_copy(update={"why": "stopped after 7 s"})) == ["7"]


def test_a_section_ends_where_the_next_begins() -> None:
    section = section_of("machines.md#python-312")
    assert "5308 passed" in section
    assert "5294 passed" not in section


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    text = KEPT.read_text()
    for wrong in (text.replace("why = ", "reason = ", 1), text.replace("machines.md#", "machines#", 1)):
        (tmp_path / "tried.toml").write_text(wrong)
        with pytest.raises(SpecError, match=r"tried\.toml is not a list of what was tried"):
            read_kept(tmp_path / "tried.toml")
