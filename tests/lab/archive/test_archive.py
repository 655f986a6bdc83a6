"""Archives: sealed, read back only when they fit, judged again, and free of keys."""

import base64
import json
import resource
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cephlab.lab.archive.archive import (
    Archive,
    ArchiveWriter,
    Ending,
    Record,
    exit_code,
    file_name,
    judge,
    read_archive,
    replace_report,
)
from cephlab.lab.archive.sums import altered
from cephlab.lab.base.errors import LabBroken, SpecError
from cephlab.lab.ceph.keyring import new_key
from cephlab.lab.history.history import History, load_events
from cephlab.lab.report.page import limits_of, render_report

MANIFEST: dict[str, Any] = {
    "tool": {"name": "cephlab", "version": "0.1.0"},
    "state": "complete",
    "tier": "quick",
    "seed": 7,
    "release": "reef",
    "image": None,
    "lab": "auto",
    "argv": ["suites/interop"],
    "replay": "cephlab gate --tier quick --seed 7",
    "started": "2026-11-21T09:00:00Z",
    "ended": "2026-11-21T09:03:20Z",
    "exit_code": 0,
    "host": {
        "arch": "x86_64",
        "kernel": "6.1.0",
        "system": "Debian GNU/Linux 12",
        "cores": 2,
        "memory_bytes": 24 << 30,
        "python": "3.11.2",
    },
    "trouble": [],
    "kept": [],
    "unexpected_skips": [],
    "clusters": [],
}

FINE = {"crashes": [], "dead": [], "complaints": [], "allowed": {}, "healthy": True, "health": "HEALTH_OK"}
Line = tuple[str, dict[str, Any]]


def began(check: str = "observations") -> Line:
    return "began", {"goal": "g", "cluster": "c1", "check": check}


def saw(got: object, wanted: object = 1) -> Line:
    return "observation", {"what": "x", "got": got, "wanted": wanted}


ENDED: Line = ("ended", {})
CRASHED: Line = ("aftermath", {**FINE, "crashes": ["osd.0: assert"]})
UNSEEN: Line = ("unseen", {"error": "LabBroken", "blame": "lab", "what": "n1 is silent", "detail": "timed out"})
REFUSED: Line = ("unseen", {"error": "RadosError", "blame": "ceph", "what": "osd.0 refuses", "detail": ""})
CEPH: Line = ("raised", {"error": "DaemonDied", "blame": "ceph", "what": "osd.0 died", "detail": "log"})
LAB: Line = ("raised", {"error": "LabBroken", "blame": "lab", "what": "disk full", "detail": ""})

LACK: Line = ("raised", {"error": "Unavailable", "blame": "lack", "what": "no engine", "detail": ""})
STOPPED: Line = (
    "raised",
    {"error": "KeyboardInterrupt", "blame": "interruption", "what": "it was interrupted", "detail": ""},
)

FITTING: dict[Ending, tuple[Line, ...]] = {
    Ending.PASS: (began(), saw(1), ENDED, ("aftermath", FINE)),
    Ending.FAIL: (began(), saw(1), saw(3), ENDED, ("aftermath", FINE)),
    Ending.INCONCLUSIVE: (began(), ENDED),
    Ending.ERROR: (began(), LAB),
    Ending.SKIP: (LACK,),
}
"""A history for each ending."""


def add(writer: ArchiveWriter, record: Record, lines: tuple[Line, ...] = ()) -> None:
    """A verdict with a history: the given one, or one that says the same."""
    for kind, data in lines or FITTING[record.ending]:
        writer.history.record(record.scenario, kind, data)
    writer.add(record)


def write(
    directory: Path, *histories: tuple[Ending, tuple[Line, ...]], manifest: dict[str, Any] | None = None
) -> ArchiveWriter:
    """An archive with scenarios demo.0, demo.1, ...: stored ending and history."""
    writer = ArchiveWriter(directory, {**MANIFEST, **(manifest or {})})
    for number, (ending, lines) in enumerate(histories):
        add(writer, Record(f"demo.{number}", "demo", ending, "as stored"), lines)
    return writer


def sealed(directory: Path, *histories: tuple[Ending, tuple[Line, ...]]) -> Archive:
    write(directory, *histories).seal(render_report)
    return read_archive(directory)


GOOD = (Ending.PASS, FITTING[Ending.PASS])

