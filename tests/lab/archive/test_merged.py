"""Archives of lanes become one: its events are in the order of time, whichever process recorded them."""

from pathlib import Path

from cephlab.lab.archive.archive import Ending, read_archive
from cephlab.lab.archive.merged import Part, merge
from tests.lab.archive.test_archive import GOOD, began, write


def test_a_lost_scenario_ends_after_all_that_its_lane_saw(tmp_path: Path) -> None:
    """The writer of the whole began after the lanes, so its own clock would put the loss too early."""
    lane = write(tmp_path / "lane", GOOD)
    lane.history.record("demo.lost", *began())
    whole = write(tmp_path / "whole")
    merge(whole, [Part(lane.directory, 100.0, running="demo.lost"), Part(write(tmp_path / "idle").directory, 0.0)])
    whole.save()
    archive = read_archive(whole.directory)
    times = [event.at_s for event in archive.events]
    assert times == sorted(times)
    assert [event.kind for event in archive.of("demo.lost")] == ["began", "raised"]
    [good, lost] = archive.records
    assert (good.scenario, good.ending, lost.ending) == ("demo.0", Ending.PASS, Ending.ERROR)
    assert lost.began_s >= 100


def test_a_scenario_that_left_no_events_was_lost_when_the_archives_are_merged(tmp_path: Path) -> None:
    lane = write(tmp_path / "lane", GOOD)
    whole = write(tmp_path / "whole")
    merge(whole, [Part(lane.directory, 100.0, running="demo.lost")])
    assert [record.scenario for record in whole.records] == ["demo.0", "demo.lost"]
    assert whole.records[1].began_s >= 100
