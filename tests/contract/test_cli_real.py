"""The command as a person uses it, on real clusters: up, status, ceph, a daemon that dies, down, and a killed `up`."""

import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from cephlab.lab.base import clock
from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import Runs
from cephlab.lab.providers.guest.qemu import known_kvm
from cephlab.lab.providers.select import PROVIDERS
from cephlab.lab.spec.arch import host_arch
from tests.contract.conftest import FOREIGN
from tests.contract.raising import GUESTS, skip_guests

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

COMMAND = (sys.executable, "-c", "from cephlab.cli.main import main; main()")
HERE = f"{host_arch()}:1"


def cephlab(*arguments: str, code: int = 0, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command; it must end with `code`."""
    done = subprocess.run([*COMMAND, *arguments], input=stdin, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == code, f"{arguments}\n{done.stdout}\n{done.stderr}"
    return done


def start_up(provider: str, name: str, until: str) -> subprocess.Popen[str]:
    """An `up` that has got as far as saying `until`."""
    child = subprocess.Popen(
        [*COMMAND, "up", "--lab", provider, "--nodes", HERE, "--name", name], stderr=subprocess.PIPE, text=True
    )
    assert child.stderr is not None
    for line in child.stderr:
        if until in line:
            return child
    raise AssertionError(f"up ended with {child.wait()} and never said {until!r}")


def marked(name: str) -> list[str]:
    """Command lines of the processes that carry a run's mark."""
    command_lines = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("CEPHLAB_RUN") == name:
                command_lines.append(" ".join(process.cmdline()))
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return command_lines


def directories(home: Home, name: str) -> list[str]:
    return [run.id for run in Runs(home).all() if run.id == name]


@pytest.fixture(scope="module", params=list(PROVIDERS))
def provider(request: pytest.FixtureRequest) -> str:
    skip_guests(request.param)
    reason = PROVIDERS[request.param]().unavailable()
    if reason is not None:
        pytest.skip(str(reason))
    return str(request.param)


@pytest.fixture
def name(home: Home) -> Iterator[str]:
    """A cluster's name; what a failing test leaves under it is removed."""
    cluster_name = f"t{secrets.token_hex(4)}"
    yield cluster_name
    if directories(home, cluster_name):
        cephlab("down", cluster_name)


def test_the_life_of_a_cluster(provider: str, name: str, home: Home) -> None:
    raised = cephlab("up", "--lab", provider, "--nodes", HERE, "--name", name, "--json")
    description: dict[str, Any] = json.loads(raised.stdout)
    assert sorted(description) == [
        "conf",
        "fsid",
        "image",
        "keyring",
        "metrics",
        "mons",
        "name",
        "nodes",
        "provider",
        "release",
        "s3",
        "seconds",
    ]
    emulated = provider == "qemu" and not known_kvm(home)
    assert [(n["name"], n["arch"], n["emulated"], n["daemons"]) for n in description["nodes"]] == [
        ("n0", host_arch().value, emulated, ["mgr.n0", "mon.n0", "osd.0"])
    ]
    assert Path(description["keyring"]).stat().st_mode & 0o777 == 0o600
    assert "HEALTH_OK" in cephlab("status", name).stdout
    assert cephlab("ceph", name, "fsid").stdout.strip() == description["fsid"]
    assert cephlab("ceph", name, "nonsense", code=22).stderr != ""
    cephlab("ceph", name, "config-key", "set", "greeting", "-i", "-", stdin="hello")
    assert cephlab("ceph", name, "config-key", "get", "greeting").stdout.strip() == "hello"
    assert description["fsid"] in cephlab("shell", name, "n0", "--", "bash", "-c", "ceph fsid").stdout
    assert cephlab("up", "--lab", provider, "--nodes", HERE, "--name", name, code=2).stdout == ""
    assert {row["name"]: row["state"] for row in json.loads(cephlab("ls", "--json").stdout)["clusters"]}[
        name
    ] == "running"
    state = json.loads(Runs(home).get(name).state_file.read_text())
    killed_osd_is_named(provider, name, state)
    assert cephlab("down", name).stdout == f"{name} is gone\n"
    assert marked(name) == []
    assert directories(home, name) == []
    assert "there is no cluster" in cephlab("down", name, code=2).stderr


def killed_osd_is_named(provider: str, name: str, state: dict[str, Any]) -> None:
    """Kill the OSD as no verb of the lab would, and look at the status."""
    if provider in GUESTS:
        # Its processes are those of another kernel.
        cephlab("shell", name, "n0", "--", "pkill", "-KILL", "-x", "ceph-osd")
        gone = ("shell", name, "n0", "--", "bash", "-c", "until ! pgrep -x ceph-osd; do sleep 0.1; done")
        cephlab(*gone)
    else:
        osd = next(process for process in psutil.process_iter() if is_osd(process, name))
        os.kill(osd.pid, signal.SIGKILL)
        clock.wait(lambda: is_osd(osd, name), lambda there: not there, what="the end of the OSD", timeout_s=20)
    shown = cephlab("status", name, code=1)
    assert "error: osd.0 on n0 died" in shown.stderr
    assert "last log lines" in shown.stderr
    assert "osd.0 " in shown.stderr.split("last log lines")[1]
    assert any(line.split()[:2] == ["died", "osd.0"] for line in shown.stdout.splitlines())
    assert any(daemon["name"] == "osd.0" for daemon in state["daemons"])


def is_osd(process: psutil.Process, name: str) -> bool:
    try:
        return process.environ().get("CEPHLAB_RUN") == name and "ceph-osd" in " ".join(process.cmdline())
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


@pytest.mark.parametrize("until", ["1 OSD on ", "mon.n0 started", "osd.0 started"])
def test_a_killed_up_leaves_nothing_that_prune_does_not_remove(
    provider: str, name: str, home: Home, until: str
) -> None:
    child = start_up(provider, name, until)
    child.kill()
    child.communicate()
    assert directories(home, name) == [name]
    cephlab("prune")
    assert marked(name) == []
    assert directories(home, name) == []
    assert name not in PROVIDERS[provider]().leftovers(home)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_up_leaves_nothing(provider: str, name: str, home: Home, number: signal.Signals) -> None:
    child = start_up(provider, name, "mon.n0 started")
    child.send_signal(number)
    _, stderr = child.communicate(timeout=100)
    assert child.returncode == 128 + number
    assert "everything that was started has been removed again" in stderr
    assert marked(name) == []
    assert directories(home, name) == []


def test_two_at_once(provider: str, home: Home) -> None:
    names = [f"t{secrets.token_hex(4)}" for _ in range(2)]
    arguments = ["up", "--lab", provider, "--nodes", HERE, "--name"]
    children = [subprocess.Popen([*COMMAND, *arguments, name], stderr=subprocess.PIPE, text=True) for name in names]
    results = [(child.communicate(timeout=500)[1], child.returncode) for child in children]
    for name in names:
        if directories(home, name):
            cephlab("down", name)
    assert [code for _, code in results] == [0, 0], results


def test_a_mixed_cluster_by_default(provider: str, name: str) -> None:
    description = json.loads(cephlab("up", "--lab", provider, "--name", name, "--json").stdout)
    assert [node["arch"] for node in description["nodes"]] == [host_arch().value] * 2 + [FOREIGN.value]
    tree = json.loads(cephlab("ceph", "--json", name, "osd", "metadata").stdout)
    assert [osd["arch"] for osd in tree] == [host_arch().value] * 2 + [FOREIGN.value]
    cephlab("down", name)
