"""MicroCeph on an inventory's machines: what is refused, what is left for those who attach, and its end."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cephlab.cli.main import app
from cephlab.cli.world import World
from cephlab.lab.base.home import Home
from cephlab.lab.cluster.deploy import machines as machines_module
from cephlab.lab.cluster.prune import remove
from cephlab.lab.spec.inventory import Machine as InventoryMachine
from cephlab.lab.spec.inventory import load_inventory
from tests.lab.cluster.test_microceph import Machine, text, token

INVENTORY = """
user = "ubuntu"
architecture = "x86_64"

[[hosts]]
name = "n0"
address = "10.0.0.0"
roles = ["mon", "mgr", "osd"]

[[hosts]]
name = "n1"
address = "10.0.0.1"
architecture = "aarch64"
roles = ["osd"]

[[hosts]]
name = "load"
address = "10.0.0.9"
roles = ["client"]
"""


class Lab:
    """Stands for SshLab: a machine of answers for each one of the inventory."""

    known: dict[str, Machine]

    def __init__(self, _run: object, _machines: object) -> None:
        self.hosts: dict[str, Machine] = {}

    def add_machine(self, machine: InventoryMachine) -> Machine:
        self.hosts[machine.name] = self.known[machine.name]
        return self.hosts[machine.name]

    def restore(self, state: dict[str, Any]) -> None:
        for name in state["nodes"]:
            self.hosts[name] = self.known[name]

    def hang_up(self) -> None:
        """Nothing is connected."""


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Machine]:
    answers = {
        "microceph status": (0, text("microceph-status-multi.txt")),
        "microceph disk list --json": (0, text("microceph-disk-list.json")),
        "cat /var/snap/microceph/current/conf/ceph.conf": (0, "[global]\n"),
        "cat /var/snap/microceph/current/conf/ceph.client": (0, "[client.admin]\n"),
    }
    by_name = {f"n{number}": Machine(f"n{number}", f"10.0.0.{number}", dict(answers)) for number in range(2)}
    monkeypatch.setattr(Lab, "known", by_name, raising=False)
    monkeypatch.setattr(machines_module, "SshLab", Lab)
    path = tmp_path / "inventory.toml"
    path.write_text(INVENTORY)
    machines = {machine.name: machine for machine in load_inventory(path).machines if machine.name in by_name}
    monkeypatch.setattr(machines_module, "recorded", lambda _directory: machines)
    return by_name


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(Home(tmp_path / "home"), {})


def up(world: World, *options: str, folder: Path | None = None) -> Result:
    inventory = (f"--inventory={folder / 'inventory.toml'}",) if folder else ()
    return CliRunner().invoke(app, ["up", "--deploy", "microceph", "--json", *inventory, *options], obj=world)


def said(done: Result) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_it_stands_is_described_and_goes_with_its_run(world: World, known: dict[str, Machine], tmp_path: Path) -> None:
    done = up(world, "--name=demo", "--disk-size=2GiB", "--osds-per-node=2", "--gateway=n1:8080", folder=tmp_path)
    assert done.exit_code == 0, done.output
    assert "microceph disk add loop,2048M,2" in known["n0"].ran
    assert f"microceph cluster join {token('vm-n1')} --microceph-ip 10.0.0.1" in known["n1"].ran
    assert "microceph enable rgw --port 8080" in known["n1"].ran
    told = said(done)
    assert told["members"] == ["node-01", "node-02", "node-03"]
    described = load_inventory(Path(told["inventory"]))
    assert [(machine.name, machine.user, machine.arch.value) for machine in described.machines] == [
        ("n0", "ubuntu", "x86_64"),
        ("n1", "ubuntu", "aarch64"),
        ("load", "ubuntu", "x86_64"),
    ]
    assert described.ceph is not None
    assert described.ceph.keyring.read_bytes() == b"[client.admin]\n"
    assert described.ceph.keyring.stat().st_mode & 0o777 == 0o600
    gone = CliRunner().invoke(app, ["down", "demo", "--json"], obj=world)
    assert gone.exit_code == 0, gone.output
    assert {machine.ran[-1] for machine in known.values()} == {"snap remove microceph --purge"}


def test_it_goes_with_its_run_from_machines_that_were_rebooted(
    world: World, known: dict[str, Machine], tmp_path: Path
) -> None:
    assert up(world, "--name=demo", folder=tmp_path).exit_code == 0
    for machine in known.values():
        machine.agent = False
    gone = CliRunner().invoke(app, ["down", "demo", "--json"], obj=world)
    assert gone.exit_code == 0, gone.output
    assert {machine.ran[-1] for machine in known.values()} == {"snap remove microceph --purge"}


def test_an_interrupt_before_anything_is_installed_leaves_a_microceph_of_others_alone(
    world: World, known: dict[str, Machine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be the user's own, with data. Only what the run installed goes with the run."""

    def interrupted(_host: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("cephlab.lab.cluster.deploy.microceph.obstacle", interrupted)
    assert up(world, folder=tmp_path).exit_code != 0
    assert not any("remove" in line for machine in known.values() for line in machine.ran)
    assert list(world.runs.all()) == []


def test_what_could_not_be_removed_at_once_goes_with_the_run(
    world: World, known: dict[str, Machine], tmp_path: Path
) -> None:
    known["n0"].answers |= {"microceph disk add": (1, "Error: failed to record disk")}
    known["n1"].answers |= {"snap remove": (1, "snap is busy")}
    assert up(world, "--name=demo", folder=tmp_path).exit_code != 0
    (left,) = world.runs.all()
    known["n1"].answers |= {"snap remove": (0, "")}
    assert "MicroCeph on n1" in remove(world.home, left, world.providers)
    assert list(world.runs.all()) == []


def test_devices_are_given_to_the_machines_that_have_them(
    world: World, known: dict[str, Machine], tmp_path: Path
) -> None:
    assert up(world, "--device=n1:/dev/sdb", "--device=n1:/dev/sdc", folder=tmp_path).exit_code == 0
    assert "microceph disk add /dev/sdb /dev/sdc --wipe" in known["n1"].ran
    assert not any("disk add" in line for line in known["n0"].ran)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--nodes=x86_64:1"], "--nodes"),
        (["--device=n1:sdb"], "n1:sdb"),
        (["--gateway=n1:0"], "n1:0"),
        (["--device=n9:/dev/sdb"], "n9"),
        (["--release=pacific"], "MicroCeph has no pacific"),
        (["--snap=/nowhere.snap"], "/nowhere.snap"),
    ],
)
def test_wrong_input_is_named_and_nothing_is_installed(
    world: World, known: dict[str, Machine], tmp_path: Path, options: list[str], words: str
) -> None:
    done = up(world, *options, folder=tmp_path)
    assert done.exit_code == 2, done.output
    assert words in said(done)["error"]["what"]
    assert not any("install" in line for machine in known.values() for line in machine.ran)
    assert list(world.runs.all()) == []


def test_a_deployer_that_is_not_known_is_refused(world: World) -> None:
    done = CliRunner().invoke(app, ["up", "--deploy=ansible", "--json"], obj=world)
    assert done.exit_code == 2, done.output
    assert "ansible" in said(done)["error"]["what"]


def test_a_machine_without_snap_is_named(world: World, known: dict[str, Machine], tmp_path: Path) -> None:
    known["n1"].answers = {"snap version": (127, "not found")}
    done = up(world, folder=tmp_path)
    assert said(done)["error"]["what"] == "n1 has no snap"
    assert list(world.runs.all()) == []


def test_without_machines_it_is_refused(world: World) -> None:
    assert "needs machines that have snapd" in said(up(world))["error"]["what"]
    other = CliRunner().invoke(app, ["up", "--gateway", "n0:80", "--json"], obj=world)
    assert "--gateway: only for --deploy microceph" in said(other)["error"]["what"]