JUDGED = (
    (GOOD, Ending.PASS, "1 observation holds"),
    ((Ending.PASS, (began(), saw(2), ENDED)), Ending.FAIL, "x: got 2, wanted 1"),
    ((Ending.FAIL, (began(), saw(1), ENDED)), Ending.PASS, "1 observation holds"),
    ((Ending.PASS, (began(), ENDED)), Ending.INCONCLUSIVE, "the scenario observed nothing"),
    ((Ending.PASS, (began(), saw(1), ENDED, CRASHED)), Ending.FAIL, "afterwards: crash record: osd.0: assert"),
    ((Ending.FAIL, (began(), saw(2), ENDED, UNSEEN)), Ending.FAIL, "x: got 2, wanted 1"),
    (
        (Ending.INCONCLUSIVE, (began(), saw(1), ENDED, UNSEEN)),
        Ending.INCONCLUSIVE,
        "the cluster could not be examined after the scenario: n1 is silent",
    ),
    (
        (Ending.FAIL, (began(), saw(1), ENDED, REFUSED)),
        Ending.FAIL,
        "the cluster could not be examined after the scenario: osd.0 refuses",
    ),
    ((Ending.FAIL, (began(), saw(1), CEPH)), Ending.FAIL, "osd.0 died"),
    ((Ending.FAIL, (began(), saw(1), LAB)), Ending.ERROR, "the lab broke: disk full"),
    ((Ending.FAIL, (began(), saw(1), LAB, CRASHED)), Ending.ERROR, "the lab broke: disk full"),
    ((Ending.FAIL, (began(), saw(1), LACK)), Ending.SKIP, "no engine"),
    ((Ending.PASS, (began(), saw(1), ENDED, STOPPED)), Ending.INCONCLUSIVE, "it was interrupted"),
    ((Ending.PASS, (began(), saw(1))), Ending.INCONCLUSIVE, "it was interrupted"),
    ((Ending.PASS, (saw(1),)), Ending.INCONCLUSIVE, "it never started"),
    ((Ending.PASS, (began("gone"), saw(1), ENDED)), Ending.INCONCLUSIVE, "there is no check called 'gone'"),
    ((Ending.ERROR, (began(), saw(2), ENDED)), None, "as stored"),
    ((Ending.SKIP, ()), None, "as stored"),
)


@pytest.mark.parametrize(("history", "now", "reason"), JUDGED)
def test_a_history_is_judged_by_todays_checks(
    tmp_path: Path, history: tuple[Ending, tuple[Line, ...]], now: Ending | None, reason: str
) -> None:
    rejudged = judge(sealed(tmp_path / "a", history))
    assert [(scenario.stored, scenario.now, scenario.reason) for scenario in rejudged] == [(history[0], now, reason)]
    assert rejudged[0].differs is (now is not None and now is not history[0])


def test_each_scenario_is_judged_by_its_own_events(tmp_path: Path) -> None:
    archive = sealed(tmp_path / "a", GOOD, (Ending.FAIL, (began(), saw(2), ENDED)), GOOD)
    assert [scenario.now for scenario in judge(archive)] == [Ending.PASS, Ending.FAIL, Ending.PASS]


def test_a_sealed_archive_is_whole(tmp_path: Path) -> None:
    archive = sealed(tmp_path / "a", GOOD)
    assert altered(archive.directory) == []
    names = sorted(path.name for path in archive.directory.iterdir())
    assert names == ["SHA256SUMS", "history.jsonl", "manifest.json", "report.html", "verdicts.json"]


def edit(name: str) -> Callable[[Path], None]:
    def change(directory: Path) -> None:
        path = directory / name
        path.write_bytes(path.read_bytes() + b" ")

    return change


TAMPERED = (
    (edit("history.jsonl"), ["history.jsonl was altered"]),
    (edit("verdicts.json"), ["verdicts.json was altered"]),
    (lambda directory: (directory / "report.html").unlink(), ["report.html is missing"]),
    (lambda directory: (directory / "more.txt").touch(), ["more.txt was added"]),
    (lambda directory: (directory / "SHA256SUMS").unlink(), ["SHA256SUMS is missing: the run was not sealed"]),
)


@pytest.mark.parametrize(("tamper", "told"), TAMPERED)
def test_what_was_tampered_with_is_named(tmp_path: Path, tamper: Callable[[Path], None], told: list[str]) -> None:
    archive = sealed(tmp_path / "a", GOOD)
    tamper(archive.directory)
    assert altered(archive.directory) == told


def test_a_new_report_leaves_the_other_checksums_alone(tmp_path: Path) -> None:
    archive = sealed(tmp_path / "a", GOOD)
    replace_report(archive.directory, "<html>new</html>")
    assert altered(archive.directory) == []
    edit("history.jsonl")(archive.directory)
    replace_report(archive.directory, "<html>newer</html>")
    assert altered(archive.directory) == ["history.jsonl was altered"]


