"""The `local` provider as a user without any capability: a mixed cluster from up to down, and prune after a kill."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import RUN_VARIABLE
from cephlab.lab.providers.base import Images
from cephlab.lab.spec.arch import host_arch
from tests.contract.conftest import FOREIGN
from tests.contract.elsewhere import given_copies_of

pytestmark = [pytest.mark.real, pytest.mark.timeout(600), pytest.mark.usefixtures("images")]

ROOT = Path(__file__).resolve().parents[2]
NOBODY = 65534
DROP = (
    "setpriv",
    f"--reuid={NOBODY}",
    f"--regid={NOBODY}",
    "--clear-groups",
    "--no-new-privs",
    "--bounding-set=-all",
    "--inh-caps=-all",
)
COMMAND = ("-c", "from cephlab.cli.main import main; main()")


@dataclass(frozen=True)
class Ordinary:
    """A user without privileges, with a folder of its own and a Python that it can run."""

    python: str
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "HOME": str(self.folder),
            "CEPHLAB_HOME": str(self.folder / "lab"),
            "PYTHONPATH": f"{ROOT}:{sysconfig.get_path('purelib')}",
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def start(self, *argv: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*DROP, self.python, *argv],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def cephlab(self, *arguments: str) -> str:
        """Standard output of the command, which must end well."""
        child = self.start(*COMMAND, *arguments)
        stdout, stderr = child.communicate(timeout=200)
        assert child.returncode == 0, f"{arguments}\n{stdout}\n{stderr}"
        return stdout


def marked(name: str) -> list[psutil.Process]:
    """Processes that carry a run's mark; this test is root and sees them all."""
    processes = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(RUN_VARIABLE) == name:
                processes.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return processes


def status_fields(process: psutil.Process) -> dict[str, list[str]]:
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return {name: values.split() for name, _, values in (line.partition(":") for line in lines)}


@pytest.fixture
def user(home: Home, images: Images) -> Iterator[Ordinary]:
    if os.geteuid() != 0:
        pytest.skip("not root: there is nothing to drop, and the other tests ran as an ordinary user")
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is not installed: apt-get install util-linux")
    folder = Path(tempfile.mkdtemp(prefix="cephlab-user-"))
    try:
        os.chown(folder, NOBODY, NOBODY)
        own = given_copies_of(home, images.values(), folder / "lab", NOBODY)
        yield Ordinary(usable_python(own, folder, [image.key for image in images.values()]), folder)
    finally:
        shutil.rmtree(folder)


def usable_python(own: Home, folder: Path, keys: list[str]) -> str:
    """This interpreter, or the system's of the same version where this one is in a folder of root's own."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    look = "import os, sys, cephlab.cli.main; [os.stat(f'{sys.argv[1]}/{key}/root/usr') for key in sys.argv[2:]]"
    refusals = []
    for python in (sys.executable, f"/usr/bin/python{version}"):
        if not Path(python).exists():
            continue
        child = Ordinary(python, folder).start("-c", look, str(own.images), *keys)
        _, stderr = child.communicate(timeout=60)
        if child.returncode == 0:
            return python
        refusals.append(f"{python}: {stderr.strip().splitlines()[-1]}")
    pytest.skip(f"an ordinary user can read neither this Python {version} nor its packages and images: {refusals}")


def test_a_mixed_cluster_from_up_to_down(user: Ordinary) -> None:
    nodes = f"{host_arch()}:1,{FOREIGN}:1"
    raised = json.loads(user.cephlab("up", "--lab", "local", "--nodes", nodes, "--name", "plain", "--json"))
    assert [(node["arch"], node["emulated"]) for node in raised["nodes"]] == [(host_arch(), False), (FOREIGN, True)]
    daemons = [process for process in marked("plain") if "ceph-osd" in " ".join(process.cmdline())]
    assert len(daemons) == 2
    for process in marked("plain"):
        facts = status_fields(process)
        assert facts["Uid"] == [str(NOBODY)] * 4
        assert [int(facts[kind][0], 16) for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")] == [0] * 5
    assert "HEALTH_OK" in user.cephlab("status", "plain")
    metadata = json.loads(user.cephlab("ceph", "--json", "plain", "osd", "metadata"))
    assert [osd["arch"] for osd in metadata] == [host_arch(), FOREIGN]
    assert user.cephlab("down", "plain") == "plain is gone\n"
    assert marked("plain") == []
    assert json.loads(user.cephlab("ls", "--json"))["clusters"] == []


def test_a_killed_up_is_pruned_by_its_user(user: Ordinary) -> None:
    child = user.start(*COMMAND, "up", "--lab", "local", "--nodes", f"{host_arch()}:1", "--name", "killed")
    with child:
        assert child.stderr is not None
        assert any("mon.n0 started" in line for line in child.stderr)
        child.kill()
    assert marked("killed") != []
    assert "killed" in user.cephlab("prune")
    assert marked("killed") == []
    assert json.loads(user.cephlab("ls", "--json"))["clusters"] == []
