"""Guests on a client machine of a cluster that exists: they run through its own QEMU, and nothing of them stays."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from cephlab.lab.archive.archive import Archive, read_archive
from cephlab.lab.base import clock
from cephlab.lab.base.home import Home
from cephlab.lab.images.store import ImageStore
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.clusterspec import DEFAULT_RELEASE
from cephlab.suites.hci.stand import POOL, ROLE_SETS
from tests.contract.standing import Standing, standing
from tests.contract.test_attach import ROOT, everything, gate, gate_argv
from tests.contract.yard import SSH_VARIABLE, Kind

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]

TWO_AND_CLIENT = Topology(native=2, foreign=0, lone_client=True)
CUT, WRITES = "hci.power-cut[cache=writeback]", "hci.writeback[op=write]"


@pytest.fixture(scope="module")
def stands(home: Home, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    """Containers, whose programs are their own. Loopback addresses have no QEMU but this machine's."""
    if os.environ.get(SSH_VARIABLE) != "1":
        pytest.skip(f"attaching is tried where {SSH_VARIABLE}=1, as `tox -e lab` has it: minutes")
    images = {host_arch(): ImageStore(home).get(DEFAULT_RELEASE, host_arch(), ROLE_SETS)}
    with standing(Kind.CONTAINERS, home, images, tmp_path_factory.mktemp("guests"), TWO_AND_CLIENT) as stand:
        yield stand


def ran(stands: Standing, home: Home, folder: Path, which: str, allowed: str) -> tuple[int, Archive, str]:
    words = ("--suite", "hci", "--suite", "krbd", "--tier", "full", "-k", which, "--may-break", allowed)
    code, _, said = gate(stands, home, folder, *words)
    return code, read_archive(folder), said


@contextmanager
def lacking(stands: Standing, path: str) -> Iterator[None]:
    """The client machine without a file."""
    aside = f"{path}.aside"
    assert stands.yard.look("c0", "mv", path, aside).code == 0
    try:
        yield
    finally:
        assert stands.yard.look("c0", "mv", aside, path).code == 0


def test_guests_run_there_and_nothing_of_them_stays(stands: Standing, home: Home, tmp_path: Path) -> None:
    before = everything(stands)
    which = "(power-cut and writeback) or (hci.writeback and write]) or (krbd and img and 4K)"
    code, archive, said = ran(stands, home, tmp_path / "archive", which, f"pool:{POOL},host:c0")
    endings = {record.scenario: record.ending.value for record in archive.records}
    assert code == 0, said
    assert {name for name, ending in endings.items() if ending == "pass"} == {CUT, WRITES}, said
    krbd = [record.reason for record in archive.records if "krbd" in record.scenario]
    assert len(krbd) == 2, said
    assert all(reason.startswith("not on the attached cluster: it has no own-kernel") for reason in krbd), krbd
    [drawn] = [event.data for event in archive.events if event.kind == "series" and "64 writes" in event.data["title"]]
    assert drawn["words"].endswith("with replication to 2 copies")
    nothing_stays(stands, before)


def there(stands: Standing, pattern: str) -> str:
    """Processes of the client machine whose command lines match."""
    return stands.yard.look("c0", "pgrep", "--full", "--list-full", pattern).stdout


def nothing_stays(stands: Standing, before: dict[str, object]) -> None:
    assert there(stands, "qemu|agent.zip") == ""
    assert stands.yard.look("c0", "find", "/var/tmp", "-name", "cephlab-*").stdout == ""
    after = everything(stands)
    assert after["map"]["pools"] == before["map"]["pools"]  # type: ignore[index]
    assert {**after, "map": None} == {**before, "map": None}


def test_nothing_of_them_stays_after_an_interrupt(stands: Standing, home: Home, tmp_path: Path) -> None:
    before = everything(stands)
    words = ("--suite", "hci", "-k", "power-cut and none", "--may-break", f"pool:{POOL},host:c0")
    argv = gate_argv(stands.inventory, tmp_path / "archive", *words)
    environment = {**os.environ, "CEPHLAB_HOME": str(home.path)}
    with subprocess.Popen(argv, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as running:
        clock.wait(lambda: there(stands, "qemu-system.*-blockdev"), bool, what="a guest", timeout_s=600)
        running.send_signal(signal.SIGINT)
        said, _ = running.communicate(timeout=300)
        assert running.returncode not in (0, None), said
    nothing_stays(stands, before)


@pytest.mark.parametrize(
    ("path", "allowed", "reason"),
    [
        ("/usr/bin/qemu-img", f"pool:{POOL},host:c0", "c0 of the attached cluster has no program qemu-img"),
        (
            f"/usr/bin/qemu-system-{host_arch()}",
            f"pool:{POOL},host:c0",
            f"c0 of the attached cluster has no program qemu-system-{host_arch()}",
        ),
        (
            f"/usr/lib/{host_arch().triplet}/qemu/block-rbd.so",
            f"pool:{POOL},host:c0",
            "the QEMU on c0 of the attached cluster has no rbd driver",
        ),
        ("", "pool:other,host:c0", f"not permitted on the attached cluster: pool '{POOL}'"),
        ("", f"pool:{POOL}", "which is not on the list"),
    ],
    ids=["tools", "machines", "driver", "pool", "host"],
)
def test_what_is_missing_is_said(
    stands: Standing, home: Home, tmp_path: Path, path: str, allowed: str, reason: str
) -> None:
    with lacking(stands, path) if path else nullcontext():
        _, archive, said = ran(stands, home, tmp_path / "archive", "hci.writeback and write]", allowed)
    [record] = archive.records
    assert (record.ending.value, reason in record.reason) == ("skip", True), said
