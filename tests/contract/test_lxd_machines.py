"""A lab over two LXDs: this machine's, and a second one in a network namespace of its own, over https."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cephlab.lab.base import clock
from cephlab.lab.base.errors import LabBroken, Unavailable
from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import Runs
from cephlab.lab.providers.base import Images
from cephlab.lab.providers.lxd import LxdProvider
from cephlab.lab.providers.lxd.kind import ServerCapacity
from cephlab.lab.providers.lxd.lab import LxdLab
from cephlab.lab.providers.lxd.server import Server, addresses, find_servers
from cephlab.lab.spec.clusterspec import Capability
from tests.contract import probes
from tests.contract.conftest import node, spec_of
from tests.contract.probes import python, scratch

pytestmark = pytest.mark.real

NAMESPACE = "cephlab-lxd2"
HERE, THERE = "10.99.7.1", "10.99.7.2"
START_S = 30.0
STOP_S = 20.0
MARK = "import os, sys\nwith open(sys.argv[1], 'r+b') as f: f.seek(1 << 20); f.write(b'carried'); os.fsync(f.fileno())"
FIND = "import sys\nwith open(sys.argv[1], 'rb') as f: f.seek(1 << 20); print(f.read(7).decode())"


def command(*argv: str, env: dict[str, str] | None = None, check: bool = True) -> None:
    done = subprocess.run(argv, env={**os.environ, **(env or {})}, capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, f"{' '.join(argv)}: {done.stderr}"


@pytest.fixture(scope="module")
def network() -> Iterator[None]:
    """Two addresses: one of this machine, one in the namespace."""
    with ExitStack() as undo:
        command("ip", "netns", "add", NAMESPACE)
        undo.callback(command, "ip", "netns", "delete", NAMESPACE)
        command("ip", "link", "add", "clabm0", "type", "veth", "peer", "name", "clabm1")
        undo.callback(command, "ip", "link", "delete", "clabm0", check=False)
        command("ip", "link", "set", "clabm1", "netns", NAMESPACE)
        command("ip", "address", "add", f"{HERE}/24", "dev", "clabm0")
        command("ip", "link", "set", "clabm0", "up")
        for words in (f"address add {THERE}/24 dev clabm1", "link set clabm1 up", "link set lo up"):
            command("ip", "-n", NAMESPACE, *words.split())
        yield


@pytest.fixture(scope="module")
def second(network: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """URL of an LXD in the namespace that trusts this user's certificate, and the folder of that certificate."""
    client = tmp_path_factory.mktemp("client")
    # Instances run as users that may not enter pytest's own folders.
    folder = Path(tempfile.mkdtemp(prefix="cephlab-lxd2-"))
    folder.chmod(0o711)
    env = {"LXD_DIR": str(folder), "LXD_CONF": str(client)}
    with (client / "lxd2.log").open("wb") as log:
        daemon = subprocess.Popen(
            ("ip", "netns", "exec", NAMESPACE, "lxd"),
            env={**os.environ, "LXD_DIR": str(folder)},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        command("lxd", "waitready", f"--timeout={START_S:.0f}", env=env)
        command("lxc", "storage", "create", "pool", "dir", env=env)
        command("lxc", "config", "set", "core.https_address", f"{THERE}:8443", env=env)
        command("lxc", "config", "set", "core.trust_password", "for-one-test", env=env)
        url = f"https://{THERE}:8443"
        command("lxc", "remote", "add", THERE, url, "--accept-certificate", "--password", "for-one-test", env=env)
        yield url, client
    finally:
        command("lxd", "shutdown", f"--timeout={STOP_S:.0f}", env=env, check=False)
        if daemon.poll() is None:
            os.killpg(daemon.pid, signal.SIGKILL)
        daemon.wait()
        for line in reversed(Path("/proc/mounts").read_text().splitlines()):
            if line.split()[1].startswith(f"{folder}/"):
                command("umount", "-l", line.split()[1], check=False)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def lab(second: tuple[str, Path], images: Images, home: Home) -> Iterator[LxdLab]:
    """n0 and n2 here, n1 on the second machine: that is where there is most memory when its turn comes."""
    url, client = second
    first = addresses({**os.environ, "CEPHLAB_LXD": ""})[0].url
    patch = pytest.MonkeyPatch()
    patch.setenv("LXD_CONF", str(client))
    patch.setenv("CEPHLAB_LXD", f"{first},{url}")
    patch.setattr(LxdLab, "capacities", in_turn())
    provider = LxdProvider()
    runs = Runs(home)
    run = runs.create(provider.name)
    try:
        with provider.launch(spec_of(node("n0", None, "d0"), node("n1"), node("n2")), images, run) as raised:
            yield raised
    finally:
        runs.forget(run)
        patch.undo()


def in_turn() -> object:
    """Both LXDs are one machine's and see the same memory: with equal amounts, nodes go to them by turns."""

    def capacities(self: LxdLab) -> list[ServerCapacity]:
        return [ServerCapacity(server.address.url, server.arch, 1 << 40) for server in servers_of(self)]

    return capacities


def servers_of(lab: LxdLab) -> list[Server]:
    return lab._servers


@pytest.fixture(scope="module", autouse=True)
def possible() -> None:
    if os.geteuid() != 0 or not all(map(shutil.which, ("lxd", "lxc", "ip"))):
        pytest.skip("a second LXD in a network namespace takes root, lxd, lxc and ip")
    try:
        servers = find_servers({**os.environ, "CEPHLAB_LXD": ""})
    except Unavailable as reason:
        pytest.skip(str(reason))
    for server in servers:
        server.close()


def place_of(lab: LxdLab, name: str) -> str:
    return str(lab.state["nodes"][name]["server"])


def test_nodes_are_on_both_machines_and_reach_each_other(lab: LxdLab) -> None:
    assert place_of(lab, "n0") == place_of(lab, "n2") != place_of(lab, "n1")
    for server, client in (("n0", "n1"), ("n1", "n0")):
        host = lab.hosts[server]
        log = scratch(host)
        daemon = host.spawn(python(probes.LISTEN, "0.0.0.0", "7413"), log=log)
        clock.wait(
            lambda host=host, log=log: host.exists(log) and host.read(log),  # type: ignore[misc]
            lambda text: text == b"ready\n",
            what="a listener",
            timeout_s=15,
        )
        assert lab.hosts[client].run(python(probes.CONNECT, host.address, "7413")).stdout == "hello\n"
        daemon.signal(signal.SIGKILL)


def test_a_disk_is_carried_to_the_other_machine_and_back(lab: LxdLab) -> None:
    assert Capability.MOVE_DISK in LxdProvider().capabilities()
    here, there = lab.hosts["n0"], lab.hosts["n1"]
    here.run(python(MARK, str(here.disk("d0"))))
    size = here.run(("stat", "-c", "%s", str(here.disk("d0")))).stdout
    lab.move_disk("d0", "n1")
    assert there.run(python(FIND, str(there.disk("d0")))).stdout == "carried\n"
    assert there.run(("stat", "-c", "%s", str(there.disk("d0")))).stdout == size
    blocks = int(there.run(("stat", "-c", "%b", str(there.disk("d0")))).stdout)
    assert blocks * 512 < int(size) / 4, "holes were filled on the way"
    with pytest.raises(LabBroken, match="is not in n0"):
        here.disk("d0")
    there.run(python(MARK, str(there.disk("d0"))))
    lab.move_disk("d0", "n0")
    assert here.run(python(FIND, str(here.disk("d0")))).stdout == "carried\n"


def test_a_disk_is_carried_out_of_a_dead_node(lab: LxdLab) -> None:
    here, there = lab.hosts["n0"], lab.hosts["n1"]
    here.run(python(MARK, str(here.disk("d0"))))
    lab.kill_node("n0")
    try:
        lab.move_disk("d0", "n1")
        assert there.run(python(FIND, str(there.disk("d0")))).stdout == "carried\n"
    finally:
        lab.start_node("n0")
        lab.move_disk("d0", "n0")
