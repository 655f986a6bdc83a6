"""Attempts that are kept: what counts as flaky, what is published, and what leads into quarantine."""

import json
from dataclasses import asdict, replace
from inspect import signature
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cephlab.cli import main
from cephlab.cli import track as command
from cephlab.cli.main import app
from cephlab.fixtures.selection import read_quarantine
from cephlab.lab.archive.archive import Ending, Record, read_archive
from cephlab.lab.archive.attempts import (
    FalseAlarms,
    KeptRun,
    false_alarms,
    keep,
    page,
    put_into,
    rates,
    read_kept,
    run_of,
)
from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.given import MOST_BYTES
from cephlab.lab.base.revision import commit_of
from cephlab.lab.report.page import render_report
from tests.lab.archive.test_archive import add, write

COMMIT = "c" * 40
RUN = KeptRun("r0", COMMIT, "lxd", "reef", "x86_64, 2 cores, Debian", {"demo.x": "pass"})


def runs(*endings: str, **changed: str) -> list[KeptRun]:
    return [
        replace(RUN, name=f"r{number}", endings={"demo.x": ending}, **changed) for number, ending in enumerate(endings)
    ]


def test_an_attempt_is_flaky_that_did_not_pass_where_others_did() -> None:
    (scenario,) = rates(runs("pass", "fail", "pass", "error", "inconclusive"))
    assert (scenario.attempts, scenario.flaky, scenario.failed, scenario.rate) == (5, 3, 0, 0.6)
    assert scenario.words == "3 of 5 attempts"
    assert scenario.above


def test_the_most_flaky_come_first_and_equal_ones_by_name() -> None:
    endings = ({"demo.b": "pass", "demo.a": "pass", "demo.c": ending} for ending in ("pass", "fail"))
    ordered = rates([replace(RUN, name=f"r{number}", endings=each) for number, each in enumerate(endings)])
    assert [rate.scenario for rate in ordered] == ["demo.c", "demo.a", "demo.b"]


def test_a_scenario_that_never_passes_at_a_commit_is_broken_and_not_flaky() -> None:
    (scenario,) = rates([*runs("fail", "fail"), *runs("pass", commit="d" * 40)])
    assert (scenario.attempts, scenario.flaky, scenario.failed) == (3, 0, 2)
    assert not scenario.above


@pytest.mark.parametrize("place", [{"lab": "local"}, {"release": "tentacle"}])
def test_another_place_is_not_another_attempt(place: dict[str, str]) -> None:
    (scenario,) = rates([*runs("fail"), *runs("pass", **place)])
    assert (scenario.flaky, scenario.failed) == (0, 1)


def test_one_in_a_hundred_is_within_the_limit_and_two_are_not() -> None:
    assert not rates(runs("fail", *["pass"] * 99))[0].above
    assert rates(runs("fail", "fail", *["pass"] * 98))[0].above


@pytest.mark.slow
def test_sound_attempts_that_did_not_pass_are_counted_by_suite_and_by_ending() -> None:
    endings = {"demo.x": "pass", "demo.y": "pass", "other.x": "pass", "other.never": "fail"}
    sound = [replace(RUN, name=f"r{number}", endings=endings) for number in range(20)]
    bad = replace(RUN, name="bad", endings={"demo.x": "fail", "demo.y": "error", "other.x": "inconclusive"})
    demo, other, together = false_alarms([*sound, bad])
    assert (demo.suite, demo.sound, demo.fail, demo.error, demo.inconclusive) == ("demo", 42, 1, 1, 0)
    assert (other.suite, other.sound, other.alarms, other.inconclusive) == ("other", 21, 1, 1)
    assert (together.suite, together.sound, together.alarms) == ("all", 63, 3)
    # Clopper and Pearson for 2 of 42: quantiles of beta(2, 41) and of beta(3, 40).
    assert (round(demo.low, 4), round(demo.high, 4)) == (0.0058, 0.1616)
    assert not demo.above


@pytest.mark.slow
def test_many_false_alarms_are_beyond_doubt() -> None:
    (demo, _) = false_alarms(runs(*["pass"] * 30, *["fail"] * 5))
    assert demo.above
    assert false_alarms([]) == []
    assert false_alarms(runs("fail", "fail")) == []
    assert false_alarms(runs("pass", "fail"), {"demo.x"}) == []


