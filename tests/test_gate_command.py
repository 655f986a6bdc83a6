"""`cephlab gate`, `judge` and `report`: one process, one page, honest exit codes."""

from __future__ import annotations

import gc
import io
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from cli.gate import chosen
from cli.main import app
from cli.narration import Narration
from cli.verdicts import page
from cli.world import World
from fixtures.entering import called, ways_in
from fixtures.run import Request, Result, run_gate, suite_names
from lab.archive import Ending, Record, altered, read_archive
from lab.errors import LabBroken, SpecError
from lab.home import Home
from lab.report import render_report
from tests.fake_raising import FakeRaiser
from tests.test_archive import CRASHED, ENDED, GOOD, began, saw, sealed, write

SUITE = '''
"""Demo."""
import pytest
from fixtures.outcomes import require
from lab.scenario import Tier, run_scenario
from tests import fake_raising as fake

SCENARIOS = ({lines})

@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.name)
def test_scenario(scenario, stage):
    print("words of a scenario")
    require(run_scenario(scenario, stage))
'''


@dataclass
class Heard:
    """A narrator that notes what it is told."""

    lines: list[str] = field(default_factory=list)

    def planned(self, count: int, seed: int, replay: str, archive: str) -> None:
        self.lines.append(f"planned {count}")

    def says(self, line: str) -> None:
        self.lines.append(line)

    def begins(self, name: str) -> None:
        self.lines.append(f"begin {name}")

    def ends(self, record: Record) -> None:
        self.lines.append(f"{record.ending} {record.scenario}")


@dataclass
class Gate:
    """Runs gates over demo suites made on the spot."""

    path: Path
    heard: Heard = field(default_factory=Heard)
    raiser: FakeRaiser = field(default_factory=FakeRaiser)

    def suite(self, name: str, *lines: str) -> None:
        folder = self.path / "suites" / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text('"""Demo."""\n')
        text = "".join(f"fake.scenario({line}), " for line in lines)
        (folder / f"test_{name}.py").write_text(SUITE.format(lines=text))

    def run(self, **fields: Any) -> Result:
        request = Request(
            archive=self.path / "archive", home=self.path / "home", base=self.path / "suites", seed=5, **fields
        )
        return run_gate(request, self.heard, plugins=[self.raiser])


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    # A pytest session ends with five collections of garbage, through everything that all tests before have left here.
    gc.freeze()
    yield Gate(tmp_path)
    gc.unfreeze()


def test_a_gate_runs_narrates_and_says_nothing_else(gate: Gate, capfd: pytest.CaptureFixture[str]) -> None:
    gate.suite("quiet", "'quiet.a', fake.good", "'quiet.b', fake.wrong")
    result = gate.run()
    assert result.code == 1
    assert [(record.scenario, record.ending) for record in result.records] == [
        ("quiet.a", Ending.PASS),
        ("quiet.b", Ending.FAIL),
    ]
    assert [line for line in gate.heard.lines if "healthy" not in line] == [
        "planned 2",
        "begin quiet.a",
        "pass quiet.a",
        "begin quiet.b",
        "fail quiet.b",
    ]
    assert capfd.readouterr() == ("", "")
    assert altered(result.archive) == []
    assert {"junit.xml", "report.html"} <= {path.name for path in result.archive.iterdir()}


def test_a_gate_keeps_nothing_in_a_repository_that_may_be_another_users(tmp_path: Path) -> None:
    assert "no:cacheprovider" in Request(tmp_path / "archive", tmp_path / "home").arguments()


def test_what_failed_runs_again_as_it_ran(gate: Gate) -> None:
    """Also what only the full tier has, although nobody says the tier again."""
    gate.suite("deep", "'deep.a', fake.good", "'deep.b', fake.wrong, tier=Tier.FULL")
    first = gate.run(tier="full", lab="local")
    request = Request(gate.path / "again", gate.path / "home", base=gate.path / "suites", rerun=first.archive)
    result = run_gate(request, gate.heard, plugins=[FakeRaiser()])
    assert [record.scenario for record in result.records] == ["deep.b"]
    assert result.seed == first.seed
    assert f"--tier full --seed {first.seed} --lab local" in result.replay


def test_a_release_beside_a_pulled_image_is_refused(tmp_path: Path) -> None:
    world = World(Home(tmp_path), {})
    result = CliRunner().invoke(app, ["gate", "--release", "reef", "--image", "some/ceph:1"], obj=world)
    assert result.exit_code == 2
    assert "--release and --image cannot be given together" in result.stderr
    assert list((tmp_path / "archive").iterdir()) == []


def test_the_release_of_a_pulled_image_is_what_its_cluster_says(gate: Gate) -> None:
    gate.suite("pulled", "'pulled.a', fake.good")
    gate.raiser.release = "squid"
    result = gate.run(image="some/ceph:reef")
    assert read_archive(result.archive).manifest["release"] == "squid"
    assert "--image some/ceph:reef" in result.replay
    assert "--release" not in result.replay


