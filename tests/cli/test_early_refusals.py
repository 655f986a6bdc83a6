"""What would fail at the end of long work is refused before it begins."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cephlab.cli.main import app, run
from cephlab.cli.world import World
from cephlab.lab.base.home import Home
from cephlab.lab.spec.arch import host_arch
from tests.fake_provider import FakeProvider, providers


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(Home(tmp_path / "home"), providers(FakeProvider()))


def test_a_disk_that_cannot_be_measured_is_refused_before_programs_are_asked_for(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cephlab.lab.base.probe.which", lambda _name: None)
    (tmp_path / "file").touch()
    for path, why in ((tmp_path / "nosuch", "does not exist"), (tmp_path / "file", "is neither a folder nor a device")):
        result = CliRunner().invoke(app, ["probe", "--disk", str(path)], obj=world)
        assert result.exit_code == 2, result.output
        assert f"error: --disk: {path} {why}" in result.stderr


@pytest.mark.parametrize("command", ["measure", "predict", "explain"])
def test_copies_and_an_erasure_code_are_not_both_taken(world: World, command: str) -> None:
    profile = [] if command == "measure" else ["--profile", "kunpeng920"]
    arguments = [command, *profile, "--op", "randread", "--replicas", "3", "--ec", "2+1"]
    result = CliRunner().invoke(app, arguments, obj=world)
    assert result.exit_code == 2, result.output
    assert "--replicas and --ec cannot be given together" in result.stderr
    assert "got --replicas 3 and --ec 2+1" in result.stderr


def test_what_is_measured_beside_is_looked_for_before_any_image_is_built(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cephlab.lab.cluster.raising.images_for", lambda *_: pytest.fail("an image was built"))
    result = CliRunner().invoke(app, ["measure", "--beside", "nosuch"], obj=world)
    assert result.exit_code == 2, result.output
    assert "--beside: 'nosuch' does not name one image" in result.stderr


@pytest.mark.parametrize("arguments", [["measure"], ["tune", "measure", "altra-ceph"]], ids=" ".join)
def test_a_place_for_the_result_that_cannot_be_is_refused_before_a_cluster(
    world: World, tmp_path: Path, arguments: list[str]
) -> None:
    (tmp_path / "file").touch()
    place = tmp_path / "file" / "below"
    result = CliRunner().invoke(app, [*arguments, "--output", str(place)], obj=world)
    assert result.exit_code == 2, result.output
    assert f"--output {place}" in result.stderr
    assert f"{tmp_path / 'file'} is not a folder" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["gate", "--plan", "--profile", ""], "--profile is empty"),
        (["gate", "--plan", "--set", ""], "--set is empty"),
        (["gate", "--plan", "--archive", ""], "--archive is empty"),
        (["gate", "--plan", "--inventory="], "--inventory is empty"),
        (["report", ""], "[ARCHIVE] is empty"),
        (["predict", "--profile", "incerta-3n", "--stripe-unit", "16k"], "--stripe-unit needs an erasure code"),
        (["predict", "--profile", "incerta-3n", "--release", ""], "--release is empty"),
        (["up", "--dry-run", "--image", ""], "--image is empty"),
        (["gate", "--plan", "--release", "reef", "--release=pacific"], "--release was given more than once"),
        (["gate", "--plan", "-k", "objects", "--scenarios", "roles"], "--scenarios was given more than once"),
        (["gate", "--plan", "--plan", "--shard", "1/99999"], "--shard does not name a part"),
        (["up", "--dry-run", "--nodes", "x86_64:99999999"], "asks for 99999999 nodes"),
        (["up", "--dry-run", "--osds-per-node", "99999999999"], "--osds-per-node asks for too many"),
        (["up", "--dry-run", "--gateways", "99999999999"], "--gateways asks for too many"),
        (["gate", "--plan", "--shard", "1/99999"], "--shard does not name a part"),
        (["gate", "--plan", "--resume", "x" * 5000], "a path is too long"),
        (["predict", "--profile", "incerta-3n", "--output", "/"], "--output / cannot be written"),
        (["predict", "--profile", "incerta-3n", "--output", "x" * 5000], "File name too long"),
        (["predict", "--profile", "incerta-3n", "--bs", "9" * 30], "is not a size"),
        (["predict", "--profile", "incerta-3n", "--set", f"nodes.count={'9' * 30}"], "got a number beyond 64 bits"),
        (["predict", "--profile", "incerta-3n", "--set", "nodes.count=99999999"], "wanted: 10000000 or less"),
    ],
)
def test_values_that_mean_nothing_are_refused_at_once(world: World, arguments: list[str], told: str) -> None:
    result = CliRunner().invoke(app, arguments, obj=world)
    assert result.exit_code == 2, result.output
    assert told in result.stderr


@pytest.mark.parametrize("option", ["--clients", "--depth", "--replicas"])
def test_a_load_of_more_clients_than_there_are_is_wrong_use(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["predict", "--profile", "incerta-3n", option, "9" * 400]) == 2
    assert option in capsys.readouterr().err


@pytest.mark.parametrize("line", ['release = "hammer"', 'node_services = ["noodle"]'])
def test_what_no_image_or_node_has_is_told_with_the_file(world: World, tmp_path: Path, line: str) -> None:
    top, inside = (line, "") if line.startswith("release") else ("", line.removeprefix("node_"))
    file = tmp_path / "spec.toml"
    disk = 'disks = [{ name = "d" }]\nosds = [{ block = "d" }]'
    file.write_text(
        f'{top}\n[[nodes]]\nname = "n0"\narch = "{host_arch()}"\nmon = true\nmgr = true\n{disk}\n{inside}\n'
    )
    for how in ((), ("--dry-run",)):
        result = CliRunner().invoke(app, ["up", "--spec", str(file), *how], obj=world)
        assert result.exit_code == 2
        assert result.stderr.startswith(f"error: {file}: ")


@pytest.mark.parametrize("arguments", [["measure"], ["tune", "measure", "altra-ceph"]], ids=" ".join)
def test_a_profile_of_this_machine_that_cannot_be_read_costs_no_measurement(
    world: World, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    world.home.profiles.mkdir(parents=True)
    (world.home.profiles / "this-machine.toml").write_text("name = ")
    for module in ("measure", "tune"):
        monkeypatch.setattr(f"cephlab.cli.{module}.raised", lambda *_: pytest.fail("a cluster was raised"))
    result = CliRunner().invoke(app, arguments, obj=world)
    assert result.exit_code == 2, result.output
    assert "this-machine.toml is not TOML" in result.stderr


@pytest.mark.parametrize("given", [["--output", "mine.json"], ["--save-baseline"]])
def test_what_a_comparison_would_ignore_is_refused(world: World, given: list[str]) -> None:
    result = CliRunner().invoke(app, ["measure", "--beside", "same", *given], obj=world)
    assert result.exit_code == 2, result.output
    assert f"{given[0]} and --beside cannot be given together" in result.stderr


def test_an_option_before_the_command_is_told_where_it_belongs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--json", "tune", "check", "x"]) == 2
    told = capsys.readouterr()
    assert json.loads(told.out)["error"] == {
        "what": "--json was given before the command",
        "detail": "",
        "hint": "write it after the command: `cephlab tune check --json`",
    }


def test_arguments_of_another_program_may_be_empty(world: World) -> None:
    result = CliRunner().invoke(app, ["ceph", "nosuch", "config", "set", "osd", "x", ""], obj=world)
    assert "there is no cluster called 'nosuch'" in result.stderr


def test_a_wrong_part_is_refused_before_scenarios_are_collected(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cephlab.cli.gate.asked", lambda *_: pytest.fail("the request was made"))
    result = CliRunner().invoke(app, ["gate", "--shard", "3/2"], obj=world)
    assert result.exit_code == 2, result.output
    assert "error: --shard does not name a part" in result.stderr
