"""Where a run's time went: parts of a scenario add up to it, and a run's are those of its scenarios."""

from pathlib import Path

import pytest

from cephlab.lab.archive.archive import ArchiveWriter, Ending, Record, read_archive
from cephlab.lab.history.history import Event, History
from cephlab.lab.report.page import render_report
from cephlab.lab.report.spent import AROUND, BEFORE, REST, record_spent, spent, spent_in
from tests.lab.archive.test_archive import FITTING, MANIFEST, add


def test_the_rest_of_a_scenario_is_its_own_work() -> None:
    recorder = History().recorder("demo.a")
    before, around = f"{BEFORE}: the rest", f"{AROUND}: run ps"
    record_spent(recorder, {before: 20.0, around: 1.0, "wait for health": 6.0, "run fio": 0.001})
    assert spent_in(recorder.events(), 10.0) == {before: 20.0, "wait for health": 6.0, around: 1.0, REST: 3.0}


def test_a_scenario_of_an_older_archive_has_no_account() -> None:
    assert spent_in([Event("demo.a", 1.0, "ended", {})], 10.0) == {}


def test_a_run_adds_up_its_scenarios_the_longest_first(tmp_path: Path) -> None:
    writer = ArchiveWriter(tmp_path / "a", MANIFEST)
    for name in ("demo.a", "demo.b"):
        add(
            writer,
            Record(name, "demo", Ending.PASS, "1 observation holds", seconds=10.0),
            (*FITTING[Ending.PASS], ("spent", {"seconds": {f"{BEFORE}: the rest": 20.0, "wait for health": 6.0}})),
        )
    writer.seal(render_report)
    archive = read_archive(tmp_path / "a")
    parts = [(part.what, part.seconds, part.scenarios) for part in spent(archive)]
    assert parts == [(f"{BEFORE}: the rest", 40.0, 2), ("wait for health", 12.0, 2), (REST, pytest.approx(8.0), 2)]
    html = render_report(archive)
    assert "Where the time went</h2>" in html
    assert "wait for health 6.0 s" in html
