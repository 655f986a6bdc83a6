"""What a run writes into its archive, file by file."""

import json
from pathlib import Path

from cephlab.lab.archive import archive as names
from cephlab.lab.archive.archive import HISTORY, Archive, Ending, Record, file_name, judge, read_archive
from cephlab.lab.archive.merged import read_whole
from cephlab.lab.archive.sums import SIGNATURE, SUMS, altered
from cephlab.lab.ceph.keyring import new_key
from cephlab.lab.report.page import render_report
from tests.lab.archive.test_archive import ENDED, GOOD, SAMPLES, add, began, saw, write


def test_what_is_kept_of_a_scenario_is_read_back(tmp_path: Path) -> None:
    record = Record(
        scenario="demo.0",
        suite="demo",
        ending=Ending.PASS,
        reason="it held",
        derivation=("one", "two"),
        goal="g",
        method="m",
        began_s=1.5,
        seconds=2.5,
        cluster="c1",
        logs="logs/demo.0",
        quarantined="2 of 40 attempts",
    )
    writer = write(tmp_path / "a")
    add(writer, record)
    assert read_archive(tmp_path / "a").records == (record,)


def test_everybody_may_read_an_archive_and_its_files_are_in_order(tmp_path: Path) -> None:
    writer = write(tmp_path / "new" / "a", GOOD)
    kept = writer.add_logs("demo[x=1]", {"mon.log": b"m", "osd.log": b"o"})
    writer.add_logs("demo[x=1]", {"mds.log": b"d"})
    (writer.directory / names.JUNIT).write_text(new_key(SAMPLES[0]))
    writer.seal(render_report)
    directory = writer.directory
    assert kept == "logs/demo_x_1"
    written = [path for path in directory.rglob("*") if path.is_file() and path.name != HISTORY]
    assert {path.name: path.stat().st_mode & 0o777 for path in written} == {path.name: 0o644 for path in written}
    assert [line.partition("  ")[2] for line in (directory / SUMS).read_text().splitlines()] == [
        "history.jsonl",
        "junit.xml",
        "logs/demo_x_1/mds.log",
        "logs/demo_x_1/mon.log",
        "logs/demo_x_1/osd.log",
        "manifest.json",
        "report.html",
        "verdicts.json",
    ]


def test_an_archive_with_a_file_name_that_is_not_utf8_is_read(tmp_path: Path) -> None:
    name = b"menu-\xe9".decode("utf-8", "surrogateescape")
    writer = write(tmp_path / "a", (Ending.FAIL, (began(), saw(name, "cafe"), ENDED)), manifest={"argv": [name]})
    writer.seal(render_report)
    archive = read_archive(tmp_path / "a")
    assert (archive.altered, archive.manifest["argv"]) == ((), ["menu-\\udce9"])
    assert [again.reason for again in judge(archive)] == [r"x: got 'menu-\\udce9', wanted 'cafe'"]
    assert archive.events == writer.history.events()


def test_a_scenario_without_logs_has_no_folder(tmp_path: Path) -> None:
    writer = write(tmp_path / "a")
    assert writer.add_logs("demo.0", {}) is None
    assert not (tmp_path / "a/logs").exists()


def test_an_archive_is_there_from_the_beginning_and_may_be_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    writer = write(tmp_path / "a")
    assert (read_archive(tmp_path / "a").records, read_archive(tmp_path / "a").events) == ((), ())
    writer.manifest["seed"] = 8
    writer.save()
    assert read_archive(tmp_path / "a").manifest["seed"] == 8


def test_what_was_written_last_is_sealed_with_it(tmp_path: Path) -> None:
    writer = write(tmp_path / "a", GOOD)
    writer.manifest["exit_code"] = 1
    seen: list[Archive] = []

    def render(archive: Archive) -> str:
        seen.append(archive)
        return "a page with an ü"

    writer.seal(render)
    assert [archive.manifest["exit_code"] for archive in seen] == [1]
    assert read_whole(tmp_path / "a").manifest == seen[0].manifest
    assert (tmp_path / "a/report.html").read_text() == "a page with an ü"


def test_files_have_the_names_that_the_page_about_archives_tells() -> None:
    page = (Path(__file__).parents[3] / "docs/archive.md").read_text()
    told = [names.MANIFEST, names.HISTORY, names.VERDICTS, names.JUNIT, names.REPORT, SUMS, SIGNATURE]
    assert [name for name in told if f"`{name}`" not in page] == []


def test_a_record_that_says_little_is_written_with_what_it_lacks(tmp_path: Path) -> None:
    directory = write(tmp_path / "a", GOOD).directory
    (row,) = json.loads((directory / "verdicts.json").read_text())["verdicts"]
    assert row == {
        "scenario": "demo.0",
        "suite": "demo",
        "ending": "pass",
        "reason": "as stored",
        "derivation": [],
        "goal": "",
        "method": "",
        "began_s": 0.0,
        "seconds": 0.0,
        "cluster": None,
        "logs": None,
        "quarantined": None,
    }


def test_files_are_written_for_people_to_compare(tmp_path: Path) -> None:
    directory = write(tmp_path / "a").directory
    assert (directory / "verdicts.json").read_text() == '{\n  "schema": 1,\n  "verdicts": []\n}\n'
    keys = list(json.loads((directory / "manifest.json").read_text()))
    assert keys == sorted(keys)
    assert (directory / "manifest.json").read_text().endswith("}\n")


def test_what_holds_no_key_is_not_written_again_when_the_run_ends(tmp_path: Path) -> None:
    writer = write(tmp_path / "a", GOOD)
    writer.add_logs("demo.0", {"osd.log": b"gigabytes"})
    log = tmp_path / "a/logs/demo.0/osd.log"
    before = log.stat().st_ino
    writer.seal(render_report)
    assert log.stat().st_ino == before


def test_a_name_may_have_spaces_in_it(tmp_path: Path) -> None:
    writer = write(tmp_path / "a", GOOD)
    writer.add_logs("demo.0", {"a  b.log": b"x"})
    writer.seal(render_report)
    assert altered(tmp_path / "a") == []


def test_a_folder_s_name_begins_and_ends_with_a_word() -> None:
    assert file_name("[X] a, b = c!") == "X_a_b_c"