def test_an_interruption_has_the_signals_exit_code(gate: Gate) -> None:
    gate.suite("stopped", "'stopped.a', fake.interrupted", "'stopped.b', fake.good")
    result = gate.run()
    assert result.code == 130
    assert gate.raiser.did == ["raise c1 with 1 mons", "close c1"]
    assert read_archive(result.archive).manifest["state"] == "interrupted"


def test_an_interruption_is_one_also_when_the_clean_up_fails(gate: Gate) -> None:
    gate.suite("untidy", "'untidy.a', fake.interrupted_untidily", "'untidy.b', fake.good")
    result = gate.run()
    assert result.code == 130
    assert [record.ending for record in result.records] == [Ending.INCONCLUSIVE]
    assert gate.raiser.did == ["raise c1 with 1 mons", "close c1"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interruption_in_the_middle_of_a_folder_is_no_traceback(gate: Gate) -> None:
    gate.suite("reading", "'reading.a', fake.interrupted_half_way")
    assert gate.run().code == 130


def test_an_interruption_while_a_cluster_is_raised_ends_the_same_way(gate: Gate) -> None:
    gate.suite("early", "'early.a', fake.good", "'early.b', fake.good")
    gate.raiser.raise_error = KeyboardInterrupt()
    result = gate.run()
    assert result.code == 130
    assert [(r.scenario, r.ending, r.reason) for r in result.records] == [
        ("early.a", Ending.INCONCLUSIVE, "it was interrupted")
    ]
    assert read_archive(result.archive).manifest["state"] == "interrupted"


REFUSED = (
    ({"suites": ("moon",)}, "there is no suite 'moon'"),
    ({"expression": "nothing_like_it"}, "no scenario was selected"),
    ({"expression": "pool=ec21"}, "Wrong expression passed to '-k'"),
    ({"lab": "moon"}, "unknown provider 'moon'"),
    ({"tier": "huge"}, "--tier: invalid choice: 'huge'"),
    ({"rerun": Path("nowhere")}, "nowhere is not an archive"),
    ({"inventory": Path("machines.toml")}, "--inventory is for machines that exist"),
    ({"may_break": "pool:x"}, "--may-break is for machines that exist"),
    ({"lab": "ssh", "inventory": Path("nowhere.toml")}, "nowhere.toml cannot be read"),
)


@pytest.mark.parametrize(("fields", "sentence"), REFUSED)
def test_wrong_use_is_refused_and_leaves_nothing(gate: Gate, fields: dict[str, Any], sentence: str) -> None:
    gate.suite("fine", "'fine.a', fake.good")
    with pytest.raises(SpecError) as error:
        gate.run(**fields)
    assert sentence in error.value.what
    assert gate.raiser.did == []
    assert not (gate.path / "archive").exists()


def test_a_suite_that_cannot_be_imported_breaks_the_lab(gate: Gate) -> None:
    gate.suite("torn", "no such thing")
    with pytest.raises(LabBroken, match="before any scenario ran") as error:
        gate.run()
    assert "SyntaxError" in error.value.detail


def test_a_suite_is_chosen_by_name(gate: Gate) -> None:
    gate.suite("one", "'one.a', fake.good")
    gate.suite("two", "'two.a', fake.good")
    assert [record.scenario for record in gate.run(suites=("two",)).records] == ["two.a"]


def test_the_repository_has_the_interop_suite() -> None:
    assert "interop" in suite_names()


# The last page


HOME = Home(Path("/home/of/runs"))


def result(*records: Record, **fields: Any) -> Result:
    values: dict[str, Any] = {
        "code": 0,
        "archive": Path("/a"),
        "home": HOME,
        "records": records,
        "seed": 5,
        "replay": "cephlab gate --seed 5",
        "kept": (),
        "trouble": (),
        "unexpected_skips": (),
    }
    return Result(**{**values, **fields})


def test_the_page_names_causes_and_where_the_logs_are() -> None:
    text = page(
        result(
            Record("s.a", "s", Ending.PASS, "3 observations hold"),
            Record("s.b", "s", Ending.FAIL, "sha256 differs", logs="logs/s.b"),
            Record("s.c", "s", Ending.ERROR, "LabBroken: disk full"),
            Record("s.d", "s", Ending.INCONCLUSIVE, "nothing observed"),
            Record("s.e", "s", Ending.SKIP, "no engine"),
        )
    )
    assert text.strip().splitlines() == [
        "1 passed, 1 failed, 1 lab trouble, 1 inconclusive, 1 skipped",
        "",
        "failed:",
        "  s.b: sha256 differs",
        "      logs: /a/logs/s.b",
        "",
        "lab trouble:",
        "  s.c: LabBroken: disk full",
        "",
        "inconclusive:",
        "  s.d: nothing observed",
        "",
        "skipped:",
        "  s.e: no engine",
        "",
        "archive: /a",
        f"replay:  {called('cephlab gate --seed 5', HOME)}",
    ]


def test_the_page_says_how_to_enter_what_was_kept() -> None:
    text = page(result(kept=("r12ab",), unexpected_skips=("s.e: no engine",), trouble=("a process lives",)))
    for wanted in (*ways_in("r12ab", HOME), "s.e: no engine"):
        assert wanted in text
    assert "trouble: a process lives" in text


# judge and report


def run(*args: str) -> tuple[int, str, str]:
    found = CliRunner().invoke(app, list(args))
    return found.exit_code, found.stdout, found.stderr


JUDGED = (
    (GOOD, 0, 0),
    ((Ending.PASS, (began(), saw(2), ENDED)), 1, 1),
    ((Ending.PASS, (began(), saw(1), ENDED, CRASHED)), 1, 1),
    ((Ending.FAIL, (began(), saw(1), ENDED)), 0, 1),
    ((Ending.INCONCLUSIVE, (began(), ENDED)), 6, 0),
    ((Ending.ERROR, (began(),)), 3, 0),
)


@pytest.mark.parametrize(("history", "code", "differing"), JUDGED)
def test_judge_says_where_today_differs(tmp_path: Path, history: Any, code: int, differing: int) -> None:
    sealed(tmp_path / "a", history)
    status, out, _ = run("judge", str(tmp_path / "a"), "--json")
    found = json.loads(out)
    assert (status, found["differing"], found["altered"]) == (code, differing, [])


def test_judge_says_which_file_was_altered(tmp_path: Path) -> None:
    sealed(tmp_path / "a", GOOD)
    path = tmp_path / "a/history.jsonl"
    path.write_text(path.read_text().replace('"got": 1', '"got": 2', 1))
    status, out, err = run("judge", str(tmp_path / "a"))
    assert status == 3
    assert "history.jsonl was altered" in err
    assert "demo.0: fail (stored: pass): x: got 2, wanted 1" in out


def test_a_run_that_was_cut_short_is_no_pass(tmp_path: Path) -> None:
    writer = write(tmp_path / "a", GOOD, manifest={"state": "interrupted"})
    writer.seal(render_report)
    status, _, err = run("judge", str(tmp_path / "a"))
    assert status == 6
    assert "cut short" in err


def test_a_line_from_a_signals_handler_comes_through_while_another_is_printed() -> None:
    class Interrupting(io.StringIO):
        """Somebody presses Ctrl-C again while the first line is on its way."""

        told = False

        def write(self, text: str) -> int:
            if not self.told:
                self.told = True
                narration.says("please wait")
            return super().write(text)

    stream = Interrupting()
    narration = Narration(Console(file=stream))
    printing = threading.Thread(target=narration.says, args=("first",), daemon=True)
    printing.start()
    printing.join(5)
    assert not printing.is_alive()
    assert "please wait" in stream.getvalue()


def test_judge_refuses_what_is_no_archive(tmp_path: Path) -> None:
    status, _, err = run("judge", str(tmp_path))
    assert status == 2
    assert "is not an archive" in err


def test_report_goes_into_the_archive_or_where_it_is_told(tmp_path: Path) -> None:
    sealed(tmp_path / "a", GOOD)
    assert run("report", str(tmp_path / "a"))[0] == 0
    assert altered(tmp_path / "a") == []
    assert run("report", str(tmp_path / "a"), "--output", str(tmp_path / "page.html"))[0] == 0
    assert (tmp_path / "page.html").read_text() == (tmp_path / "a/report.html").read_text()


def test_gate_takes_an_archive_only_to_rerun_it(tmp_path: Path) -> None:
    status, _, err = run("gate", str(tmp_path))
    assert status == 2
    assert "--rerun-failed" in err


def test_gate_cannot_rerun_without_an_earlier_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CEPHLAB_HOME", str(tmp_path / "home"))
    status, _, err = run("gate", "--rerun-failed")
    assert status == 2
    assert "there is no run to repeat" in err


@pytest.mark.parametrize(
    ("named", "tier", "everything", "wanted"),
    [
        ((), "quick", False, ("interop",)),
        ((), "quick", True, ()),
        ((), "full", False, ()),
        (("block", "all"), "quick", False, ()),
        (("block",), "full", False, ("block",)),
    ],
)
def test_a_quick_gate_runs_what_is_ready_in_minutes(
    named: tuple[str, ...], tier: str, everything: bool, wanted: tuple[str, ...]
) -> None:
    assert chosen(named, tier=tier, everything=everything) == wanted