def test_an_archive_of_a_newer_schema_is_refused_in_one_sentence(tmp_path: Path) -> None:
    archive = sealed(tmp_path / "a", GOOD)
    path = archive.directory / "manifest.json"
    path.write_text(json.dumps({"schema": 2, "anything": "new"}))
    with pytest.raises(SpecError) as error:
        read_archive(archive.directory)
    assert error.value.what == (
        f"{archive.directory} was written by a newer cephlab (archive schema 2, this one reads up to 1)"
    )
    assert (error.value.detail, error.value.hint) == ("", "update cephlab")


BROKEN = (
    ("manifest.json", lambda raw: raw.pop("seed"), "'seed' is a required property"),
    ("manifest.json", lambda raw: raw.update(tier="huge"), "tier: 'huge' is not one of"),
    ("manifest.json", lambda raw: raw.update(novelty=1), "'novelty' was unexpected"),
    ("verdicts.json", lambda raw: raw["verdicts"][0].update(ending="fine"), "verdicts/0/ending: 'fine' is not one of"),
    ("verdicts.json", lambda raw: raw["verdicts"][0].pop("reason"), "verdicts/0: 'reason' is a required property"),
)


@pytest.mark.parametrize(("name", "change", "finding"), BROKEN)
def test_what_does_not_fit_its_schema_is_refused(
    tmp_path: Path, name: str, change: Callable[[dict[str, Any]], object], finding: str
) -> None:
    path = sealed(tmp_path / "a", GOOD).directory / name
    raw = json.loads(path.read_text())
    change(raw)
    path.write_text(json.dumps(raw))
    with pytest.raises(SpecError, match=name) as error:
        read_archive(tmp_path / "a")
    assert finding in error.value.detail
    assert ("update cephlab if a newer one wrote it" in error.value.hint) is ("required" not in finding)


@pytest.mark.parametrize("line", ["{", '{"scenario": "x", "at_s": -1, "kind": "k", "data": {}}', '{"kind": "k"}', "[]"])
def test_a_line_that_is_no_event_is_refused_with_its_number(tmp_path: Path, line: str) -> None:
    path = sealed(tmp_path / "a", GOOD).directory / "history.jsonl"
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(SpecError, match=r"history\.jsonl:5"):
        read_archive(tmp_path / "a")


def test_a_folder_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="is not an archive"):
        read_archive(tmp_path)


def test_an_archive_gets_a_folder_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    with pytest.raises(SpecError, match="is not empty"):
        ArchiveWriter(tmp_path, MANIFEST)


@pytest.mark.parametrize("place", ["/proc/a", "{tmp}/mine.txt", "{tmp}/mine.txt/below"])
def test_a_place_that_takes_no_folder_is_refused_as_wrong_use(tmp_path: Path, place: str) -> None:
    (tmp_path / "mine.txt").touch()
    with pytest.raises(SpecError, match="cannot be the folder of an archive") as refused:
        ArchiveWriter(Path(place.format(tmp=tmp_path)), MANIFEST)
    assert refused.value.exit_code == 2


SAMPLES = (  # of ceph-authtool, secrets replaced: reef's AES with 16 bytes, tentacle's AES-256 with 32
    base64.b64encode(struct.pack("<HIIH", 1, 1_700_000_000, 5, 16) + bytes(16)).decode(),
    base64.b64encode(struct.pack("<HIIH", 2, 1_700_000_000, 5, 32) + bytes(32)).decode(),
)


@pytest.mark.parametrize("sample", SAMPLES)
def test_no_key_stays_in_an_archive_wherever_it_came_in(tmp_path: Path, sample: str) -> None:
    keys = [new_key(sample) for _ in range(20)]
    writer = write(tmp_path / "a", (Ending.FAIL, (began(), saw(keys[0]), ENDED)), manifest={"argv": [keys[1]]})
    writer.add_logs("demo.0", {"mon.log": f"key = {keys[2]}\n".encode(), "osd.log": " ".join(keys).encode()})
    (tmp_path / "a" / "junit.xml").write_text(f"<failure>{keys[3]}</failure>")
    writer.seal(render_report)
    for path in (tmp_path / "a").rglob("*"):
        if path.is_file():
            assert [key for key in keys if key in path.read_text()] == [], path.name
    assert (tmp_path / "a/logs/demo.0/mon.log").read_text() == "key = [key removed]\n"
    assert altered(tmp_path / "a") == []