def test_a_share_that_may_be_the_limit_is_not_certainly_above_it() -> None:
    at_limit = FalseAlarms("demo", 100, 1, 0, 0, low=0.01, high=0.05)
    assert (at_limit.above, replace(at_limit, low=0.011).above) == (False, True)


@pytest.mark.slow
def test_the_suite_of_a_variant_with_a_point_in_its_name_is_its_own() -> None:
    assert [row.suite for row in false_alarms([replace(RUN, endings={"demo.x[n=0.5]": "pass"})])] == ["demo", "all"]


def test_the_page_says_what_so_few_attempts_can_show() -> None:
    text = page([*runs("pass", "pass", "pass", "fail"), replace(RUN, name="q", endings={"demo.y": "pass"})], {})
    assert text.startswith("1 of 5 attempts were flaky (20.0 %; limit for a scenario: 1 %), in 5 runs of 1 commit.")
    assert "| demo.x | 4 | 1 | 25.0 % | 0 | **wanted** |" in text
    assert text.endswith("\n| demo.y | 1 | 0 | below 100 % | 0 | |\n")
    assert "| demo.x | 12 | 0 | below 25 % | 0 | |" in page(runs(*["pass"] * 12), {})
    assert "| demo | 5 | 1 | 0 | 0 | 20.0 %, 0.5 % to 71.6 % |" in text
    held = page(runs("pass", "pass", "pass", "fail"), {"demo.x": "known"})
    assert "| demo.x | 4 | 1 | 25.0 % | 0 | yes |" in held
    assert "| demo | 4 |" not in held
    assert page([], {}) == "No attempt is kept yet.\n"


@pytest.mark.parametrize(("attempts", "share"), [(2, 100), (5, 60), (13, 24), (250, 2), (700, 1)])
def test_the_rate_of_a_scenario_that_was_never_flaky_is_not_shown_lower_than_it_may_be(
    attempts: int, share: int
) -> None:
    assert f"| demo.x | {attempts} | 0 | below {share} % | 0 | |" in page(runs(*["pass"] * attempts), {})


def test_a_run_is_kept_once(tmp_path: Path) -> None:
    kept = tmp_path / "attempts.jsonl"
    keep(kept, runs("pass", "fail"))
    assert [run.name for run in keep(kept, [*runs("pass"), replace(RUN, name="r9")])] == ["r0", "r1", "r9"]
    assert read_kept(kept)[1].endings == {"demo.x": "fail"}
    assert kept.stat().st_mode & 0o777 == 0o644
    assert [list(json.loads(line)) for line in kept.read_text().splitlines()] == [sorted(asdict(RUN))] * 3


@pytest.mark.slow
def test_attempts_of_many_years_can_be_read(tmp_path: Path) -> None:
    kept = tmp_path / "attempts.jsonl"
    keep(kept, [replace(RUN, machine="x" * MOST_BYTES)])
    assert [run.name for run in read_kept(kept)] == ["r0"]


def test_a_line_that_is_no_run_is_named(tmp_path: Path) -> None:
    kept = tmp_path / "attempts.jsonl"
    keep(kept, runs("pass"))
    kept.write_text(kept.read_text() + json.dumps({"name": "r1"}) + "\n")
    with pytest.raises(SpecError, match=r"attempts.jsonl:2 is not a run"):
        read_kept(kept)
    kept.write_text("{")
    with pytest.raises(SpecError, match=r"attempts.jsonl:1 is not JSON"):
        read_kept(kept)


def test_a_file_without_text_is_named(tmp_path: Path) -> None:
    binary = tmp_path / "attempts.jsonl"
    binary.write_bytes(b"\x7fELF\xff")
    with pytest.raises(SpecError, match=r"attempts\.jsonl cannot be read"):
        read_kept(binary)
    with pytest.raises(SpecError, match=r"attempts\.jsonl cannot be read"):
        put_into(binary, "new\n")


@pytest.mark.parametrize("option", ["--kept", "--quarantine"])
def test_a_file_that_is_named_and_absent_is_told(
    tmp_path: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["track", option, str(tmp_path / "nosuch")]) == SpecError.exit_code
    said = capsys.readouterr().err
    assert "nosuch" in said
    assert "does not exist" in said


