"""What entering machines by ssh has beyond the contract: whom it trusts, what it says, what it leaves."""

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from cephlab.lab.base import clock
from cephlab.lab.base.errors import LabBroken, Unavailable
from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import RunId, Runs
from cephlab.lab.images.image import Image
from cephlab.lab.providers.base import Images
from cephlab.lab.providers.ssh import SshProvider
from cephlab.lab.providers.ssh.connection import Unreachable
from cephlab.lab.providers.ssh.lab import SshLab
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.inventory import INVENTORY_VARIABLE, Inventory, load_inventory
from tests.contract import other_process, probes
from tests.contract.conftest import FOREIGN, node, spec_of
from tests.contract.yard import Kind, Spot, Yard, machines, make_key, place

pytestmark = [pytest.mark.real]

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module", params=list(Kind))
def quirks(
    request: pytest.FixtureRequest, home: Home, images: Images, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Yard]:
    """A good machine, and some that are set up so that they cannot serve."""
    spots = [
        Spot("good"),
        Spot("closed", more="DisableForwarding yes"),
        Spot("chatty", more='ForceCommand echo welcome; eval "$SSH_ORIGINAL_COMMAND"'),
        Spot("old"),
    ]
    with machines(request.param, tmp_path_factory.mktemp("yard"), spots, home, images, first=101) as bare_machines:
        yield bare_machines


def launch_on(machine: str, inventory: Inventory, home: Home, **changes: object) -> str:
    """Raise one node on one machine of the inventory, changed as said; what a program there printed."""
    chosen = next(entry for entry in inventory.machines if entry.name == machine)
    only = replace(inventory, machines=(replace(chosen, **changes),))  # type: ignore[arg-type]
    runs = Runs(home)
    run = runs.create("ssh")
    try:
        with SshProvider(lambda: only).launch(spec_of(node("n0", only.machines[0].arch)), {}, run) as lab:
            return lab.hosts["n0"].run(("echo", "entered")).stdout
    finally:
        runs.forget(run)


@pytest.fixture
def inventory(quirks: Yard) -> Inventory:
    return load_inventory(quirks.inventory)


def home_in(folder: Path) -> Home:
    return Home(folder)


def test_a_machine_that_is_known_is_entered(inventory: Inventory, tmp_path: Path) -> None:
    assert launch_on("good", inventory, home_in(tmp_path)) == "entered\n"


