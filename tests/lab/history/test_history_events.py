"""A history: in order, under its scenario's name, on disk as it happens, and read back whole."""

from __future__ import annotations

import base64
import errno
import json
import struct
from pathlib import Path

import pytest

from cephlab.lab.base.errors import LabBroken, SpecError
from cephlab.lab.ceph.keyring import new_key
from cephlab.lab.checks.observations import observations
from cephlab.lab.checks.verdict import Outcome
from cephlab.lab.history.history import UNBOUND, Bound, Event, History, load_events, whole_lines

SAMPLE = base64.b64encode(struct.pack("<HIIH", 1, 1_700_000_000, 5, 16) + bytes(16)).decode()
"""A key as ceph-authtool of reef makes them, its secret replaced."""


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        raise AssertionError(seconds)


def reached(name: str) -> dict[str, str | None]:
    return {"name": name, "phase": "reached", "seconds": None}


def test_events_are_kept_in_order_by_scenario_and_time(tmp_path: Path) -> None:
    clock = Hand()
    history = History(tmp_path / "history.jsonl", clock)
    first = history.record("a", "step", reached("x"))
    clock.now_s = 102.5
    history.recorder("b").step("y")
    assert first == Event("a", 0.0, "step", reached("x"))
    assert history.began_s == 100.0
    assert history.events() == (first, Event("b", 2.5, "step", reached("y")))
    assert history.events("b") == history.recorder("b").events() == history.events()[1:]
    assert load_events(tmp_path / "history.jsonl") == history.events()


def test_what_is_recorded_later_does_not_change_with_its_source() -> None:
    data = {"what": "x"}
    history = History()
    history.record("a", "step", data)
    data["what"] = "y"
    assert history.events()[0].data == {"what": "x"}


def test_what_is_judged_in_the_run_is_what_its_file_says(tmp_path: Path) -> None:
    clock = Hand()
    history = History(tmp_path / "history.jsonl", clock)
    clock.now_s += 1 / 3
    got, pairs = ("a", "b"), {1: "one"}
    history.recorder("s.a").observe("a tuple", got=got, wanted=["a", "b"])
    history.recorder("s.a").observe("numbers as keys", got=pairs, wanted={"1": "one"})

    assert history.events() == load_events(tmp_path / "history.jsonl")
    assert observations(history.events()).outcome is Outcome.PASS


def test_a_recorder_notes_facts_and_witnesses() -> None:
    recorder = History().recorder("a")
    recorder.observe("size", got=len("x"), wanted=2, pool="p")
    recorder.observe("damaged PGs", got=sorted(set()), wanted=[], of=3)
    recorder.witness("writes", got=3, least=4)
    assert [(event.kind, event.data) for event in recorder.events()] == [
        ("observation", {"what": "size", "got": 1, "wanted": 2, "pool": "p"}),
        ("observation", {"what": "damaged PGs", "got": [], "wanted": [], "of": 3}),
        ("witness", {"what": "writes", "got": 3, "least": 4}),
    ]


def test_one_limit_is_enough_to_judge_by() -> None:
    assert [bound.judges for bound in (UNBOUND, Bound("a paper"), Bound(least=0.0), Bound(most=0.0))] == [
        False,
        False,
        True,
        True,
    ]
    assert UNBOUND.why == ""


def test_an_event_is_a_line_of_json_with_whole_microseconds() -> None:
    assert json.loads(Event("a", 1.23456789, "step", {"n": 1}).to_json()) == {
        "scenario": "a",
        "at_s": 1.234568,
        "kind": "step",
        "data": {"n": 1},
    }
    assert Event("a", 0.0, "step").data == {}


def test_a_key_is_not_written(tmp_path: Path) -> None:
    key, path = new_key(SAMPLE), tmp_path / "history.jsonl"
    History(path).record("a", "step", {"said": f"key = {key}"})
    assert key not in path.read_text()


def test_lines_are_appended_to_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    for scenario in ("a", "b"):
        History(path).record(scenario, "step", {})
    assert [event.scenario for event in load_events(path)] == ["a", "b"]


def test_an_event_that_cannot_be_written_is_not_kept(tmp_path: Path) -> None:
    history = History(tmp_path / "gone" / "history.jsonl")
    with pytest.raises(LabBroken):
        history.record("a", "step", {})
    assert history.events() == ()


class Full:
    """A file on a disk that takes three more bytes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> Full:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def write(self, line: bytes) -> None:
        with open(self.path, "ab") as sink:  # noqa: PTH123 - that of Path is replaced
            sink.write(line[:3])
        raise OSError(errno.ENOSPC, "No space left on device")


def test_what_a_full_disk_took_of_a_line_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "history.jsonl"
    history = History(path)
    for written in ("", "a line"):
        before = path.read_text() if path.exists() else ""
        with monkeypatch.context() as patch:
            patch.setattr(Path, "open", lambda self, mode: Full(self))
            with pytest.raises(LabBroken, match="No space left"):
                history.record("a", "step", {})
        assert path.read_text() == before
        history.record("a", "step", {"said": written})
    assert len(load_events(path)) == 2


def test_half_a_line_at_the_end_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    History(path).record("a", "step", {})
    whole = path.read_text()
    path.write_text(whole + '{"scen')
    assert whole_lines(path) == ([whole.rstrip("\n")], '{"scen')
    assert len(load_events(path)) == 1


@pytest.mark.parametrize("line", ["{", "[]", "{}", '{"scenario": "a", "at_s": null, "kind": "k", "data": {}}'])
def test_a_line_that_is_no_event_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "history.jsonl"
    History(path).record("a", "step", {})
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(SpecError) as info:
        load_events(path)
    assert info.value.what == f"{path}:2 is not an event"
    assert info.value.detail
