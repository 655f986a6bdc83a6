"""The Markdown of a run, and its annotations: nothing in a reason can break out of its place."""

from pathlib import Path

from cephlab.lab.archive.archive import Archive, Ending, Record, read_archive
from cephlab.lab.report.page import render_report
from cephlab.lab.report.summary import markdown, notices
from tests.lab.archive.test_archive import add, write

ODD = "osd.0: got `1` | <b>wanted</b>\nand 50%"


def archive(tmp_path: Path) -> Archive:
    writer = write(tmp_path)
    add(writer, Record("demo.fine", "demo", Ending.PASS, "12 observations hold", seconds=4.25))
    add(writer, Record("demo.missing", "demo", Ending.SKIP, "no disks"))
    add(writer, Record("demo.open[a=1,b=2]", "demo", Ending.INCONCLUSIVE, "too little load"))
    add(writer, Record("demo.wrong", "demo", Ending.FAIL, ODD))
    writer.seal(render_report)
    return read_archive(tmp_path)


def test_the_worst_comes_first_and_what_passed_is_folded_away(tmp_path: Path) -> None:
    lines = markdown(archive(tmp_path)).splitlines()
    assert lines[0] == "## cephlab: 1 failed, 1 inconclusive, 1 skipped, 1 passed"
    table = [line for line in lines if line.startswith("| ")]
    assert [line.split(" | ")[1] for line in table[1:4]] == ["demo.wrong", "demo.open[a=1,b=2]", "demo.missing"]
    assert "<details><summary>1 passed</summary>" in lines
    assert lines.index("| demo.fine | 4.2 s |") > lines.index("<details><summary>1 passed</summary>")


def test_a_reason_stays_in_its_cell(tmp_path: Path) -> None:
    wrong = next(line for line in markdown(archive(tmp_path)).splitlines() if "demo.wrong" in line)
    assert wrong == "| failed | demo.wrong | osd.0: got '1' \\| &lt;b>wanted&lt;/b> and 50% |"


def test_annotations_are_one_line_each_and_escaped(tmp_path: Path) -> None:
    assert list(notices(archive(tmp_path))) == [
        "::warning title=demo.open[a=1%2Cb=2]::inconclusive: too little load",
        "::error title=demo.wrong::failed: osd.0: got `1` | <b>wanted</b>%0Aand 50%25",
    ]


def test_what_was_cut_short_is_named(tmp_path: Path) -> None:
    writer = write(tmp_path, manifest={"state": "interrupted", "planned": ["demo.fine", "demo.left"]})
    add(writer, Record("demo.fine", "demo", Ending.PASS, "12 observations hold", seconds=4.25))
    writer.seal(render_report)
    assert "The run was cut short; 1 scenario has no verdict: demo.left" in markdown(read_archive(tmp_path))
