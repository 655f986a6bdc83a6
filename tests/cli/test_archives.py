"""The list of archives, and the newest one as what is meant where none is named."""

import json
import os
import webbrowser
from pathlib import Path
from types import SimpleNamespace

import pytest

from cephlab.cli.world import World
from cephlab.lab.archive.archive import Ending, Record, read_archive
from cephlab.lab.archive.attempts import INTERRUPTED
from cephlab.lab.base.births import identity_of
from cephlab.lab.report.page import render_report
from tests.cli.test_cli_clusters import call
from tests.lab.archive.test_archive import GOOD, write

OWN = identity_of(os.getpid())


@pytest.fixture
def two(world: World) -> tuple[Path, Path]:
    """An older archive whose name sorts last, and whose files are newer, as after a copy; and a newer one."""
    made = world.home.archive / "z-older", world.home.archive / "a-newer"
    for number, path in enumerate(made):
        write(path, GOOD, manifest={"started": f"2026-11-2{1 + number}T09:00:00Z"}).seal(render_report)
        at = (path / "manifest.json").stat().st_mtime - 100 * number
        os.utime(path / "manifest.json", (at, at))
    return made


@pytest.mark.slow
def test_the_newest_comes_last(world: World, two: tuple[Path, Path]) -> None:
    rows = json.loads(call(world, "archive", "ls", "--json").stdout)["archives"]
    assert [row["archive"] for row in rows] == ["z-older", "a-newer"]
    assert [row["path"] for row in rows] == [str(path) for path in two]
    assert rows[0]["state"] == "complete"
    assert rows[0]["verdicts"] == {"pass": 1}
    shown = call(world, "archive", "ls").stdout.splitlines()
    assert [line.split()[0] for line in shown] == ["archive", "z-older", "a-newer"]
    assert "1 pass" in shown[1]
    assert [line for line in shown if line.endswith(" ")] == []


@pytest.mark.slow
def test_an_archive_without_a_readable_start_is_not_the_newest(world: World, two: tuple[Path, Path]) -> None:
    for name, text in (("no-json", "{"), ("no-start", "{}"), ("odd-start", '{"started": "yesterday"}')):
        (world.home.archive / name).mkdir()
        (world.home.archive / name / "manifest.json").write_text(text)
    rows = json.loads(call(world, "archive", "ls", "--json").stdout)["archives"]
    assert [row["archive"] for row in rows] == ["no-json", "no-start", "odd-start", "z-older", "a-newer"]
    assert f"archive: {two[1]}" in call(world, "summary").stderr


def test_an_interrupted_scenario_is_no_inconclusive_one(world: World) -> None:
    writer = write(world.home.archive / "a", GOOD)
    for number, reason in enumerate((f"the scenario ended early: {INTERRUPTED}", "the load was too small")):
        writer.add(Record(f"demo.left-{number}", "demo", Ending.INCONCLUSIVE, reason))
    [row] = json.loads(call(world, "archive", "ls", "--json").stdout)["archives"]
    assert row["verdicts"] == {"pass": 1, "interrupted": 1, "inconclusive": 1}
    assert "1 pass, 1 interrupted, 1 inconclusive" in call(world, "archive", "ls").stdout


@pytest.mark.slow
def test_a_folder_that_is_no_archive_does_not_hide_the_others(world: World, two: tuple[Path, Path]) -> None:
    (two[0] / "verdicts.json").write_text("{")
    rows = json.loads(call(world, "archive", "ls", "--json").stdout)["archives"]
    assert [row["state"] for row in rows] == ["not an archive", "complete"]


@pytest.mark.parametrize(
    ("process", "state"),
    [(OWN, "running"), (f"{OWN}1", "killed"), ("4194305/boot/1", "killed"), ("", "killed")],
    ids=["its process runs", "another one has its pid", "its process is gone", "it names none"],
)
def test_a_run_whose_process_is_gone_is_shown_as_killed(world: World, process: str, state: str) -> None:
    write(world.home.archive / "a", GOOD, manifest={"state": "running", "process": process})
    rows = json.loads(call(world, "archive", "ls", "--json").stdout)["archives"]
    assert [row["state"] for row in rows] == [state]
    assert f"- state: `{state}`\n" in call(world, "summary").stdout


@pytest.mark.parametrize(("process", "said"), [(OWN, "is not over yet"), ("", "was cut short")], ids=["runs", "gone"])
def test_a_run_at_work_is_not_said_to_be_cut_short(world: World, process: str, said: str) -> None:
    write(world.home.archive / "a", GOOD, manifest={"state": "running", "process": process}).seal(render_report)
    ended = call(world, "judge")
    assert ended.exit_code == 6
    assert f"warning: the run {said}; it is not known what did not run" in ended.stderr
    assert f"**This run {said}; " in call(world, "summary").stdout


@pytest.mark.parametrize(("process", "left"), [(OWN, False), ("4194305/boot/1", True)], ids=["runs", "gone"])
def test_what_the_parts_of_a_killed_gate_hold_is_shown_and_stays(world: World, process: str, left: bool) -> None:
    whole, part = world.home.archive / "a", world.home.archive / "a.lanes" / "0"
    write(whole, manifest={"state": "running", "process": process})
    write(part, GOOD, manifest={"state": "interrupted"})
    [row] = json.loads(call(world, "archive", "ls", "--json").stdout)["archives"]
    assert (row["archive"], row["verdicts"]) == ("a", {"pass": 1} if left else {})
    assert ("1 passed" in call(world, "summary").stdout) == left
    ended = call(world, "prune", "--json")
    assert json.loads(ended.stdout)["unmerged"] == ([str(whole)] if left else [])
    assert (f"left, as a killed gate with its parts beside it: {whole}" in ended.stderr) == left
    assert part.exists()


