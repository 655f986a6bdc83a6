"""What an archive says of itself when it is read: what was changed, lost or signed, and whose verdicts count."""

import json
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from cephlab.lab.archive.archive import (
    HISTORY,
    VERDICTS,
    Archive,
    Ending,
    Record,
    add_signature,
    counted,
    deciding,
    judge,
    judged,
    read_archive,
    replace_report,
)
from cephlab.lab.archive.merged import read_whole
from cephlab.lab.archive.sums import SIGNATURE, SUMS
from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.process import run
from cephlab.lab.report.page import render_report
from tests.lab.archive.test_archive import FITTING, GOOD, Line, add, began, saw, sealed, write

BAD = (Ending.FAIL, FITTING[Ending.FAIL])
Change = Callable[[list[dict[str, Any]]], object]


def reseal(directory: Path) -> None:
    """New checksums, as somebody makes them who hides what he did."""
    names = sorted(path.name for path in directory.iterdir() if path.name not in (SUMS, SIGNATURE))
    lines = (f"{sha256((directory / name).read_bytes()).hexdigest()}  {name}\n" for name in names)
    (directory / SUMS).write_text("".join(lines))


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return sealed(tmp_path / "a", GOOD, BAD, GOOD).directory


# What does not fit together

NAMED: tuple[tuple[Change, tuple[str, ...]], ...] = (
    (lambda rows: None, ()),
    (lambda rows: rows.pop(1), ("demo.1 ran and has no verdict",)),
    (lambda rows: rows.clear(), tuple(f"demo.{number} ran and has no verdict" for number in range(3))),
    (lambda rows: rows.append(rows[0]), ("demo.0 has 2 verdicts",)),
    (
        lambda rows: rows[1].update(ending="skip"),
        ("demo.1 is recorded as skip, its history says fail: x: got 3, wanted 1",),
    ),
    (
        lambda rows: rows[1].update(ending="error"),
        ("demo.1 is recorded as error, its history says fail: x: got 3, wanted 1",),
    ),
    (
        lambda rows: rows[1].update(ending="pass"),
        ("demo.1 is recorded as pass, its history says fail: x: got 3, wanted 1",),
    ),
    (
        lambda rows: rows.append({**rows[0], "scenario": "demo.9"}),
        ("demo.9 is recorded as pass and has no events",),
    ),
)


@pytest.mark.parametrize(("change", "said"), NAMED)
def test_verdicts_that_do_not_fit_the_history_are_named(archive: Path, change: Change, said: tuple[str, ...]) -> None:
    raw = json.loads((archive / VERDICTS).read_text())
    change(raw["verdicts"])
    (archive / VERDICTS).write_text(json.dumps(raw))
    reseal(archive)
    assert read_archive(archive).doubts == said


def test_every_file_is_held_against_its_checksum(archive: Path) -> None:
    for name in ("b.txt", "a.txt"):
        (archive / name).touch()
    with (archive / HISTORY).open("a") as history:
        history.write('{"scenario": "demo.9", "at_s": 1.0, "kind": "k", "data": {}}\n')
    (archive / "report.html").unlink()
    assert read_archive(archive).altered == (
        "report.html is missing",
        "a.txt was added",
        "b.txt was added",
        "history.jsonl was altered",
    )


def test_an_archive_that_ended_and_has_no_checksums_was_altered(archive: Path) -> None:
    (archive / SUMS).unlink()
    archived = read_archive(archive)
    assert (archived.lost, archived.altered) == ((), ("SHA256SUMS is missing: the run was not sealed",))


def test_what_was_altered_comes_before_what_does_not_fit(archive: Path) -> None:
    (archive / HISTORY).write_text("")
    assert read_archive(archive).doubts[:2] == (
        "history.jsonl was altered",
        "demo.0 is recorded as pass and has no events",
    )


def test_verdicts_that_cannot_be_relied_on_are_not_read_as_whole(archive: Path) -> None:
    assert read_whole(archive).doubts == ()
    (archive / "more.txt").touch()
    (archive / "report.html").unlink()
    with pytest.raises(SpecError) as refused:
        read_whole(archive)
    assert refused.value.what == f"the verdicts of {archive} cannot be relied on"
    assert refused.value.detail == "report.html is missing\nmore.txt was added"
    assert f"`cephlab judge {archive}`" in refused.value.hint
    with pytest.raises(SpecError) as refused:
        read_whole(archive.rename(archive.with_name("of mine")))
    assert f"`cephlab judge '{archive.with_name('of mine')}'`" in refused.value.hint


def test_endings_of_the_lab_and_of_a_lack_are_confirmed_by_their_history(tmp_path: Path) -> None:
    for ending in (Ending.ERROR, Ending.SKIP):
        assert sealed(tmp_path / ending, (ending, FITTING[ending])).doubts == ()