def test_only_the_generated_part_of_a_page_changes(tmp_path: Path) -> None:
    path = tmp_path / "record.md"
    path.write_text("# Record\n\n<!-- attempts -->\nold\n<!-- end of attempts -->\n\nthe rest\n")
    put_into(path, "new\n")
    assert path.read_text() == "# Record\n\n<!-- attempts -->\n\nnew\n\n<!-- end of attempts -->\n\nthe rest\n"
    assert path.stat().st_mode & 0o777 == 0o644
    for text in ("# Record\n", "<!-- attempts -->\n", "<!-- end of attempts -->\n"):
        path.write_text(text)
        with pytest.raises(SpecError, match="no place for attempts"):
            put_into(path, "new\n")
        assert path.read_text() == text


def test_the_first_place_of_a_page_is_the_generated_one(tmp_path: Path) -> None:
    path, place = tmp_path / "record.md", "<!-- attempts -->\n\n{}\n\n<!-- end of attempts -->\n"
    path.write_text(place.format("old") * 2)
    put_into(path, "new\n")
    assert path.read_text() == place.format("new") + place.format("old")


def archived(directory: Path, *records: Record, commit: str | None = COMMIT) -> Path:
    writer = write(directory)
    writer.manifest["started"] = f"2026-11-21T09:00:{ord(directory.name) % 60:02d}Z"
    writer.manifest["commit"] = commit
    for record in records:
        add(writer, record)
    writer.seal(render_report)
    return directory


def track(folder: Path, *archives: Path) -> tuple[int, dict[str, object]]:
    (folder / "quarantine.toml").touch()
    files = (f"--kept={folder / 'attempts.jsonl'}", f"--quarantine={folder / 'quarantine.toml'}")
    done = CliRunner().invoke(app, ["track", *files, "--json", *map(str, archives)])
    return done.exit_code, json.loads(done.stdout)


@pytest.mark.parametrize(
    ("providers", "lab"), [((), "auto"), (("local",), "local"), (("lxd", "docker", "lxd"), "docker+lxd")]
)
def test_what_is_kept_of_an_archive(tmp_path: Path, providers: tuple[str, ...], lab: str) -> None:
    """Neither a skip nor an interruption says anything of a scenario; what an earlier run did counts there."""
    records = [
        Record("demo.x", "demo", Ending.PASS, "held"),
        Record("demo.y", "demo", Ending.FAIL, "osd.0 died"),
        Record("demo.gone", "demo", Ending.SKIP, "no disks"),
        Record("demo.cut", "demo", Ending.INCONCLUSIVE, "it was interrupted"),
        Record("demo.earlier", "demo", Ending.PASS, "held"),
    ]
    archive = read_archive(archived(tmp_path / "a", *records))
    more = {"clusters": [{"provider": provider} for provider in providers], "taken": ["demo.earlier"]}
    assert run_of(replace(archive, manifest={**archive.manifest, **more})) == KeptRun(
        name="2026-11-21T09:00:37Z seed 7 x86_64",
        commit=COMMIT,
        lab=lab,
        release="reef",
        machine="x86_64, 2 cores, Debian GNU/Linux 12",
        endings={"demo.x": "pass", "demo.y": "fail"},
    )


@pytest.mark.slow
def test_a_flaky_scenario_fails_the_command_until_it_is_in_quarantine(tmp_path: Path) -> None:
    fine = archived(
        tmp_path / "a",
        Record("demo.x", "demo", Ending.PASS, "held"),
        Record("demo.gone", "demo", Ending.SKIP, "no disks"),
        Record("demo.cut", "demo", Ending.INCONCLUSIVE, "it was interrupted"),
    )
    bad = archived(tmp_path / "b", Record("demo.x", "demo", Ending.FAIL, "osd.0 died"))
    assert track(tmp_path, fine)[0] == 0
    code, said = track(tmp_path, bad)
    assert (code, said["wanted"], said["runs"]) == (1, ["demo.x"], 2)
    entry = '[[quarantine]]\nscenario = "demo.x"\nrate = "1 of 2 attempts"\nreason = "osd.0 dies now and then"\n'
    (tmp_path / "quarantine.toml").write_text(entry)
    assert track(tmp_path)[0] == 0


