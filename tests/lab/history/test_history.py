"""Figures, limits and steps have one form each, which the schema knows; older forms are still read."""

from pathlib import Path
from typing import Any

import pytest

from cephlab.lab.archive.archive import read_archive
from cephlab.lab.archive.schemas import WITH_SCHEMA, validate
from cephlab.lab.base.errors import SpecError
from cephlab.lab.checks import CHECKS, Outcome
from cephlab.lab.history.history import Basis, Bound, History, Phase, Recorder
from cephlab.lab.history.operations import pack
from cephlab.lab.report.timeline import timeline
from tests.lab.archive.test_archive import write
from tests.lab.report.test_timeline import operation

ROOT = Path(__file__).resolve().parents[3]


def noted(recorder: Recorder) -> None:
    recorder.figure("rate", 10.0, "1/s", Bound("a paper", least=9.0, derivation=("18 / 2 = 9",)), interval=(9.5, 11.0))
    recorder.figure("moved_bytes", 3, "B")
    recorder.limit("moved_bytes", 4.0, "B", "the maps allow it", basis=Basis.CORRECTNESS)
    recorder.step("take it out", Phase.BEGAN)
    recorder.step("take it out", Phase.ENDED, 1.5)
    recorder.step("power cut")


def test_what_is_noted_fits_its_schema() -> None:
    recorder = History().recorder("demo.0")
    noted(recorder)
    assert {event.kind for event in recorder.events()} == set(WITH_SCHEMA)
    for event in recorder.events():
        validate(event.kind, dict(event.data), "here")


@pytest.mark.parametrize(
    ("basis", "word"),
    [(Basis.CORRECTNESS, "correctness"), (Basis.SHAPE, "shape"), (Basis.PROFILE, "profile"), (Basis.NOTED, "noted")],
)
def test_the_basis_is_kept_in_the_word_that_the_schema_knows(basis: Basis, word: str) -> None:
    recorder = History().recorder("s")
    recorder.figure("rate", 1.0, "1/s", Bound("of one run", basis=basis))
    if basis is not Basis.NOTED:
        recorder.limit("rate", 2.0, "1/s", "of one run", basis=basis)
    for event in recorder.events():
        assert event.data["basis"] == word
        validate(event.kind, dict(event.data), "here")


def test_a_bound_without_a_basis_keeps_none() -> None:
    assert Bound("of one run").basis is None
    recorder = History().recorder("s")
    recorder.figure("rate", 1.0, "1/s", Bound("of one run"))
    assert "basis" not in recorder.events()[0].data


def test_a_limit_that_limits_nothing_is_refused() -> None:
    recorder = History().recorder("s")
    with pytest.raises(SpecError) as error:
        recorder.limit("moved_bytes", 4.0, "B", "only noted", basis=Basis.NOTED)
    assert error.value.what == "a limit that limits nothing: moved_bytes"
    assert error.value.detail == "got basis=noted, wanted: what it rests on"
    assert recorder.events() == ()


@pytest.mark.parametrize(
    ("kind", "data", "finding"),
    [
        ("figure", {"metric": "rate", "value": "fast", "unit": "1/s"}, "value"),
        ("figure", {"metric": "rate", "value": 1, "unit": "1/s", "lowest": 0}, "lowest"),
        ("limit", {"metric": "rate", "unit": "1/s", "why": ""}, "high"),
        ("limit", {"metric": "rate", "high": 1, "unit": "1/s", "why": "", "basis": "noted"}, "basis"),
        ("step", {"name": "cut", "phase": "done"}, "phase"),
        ("step", {"phase": "began"}, "name"),
    ],
)
def test_an_archive_with_another_form_is_refused(tmp_path: Path, kind: str, data: dict[str, Any], finding: str) -> None:
    writer = write(tmp_path / "a")
    writer.history.record("demo.0", kind, data)
    with pytest.raises(SpecError, match=r"history\.jsonl:1 does not match its schema") as error:
        read_archive(tmp_path / "a")
    assert finding in error.value.detail


OLDER = (
    ("figure", {"what": "rate", "value": 9, "low": 8, "high": 9, "unit": "B", "least": 1, "most": None, "why": "w"}),
    ("figure", {"metric": "moved_bytes", "value": 3, "unit": "B"}),
    ("step", {"what": "power cut"}),
    ("figure", {"metric": "rate by 1 client(s), 2 job(s)", "value": 3, "unit": "B"}),
    ("series", {"title": "read by 4 job(s)", "axis": "guests", "lines": []}),
    ("step", {"name": "osd.0 to reef", "phase": "ended", "mix": {"reef": 1}}),
    ("limit", {"metric": "moved_bytes", "high": 4, "unit": "B", "why": "the maps allow it"}),
)


def test_older_forms_are_read_as_the_one_of_today(tmp_path: Path) -> None:
    writer = write(tmp_path / "a")
    for kind, data in OLDER:
        writer.history.record("demo.0", kind, data)
    rate, moved, cut, by_one, drawn, *_ = (event.data for event in read_archive(tmp_path / "a").events)
    assert (rate["metric"], rate["low"], rate["least"], rate["derivation"]) == ("rate", 8, 1, [])
    assert (moved["low"], moved["high"], moved["least"], moved["why"]) == (3, 3, None, "")
    assert (cut["name"], cut["phase"]) == ("power cut", "reached")
    assert (by_one["metric"], drawn["title"]) == ("rate by 1 client, 2 jobs", "read by 4 jobs")


@pytest.mark.slow
def test_every_writer_uses_the_form_that_the_schema_knows() -> None:
    words = [f'"{kind}",' for kind in WITH_SCHEMA]
    files = [
        path for folder in ("lab", "tuning", "fixtures", "suites", "cli") for path in (ROOT / folder).rglob("*.py")
    ]
    assert len(files) > 100
    own = [
        f"{path.relative_to(ROOT)}: record({word}"
        for path in files
        if path != ROOT / "lab" / "history" / "history.py"
        for word in words
        if f"record({word}" in "".join(path.read_text().split())
    ]
    assert own == []


@pytest.mark.parametrize(("value", "outcome"), [(10.0, Outcome.PASS), (1.0, Outcome.FAIL)])
def test_a_figures_own_bound_counts_beside_service_too(value: float, outcome: Outcome) -> None:
    recorder = History().recorder("s")
    recorder.figure("rate", value, "1/s", Bound("a paper", least=9.0))
    assert CHECKS["service"](recorder.events()).outcome is outcome


def test_a_step_that_was_reached_is_drawn(tmp_path: Path) -> None:
    """Written without a phase, as it was, it would have ended the report of a scenario with a load."""
    writer = write(tmp_path / "a")
    noted(writer.history.recorder("demo.0"))
    for data in pack([operation(1.0), operation(2.0)]):
        writer.history.record("demo.0", "operations", data)
    writer.history.record("demo.0", "step", {"what": "power back"})
    drawn = timeline(read_archive(tmp_path / "a").events)
    assert drawn is not None
    assert [(step.name, step.seconds) for step in drawn.steps] == [
        ("take it out", 1.5),
        ("power cut", None),
        ("power back", None),
    ]


def test_what_its_maker_changes_later_is_not_in_an_event(tmp_path: Path) -> None:
    """Else a run would be judged by other values than its archive."""
    recorder = History(tmp_path / "history.jsonl").recorder("a.b")
    values = {"osd.0: memory": 1.0}
    event = recorder.record("reading", values=values)
    values["block writes: rate"] = 2.0
    assert event.data == {"values": {"osd.0: memory": 1.0}}
