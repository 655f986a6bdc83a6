"""Tunings on a real kernel: in a network namespace of the test's own, and on the hosts of every provider."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from cephlab.lab.base import process
from cephlab.lab.base.home import Home
from cephlab.lab.base.process import Result
from cephlab.lab.tunables.machine import LIMITS_FOLDER, Machine, ThisMachine, patterns
from cephlab.lab.tunables.records import Records
from cephlab.lab.tunables.settings import Kind, Scope, SettingOutcome, State
from cephlab.lab.tunables.targets import own_scopes, sites_of
from cephlab.lab.tunables.tune import Site, Target, apply, check, revert
from cephlab.tuning.named import load
from tests.contract.conftest import Place
from tests.contract.elsewhere import with_images_of

pytestmark = pytest.mark.real

LEAST_SET = 5
"""Of the paper's fifteen settings of the network; a kernel without conntrack has fewer in a new namespace."""


@dataclass(frozen=True)
class Namespace:
    """This machine's programs in the network namespace of a process."""

    pid: int
    name: str = "namespace"

    def run(self, argv: Sequence[str], *, timeout_s: float = 60.0, stdin: bytes = b"") -> Result:
        inside = ("nsenter", f"--target={self.pid}", "--user", "--net", "--preserve-credentials")
        return process.run((*inside, *argv), timeout_s=timeout_s, stdin=stdin)


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    """A network of its own that ends with the test; no setting outside of it can change."""
    holder = subprocess.Popen(
        ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", "echo ready; exec sleep 300"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout is not None
        assert holder.stderr is not None
        if holder.stdout.readline() != "ready\n":
            pytest.skip(f"this machine gives an ordinary user no namespace: {holder.stderr.read().strip()}")
        yield Namespace(holder.pid)
    finally:
        holder.kill()
        holder.communicate()


def test_sysctls_are_really_set_and_every_byte_comes_back(namespace: Namespace, tmp_path: Path) -> None:
    machine = Machine("namespace", namespace)
    settings = [
        setting
        for setting in load("altra-host").settings
        if setting.kind is Kind.SYSCTL and setting.scope is Scope.NETWORK
    ]
    paths = [path for setting in settings for path in patterns(setting)]
    before = machine.read(paths)
    target = Target("namespace", (Site(machine),), None, Records(tmp_path))
    outside = Machine("outside", ThisMachine()).read(paths)

    changes = apply(target, "altra-host", settings)
    done = [change for change in changes if change.outcome is SettingOutcome.DONE]
    assert len(done) >= LEAST_SET, changes
    after = machine.read(paths)
    assert sum(after[path] != before[path] for path in paths) == len(done)
    set_now = {checked.setting.key for checked in check(target, settings) if checked.state is State.SET}
    assert set_now == {
        change.setting.key for change in changes if change.outcome in (SettingOutcome.DONE, SettingOutcome.ALREADY)
    }

    revert(target, "altra-host")
    assert machine.read(paths) == before
    assert Machine("outside", ThisMachine()).read(paths) == outside


def test_a_lab_changes_only_what_its_hosts_have_to_themselves(place: Place, tmp_path: Path) -> None:
    own = own_scopes(place.provider.capabilities())
    target = Target("lab", tuple(sites_of(place.lab.hosts, own)), None, Records(tmp_path))
    settings = load("altra-host").settings
    below = Machine("below", ThisMachine())
    watched = ["/proc/sys/vm/swappiness", "/proc/sys/net/ipv4/tcp_timestamps", f"{LIMITS_FOLDER}/*"]
    before = below.read(watched)

    changes = apply(target, "altra-host", settings)
    assert below.read(watched) == before
    for change in changes:
        assert change.why or change.outcome in (SettingOutcome.DONE, SettingOutcome.ALREADY), change
        if change.setting.scope not in own:
            assert change.outcome not in (SettingOutcome.DONE, SettingOutcome.REFUSED), change
    limits = [change.outcome for change in changes if change.setting.kind is Kind.LIMITS]
    assert set(limits) == ({SettingOutcome.DONE} if Scope.FILES in own else {SettingOutcome.SHARED})
    revert(target, "altra-host")
    assert below.read(watched) == before
    left = place.native.run(("ls", "-A", LIMITS_FOLDER), check=False).stdout
    assert "cephlab" not in left


def document_commands() -> list[str]:
    """The block of docs/tuning.md that raises a cluster and tunes it."""
    text = (Path(__file__).resolve().parents[2] / "docs" / "tuning.md").read_text()
    blocks: list[str] = re.findall(r"```bash\n(.*?)```", text, re.DOTALL)
    return next(block for block in blocks if "up --name" in block).splitlines()


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("images")
def test_the_documents_cluster_has_its_options_again(home: Home, tmp_path: Path) -> None:
    """Drift is found, options are set in a running Ceph, and its configuration database is as it was."""
    own = with_images_of(home, tmp_path / "home")
    command = [sys.executable, "-c", "from cephlab.cli.main import main; main()"]
    environment = {**os.environ, "CEPHLAB_HOME": str(own.path)}

    def call(*words: str) -> Result:
        return process.run([*command, *words], env=environment, timeout_s=250, check=False)

    codes, dumps = [], []
    try:
        for line in document_commands():
            done = call(*line.split()[1:])
            codes.append(done.code)
            assert done.code in (0, 1), f"{line}\n{done.stdout}\n{done.stderr}"
            dumps.append(json.loads(call("ceph", "--json", "one", "config", "dump").stdout))
    finally:
        down = call("down", "one")
    up, checked, applied, reverted = dumps
    # The lab's ceph.conf overrides two of the paper's options, so `apply` says that it was refused something.
    assert codes == [0, 1, 1, 0]
    assert up == checked == reverted
    assert {entry["name"] for entry in applied} >= {"bluestore_throttle_bytes", "osd_client_message_cap", "rbd_cache"}
    assert down.code == 0