def test_what_only_looks_like_a_key_stays(tmp_path: Path) -> None:
    writer = write(tmp_path / "a")
    text = b"sha256 AQBzyAFnAAAAABAAnWZ0J8T1s2Cw0vK5m3n4p and AQ==\n"
    writer.add_logs("demo.0", {"osd.log": text})
    assert (tmp_path / "a/logs/demo.0/osd.log").read_bytes() == text


def test_a_scenario_name_becomes_a_folder_name() -> None:
    assert file_name("interop.objects[client=x86_64,pool=ec21]") == "interop.objects_client_x86_64_pool_ec21"
    assert file_name("../../etc/passwd") == ".._.._etc_passwd"


CODES: tuple[tuple[list[str], int], ...] = (
    ([], 6),
    (["skip"], 6),
    (["pass", "skip"], 0),
    (["pass", "inconclusive"], 6),
    (["inconclusive", "error"], 3),
    (["inconclusive", "error", "fail", "pass"], 1),
)


@pytest.mark.parametrize(("endings", "code"), CODES)
def test_exit_code_is_that_of_the_worst(endings: list[str], code: int) -> None:
    assert exit_code([Ending(ending) for ending in endings]) == code


# What is cut off


def test_half_an_event_at_the_end_is_tolerated_and_told(tmp_path: Path) -> None:
    directory = write(tmp_path / "a", GOOD).directory
    history = directory / "history.jsonl"
    whole = history.read_text()
    history.write_text(whole + '{"scenario": "demo.0", "at_s": 3.1, "ki')
    archive = read_archive(directory)
    assert len(archive.events) == whole.count("\n")
    assert archive.lost == ("history.jsonl ends within line 5: the event that was being written is lost",)
    assert archive.lost[0] in " ".join(limits_of(archive))
    assert read_archive(sealed(tmp_path / "b", GOOD).directory).lost == ()


def test_half_an_event_elsewhere_is_not_tolerated(tmp_path: Path) -> None:
    directory = write(tmp_path / "a", GOOD).directory
    history = directory / "history.jsonl"
    history.write_text('{"scenario": "de\n' + history.read_text())
    with pytest.raises(SpecError, match=r"history\.jsonl:1 is not JSON"):
        read_archive(directory)


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """Within it this process writes files up to so many bytes only, as on a disk that is full by then.

    A block and no fixture: pytest writes a test's result before it ends the test's fixtures, and when its output is
    a file already larger than that, the whole session ends there without a word.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_write_that_fails_half_way_leaves_no_half_line(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    history = History(path)
    history.record("demo.0", "first", {})
    whole = path.read_bytes()
    with files_up_to(len(whole) + 10), pytest.raises(LabBroken, match=r"history\.jsonl cannot be written"):
        history.record("demo.0", "second", {"data": "x" * 100})
    assert path.read_bytes() == whole
    assert [event.kind for event in history.events()] == ["first"]
    history.record("demo.0", "third", {})
    assert [event.kind for event in load_events(path)] == ["first", "third"]


def test_a_full_disk_is_said_to_be_full() -> None:
    with pytest.raises(LabBroken, match="the disk of /dev/full is full"):
        History(Path("/dev/full")).record("demo.0", "first", {})


def test_an_archive_that_the_disk_has_no_room_for_says_so(tmp_path: Path) -> None:
    writer = write(tmp_path / "a", GOOD)
    size = 5000  # as large as anything but the report
    with files_up_to(size), pytest.raises(LabBroken, match=r"report\.html cannot be written"):
        writer.seal(render_report)
    assert not (tmp_path / "a/report.html").exists()
    with files_up_to(size), pytest.raises(LabBroken, match=r"osd\.log cannot be written"):
        writer.add_logs("demo.0", {"osd.log": b"x" * 6000})


def test_keys_are_not_written_in_the_first_place(tmp_path: Path) -> None:
    """A run that is killed has no last step that takes them out."""
    key = new_key(SAMPLES[0])
    writer = write(tmp_path / "a", (Ending.FAIL, (began(), ("observation", {"what": key, "got": 1, "wanted": key}))))
    writer.manifest["argv"] = [key]
    writer.add(Record("demo.9", "demo", Ending.FAIL, f"it said {key}", (key,)))
    assert [path.name for path in (tmp_path / "a").iterdir() if key.encode() in path.read_bytes()] == []
    assert "[key removed]" in read_archive(tmp_path / "a").records[-1].reason
