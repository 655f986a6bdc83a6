"""The list of known defects, the page that is made of it, and the report from a run."""

from pathlib import Path
from typing import Any

import pytest

from cephlab.lab.archive.archive import Archive, Ending, Record
from cephlab.lab.base.errors import SpecError
from cephlab.lab.history.history import Event
from cephlab.lab.report.defects import MARK, Defect, developer_report, part, read_defects

ROOT = Path(__file__).resolve().parents[3]
LIST = ROOT / "suites/defects/known.toml"
GIVEN: dict[str, Any] = {
    "name": "a-defect",
    "title": "Something is lost",
    "text": "It is lost for good.",
    "found_by": "looking for it",
    "command": "`ceph lose something`",
    "mend": "`lose()` in `src/lose.cc`",
    "tracker": "none found among threads",
    "there": ("18.2.7", "20.2.4"),
    "gone": ("19.2.3",),
}


def test_the_track_record_is_what_the_list_says() -> None:
    text = (ROOT / "docs/track-record.md").read_text()
    made = text.partition(f"<!-- {MARK} -->\n\n")[2].partition(f"\n<!-- end of {MARK} -->")[0]
    assert made == part(read_defects(LIST)), "write it anew: cephlab track --output docs/track-record.md"


def test_a_page_that_was_edited_by_hand_is_another() -> None:
    defects = read_defects(LIST)
    assert part(defects[1:]) != part(defects)
    assert part([defects[0].model_copy(update={"title": "Another title"}), *defects[1:]]) != part(defects)


def test_every_program_is_listed_and_every_listed_program_is_there() -> None:
    programs = {path.stem for path in LIST.with_name("programs").glob("*.sh")}
    assert programs == {defect.name for defect in read_defects(LIST) if defect.program}


@pytest.mark.parametrize(
    ("version", "wanted"),
    [
        ("18.2.7", ("there", True)),
        ("18.2.8", ("there", False)),
        ("19.2.3", ("gone", True)),
        ("20.1.0", ("gone", False)),
        ("20.2.10", ("there", False)),
        ("16.2.15", ("", False)),
    ],
)
def test_a_version_is_expected_to_be_as_the_newest_older_one(version: str, wanted: tuple[str, bool]) -> None:
    assert Defect(**GIVEN).expected(version) == wanted


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("gone", ("18.2.7",), "got 18.2.7 in both; wanted: each version in one"),
        ("seen", 2, "got 2 of 1; wanted: at most as many"),
        ("there", ("reef",), "String should match pattern"),
        ("cure", "none at all", "Extra inputs are not permitted"),
    ],
)
def test_what_does_not_fit_is_refused(key: str, value: object, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Defect(**{**GIVEN, key: value})


def test_a_name_twice_is_refused_with_the_file(tmp_path: Path) -> None:
    entry = "\n".join(f"{key} = {list(v) if isinstance(v, tuple) else repr(v)}" for key, v in GIVEN.items())
    (tmp_path / "known.toml").write_text(f"[[defect]]\n{entry}\n[[defect]]\n{entry}\n")
    with pytest.raises(SpecError, match=r"known\.toml is not a list of known defects"):
        read_defects(tmp_path / "known.toml")


REPLAY = (
    "cephlab gate --tier full --seed 21 --lab local --release reef --suite defects --suite interop -k 'cls or a' "
    "--rerun-failed /a/b --metrics"
)


def archive(*events: Event) -> Archive:
    record = Record("defects.a-defect", "defects", Ending.PASS, "still there: seen in 1 of 1 tries")
    return Archive(Path("/a"), {"replay": REPLAY}, (record,), events)


def known(program: str) -> Event:
    told = {key: GIVEN[key] for key in ("title", "text", "command", "mend", "tracker")}
    return Event(
        "defects.a-defect",
        0.0,
        "known_defect",
        {**told, "version": "18.2.7", "build": "ceph version 18.2.7 (a) reef", "program": program},
    )


def test_the_report_has_the_program_and_what_it_said() -> None:
    seen = Event("defects.a-defect", 1.0, "defect_try", {"seen": True, "said": "two of three are gone"})
    text = developer_report(archive(known("#!/bin/sh\nceph lose\n"), seen), "a-defect")
    assert "```bash\n#!/bin/sh\nceph lose\n```" in text
    assert "try 1: two of three are gone" in text
    assert "- Ceph: 18.2.7, ceph version 18.2.7 (a) reef" in text
    assert "- Verdict: still there: seen in 1 of 1 tries" in text
    assert "- Fix: `lose()` in `src/lose.cc`" in text


def test_without_a_program_the_command_is_told_and_the_run_repeated_for_this_defect_alone() -> None:
    text = developer_report(archive(known("")), "a-defect")
    assert "- Command: `ceph lose something`\n" in text
    again = "cephlab gate --tier full --seed 21 --lab local --release reef --metrics --suite defects -k a-defect"
    assert f"```bash\n{again}\n```" in text


def test_an_older_run_that_noted_no_command_has_a_report_too() -> None:
    event = known("")
    older = Event(event.scenario, 0.0, event.kind, {key: event.data[key] for key in event.data if key != "command"})
    assert "- Command" not in developer_report(archive(older), "a-defect")


def test_a_defect_that_the_run_did_not_look_for_is_refused() -> None:
    with pytest.raises(SpecError, match="has no defect 'other'") as error:
        developer_report(archive(known("")), "other")
    assert "it has: a-defect" in error.value.detail
