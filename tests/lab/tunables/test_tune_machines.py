"""`cephlab tune` on machines of an inventory: looked at freely, changed by the list alone, given back byte for byte."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cephlab.cli.main import app
from cephlab.cli.world import World
from cephlab.lab.base.home import Home
from cephlab.lab.base.process import Result as Ran
from cephlab.lab.cluster.attach.guard import NotPermitted
from cephlab.lab.cluster.attach.permit import Permit
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.inventory import Inventory, Role
from cephlab.lab.spec.inventory import Machine as Known
from cephlab.lab.tunables import targets
from cephlab.lab.tunables.machine import Machine, Write
from cephlab.lab.tunables.targets import Permitted
from tests.fake_machine import FakeMachine
from tests.fake_provider import FakeProvider, providers

SWAPPINESS = "/proc/sys/vm/swappiness"
TUNING = """
title = "t"
paper = "p"

[[settings]]
kind = "sysctl"
key = "vm.swappiness"
value = "0"
source = "s"
"""
INVENTORY = """
architecture = "x86_64"

[[hosts]]
name = "node1"
address = "192.0.2.1"
roles = ["osd"]

[[hosts]]
name = "node2"
address = "192.0.2.2"
roles = ["osd", "client"]
"""


class Yard:
    """Machines that ssh would enter; `visits`: which were, each time."""

    def __init__(self) -> None:
        self.machines = {name: FakeMachine(name, {SWAPPINESS: b"60\n"}) for name in ("node1", "node2")}
        self.visits: list[list[str]] = []

    @contextmanager
    def entered(
        self, _inventory: Inventory, _home: Home, machines: Sequence[Known]
    ) -> Iterator[Mapping[str, FakeMachine]]:
        self.visits.append([machine.name for machine in machines])
        yield self.machines

    def content(self, name: str) -> bytes:
        return self.machines[name].files[SWAPPINESS]


@pytest.fixture
def yard(monkeypatch: pytest.MonkeyPatch) -> Yard:
    made = Yard()
    monkeypatch.setattr(targets, "entered", made.entered)
    return made


@pytest.fixture
def world(tmp_path: Path) -> World:
    (tmp_path / "mine.toml").write_text(TUNING)
    (tmp_path / "inventory.toml").write_text(INVENTORY)
    return World(Home(tmp_path / "home").ensure(), providers(FakeProvider()))


def tune(world: World, verb: str, *more: str) -> Result:
    folder = world.home.path.parent
    given = ["tune", verb, str(folder / "mine.toml"), "--inventory", str(folder / "inventory.toml"), *more]
    return CliRunner().invoke(app, given, obj=world)


def test_all_machines_are_looked_at_without_a_list(world: World, yard: Yard) -> None:
    ended = tune(world, "check", "--json")
    findings = json.loads(ended.stdout)["findings"]
    assert ended.exit_code == 1
    assert {finding["where"]: finding["got"] for finding in findings} == {"node1": "60", "node2": "60"}
    assert [machine.writes for machine in yard.machines.values()] == [0, 0]


def test_without_a_list_nothing_is_entered_to_be_changed(world: World, yard: Yard) -> None:
    for verb in ("apply", "revert"):
        ended = tune(world, verb)
        assert ended.exit_code == 2
        assert "node1, which is not on the list" in ended.stderr
        assert "hosts = ['node1']" in ended.stderr
    assert yard.visits == []


def test_what_the_list_names_is_changed_and_given_back(world: World, yard: Yard) -> None:
    ended = tune(world, "apply", "--may-break", "host:node2")
    assert ended.exit_code == 0, ended.output
    assert "not on the list, so not changed: node1" in ended.stderr
    assert "machines on which programs may run and write: node2" in ended.stderr
    assert (yard.content("node1"), yard.content("node2")) == (b"60\n", b"0\n")

    assert tune(world, "revert", "--may-break", "host:node2").exit_code == 0
    assert yard.content("node2") == b"60\n"
    assert yard.visits == [["node2"], ["node2"]]


def test_a_list_is_for_an_inventory(world: World) -> None:
    ended = CliRunner().invoke(
        app, ["tune", "check", "altra-host", "--this-machine", "--may-break", "host:x"], obj=world
    )
    assert ended.exit_code == 2
    assert "--inventory: missing" in ended.stderr


class Recording:
    """What was run, under the name of a machine."""

    name = "node1"

    def __init__(self) -> None:
        self.ran: list[tuple[str, ...]] = []
        self.limits_s: list[float] = []

    def run(self, argv: Sequence[str], *, timeout_s: float = 0.0, stdin: bytes = b"") -> Ran:
        self.ran.append(tuple(argv))
        self.limits_s.append(timeout_s)
        return Ran(tuple(argv), 0, b'{"read": {}, "write": [null], "swap": []}', b"")


def known(*, sudo: bool = False) -> Known:
    roles = frozenset({Role.OSD})
    return Known("node1", "192.0.2.1", "192.0.2.1", Arch.X86_64, roles, python="/opt/python3", sudo=sudo)


def test_a_change_does_not_pass_without_the_list() -> None:
    recording = Recording()
    machine = Machine("node1", Permitted(known(), recording, Permit()))
    machine.read(["/x"])
    with pytest.raises(NotPermitted):
        machine.write([Write("/x", b"1")])
    with pytest.raises(NotPermitted):
        machine.swap("off")
    assert len(recording.ran) == 1


def test_the_machines_own_python_runs_by_sudo_where_the_inventory_says_so() -> None:
    recording, permit = Recording(), Permit(hosts=frozenset({"node1"}))
    Machine("node1", Permitted(known(sudo=True), recording, permit)).write([Write("/x", b"1")])
    Machine("node1", Permitted(known(), recording, permit)).read(["/x"])
    assert [argv[:3] for argv in recording.ran] == [
        ("sudo", "-n", "/opt/python3"),
        ("/opt/python3", "-c", recording.ran[1][2]),
    ]
    assert recording.limits_s == [60.0, 60.0]


def test_a_revert_that_failed_on_one_machine_is_repeated_there_alone(world: World, yard: Yard) -> None:
    both = ("--may-break", "host:node1,host:node2")
    assert tune(world, "apply", *both).exit_code == 0
    yard.machines["node2"].read_only.add(SWAPPINESS)
    failed = tune(world, "revert", *both)
    assert failed.exit_code == 3
    assert "then revert mine again" in failed.stderr
    assert "prune" not in failed.stderr
    yard.machines["node2"].read_only.clear()
    again = tune(world, "revert", *both)
    assert again.exit_code == 0, again.output
    assert (yard.content("node1"), yard.content("node2")) == (b"60\n", b"60\n")
    over = tune(world, "revert", *both)
    assert over.exit_code == 2
    assert "mine was not applied to node1" in over.stderr


def test_no_machine_is_entered_for_a_tuning_that_does_not_exist(world: World, yard: Yard) -> None:
    (world.home.path.parent / "mine.toml").unlink()
    for verb in ("check", "apply"):
        assert tune(world, verb, "--may-break", "host:node1").exit_code == 2
    assert yard.visits == []
