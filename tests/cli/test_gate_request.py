"""What `cephlab gate` makes of its options: which request, in how many processes, and what it prints afterwards."""

import json
import shutil
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from typer.testing import CliRunner, Result

from cephlab.cli.gate import chosen
from cephlab.cli.main import app
from cephlab.cli.world import World
from cephlab.fixtures.entering import called
from cephlab.fixtures.expectation import SCENARIO
from cephlab.fixtures.run import GateResult, Request, result_of
from cephlab.lab.archive.archive import ArchiveWriter, Ending, Record, read_archive
from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.home import Home
from cephlab.lab.report.wanted import Shown, record_requirement
from cephlab.lab.spec.arch import host_arch
from cephlab.tuning.profilefile import SHIPPED
from tests.lab.archive.test_archive import MANIFEST, add
from tests.lab.archive.test_signature import key_of

REQUIREMENT = """
[[requirements]]
name = "writes"
op = "randwrite"
bs = "4k"
clients = 1
depth = 1
protection = "replicated:2"
at_least = "1 ops/s"
"""
PASSED = Record("demo.a", "demo", Ending.PASS, "1 observation holds")
FAILED = Record("demo.a", "demo", Ending.FAIL, "x: got 3, wanted 1")
INVENTORY = f"""
user = "lab"
architecture = "{host_arch()}"
[[hosts]]
name = "near"
address = "192.0.2.7"
roles = ["client"]
"""


def archive(folder: Path, record: Record = PASSED, **manifest: Any) -> Path:
    """A finished run of one scenario."""
    writer = ArchiveWriter(folder, {**MANIFEST, "planned": [record.scenario], **manifest})
    add(writer, record)
    writer.seal(lambda _archive: "a report")
    return folder


@dataclass
class Gate:
    """The command, with a run that only notes what it was given. code: how the run ends; manifest: what it writes."""

    world: World
    ran: list[tuple[Request, int, Sequence[str]]] = field(default_factory=list)
    write: Callable[[Path], object] = archive
    code: int = 0

    def run(self, request: Request, jobs: int, machines: Sequence[Any], heard: Any) -> GateResult:
        self.ran.append((request, jobs, [machine.address for machine in machines]))
        heard.pytest_cephlab_progress("the run says something")
        # Two runs of a second have one name. A wrong folder must not be emptied: it might be the one of the tests.
        assert request.archive.is_relative_to(self.world.home.path.parent), request.archive
        shutil.rmtree(request.archive, ignore_errors=True)
        self.write(request.archive)
        return result_of(request, self.code)

    def __call__(self, *arguments: object) -> Result:
        return CliRunner().invoke(app, ["gate", *map(str, arguments)], obj=self.world)

    def asked(self, *arguments: object) -> Request:
        """The request that these options make."""
        done = self(*arguments)
        assert done.exit_code == 0, done.output
        return self.ran[-1][0]


@pytest.fixture
def gate(world: World, monkeypatch: pytest.MonkeyPatch) -> Gate:
    made = Gate(world)
    monkeypatch.setattr("cephlab.cli.gate.run", made.run)
    monkeypatch.delenv("CEPHLAB_INVENTORY", raising=False)
    return made


def test_without_options_a_few_suites_run_and_nothing_is_chosen_for_the_user(gate: Gate) -> None:
    request = gate.asked()
    assert request == Request(request.archive, gate.world.home.path, suites=("interop",))
    assert request.archive.parent == gate.world.home.archive
    assert "-quick-" in request.archive.name
    assert gate.ran[-1][1:] == (0, [])