def test_no_archives(world: World) -> None:
    assert call(world, "archive", "ls").stdout == "no archives\n"
    for command in ("report", "judge", "summary"):
        result = call(world, command)
        assert result.exit_code == 2
        assert "there is no archive yet" in result.stderr


@pytest.mark.parametrize("command", ["judge", "summary", "report"])
def test_the_newest_is_meant_where_none_is_named(world: World, two: tuple[Path, Path], command: str) -> None:
    result = call(world, command)
    assert result.exit_code == 0, result.output
    assert f"archive: {two[1]}" in result.stderr
    assert call(world, command, str(two[0])).stderr == ""


@pytest.mark.parametrize("there", [True, False])
def test_the_report_is_opened_where_there_is_a_browser(
    world: World, two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, *, there: bool
) -> None:
    opened: list[str] = []

    def browser(uri: str) -> bool:
        opened.append(uri)
        return there

    monkeypatch.setattr(webbrowser, "open", browser)
    result = call(world, "report", "--open")
    page = two[1] / "report.html"
    assert opened == [page.as_uri()]
    assert result.exit_code == (0 if there else 3)
    assert str(page) in (result.stdout if there else result.stderr)


@pytest.mark.parametrize(
    "arguments",
    [
        ("predict", "--profile", "ampere-altra-4n", "--output"),
        ("report", "--output"),
        ("series", "--dashboard"),
        ("series", "--export"),
        ("track", "--output"),
        ("track", "ARCHIVE", "--kept"),
        ("validate-model", "--fit"),
        ("validate-model", "--picture"),
        ("spec", "init"),
    ],
)
def test_a_file_that_cannot_be_written_is_refused_before_any_work(
    world: World, two: tuple[Path, Path], arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(*_: object) -> None:
        raise AssertionError("refused before any work")

    monkeypatch.setattr("cephlab.tuning.demandsets.find_every_demand", work)
    named = [str(two[1]) if argument == "ARCHIVE" else argument for argument in arguments]
    for file, why in (
        (two[0] / "nowhere" / "page.html", f"{two[0] / 'nowhere'} is not a folder"),
        (two[0], f"{two[0]} is a folder"),
    ):
        result = call(world, *named, str(file))
        assert result.exit_code == 2, result.output
        assert f"{file} cannot be written" in result.stderr
        assert why in result.stderr


def test_a_report_that_cannot_be_put_into_its_archive_can_be_written_elsewhere(
    world: World, two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = two[0] / "report.html"
    page.unlink(missing_ok=True)
    page.mkdir()
    result = call(world, "report", str(two[0]))
    assert result.exit_code == 2
    assert f"error: the report {page} cannot be written\n  {page} is a folder\n" in result.stderr
    assert result.stderr.endswith("hint: write it elsewhere: --output FILE\n")
    page.rmdir()
    monkeypatch.setattr(os, "access", lambda _, mode: not mode & os.W_OK)
    why = "this user may not write there"
    assert f"{page} cannot be written\n  {why}\n" in call(world, "report", str(two[0])).stderr
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_RDONLY | os.ST_NOSUID))
    why = "it is on a read-only file system"
    assert f"{page} cannot be written\n  {why}\n" in call(world, "report", str(two[0])).stderr
    assert not page.exists()


def test_prune_removes_the_empty_archive_of_a_gate_that_was_killed_while_it_collected(world: World) -> None:
    folder = world.home.archive / "20261121-090000-quick-4194305"
    folder.mkdir(parents=True)
    assert f"would remove {folder.name}, of a gate that" in call(world, "prune", "--dry-run").stdout
    assert folder.exists()
    assert f"removed {folder.name}, of a gate that was killed before it began" in call(world, "prune").stdout
    assert not folder.exists()


def test_series_of_what_is_no_archive_are_refused(world: World, tmp_path: Path) -> None:
    result = call(world, "series", str(tmp_path / "nosuch"))
    assert result.exit_code == 2
    assert "nosuch is not an archive" in result.stderr


def test_the_page_names_only_the_files_that_the_archive_has(two: tuple[Path, Path]) -> None:
    assert "junit.xml" not in (two[0] / "report.html").read_text()
    (two[0] / "junit.xml").touch()
    assert "junit.xml" in render_report(read_archive(two[0]))


@pytest.mark.parametrize("kind", ["began", "observation", "aftermath", "raised"])
def test_an_event_without_its_data_is_told_with_the_archive_and_no_traceback(
    world: World, tmp_path: Path, kind: str
) -> None:
    folder = tmp_path / "a"
    write(folder, GOOD).seal(render_report)
    lines = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    lines.insert(1, {**lines[0], "kind": kind, "data": {}})
    (folder / "history.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    for command in ("judge", "report", "summary"):
        result = call(world, command, str(folder))
        assert result.exit_code == 2, (command, result.output)
        assert f"error: {folder} has an event that this cephlab cannot read" in result.stderr


def test_a_line_that_is_no_checksum_is_named(world: World, two: tuple[Path, Path]) -> None:
    sums = two[0] / "SHA256SUMS"
    sums.write_text(sums.read_text() + "null\n")
    (two[0] / "junit.xml").write_text("other")
    told = call(world, "judge", str(two[0])).stderr
    assert "SHA256SUMS has a line that is no checksum" in told
    assert "junit.xml" in told, "what was changed beside is told too"