def test_a_page_that_is_written_is_named_and_not_printed_too(tmp_path: Path) -> None:
    archive = archived(tmp_path / "a", Record("demo.x", "demo", Ending.PASS, "held"))
    page = tmp_path / "record.md"
    places = (f"<!-- {mark} -->\n<!-- end of {mark} -->\n" for mark in ("attempts", "defects"))
    page.write_text("".join(places))
    (tmp_path / "quarantine.toml").touch()
    named = [f"--{name}={tmp_path / file}" for name, file in (("kept", "kept"), ("quarantine", "quarantine.toml"))]
    done = CliRunner().invoke(app, ["track", *named, "--output", str(page), str(archive)])
    assert done.exit_code == 0, done.output
    assert done.stdout == f"{page}: attempts of 1 run, known defects\n"
    assert "0 of 1 attempt was flaky" in page.read_text()


def test_attempts_are_kept_in_the_home_unless_a_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkout = tmp_path / "checkout" / "ci"
    checkout.mkdir(parents=True)
    (checkout / "attempts.jsonl").write_text("")
    monkeypatch.chdir(checkout.parent)
    monkeypatch.setenv("CEPHLAB_HOME", str(tmp_path / "home"))
    run = archived(tmp_path / "a", Record("demo.x", "demo", Ending.PASS, "held"))
    done = CliRunner().invoke(app, ["track", str(run)])
    assert done.exit_code == 0, done.output
    assert (checkout / "attempts.jsonl").read_text() == ""
    assert len(read_kept(tmp_path / "home" / "attempts.jsonl")) == 1
    assert f"attempts: {tmp_path / 'home' / 'attempts.jsonl'}" in done.stderr


def test_a_table_of_attempts_stays_on_the_page_where_none_are_kept(tmp_path: Path) -> None:
    marks = ("defects", "attempts")
    page = tmp_path / "page.md"
    page.write_text("".join(f"<!-- {mark} -->\n\nold {mark}\n<!-- end of {mark} -->\n" for mark in marks))
    (tmp_path / "attempts.jsonl").touch()
    keeping = ["track", "--kept", str(tmp_path / "attempts.jsonl"), "--output", str(page)]
    assert CliRunner().invoke(app, keeping).exit_code == 0
    assert "old attempts" in page.read_text()
    assert "old defects" not in page.read_text()
    run = archived(tmp_path / "a", Record("demo.x", "demo", Ending.PASS, "held"))
    assert CliRunner().invoke(app, [*keeping, str(run)]).exit_code == 0
    assert "old attempts" not in page.read_text()


def test_an_archive_of_no_commit_is_refused(tmp_path: Path) -> None:
    changed = archived(tmp_path / "a", Record("demo.x", "demo", Ending.PASS, "held"), commit=None)
    code, said = track(tmp_path, changed)
    assert code == 2
    assert "the commit that it ran" in str(said["error"])


def test_a_folder_that_is_no_checkout_has_no_commit(tmp_path: Path) -> None:
    assert commit_of(tmp_path) is None


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[[quarantine]]\nscenario = 'demo.*'\nrate = '1 of 9'\nreason = 'it fails at times'\n", "scenario"),
        ("[[quarantine]]\nscenario = 'demo.x'\nrate = '1 of 9'\n", "reason"),
        ("quarantine = 1 2", "not TOML"),
    ],
)
def test_a_quarantine_that_is_none_is_refused_by_its_key(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "quarantine.toml"
    path.write_text(text)
    with pytest.raises(SpecError, match=named):
        read_quarantine(path)


def test_the_suites_quarantine_is_read_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert signature(command.track).parameters["quarantine"].default.is_file()


def test_the_projects_own_files_are_read() -> None:
    root = Path(__file__).resolve().parents[3]
    held = read_quarantine(root / "suites" / "quarantine.toml")
    text = page(read_kept(root / "ci" / "attempts.jsonl"), held)
    published = (root / "docs" / "track-record.md").read_text()
    assert text in published, "run `cephlab track --kept ci/attempts.jsonl --output docs/track-record.md`"