def test_what_is_asked_for_is_what_runs(gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options = ["--tier", "full", "--suite", "block", "--suite", "scale", "-k", "objects", "--seed", "0", "--sample"]
    where = ["--lab", "local", "--release", "pacific", "--profile", "incerta-3n", "--set", "nodes.count=6"]
    flags = ["--metrics", "--fresh", "--keep", "--shard", "1/2", "-j", "1", "--archive", "new"]
    assert gate.asked(*options, *where, *flags) == Request(
        tmp_path / "new",
        gate.world.home.path,
        tier="full",
        lab="local",
        release="pacific",
        seed=0,
        suites=("block", "scale"),
        keep=True,
        expression="objects",
        profile="incerta-3n",
        changes=("nodes.count=6",),
        metrics=True,
        fresh=True,
        sample=True,
        shard="1/2",
    )
    assert gate.ran[-1][1] == 1
    assert gate.asked("--image", "example/ceph:1").image == "example/ceph:1"
    assert gate.asked("-k", "objects").suites == (), "scenarios of a name may be in any suite"
    assert "-full-" in gate.asked("--tier", "full").archive.name
    existing = gate.asked("--lab", "ssh", "--inventory", "mine.toml", "--may-break", "pool:x")
    assert (existing.lab, existing.inventory, existing.may_break) == ("ssh", Path("mine.toml"), "pool:x")


def test_what_failed_or_was_left_is_looked_for_in_all_suites(
    gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    archive(gate.world.home.archive / "20260101-000000-quick-1")
    newest = archive(gate.world.home.archive / "20260102-000000-quick-1", FAILED)
    again = gate.asked("--rerun-failed")
    assert (again.rerun, again.suites, again.resume) == (newest, (), None)
    assert "-rerun-" in again.archive.name
    archive(tmp_path / "mine", FAILED)
    assert gate.asked("mine", "--rerun-failed").rerun == tmp_path / "mine"
    archive(tmp_path / "left", planned=["demo.a", "demo.b"])
    rest = gate.asked("--resume", "left")
    assert (rest.resume, rest.rerun, rest.suites) == (tmp_path / "left", None, ())
    for earlier in (["--resume", "left"], ["mine", "--rerun-failed"]):
        assert gate.asked(*earlier, "--scale-model").suites == (), "the earlier run has the profile"


def test_a_path_that_begins_with_the_home_folder_is_one_for_every_option(
    gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shell puts the folder in place of ~ only at the beginning of a word."""
    monkeypatch.setenv("HOME", str(tmp_path))
    archive(tmp_path / "left", FAILED, planned=["demo.a", "demo.b"])
    request = gate.asked("--resume=~/left", "--archive=~/new", "--inventory=~/lab.toml")
    assert (request.resume, request.archive) == (tmp_path / "left", tmp_path / "new")
    assert request.inventory == tmp_path / "lab.toml"
    assert gate.asked("--job=~/job.toml").job == tmp_path / "job.toml"
    assert gate.asked("--rerun-failed", "~/left").rerun == tmp_path / "left"
    assert f"{tmp_path}/mine.toml" in gate("--profile=~/mine.toml").stderr.replace("\n", "")


def test_a_job_runs_instead_of_suites(gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    request = gate.asked("--job", "job.toml", "--tier", "full")
    assert (request.job, request.suites) == (tmp_path / "job.toml", ("job",))
    profiled = gate.asked("--job", "job.toml", "--profile", "incerta-3n", "--scale-model")
    assert profiled.suites == ("job", "scale")


def test_a_scale_model_comes_with_a_profile_and_into_every_choice(gate: Gate) -> None:
    profile = ("--profile", "incerta-3n", "--scale-model")
    assert gate.asked(*profile).suites == ("interop", "block", "scale")
    assert gate.asked(*profile, "--suite", "interop").suites == ("interop", "scale")
    assert gate.asked("--scale-model", "--lab", "ssh").suites == ("interop", "scale")


@pytest.mark.parametrize(
    ("arguments", "suites"),
    [
        ([], ("interop", "block", "profile")),
        (["--suite", "baseline"], ("baseline", "profile")),
        (["--suite", "profile"], ("profile",)),
        (["--suite", "all"], ()),
        (["--job", "job.toml"], ("job", "profile")),
    ],
)
def test_no_gate_of_a_profile_leaves_its_requirements_out(
    gate: Gate, tmp_path: Path, arguments: list[str], suites: tuple[str, ...]
) -> None:
    wanted = tmp_path / "incerta-3n.toml"
    wanted.write_text((SHIPPED / wanted.name).read_text() + REQUIREMENT)
    assert gate.asked("--profile", wanted, *arguments).suites == suites


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--tier", "huge"], "--tier: 'huge' is not known"),
        (["--tier", "quik"], "did you mean quick?"),
        (["--suite", "moon"], "there is no suite 'moon'"),
        (["--lab", "moon"], "unknown provider 'moon'"),
        (["--release", "reef", "--image", "some/ceph:1"], "--release and --image cannot be given together"),
        (["--resume", "{failed}"], "there is nothing left to run of {failed}"),
        (["-k", "a b c"], "is not an expression"),
        (["somewhere"], "somewhere needs --rerun-failed"),
        (["--scale-model"], "--scale-model needs a profile"),
        (["--job", "job.toml", "--suite", "interop"], "--job and --suite cannot be given together"),
        (["--suite", "profile"], "--suite profile needs a profile with requirements"),
        (["--suite", "profile", "--set", "nodes.count=3"], "--profile: missing"),
        (["--suite", "profile", "--profile", "incerta-3n"], "incerta-3n has none"),
        (["--profile", "nosuch"], "nosuch"),
        (["--set", "nodes.count=moon", "--profile", "incerta-3n"], "nodes.count"),
        (["--sign", "nosuch"], "nosuch"),
        (["--on", "a", "--lab", "ssh"], "--on cannot be given with --lab ssh"),
        (["--on", "a", "--profile", "incerta-3n"], "--on cannot be given with --profile"),
        (["--on", "a", "--resume", "{left}"], "--on cannot be given with --resume"),
        (["--on", "a", "--rerun-failed", "{failed}"], "--on cannot be given with --rerun-failed"),
        (["--on", "a", "--job", "job.toml"], "--on cannot be given with --job"),
        (["--on", "a", "--keep"], "--on cannot be given with --keep"),
        (["--on", "a", "--may-break", "pool:x"], "--on cannot be given with --may-break"),
        (["--on", "a", "--profile", "incerta-3n", "--plan"], "--on cannot be given with --profile"),
    ],
)
def test_what_does_not_fit_together_is_refused_before_anything_runs(
    gate: Gate, tmp_path: Path, arguments: list[str], said: str
) -> None:
    failed = archive(tmp_path / "failed", FAILED)
    left = archive(tmp_path / "left", planned=["demo.a", "demo.b"])
    done = gate(*(argument.format(failed=failed, left=left) for argument in arguments))
    assert done.exit_code == 2, done.output
    assert said.format(failed=failed) in done.stderr
    assert gate.ran == []


def test_a_plan_counts_the_processes_of_this_machine_or_of_each(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[Request] = []

    def plan(request: Request) -> list[object]:
        planned.append(request)
        return []

    monkeypatch.setattr("cephlab.fixtures.plan.plan", plan)
    monkeypatch.setattr("cephlab.fixtures.lanes.bearable", lambda: 7)

    def lanes(*options: str) -> object:
        return json.loads(gate("--plan", "--json", *options).stdout)["lanes"]

    assert [lanes(), lanes("-j", "3"), lanes("--profile", "incerta-3n")] == [7, 3, 1]
    assert [lanes("--on", "a"), lanes("--on", "a", "-j", "3")] == [None, 3]
    gate("--list", "--seed", "8")
    assert [(request.profile, request.seed) for request in planned[2:4] + planned[-1:]] == [
        ("incerta-3n", None),
        (None, None),
        (None, 8),
    ]
    assert gate.ran == []


def test_machines_are_those_of_the_inventory_or_of_its_variable(
    gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "mine.toml").write_text(INVENTORY)
    assert gate.asked("--on", "near,far", "--inventory=~/mine.toml", "-j", "2").inventory is None
    assert gate.ran[-1][1:] == (2, ["192.0.2.7", "far"])
    gate.asked("--on", "near")
    assert gate.ran[-1][2] == ["near"]
    monkeypatch.setenv("CEPHLAB_INVENTORY", "~/mine.toml")
    gate.asked("--on", "near")
    assert gate.ran[-1][2] == ["192.0.2.7"]


# Afterwards


def with_a_profile(folder: Path) -> None:
    """The archive of a run with a profile, also one of an inventory or of an earlier run."""
    writer = ArchiveWriter(folder, {**MANIFEST, "profile": "mine"})
    add(writer, FAILED)
    foreseen = {"profile": "mine", "ops_s": 1000.0, "latency_s": 0.001, "bottleneck": "CPU"}
    writer.history.record(SCENARIO, "prediction", {**foreseen, "shape": "write", "limits": []})
    rows = [("throughput", "at least 10 kops/s", "12 kops/s", "", "CPU")]
    record_requirement(writer.history.recorder("demo.a"), Shown("reads", "mine", rows, enough=[], demands="shipped"))
    writer.seal(lambda _archive: "a report")


def test_the_page_has_what_was_predicted_and_required_wherever_the_profile_came_from(gate: Gate) -> None:
    gate.write, gate.code = with_a_profile, 1
    done = gate()
    assert done.exit_code == 1
    said = done.stdout.splitlines()
    assert "1 failed" in said
    predicted = "predicted for mine, write: 1 kops/s, mean latency 1 ms, limit: CPU"
    assert said.index("1 failed") < said.index(predicted)
    assert said[-3:] == [
        "requirements of mine:",
        "  demo.a, reads: failed",
        "    throughput: at least 10 kops/s required, 12 kops/s predicted",
    ]
    told = json.loads(gate("--json").stdout)
    assert told["code"] == 1
    assert told["verdicts"][0]["reason"] == FAILED.reason
    assert [prediction["shape"] for prediction in told["predictions"]] == ["write"]
    gate.write, gate.code = archive, 0
    assert json.loads(gate("--json").stdout)["predictions"] == []


def test_what_a_profile_brings_does_not_narrow_a_choice() -> None:
    assert chosen((), tier="quick", everything=False, beside=("block", "profile")) == ("interop", "block", "profile")
    assert chosen(("all",), tier="quick", everything=False, beside=("block",)) == ()
    assert chosen(("profile", "hci"), tier="full", everything=True, beside=("block", "profile")) == ("profile", "hci")


def test_a_home_is_made_for_the_first_gate(gate: Gate, tmp_path: Path) -> None:
    gate.world = replace(gate.world, home=Home(tmp_path / "new"))
    gate.asked()
    assert (tmp_path / "new" / "archive").is_dir()


def test_a_cache_folder_that_cannot_be_written_is_refused(gate: Gate) -> None:
    gate.world.home.images.rmdir()
    gate.world.home.images.touch()
    done = gate()
    assert done.exit_code == 2
    assert f"the cache folder {gate.world.home.path} cannot be written" in done.stderr
    assert gate.ran == []


def test_what_a_run_says_is_no_part_of_its_page(gate: Gate) -> None:
    done = gate()
    assert "the run says something" in done.stderr
    assert "the run says something" not in done.stdout
    assert "1 passed" in done.stdout.splitlines()


def test_a_second_signal_says_that_the_end_takes_a_while(gate: Gate) -> None:
    def stopped(folder: Path) -> None:
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        archive(folder)

    gate.write = stopped
    assert "still removing what was started; please wait" in gate().stderr


def test_the_page_wraps_on_a_terminal_and_its_commands_do_not(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    def narrow(folder: Path) -> None:
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
        archive(folder, replace(FAILED, reason="more words than a line of it has"), replay="cephlab gate --seed 5")

    monkeypatch.setenv("COLUMNS", "24")
    gate.write = narrow
    said = gate().stdout.splitlines()
    assert "  demo.a: more words" in said
    assert f"replay:  {called('cephlab gate --seed 5', gate.world.home)}" in said


# Signatures


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")
def test_the_archive_is_signed_with_the_key(gate: Gate, tmp_path: Path) -> None:
    key, signers = key_of(tmp_path, "ann")
    signed = read_archive(gate.asked("--sign", key).archive, signers)
    assert (signed.signer, signed.doubts) == ("ann@example.com", ())


@pytest.mark.parametrize("error", [SpecError("the agent is gone"), FileNotFoundError("SHA256SUMS")])
@pytest.mark.parametrize(("code", "ends"), [(0, 3), (1, 1)])
def test_a_key_that_no_longer_signs_costs_no_page(
    gate: Gate, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int, ends: int
) -> None:
    """What the run found comes first: a failure stays one."""
    monkeypatch.setattr("cephlab.lab.archive.signature.sign", Mock())
    monkeypatch.setattr("cephlab.lab.archive.archive.add_signature", Mock(side_effect=error))
    gate.write, gate.code = lambda folder: archive(folder, trouble=["a process lives"]), code
    done = gate("--sign", "key", "--json")
    told = json.loads(done.stdout)
    assert (done.exit_code, told["code"], told["trouble"]) == (ends, ends, ["a process lives", str(error)])
    assert [verdict["scenario"] for verdict in told["verdicts"]] == ["demo.a"]