# What cannot be read

UNREADABLE = (
    ("manifest.json", b"{", r"manifest\.json is not JSON"),
    ("manifest.json", b"\xff", r"manifest\.json cannot be read"),
    ("manifest.json", b"[]", r"manifest\.json is not a JSON object"),
    ("verdicts.json", b"{", r"verdicts\.json is not JSON"),
    ("history.jsonl", b"\xff\n", r"history\.jsonl cannot be read"),
)


@pytest.mark.parametrize(("name", "content", "said"), UNREADABLE)
def test_a_file_that_cannot_be_read_is_named_with_what_is_wrong(
    archive: Path, name: str, content: bytes, said: str
) -> None:
    (archive / name).write_bytes(content)
    with pytest.raises(SpecError, match=said):
        read_archive(archive)


@pytest.mark.parametrize("name", ["manifest.json", "verdicts.json"])
def test_a_folder_without_one_of_its_files_is_no_archive(archive: Path, name: str) -> None:
    (archive / name).unlink()
    with pytest.raises(SpecError) as refused:
        read_archive(archive)
    assert (refused.value.what, refused.value.detail) == (f"{archive} is not an archive", f"it has no {name}")


def test_an_archive_without_its_history_cannot_be_read(archive: Path) -> None:
    (archive / HISTORY).unlink()
    with pytest.raises(SpecError, match=r"history\.jsonl cannot be read"):
        read_archive(archive)


@pytest.mark.slow
@pytest.mark.parametrize("schema", [None, "1", 0])
def test_a_schema_that_never_was_is_refused(archive: Path, schema: object) -> None:
    raw = json.loads((archive / "manifest.json").read_text())
    (archive / "manifest.json").write_text(json.dumps({**raw, "schema": schema}))
    with pytest.raises(SpecError, match=r"manifest\.json"):
        read_archive(archive)


def test_events_of_a_known_kind_fit_that_kind(archive: Path) -> None:
    path = archive / HISTORY
    path.write_text(path.read_text() + '{"scenario": "x", "at_s": 1.0, "kind": "figure", "data": {"metric": 1}}\n')
    with pytest.raises(SpecError, match=rf"history\.jsonl:{len(path.read_text().splitlines())}"):
        read_archive(archive)


def test_events_as_older_runs_wrote_them_are_read(archive: Path) -> None:
    path = archive / HISTORY
    old = {"what": "healthy_s", "value": 3.0, "unit": "s"}
    path.write_text(json.dumps({"scenario": "x", "at_s": 1.0, "kind": "figure", "data": old}) + "\n")
    assert read_archive(archive).of("x")[0].data["metric"] == "healthy_s"


# What a killed run leaves


def killed(directory: Path, *unfinished: str) -> Path:
    writer = write(directory, GOOD, manifest={"state": "running"})
    for name in unfinished:
        for kind, data in (began(), saw(1)):
            writer.history.record(name, kind, data)
    return directory


def test_a_killed_run_is_told_and_no_tampering(tmp_path: Path) -> None:
    archived = read_whole(killed(tmp_path / "a", "demo.1"))
    assert archived.lost == (
        "demo.1 was running when the run was killed: it has no verdict",
        "SHA256SUMS is missing: the run was not sealed",
    )
    assert archived.altered == ()


def test_of_a_killed_run_the_last_scenario_alone_may_lack_its_verdict(tmp_path: Path) -> None:
    archived = read_archive(killed(tmp_path / "a", "demo.1", "demo.2"))
    assert archived.lost[0].startswith("demo.2 was running")
    assert archived.altered == ("demo.1 ran and has no verdict",)


def test_all_that_a_killed_run_lost_is_told(tmp_path: Path) -> None:
    directory = killed(tmp_path / "a", "demo.1")
    with (directory / HISTORY).open("a") as history:
        history.write('{"scenario": "demo.1", "at')
    archived = read_archive(directory)
    assert [line.partition(" ")[0] for line in archived.lost] == ["history.jsonl", "demo.1", "SHA256SUMS"]


def test_a_run_that_was_killed_between_two_scenarios_lost_nothing_else(tmp_path: Path) -> None:
    assert read_archive(killed(tmp_path / "a")).lost == ("SHA256SUMS is missing: the run was not sealed",)


def test_a_killed_run_that_says_that_it_was_sealed_is_held_to_that(tmp_path: Path) -> None:
    directory = killed(tmp_path / "a")
    reseal(directory)
    (directory / "more.txt").touch()
    archived = read_archive(directory)
    assert (archived.lost, archived.altered) == ((), ("more.txt was added",))


