"""Archives of lanes become one: its events are in the order of time, whichever process recorded them."""

from pathlib import Path
from typing import Any

from cephlab.lab.archive import archive as names
from cephlab.lab.archive.archive import ArchiveWriter, Ending, Record, judged, read_archive
from cephlab.lab.archive.merged import Part, begun, merge
from cephlab.lab.archive.sums import SUMS
from cephlab.lab.history.history import Event
from tests.lab.archive.test_archive import FITTING, GOOD, MANIFEST, began, saw, write

LOST = "the process that ran it ended unexpectedly"
SUITE = '<testsuite name="{0}" tests="1"><testcase classname="demo" name="{0}" /></testsuite>'


def cluster(name: str) -> dict[str, Any]:
    plain = {"provider": "local", "why": "", "spec": {}, "hosts": {}, "daemons": {}, "patience": 1, "raise_s": None}
    return {"name": name, **plain, "images": {}}


def lane(directory: Path, at_s: float, manifest: dict[str, Any] | None = None) -> ArchiveWriter:
    """A lane with one scenario of its own name, whose events begin at that second, with a log and a JUnit file."""
    name = directory.name
    writer = write(directory, manifest=manifest)
    said = [
        Event(f"demo.{name}", at_s + number, kind, data) for number, (kind, data) in enumerate(FITTING[Ending.PASS])
    ]
    (directory / names.HISTORY).write_text("".join(f"{event.to_json()}\n" for event in said))
    writer.add(Record(f"demo.{name}", "demo", Ending.PASS, "as stored", began_s=at_s))
    writer.add_logs(f"demo.{name}", {f"osd.{osd}.log": name.encode() for osd in (0, 1)})
    (directory / names.JUNIT).write_text(f"<testsuites>{SUITE.format(name)}</testsuites>")
    return writer


def test_what_two_lanes_left_is_in_the_whole(tmp_path: Path) -> None:
    """On one clock, with the logs, the lists and the machine of each; what is made anew is not taken from a lane."""
    here = lane(tmp_path / "here", 2.5, {"clusters": [cluster("c1")], "kept": ["c1"], "trouble": ["disk full"]})
    far = lane(tmp_path / "far", 1.5, {"clusters": [cluster("c2")], "unexpected_skips": ["demo.x"]})
    far.seal(lambda _: "the report of a lane")
    whole = write(tmp_path / "whole")
    merge(whole, [Part(here.directory, 0.0, ""), Part(far.directory, 1.5004, "m1")])
    whole.save()
    archive = read_archive(whole.directory)
    kinds = [kind for kind, _ in FITTING[Ending.PASS]]
    assert [(event.scenario, event.kind, event.at_s) for event in archive.events] == [
        (f"demo.{name}", kind, begun_s + number)
        for number, kind in enumerate(kinds)
        for name, begun_s in (("here", 2.5), ("far", 3.0004))
    ]
    assert [(record.scenario, record.began_s) for record in archive.records] == [("demo.here", 2.5), ("demo.far", 3.0)]
    assert {path.relative_to(whole.directory) for path in whole.directory.rglob("*.*") if path.is_file()} == {
        *map(Path, (names.MANIFEST, names.VERDICTS, names.HISTORY, names.JUNIT)),
        *(Path("logs", f"demo.{name}", f"osd.{osd}.log") for name in ("here", "far") for osd in (0, 1)),
    }
    assert (whole.directory / "logs" / "demo.far" / "osd.0.log").read_text() == "far"
    assert not (whole.directory / SUMS).exists()
    assert archive.manifest["clusters"] == [cluster("c1"), {**cluster("c2"), "machine": "m1"}]
    lists = {name: archive.manifest[name] for name in ("kept", "trouble", "unexpected_skips")}
    assert lists == {"kept": ["c1"], "trouble": ["disk full"], "unexpected_skips": ["demo.x"]}
    assert (whole.directory / names.JUNIT).read_text() == (
        "<?xml version='1.0' encoding='utf-8'?>\n"
        f'<testsuites name="cephlab">{SUITE.format("here")}{SUITE.format("far")}</testsuites>'
    )


def test_a_lost_scenario_ends_after_all_that_its_lane_saw(tmp_path: Path) -> None:
    """The writer of the whole began after the lanes, so its own clock would put the loss too early."""
    left = write(tmp_path / "lane", GOOD)
    left.history.record("demo.part.lost", *began())
    left.history.record("demo.part.lost", *saw(1))
    whole = write(tmp_path / "whole")
    idle = write(tmp_path / "idle").directory
    merge(whole, [Part(left.directory, 100.0004, "", "demo.part.lost"), Part(idle, 0.0, "")])
    whole.seal(lambda _: "")
    archive = read_archive(whole.directory)
    times = [event.at_s for event in archive.events]
    assert times == sorted(times)
    first, _, last = archive.of("demo.part.lost")
    assert (first.kind, last.kind) == ("began", "raised")
    assert last.data == {
        "error": "LabBroken",
        "blame": "lab",
        "what": LOST,
        "detail": "it was killed, or memory ran out",
    }
    [good, lost] = archive.records
    assert (good.scenario, good.ending) == ("demo.0", Ending.PASS)
    told = (lost.scenario, lost.suite, lost.ending, lost.reason)
    assert told == ("demo.part.lost", "demo", Ending.ERROR, f"the lab broke: {LOST}")
    assert lost.derivation == judged(archive.of("demo.part.lost"))[1].derivation != ()
    assert lost.began_s == round(first.at_s, 3) >= 100
    assert archive.doubts == ()
    assert (
        (whole.directory / names.JUNIT)
        .read_text()
        .endswith(
            '<testsuites name="cephlab"><testsuite name="lost" tests="1" errors="1" failures="0" skipped="0">'
            f'<testcase classname="lost" name="demo.part.lost" time="0"><error message="{LOST}" /></testcase>'
            "</testsuite></testsuites>"
        )
    )


def test_a_scenario_that_left_no_events_was_lost_when_the_archives_are_merged(tmp_path: Path) -> None:
    left = write(tmp_path / "lane", GOOD)
    whole = write(tmp_path / "whole")
    merge(whole, [Part(left.directory, 100.0, "", running="demo.lost")])
    assert [record.scenario for record in whole.records] == ["demo.0", "demo.lost"]
    assert whole.records[1].began_s >= 100


def test_what_a_lane_has_begun_is_read_without_the_number_of_its_schema(tmp_path: Path) -> None:
    assert begun(write(tmp_path / "lane").directory) == MANIFEST
