"""`cephlab tune` as a user meets it: what it shows, what it refuses, and how it ends."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cephlab.cli.main import app
from cephlab.cli.world import World
from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.home import Home
from cephlab.lab.tunables import targets
from cephlab.lab.tunables.machine import Machine
from cephlab.lab.tunables.records import Records
from cephlab.lab.tunables.settings import Scope, Setting, SettingChange, SettingOutcome
from cephlab.lab.tunables.targets import sites_of
from cephlab.lab.tunables.tune import MACHINE_SCOPES, Site, Target
from tests.fake_machine import FakeMachine
from tests.fake_provider import FakeProvider, kept_cluster, providers

SWAPPINESS = "/proc/sys/vm/swappiness"
ONE = '[[settings]]\nkind = "sysctl"\nkey = "vm.swappiness"\nvalue = "0"\nsource = "s"\n'
FIRMWARE = '[[settings]]\nkind = "bios"\nkey = "Speed"\nvalue = "high"\nsource = "s"\n'


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    fake = FakeMachine(files={SWAPPINESS: b"60\n"})

    def below(home: Home) -> Target:
        return Target("this machine", (Site(Machine("this machine", fake)),), None, Records(home.path / "tunings"))

    monkeypatch.setattr(targets, "this_machine", below)
    return fake


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "mine.toml"
    path.write_text('title = "t"\npaper = "p"\n' + ONE + FIRMWARE)
    return str(path)


def call(world: World, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["tune", *arguments], obj=world)


def test_every_tuning_is_listed_with_its_paper(world: World) -> None:
    shown = call(world, "ls").stdout
    for word in ("altra-host", "pve-host", "incerta-ceph", "kunpeng-gateway", "Ampere Altra"):
        assert word in shown


def test_a_setting_is_shown_with_its_source(world: World) -> None:
    shown = call(world, "show", "altra-host").stdout
    row = next(line for line in shown.splitlines() if "vm.swappiness" in line)
    assert row.split() == ["sysctl", "vm.swappiness", "=", "0", "12.3"]


def test_drift_ends_with_1_and_what_only_a_person_sees_is_named(world: World, machine: FakeMachine, file: str) -> None:
    result = call(world, "check", file, "--this-machine", "--json")
    value = json.loads(result.stdout)
    assert result.exit_code == 1
    assert value["counts"] == {"drift": 1, "unseen": 1}
    assert value["findings"][0]["got"] == "60"
    assert machine.files == {SWAPPINESS: b"60\n"}


def test_apply_check_and_revert(world: World, machine: FakeMachine, file: str) -> None:
    applied = call(world, "apply", file, "--this-machine")
    assert applied.exit_code == 0, applied.output
    assert "by-hand" in applied.stdout
    assert call(world, "check", file, "--this-machine").exit_code == 0
    reverted = call(world, "revert", file, "--this-machine")
    assert reverted.exit_code == 0, reverted.output
    assert f"restored: this machine: {SWAPPINESS}" in reverted.stdout
    assert machine.files == {SWAPPINESS: b"60\n"}


def test_a_refusal_ends_with_1(world: World, machine: FakeMachine, file: str) -> None:
    machine.read_only.add(SWAPPINESS)
    result = call(world, "apply", file, "--this-machine")
    assert result.exit_code == 1
    assert "Read-only file system" in result.stdout


def test_why_something_was_refused_is_not_cut_and_what_was_found_is(
    world: World, machine: FakeMachine, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(_targets: Sequence[Target], _name: str, settings: Sequence[Setting]) -> list[SettingChange]:
        outcomes = (SettingOutcome.REFUSED, SettingOutcome.DONE)
        return [SettingChange("m", settings[0], outcome, f"{outcome} {'x' * 100} end") for outcome in outcomes]

    monkeypatch.setattr("cephlab.lab.tunables.tune.apply_to", change)
    shown = "".join(call(world, "apply", file, "--this-machine").stdout.split())
    assert f"refused{'x' * 100}end" in shown
    assert f"done{'x' * 82}..." in shown


def test_nothing_to_look_at_is_inconclusive(world: World, machine: FakeMachine, tmp_path: Path) -> None:
    path = tmp_path / "firmware.toml"
    path.write_text('title = "t"\npaper = "p"\n' + FIRMWARE)
    assert call(world, "check", str(path), "--this-machine").exit_code == 6
    assert call(world, "apply", str(path), "--this-machine").exit_code == 6


def test_a_revert_that_fails_names_what_and_ends_with_3(world: World, machine: FakeMachine, file: str) -> None:
    call(world, "apply", file, "--this-machine")
    machine.read_only.add(SWAPPINESS)
    result = call(world, "revert", file, "--this-machine")
    assert result.exit_code == 3
    assert SWAPPINESS in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["check", "altra-host"], "neither CLUSTER nor --this-machine"),
        (["apply", "altra-host"], "neither CLUSTER nor --this-machine"),
        (["check", "altra", "--this-machine"], "there is no tuning 'altra'"),
        (["check", "altra-host", "nowhere"], "no cluster called 'nowhere'"),
        (["revert", "altra-host", "--this-machine"], "altra-host was not applied to this machine"),
    ],
)
def test_wrong_use_is_refused(world: World, machine: FakeMachine, arguments: list[str], said: str) -> None:
    result = call(world, *arguments)
    assert result.exit_code == 2
    assert said in result.stderr


@pytest.mark.slow
def test_the_first_commands_of_the_document_run_on_this_machine(tmp_path: Path) -> None:
    """As they stand, against the real files of the machine that the test runs on; they change nothing."""
    text = (Path(__file__).resolve().parents[2] / "docs" / "tuning.md").read_text()
    lines = text.split("```bash\n")[1].split("```")[0].splitlines()
    assert [line.split()[2] for line in lines] == ["ls", "show", "check"]
    real = World(Home(tmp_path / "home").ensure(), providers(FakeProvider()))
    for line in lines:
        result = CliRunner().invoke(app, line.split()[1:], obj=real)
        drifts = line.split()[2] == "check" and result.exit_code == 1
        assert result.exit_code == 0 or drifts, result.output
        assert "altra" in result.stdout or "vm.swappiness" in result.stdout


def test_what_hosts_share_is_one_site_seen_through_a_native_host(world: World) -> None:
    hosts = kept_cluster(world.home).hosts
    [below] = sites_of(hosts, frozenset())
    assert (below.owned, below.shared) == (frozenset(), MACHINE_SCOPES)
    assert below.machine.runner is hosts["n0"]
    sites = list(sites_of(hosts, frozenset({Scope.NETWORK, Scope.FILES})))
    assert [site.machine.where for site in sites[:3]] == ["n0", "n1", "n2"]
    assert sites[3].shared == {Scope.KERNEL}
    assert len(list(sites_of(hosts, MACHINE_SCOPES))) == 3


def test_an_apply_that_fails_half_way_says_what_it_put_back_also_as_json(
    world: World, machine: FakeMachine, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, failed = machine.run, False

    def lost(argv: Sequence[str], **more: Any) -> Any:
        nonlocal failed
        if machine.writes and not failed:
            failed = True
            raise LabBroken("the machine is lost", "no route")
        return answer(argv, **more)

    monkeypatch.setattr(machine, "run", lost)
    ended = call(world, "apply", file, "--this-machine", "--json")
    assert ended.exit_code == 3
    assert machine.files[SWAPPINESS] == b"60\n"
    assert json.loads(ended.stdout)["error"]["detail"] == "no route\nwhat mine had set was put back in 1 place"