def test_a_run_that_ended_has_no_scenario_without_a_verdict(tmp_path: Path) -> None:
    writer = write(tmp_path / "a", GOOD)
    writer.history.record("demo.1", *began())
    writer.seal(render_report)
    archived = read_archive(tmp_path / "a")
    assert (archived.lost, archived.altered) == ((), ("demo.1 ran and has no verdict",))


def test_what_was_only_noted_did_not_run(tmp_path: Path) -> None:
    writer = write(tmp_path / "a", GOOD)
    writer.history.record("demo.1", "note", {})
    writer.history.record("demo.2", "raised", dict(FITTING[Ending.SKIP][0][1]))
    writer.seal(render_report)
    assert read_archive(tmp_path / "a").altered == ("demo.2 ran and has no verdict",)


def test_a_report_of_a_run_that_was_not_sealed_gets_no_checksum(tmp_path: Path) -> None:
    directory = killed(tmp_path / "a")
    replace_report(directory, "<html>new</html>")
    assert (directory / "report.html").stat().st_mode & 0o777 == 0o644
    assert not (directory / SUMS).exists()


# Whose verdicts count, and in what words


def test_nothing_is_held_against_an_archive_that_nobody_looked_into(tmp_path: Path) -> None:
    archive = Archive(tmp_path, {}, (), ())
    assert (archive.lost, archive.altered, archive.signer, archive.doubts) == ((), (), None, ())


def test_endings_are_told_in_words() -> None:
    assert [ending.word for ending in Ending] == ["passed", "failed", "lab trouble", "inconclusive", "skipped"]


def test_endings_are_counted_in_the_order_that_people_are_shown() -> None:
    endings = (Ending.SKIP, Ending.FAIL, Ending.PASS, Ending.FAIL)
    records = [Record(f"demo.{number}", "demo", ending, "") for number, ending in enumerate(endings)]
    assert list(counted(records).items()) == [(Ending.PASS, 1), (Ending.FAIL, 2), (Ending.SKIP, 1)]


def test_what_is_in_quarantine_does_not_decide() -> None:
    plain = Record("demo.0", "demo", Ending.FAIL, "")
    assert deciding([plain, Record("demo.1", "demo", Ending.FAIL, "", quarantined="2 of 40")]) == [plain]


@pytest.mark.parametrize("ending", Ending)
def test_what_is_judged_again_is_in_quarantine_still(tmp_path: Path, ending: Ending) -> None:
    writer = write(tmp_path / "a")
    add(writer, Record("demo.0", "demo", ending, "", quarantined="2 of 40"))
    assert [again.quarantined for again in judge(read_archive(tmp_path / "a"))] == ["2 of 40"]


def test_what_is_judged_again_says_what_its_verdict_rests_on(tmp_path: Path) -> None:
    archive = sealed(tmp_path / "a", BAD, (Ending.SKIP, FITTING[Ending.SKIP]))
    assert judge(archive)[0].derivation == judged(archive.of("demo.0"))[1].derivation != ()
    assert judge(archive)[1].derivation == (), "no check judges a skip"
    assert [again.scenario for again in judge(archive)] == ["demo.0", "demo.1"]


BLAMED: tuple[tuple[Ending, tuple[Line, ...]], ...] = tuple(FITTING.items())


@pytest.mark.parametrize(("ending", "lines"), BLAMED)
def test_a_scenario_ends_as_its_events_say(tmp_path: Path, ending: Ending, lines: tuple[Line, ...]) -> None:
    archive = sealed(tmp_path / "a", (ending, lines))
    assert judged(archive.of("demo.0"))[0] is ending
    assert archive.of("demo.9") == ()


# Signatures

needs_openssh = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")


@needs_openssh
def test_a_signature_shows_who_vouches_and_holds_the_report(archive: Path, tmp_path: Path) -> None:
    key, signers = tmp_path / "ann", tmp_path / "signers"
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(key)])
    signers.write_text(f'ann@example.com namespaces="cephlab-archive" {key.with_suffix(".pub").read_text()}')
    unsigned = read_archive(archive, signers)
    assert unsigned.signer is None
    assert [line.split()[0] for line in unsigned.altered] == [SIGNATURE], "it says that there is none"
    add_signature(archive, key)
    assert (archive / SIGNATURE).stat().st_mode & 0o777 == 0o644
    assert (read_archive(archive).signer, read_archive(archive).doubts) == (None, ())
    assert (read_archive(archive, signers).signer, read_archive(archive, signers).doubts) == ("ann@example.com", ())
    before = (archive / "report.html").read_bytes()
    with pytest.raises(SpecError) as refused:
        replace_report(archive, "<html>new</html>")
    assert refused.value.what == f"{archive} is signed"
    assert refused.value.detail == "a new report.html would change SHA256SUMS, and SHA256SUMS.sig would no longer match"
    assert "--output" in refused.value.hint
    assert (archive / "report.html").read_bytes() == before
