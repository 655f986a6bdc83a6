"""An archive that was tampered with, or does not fit together, is told by whatever reads it; signatures."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cephlab.cli.main import app
from cephlab.lab.archive.archive import (
    HISTORY,
    VERDICTS,
    Ending,
    add_signature,
    read_archive,
    replace_report,
)
from cephlab.lab.archive.merged import read_whole
from cephlab.lab.archive.signature import sign
from cephlab.lab.archive.sums import SUMS, altered
from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.process import run
from cephlab.lab.report.page import DOUBTED, render_report
from cephlab.lab.report.summary import markdown, notices
from tests.lab.archive.test_archive import FITTING, GOOD, began, saw, sealed, write
from tests.lab.archive.test_attempts import COMMIT
from tests.lab.archive.test_signature import key_of

BAD = (Ending.FAIL, FITTING[Ending.FAIL])
Change = Callable[[list[dict[str, Any]]], object]


def verdicts(directory: Path, change: Change) -> None:
    """Change the stored verdicts."""
    raw = json.loads((directory / VERDICTS).read_text())
    change(raw["verdicts"])
    (directory / VERDICTS).write_text(json.dumps(raw))


def forge(directory: Path) -> None:
    verdicts(directory, lambda rows: rows[1].update(ending="pass", reason="all is well"))


def without_events(directory: Path) -> None:
    path = directory / HISTORY
    path.write_text("".join(line for line in path.read_text().splitlines(True) if '"demo.1"' not in line))


def reseal(directory: Path) -> None:
    """New checksums, as somebody makes them who hides what he did."""
    lines = [f"{path.name}" for path in sorted(directory.iterdir()) if path.name not in (SUMS, f"{SUMS}.sig")]
    (directory / SUMS).write_text(run(["sha256sum", *lines], cwd=directory).stdout)
    assert altered(directory) == []


def command(*args: object) -> tuple[int, str]:
    """Exit code, and all that was said."""
    done = CliRunner().invoke(app, [str(arg) for arg in args])
    return done.exit_code, done.output


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    write(tmp_path / "a", GOOD, BAD, GOOD, manifest={"commit": COMMIT}).seal(render_report)
    return tmp_path / "a"


def everybody(archive: Path, folder: Path) -> dict[str, tuple[int, str]]:
    """What each command that reads an archive ends with and says."""
    (folder / "none.toml").touch()
    kept = (f"--kept={folder / 'attempts.jsonl'}", f"--quarantine={folder / 'none.toml'}")
    return {
        "judge": command("judge", archive),
        "summary": command("summary", archive),
        "annotations": command("summary", "--annotate", archive),
        "report": command("report", archive, "--output", folder / "page.html"),
        "track": command("track", archive, *kept),
        "compare": command("compare", archive, archive),
        "gate": command("gate", "-j", 1, "--rerun-failed", archive, "--archive", folder / "new"),
    }


CODES = {"judge": 3, "summary": 3, "annotations": 3, "report": 3, "track": 2, "compare": 2, "gate": 2}

DONE_TO_IT = (
    (forge, "verdicts.json was altered"),
    (without_events, "history.jsonl was altered"),
    (lambda directory: (directory / SUMS).unlink(), "SHA256SUMS is missing: the run was not sealed"),
)


@pytest.mark.parametrize(("tamper", "said"), DONE_TO_IT)
def test_every_reader_says_that_an_archive_was_altered(
    archive: Path, tmp_path: Path, tamper: Callable[[Path], object], said: str
) -> None:
    tamper(archive)
    answers = everybody(archive, tmp_path)
    assert {name: code for name, (code, _) in answers.items()} == CODES
    assert {name for name, (_, text) in answers.items() if said not in text} == set()
    assert said in (tmp_path / "page.html").read_text()
    assert not (tmp_path / "attempts.jsonl").exists(), "its endings are counted nowhere"
    assert not (tmp_path / "new").exists()


NAMED = (
    (lambda rows: rows.pop(1), "demo.1 ran and has no verdict"),
    (lambda rows: rows.append(rows[0]), "demo.0 has 2 verdicts"),
    (
        lambda rows: rows[1].update(ending="skip", reason="no engine"),
        "demo.1 is recorded as skip, its history says fail: x: got 3, wanted 1",
    ),
    (
        lambda rows: rows[1].update(ending="error", reason="the disk is full"),
        "demo.1 is recorded as error, its history says fail: x: got 3, wanted 1",
    ),
    (lambda rows: rows.append({**rows[0], "scenario": "demo.9"}), "demo.9 is recorded as pass and has no events"),
)


@pytest.mark.parametrize(("change", "said"), NAMED)
def test_verdicts_and_history_that_lack_each_other_are_named_by_every_reader(
    archive: Path, tmp_path: Path, change: Change, said: str
) -> None:
    verdicts(archive, change)
    reseal(archive)
    answers = everybody(archive, tmp_path)
    assert {name: code for name, (code, _) in answers.items()} == CODES
    assert {name for name, (_, text) in answers.items() if said not in text} == set()
    assert said in (tmp_path / "page.html").read_text()


def test_deleted_events_are_missed_by_every_reader(archive: Path, tmp_path: Path) -> None:
    without_events(archive)
    reseal(archive)
    said = "demo.1 is recorded as fail and has no events"
    assert read_archive(archive).doubts == (said,)
    answers = everybody(archive, tmp_path)
    assert {name: code for name, (code, _) in answers.items()} == CODES
    assert {name for name, (_, text) in answers.items() if said not in text} == set()


def test_a_forged_verdict_with_new_checksums_is_shown_by_nobody_as_it_is(archive: Path, tmp_path: Path) -> None:
    forge(archive)
    reseal(archive)
    said = "demo.1 is recorded as pass, its history says fail: x: got 3, wanted 1"
    answers = everybody(archive, tmp_path)
    # `judge` has a verdict of its own, which is what it ends with.
    assert {name: code for name, (code, _) in answers.items()} == {**CODES, "judge": 1}
    assert {name for name, (_, text) in answers.items() if said not in text} == {"judge"}
    assert "demo.1: fail (stored: pass): x: got 3, wanted 1" in answers["judge"][1]
    assert f"{DOUBTED}: the archive is not consistent." in (tmp_path / "page.html").read_text()


@pytest.mark.slow
def test_a_sound_archive_is_doubted_by_nobody(archive: Path, tmp_path: Path) -> None:
    answers = everybody(archive, tmp_path)
    assert answers.pop("gate")[0] == 2, "no suite has a scenario of that name"
    assert answers.pop("compare")[0] == 0, "no scenario of it changed"
    assert {name: code for name, (code, _) in answers.items()} == {
        "judge": 1,
        "summary": 0,
        "annotations": 0,
        "report": 0,
        "track": 0,
    }
    assert read_archive(archive).doubts == ()
    assert DOUBTED not in (tmp_path / "page.html").read_text()


def test_a_killed_run_is_no_tampering(tmp_path: Path) -> None:
    writer = write(tmp_path / "a", GOOD, manifest={"state": "running"})
    for kind, data in (began(), saw(1)):
        writer.history.record("demo.1", kind, data)
    archive = read_whole(tmp_path / "a")
    assert archive.lost == (
        "demo.1 was running when the run was killed: it has no verdict",
        "SHA256SUMS is missing: the run was not sealed",
    )
    assert command("judge", tmp_path / "a")[0] == 6
    assert command("summary", tmp_path / "a")[0] == 0


def test_of_a_killed_run_only_the_last_scenario_may_lack_its_verdict(tmp_path: Path) -> None:
    writer = write(tmp_path / "a", GOOD, manifest={"state": "running"})
    for name in ("demo.1", "demo.2"):
        writer.history.record(name, *began())
    assert read_archive(tmp_path / "a").altered == ("demo.1 ran and has no verdict",)


def test_doubts_head_the_summary_and_cannot_break_out(archive: Path) -> None:
    verdicts(archive, lambda rows: rows.append({**rows[0], "scenario": "demo|`<b>\nx"}))
    reseal(archive)
    lines = markdown(read_archive(archive)).splitlines()
    assert lines[2] == f"**{DOUBTED}: the archive is not consistent.**"
    assert lines[4] == f"- {DOUBTED}: demo\\|'&lt;b> x is recorded as pass and has no events"
    assert next(notices(read_archive(archive))) == (
        f"::error title={DOUBTED}::demo|`<b>%0Ax is recorded as pass and has no events"
    )


# Signatures


needs_openssh = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")


@pytest.mark.slow
@needs_openssh
def test_a_signature_shows_who_vouches(archive: Path, tmp_path: Path) -> None:
    key, signers = key_of(tmp_path, "ann")
    _, others = key_of(tmp_path, "bob")
    unsigned = f"SHA256SUMS.sig is not a signature of SHA256SUMS by anybody in {signers}"
    assert read_archive(archive, signers).altered == (unsigned,)
    add_signature(archive, key)
    assert read_archive(archive).altered == (), "the signature is no file that was added"
    assert (read_archive(archive, signers).signer, read_archive(archive, signers).doubts) == ("ann@example.com", ())
    for arguments in (("judge",), ("summary",), ("report", "--output", tmp_path / "page.html")):
        assert command(*arguments, archive, "--signers", others)[0] == 3
        assert command(*arguments, archive, "--signers", signers)[0] == (1 if arguments[0] == "judge" else 0)
    assert "ann@example.com" in (tmp_path / "page.html").read_text()
    assert "signed by ann@example.com" in command("judge", archive, "--signers", signers)[1]
    assert "signed by: `ann@example.com`" in command("summary", archive, "--signers", signers)[1]


@pytest.mark.slow
@needs_openssh
@pytest.mark.parametrize("change", [lambda rows: rows.pop(1), lambda rows: rows[1].update(quarantined="it is flaky")])
def test_new_checksums_do_not_fit_the_signature(archive: Path, tmp_path: Path, change: Change) -> None:
    key, signers = key_of(tmp_path, "ann")
    add_signature(archive, key)
    verdicts(archive, change)
    reseal(archive)
    said = f"SHA256SUMS.sig is not a signature of SHA256SUMS by anybody in {signers}"
    assert said in read_archive(archive, signers).altered
    for arguments in (("judge",), ("summary",), ("report", "--output", tmp_path / "page.html")):
        code, text = command(*arguments, archive, "--signers", signers)
        assert (code, said in text) == (3, True)


@needs_openssh
def test_a_signature_for_another_purpose_does_not_count(archive: Path, tmp_path: Path) -> None:
    key, signers = key_of(tmp_path, "ann")
    run(["ssh-keygen", "-q", "-Y", "sign", "-n", "file", "-f", str(key), str(archive / SUMS)])
    assert read_archive(archive).altered == ()
    assert read_archive(archive, signers).signer is None


@needs_openssh
def test_openssh_alone_verifies_it_too(archive: Path, tmp_path: Path) -> None:
    """As docs/archive.md says."""
    key, signers = key_of(tmp_path, "ann")
    add_signature(archive, key)
    run(["sha256sum", "--check", "--strict", SUMS], cwd=archive)
    who = ["-n", "cephlab-archive", "-I", "ann@example.com", "-f", str(signers), "-s", f"{SUMS}.sig"]
    said = run(["ssh-keygen", "-Y", "verify", *who], cwd=archive, stdin=(archive / SUMS).read_bytes()).stdout
    assert said.startswith('Good "cephlab-archive" signature for ann@example.com')


@needs_openssh
def test_a_signed_archive_keeps_its_report(archive: Path, tmp_path: Path) -> None:
    key, signers = key_of(tmp_path, "ann")
    add_signature(archive, key)
    with pytest.raises(SpecError, match="is signed"):
        replace_report(archive, "<html>new</html>")
    assert command("report", archive)[0] == 2
    assert read_archive(archive, signers).doubts == ()


@pytest.mark.slow
@needs_openssh
def test_a_key_that_cannot_sign_is_refused_before_anything_runs(tmp_path: Path) -> None:
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", str(tmp_path / "locked")])
    for key in (tmp_path / "locked", tmp_path / "none"):
        with pytest.raises(SpecError, match="cannot sign") as error:
            sign(b"", key)
        assert error.value.detail
        code, said = command("gate", "--sign", key, "--archive", tmp_path / "new")
        assert (code, "cannot sign" in said, (tmp_path / "new").exists()) == (2, True, False)


@needs_openssh
def test_a_gate_signs_what_it_archived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, signers = key_of(tmp_path, "ann")

    def gate(request: Any, narrator: object) -> Any:
        from tests.fixtures.test_gate_command import result

        sealed(request.archive, GOOD)
        return result(archive=request.archive)

    monkeypatch.setattr("cephlab.fixtures.run.run_gate", gate)
    monkeypatch.setenv("CEPHLAB_HOME", str(tmp_path / "home"))
    code, said = command("gate", "-j", "1", "--sign", key, "--archive", tmp_path / "new")
    assert code == 0, said
    assert read_archive(tmp_path / "new", signers).signer == "ann@example.com"