def test_nothing_of_the_users_settings_is_forwarded(
    inventory: Inventory, quirks: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not when it is entered, nor when a program runs there, nor when a socket of the lab's own is forwarded."""
    near, far = tmp_path / "near", f"/tmp/cephlab-far-{secrets.token_hex(8)}"
    settings = tmp_path / "config"
    settings.write_text(f"Host *\nLocalForward {near} {far}\nRemoteForward {far} {near}\n")
    # The settings of whoever runs this stay as they are: an ssh in front of the real one names others.
    (tmp_path / "ssh").write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {settings} "$@"\n')
    (tmp_path / "ssh").chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    known = quirks.known_hosts.read_bytes()
    run = Runs(home_in(tmp_path / "home")).create("ssh")
    lab = SshLab(run, inventory.machines)
    host = lab.add_node(node("good"))
    try:
        assert host.run(("true",)).code == 0
        with host.connection.far(f"{host.directory}/s", tmp_path / "answering"):
            assert quirks.has("good", f"{host.directory}/s")
            assert not near.exists()
            assert not quirks.has("good", far)
    finally:
        lab.close()
    assert quirks.known_hosts.read_bytes() == known


def test_an_unknown_host_key_is_refused(inventory: Inventory, quirks: Yard, tmp_path: Path) -> None:
    (tmp_path / "none").touch()
    with pytest.raises(Unreachable) as caught:
        launch_on("good", inventory, home_in(tmp_path), known_hosts=str(tmp_path / "none"))
    assert "host key is not known" in caught.value.what
    assert f"ssh-keyscan -p {quirks.ground.port} {quirks.spot('good').address}" in caught.value.hint
    assert (tmp_path / "none").read_bytes() == b""


def test_a_changed_host_key_is_refused(inventory: Inventory, quirks: Yard, tmp_path: Path) -> None:
    other = (quirks.folder / "user_key.pub").read_text().split()[:2]
    where = place(quirks.spot("good").address, quirks.ground.port)
    (tmp_path / "other").write_text(f"{where} {' '.join(other)}\n")
    with pytest.raises(Unreachable, match="differs from the known one"):
        launch_on("good", inventory, home_in(tmp_path), known_hosts=str(tmp_path / "other"))


def test_who_is_not_let_in_is_told_so(inventory: Inventory, tmp_path: Path) -> None:
    make_key(tmp_path / "stranger")
    with pytest.raises(Unreachable, match="does not let"):
        launch_on("good", inventory, home_in(tmp_path), key=str(tmp_path / "stranger"))


def test_nobody_answering_is_told_so(inventory: Inventory, tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="does not answer"):
        launch_on("good", inventory, home_in(tmp_path), port=7423)


def test_a_machine_that_forwards_nothing_is_told_what_it_lacks(inventory: Inventory, tmp_path: Path) -> None:
    with pytest.raises(LabBroken) as caught:
        launch_on("closed", inventory, home_in(tmp_path))
    assert "AllowStreamLocalForwarding" in str(caught.value)


def test_a_login_shell_that_prints_is_told_of(inventory: Inventory, tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="prints something"):
        launch_on("chatty", inventory, home_in(tmp_path))


def test_a_machine_without_python_is_told_of(inventory: Inventory, tmp_path: Path) -> None:
    with pytest.raises(LabBroken, match="cannot run") as caught:
        launch_on("old", inventory, home_in(tmp_path), python="/usr/bin/false")
    assert "3.9" in caught.value.hint


def test_another_architecture_than_written_is_refused(inventory: Inventory, tmp_path: Path) -> None:
    with pytest.raises(LabBroken, match="not what the inventory says"):
        launch_on("good", inventory, home_in(tmp_path), arch=FOREIGN)


def test_a_folder_of_that_name_is_not_entered(inventory: Inventory, quirks: Yard, tmp_path: Path) -> None:
    runs = Runs(home_in(tmp_path))
    run = runs.create("ssh")
    lab = SshLab(run, inventory.machines)
    host = lab.add_node(node("good"))
    again = SshLab(run, inventory.machines)
    with pytest.raises(Unavailable, match="serves another run"):
        again.add_machine(host.machine)
    lab.close()
    folder = str(host.directory.parent)
    assert not quirks.has("good", folder)
    quirks.look("good", "mkdir", "--mode=0755", folder)
    try:
        with pytest.raises(LabBroken, match="exists"):
            SshLab(run, inventory.machines).add_node(node("good"))
        assert quirks.look("good", "ls", "--almost-all", folder).stdout == ""
    finally:
        assert quirks.look("good", "rmdir", folder).code == 0


def is_master(process: psutil.Process) -> bool:
    """Whether it is a connection that others share, and at work: one that ended and waits to be reaped is not."""
    try:
        return "ControlMaster=yes" in process.cmdline()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return False


def test_a_lost_connection_is_made_again(inventory: Inventory, tmp_path: Path) -> None:
    run = Runs(home_in(tmp_path)).create("ssh")
    lab = SshLab(run, inventory.machines)
    host = lab.add_node(node("good"))
    daemon = host.spawn(("sleep", "300"), log=host.directory / "log")
    masters = [child for child in psutil.Process().children() if is_master(child)]
    for master in masters:
        master.kill()
    clock.wait(
        lambda: [master for master in masters if is_master(master)],
        lambda left: not left,
        what="the end of ssh",
        timeout_s=30,
    )
    assert masters
    assert daemon.alive()
    assert host.run(("echo", "again")).stdout == "again\n"
    lab.close()
    assert not daemon.alive()


def test_a_killed_process_leaves_no_ssh_behind(quirks: Yard, tmp_path: Path) -> None:
    home = home_in(tmp_path)
    image = Image("reef", host_arch(), "0" * 64, tmp_path)
    order = {
        "home": str(home.path),
        "provider": "ssh",
        "release": image.release,
        "key": image.key,
        "root": str(image.root),
        "mark": probes.mark(),
    }
    before = set(Path(tempfile.gettempdir()).glob("cephlab-*-ssh-*"))
    owner = subprocess.Popen(
        [sys.executable, other_process.__file__, "launch", json.dumps(order)],
        env={**os.environ, "PYTHONPATH": str(ROOT), INVENTORY_VARIABLE: str(quirks.inventory)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with owner:
        assert owner.stdout is not None
        run_id = RunId(json.loads(owner.stdout.readline())["run"])
        children = psutil.Process(owner.pid).children(recursive=True)
        owner.send_signal(signal.SIGKILL)
    assert [child for child in children if "ssh" in child.name()] or children
    _, left = psutil.wait_procs(children, timeout=5)
    assert left == []
    provider = SshProvider(lambda: load_inventory(quirks.inventory))
    assert provider.leftovers(home) == {run_id}
    assert provider.prune(home, run_id) != []
    assert provider.prune(home, run_id) == []
    assert set(Path(tempfile.gettempdir()).glob("cephlab-*-ssh-*")) == before
