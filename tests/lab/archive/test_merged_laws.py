"""Laws of merging the archives of lanes: the order of time, and one verdict for each scenario."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cephlab.lab.archive.archive import HISTORY, Ending, Record, read_archive
from cephlab.lab.archive.merged import Part, merge
from cephlab.lab.history.history import Event
from tests.lab.archive.test_archive import FITTING, began, write

pytestmark = pytest.mark.slow

TIMES = st.floats(0, 1e6)
ENDINGS = st.sampled_from([*Ending])
LANES = st.lists(
    st.tuples(TIMES, st.lists(st.tuples(ENDINGS, st.floats(0, 50)), max_size=4), st.booleans()), max_size=4
)


@given(LANES)
@settings(deadline=None, max_examples=40)
def test_any_lanes_become_one_archive_in_order_of_time(
    lanes: list[tuple[float, list[tuple[Ending, float]], bool]],
) -> None:
    """A lane: how much later it began; endings of its scenarios and time before each; whether it was killed in one."""
    with TemporaryDirectory() as folder:
        parts, wanted = [], {}
        for number, (later_s, ended, killed) in enumerate(lanes):
            writer, at_s, events = write(Path(folder) / f"lane{number}"), 0.0, []
            for which, (ending, pause_s) in enumerate(ended):
                name, at_s = f"demo.{number}.{which}", at_s + pause_s
                wanted[name] = ending
                events += [Event(name, at_s, kind, data) for kind, data in FITTING[ending]]
                writer.add(Record(name, "demo", ending, "as stored", began_s=round(at_s, 3)))
            lost = f"demo.{number}.lost" if killed else None
            if lost:
                wanted[lost] = Ending.ERROR
                events.append(Event(lost, at_s, *began()))
            (writer.directory / HISTORY).write_text("".join(f"{event.to_json()}\n" for event in events))
            parts.append(Part(writer.directory, later_s, "", lost))
        whole = write(Path(folder) / "whole")
        merge(whole, parts)
        whole.seal(lambda _: "")
        archive = read_archive(whole.directory)
    times = [event.at_s for event in archive.events]
    assert times == sorted(times)
    assert {record.scenario: record.ending for record in archive.records} == wanted
    assert len(archive.records) == len(wanted)
    begun_s = [record.began_s for record in archive.records]
    assert begun_s == sorted(begun_s)
    for record in archive.records:
        kinds = [event.kind for event in archive.of(record.scenario)]
        own = ["began", "raised"] if record.scenario.endswith("lost") else [kind for kind, _ in FITTING[record.ending]]
        assert kinds == own
    assert archive.doubts == ()
