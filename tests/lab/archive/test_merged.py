"""Archives of lanes become one: its events are in the order of time, whichever process recorded them."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cephlab.lab.archive import archive as names
from cephlab.lab.archive.archive import ArchiveWriter, Ending, Record, judged, read_archive, state_of
from cephlab.lab.archive.merged import Part, begun, merge, prune_unbegun, read_run, read_whole, unmerged
from cephlab.lab.archive.schemas import VERSION
from cephlab.lab.archive.sums import SUMS
from cephlab.lab.base.births import identity_of
from cephlab.lab.base.errors import SpecError
from cephlab.lab.history.history import Event
from tests.lab.archive.test_archive import FITTING, GOOD, MANIFEST, STOPPED, began, saw, write

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


GONE = "4194305/boot/1"
KILLED_GATE: dict[str, Any] = {"state": "running", "process": GONE, "planned": ["demo.0", "demo.1", "demo.2", "demo.3"]}


def killed_gate(path: Path, process: str = GONE) -> Path:
    """An archive of a gate that was killed, with the parts of two lanes: the second began 2 s later and was killed too.

    A third lane recorded nothing.
    """
    write(path / "whole", manifest=KILLED_GATE)
    parts = path / "whole.lanes"
    (parts / "2").mkdir(parents=True)
    (parts / "2.log").write_text("")
    sealed = lane(parts / "0", 4.0, {**KILLED_GATE, "state": "interrupted", "clusters": [cluster("c1")]})
    sealed.history.record("demo.2", *began())
    sealed.history.record("demo.2", *STOPPED)
    sealed.add(Record("demo.2", "demo", Ending.INCONCLUSIVE, "as stored", began_s=9.0))
    sealed.seal(lambda _: "")
    later = {**KILLED_GATE, "process": process, "started": "2026-11-21T09:00:02Z", "clusters": [cluster("c2")]}
    lane(parts / "1", 1.5, later)
    return path / "whole"


def test_of_a_killed_gate_what_its_lanes_recorded_is_read(tmp_path: Path) -> None:
    run = read_run(killed_gate(tmp_path))
    assert [(record.scenario, record.began_s) for record in run.records] == [
        ("demo.1", 3.5),
        ("demo.0", 4.0),
        ("demo.2", 9.0),
    ]
    times = [event.at_s for event in run.events]
    assert times == sorted(times)
    assert run.of("demo.1")[0].at_s == 3.5
    assert (run.left, run.doubts) == (("demo.2", "demo.3"), ())
    assert [facts["name"] for facts in run.manifest["clusters"]] == ["c1", "c2"]
    assert run.lost == (f"{SUMS} is missing: the run was not sealed",)
    assert state_of(run.manifest) == "killed"


def test_the_logs_of_a_lane_are_found_and_a_run_that_goes_on_takes_them(tmp_path: Path) -> None:
    whole = killed_gate(tmp_path)
    left = lane(whole.with_name("whole.lanes") / "3", 0.0, KILLED_GATE)
    left.records[0] = replace(left.records[0], logs="logs/demo.3")
    left.save()
    run = read_run(whole)
    [logs] = [record.logs for record in run.records if record.logs]
    assert logs == "../whole.lanes/3/logs/demo.3"
    assert (whole / logs / "osd.0.log").read_text() == "3"
    later = ArchiveWriter(tmp_path / "later", dict(run.manifest), earlier=run)
    assert [(record.scenario, record.logs) for record in later.records if record.logs] == [("demo.3", "logs/demo.3")]
    assert (later.directory / "logs/demo.3/osd.1.log").read_text() == "3"


def test_a_lane_that_still_ends_keeps_its_gate_running(tmp_path: Path) -> None:
    process = identity_of(os.getpid())
    assert state_of(read_run(killed_gate(tmp_path, process)).manifest) == "running"


@pytest.mark.parametrize("state", ["complete", "running"])
def test_only_of_a_killed_gate_are_parts_read(tmp_path: Path, state: str) -> None:
    whole = killed_gate(tmp_path)
    manifest = {"state": state, "process": identity_of(os.getpid())}
    (whole / names.MANIFEST).write_text(json.dumps({"schema": VERSION, **MANIFEST, **KILLED_GATE, **manifest}))
    assert unmerged(whole) == []
    assert read_run(whole).records == ()


def test_a_lane_whose_verdicts_cannot_be_relied_on_is_named(tmp_path: Path) -> None:
    whole = killed_gate(tmp_path)
    (whole.with_name("whole.lanes") / "0" / names.REPORT).write_text("other")
    with pytest.raises(SpecError, match=r"the verdicts of .*whole cannot be relied on") as refused:
        read_whole(whole)
    assert refused.value.detail == f"{whole.with_name('whole.lanes')}/0: {names.REPORT} was altered"


def test_a_scenario_that_another_lane_ended_gets_one_verdict(tmp_path: Path) -> None:
    """An archive that is merged with one that has its verdict must not add another to it."""
    first = lane(tmp_path / "0", 1.0)
    second = write(tmp_path / "1")
    second.history.record("demo.0", *began())
    second.save()
    writer = write(tmp_path / "whole")
    merge(writer, [Part(first.directory, 0.0, ""), Part(second.directory, 1.0, "", "demo.0")])
    assert [(record.scenario, record.ending) for record in writer.records] == [("demo.0", Ending.PASS)]


# A gate that was killed while it collected


def collected_for(archives: Path, name: str, *files: str) -> Path:
    """What a gate had made before it was killed: the folder of its archive, and files and folders of its lanes."""
    (archives / name).mkdir(parents=True)
    for file in files:
        (archives / f"{name}.lanes" / file).mkdir(parents=True)
    return archives / name


def test_what_a_gate_left_that_was_killed_before_it_began_is_removed(tmp_path: Path) -> None:
    archives = tmp_path / "archive"
    collected_for(archives, "20261121-090000-quick-4194305", "0", "1")
    collected_for(archives, "20261121-090000-full-4194306")
    (archives / "20261121-090000-quick-4194305.lanes" / "0.log").touch()
    listed = prune_unbegun(archives, dry_run=True)
    assert [line.partition(",")[0] for line in listed] == [
        "20261121-090000-full-4194306",
        "20261121-090000-quick-4194305",
        "20261121-090000-quick-4194305.lanes",
    ]
    assert len(list(archives.iterdir())) == 3
    assert prune_unbegun(archives) == listed
    assert list(archives.iterdir()) == []
    assert prune_unbegun(archives) == prune_unbegun(tmp_path / "nosuch") == []


def test_a_gate_that_still_collects_and_one_that_recorded_anything_are_left(tmp_path: Path) -> None:
    collected_for(tmp_path, f"20261121-090000-quick-{os.getpid()}", "0")
    collected_for(tmp_path, "my-own")
    (collected_for(tmp_path, "20261121-090000-quick-4194305") / "note").touch()
    killed_gate(tmp_path / "to").rename(tmp_path / "20261121-090000-full-4194305")
    (tmp_path / "to" / "whole.lanes").rename(tmp_path / "20261121-090000-full-4194305.lanes")
    (tmp_path / "other").mkdir()
    (tmp_path / "link-4194305").symlink_to(tmp_path / "other")
    before = sorted(tmp_path.rglob("*"))
    assert prune_unbegun(tmp_path) == []
    assert sorted(tmp_path.rglob("*")) == before


def test_a_part_with_a_verdict_is_left_though_its_gate_wrote_nothing(tmp_path: Path) -> None:
    """The gate was killed after its lane had begun, and before it had itself."""
    whole = collected_for(tmp_path, "20261121-090000-full-4194305", "1")
    lane(whole.with_name(f"{whole.name}.lanes") / "0", 0.0, KILLED_GATE)
    prune_unbegun(tmp_path)
    assert (whole.with_name(f"{whole.name}.lanes") / "0" / names.MANIFEST).exists()
