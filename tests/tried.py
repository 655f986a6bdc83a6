"""`python -m tests.tried`: writes the tables of what was tried into README.md and docs/simulation.md."""

import re
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Annotated

from pydantic import Field

from cephlab.lab.archive.attempts import put_into
from cephlab.lab.spec.specfile import TomlTable, load_model

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "ci/tried.toml"
MEASURED = ROOT / "docs/measured"
TRIED, NOT_RUN = "tried", "not run"
"""Marks of the places on the pages."""

Words = Annotated[str, Field(min_length=3, pattern=r"^[^|\n]+$")]
Section = Annotated[str, Field(pattern=r"^[a-z-]+\.md#[a-z0-9_-]+$")]


class Tried(TomlTable):
    """What ran somewhere; see ci/tried.toml."""

    where: Words
    ran: Words
    date: date
    outcome: Words
    section: Section
    command: Words | None = None
    readme: bool = False


class NotRun(TomlTable):
    """What did not run, and what stopped it; see ci/tried.toml."""

    what: Words
    why: Words
    section: Section
    instead: Words | None = None


class _File(TomlTable):
    tried: tuple[Tried, ...]
    not_run: tuple[NotRun, ...]


def read_kept(path: Path = KEPT) -> tuple[tuple[Tried, ...], tuple[NotRun, ...]]:
    """The entries of the file; SpecError names the wrong key."""
    file = load_model(path, _File, what="a list of what was tried", hint="see its comment")
    return file.tried, file.not_run


def parts(tried: Sequence[Tried], not_run: Sequence[NotRun]) -> dict[tuple[Path, str], str]:
    """(page, mark) -> the table that belongs there, in Markdown."""
    heads = ("where", "what ran", "outcome", "recorded")
    labels = _labels([*tried, *not_run])
    brief = [(row.where, row.ran, row.outcome) for row in tried if row.readme]
    whole = [(f"[{row.where}][{labels[row.section]}]", row.ran, row.outcome, str(row.date)) for row in tried]
    left = [(f"[{row.what}][{labels[row.section]}]", row.why, row.instead or "nothing") for row in not_run]
    targets = "".join(f"[{label}]: measured/{section}\n" for section, label in labels.items())
    page = ROOT / "docs/simulation.md"
    return {
        (ROOT / "README.md", TRIED): _table(heads[:3], brief),
        (page, TRIED): _table(heads, whole),
        (page, NOT_RUN): _table(("not run", "what stopped it", "tried instead"), left) + "\n" + targets,
    }


def _labels(rows: Sequence[Tried | NotRun]) -> dict[str, str]:
    """Section -> the number by which rows link to it. With the section itself a line would be too long."""
    return {section: str(number) for number, section in enumerate(dict.fromkeys(row.section for row in rows), 1)}


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = (f"| {' | '.join(cells)} |" for cells in (heads, *rows))
    return "\n".join([next(lines), "|---" * len(heads) + "|", *lines, ""])


def section_of(section: str) -> str:
    """The text of a section of docs/measured; empty if there is no such heading."""
    name, _, anchor = section.partition("#")
    text = (MEASURED / name).read_text()
    headings = list(re.finditer(r"^(#+) (.*)$", text, re.MULTILINE))
    for number, heading in enumerate(headings):
        if re.sub(r"[^\w -]", "", heading[2].lower()).replace(" ", "-") == anchor:
            ends = (each.start() for each in headings[number + 1 :] if len(each[1]) <= len(heading[1]))
            return text[heading.end() : next(ends, len(text))]
    return ""


def main() -> None:
    """Write the tables anew."""
    for (page, mark), table in parts(*read_kept()).items():
        put_into(page, table, mark)


if __name__ == "__main__":
    main()
