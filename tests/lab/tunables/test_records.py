"""The record of a tuning: what it held when it was written, on disk before anything else happens."""

import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.tunables.records import Before, Records, TuningRecord

BEFORE = (
    Before("n0", {"/a": b"\xff\n", "/b": None}, ("Filename", "/dev/sda2 partition 9 0 -2")),
    Before("the cluster", options={("osd", "debug_osd"): "1/5", ("global", "rbd_cache"): None}),
)
RECORD = TuningRecord("altra", 1, BEFORE)


def test_a_record_is_read_as_it_was_written_and_in_the_order_of_its_number(tmp_path: Path) -> None:
    records = Records(tmp_path / "run" / "tunings")
    assert (records.all(), records.get("altra"), records.next_number()) == ([], None, 1)
    for tuning, number in (("a", 3), ("b", 1), ("c", 2)):
        records.write(replace(RECORD, tuning=tuning, number=number))
    assert [(record.tuning, record.before) for record in records.all()] == [("b", BEFORE), ("c", BEFORE), ("a", BEFORE)]
    assert (records.get("c"), records.next_number()) == (replace(RECORD, tuning="c", number=2), 4)
    assert sorted(path.name for path in records.folder.iterdir()) == ["a.json", "b.json", "c.json"]
    records.forget("c")
    records.forget("c")
    assert (records.get("c"), records.next_number()) == (None, 4)


def test_only_the_user_looks_into_the_folder(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        Records(tmp_path / "tunings").write(RECORD)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "tunings").stat().st_mode) == 0o700


def test_a_record_is_on_disk_under_its_name_before_writing_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its content before it has its name, and its name in the folder after that."""
    synced: list[tuple[bool, bool, bool]] = []

    def fsync(number: int) -> None:
        path = Path(f"/proc/self/fd/{number}").readlink()
        whole = path == tmp_path or json.loads(path.read_text())["tuning"] == "altra"
        synced.append((path == tmp_path, whole, (tmp_path / "altra.json").exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    open_files = len(list(Path("/proc/self/fd").iterdir()))
    Records(tmp_path).write(RECORD)
    assert synced == [(False, True, False), (True, True, True)]
    assert len(list(Path("/proc/self/fd").iterdir())) == open_files


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"schema": 2}, "another cephlab version"),
        ({"schema": None}, "another cephlab version"),
        ({"number": "first"}, "is not a record of a tuning"),
        ({"before": [{"where": "n0"}]}, "is not a record of a tuning"),
        ({"before": 1}, "is not a record of a tuning"),
    ],
)
def test_what_is_no_record_is_named(tmp_path: Path, changed: dict[str, object], words: str) -> None:
    records = Records(tmp_path)
    records.write(RECORD)
    path = tmp_path / "altra.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))
    with pytest.raises(LabBroken, match=rf"altra\.json .*{words}"):
        records.all()
    path.write_text("{")
    with pytest.raises(LabBroken, match="is not a record of a tuning"):
        records.get("altra")


def test_tunings_meet_where_they_set_the_same_thing_in_the_same_place() -> None:
    assert RECORD.knobs() == {
        "n0:/a",
        "n0:/b",
        "n0:swap",
        "the cluster:osd/debug_osd",
        "the cluster:global/rbd_cache",
    }
    assert Before("n1", swaps=()).knobs() == {"n1:swap"}
