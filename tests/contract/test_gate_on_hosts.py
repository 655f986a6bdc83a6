"""`cephlab gate --on`: two machines by ssh, which are two homes of this one, each behind an sshd of its own."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from cephlab.fixtures.hosts import machines_of, prepare
from cephlab.fixtures.lanes import run_in
from cephlab.fixtures.run import GateResult, Request
from cephlab.lab.archive.archive import Ending, judge, read_archive
from cephlab.lab.archive.sums import altered
from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import Runs
from cephlab.lab.providers.container import ContainerProvider
from tests.contract.yard import SSH_VARIABLE, Kind, Loopback, Spot, Yard, skip_without, yard
from tests.fixtures.test_gate_command import Heard

pytestmark = [pytest.mark.real, pytest.mark.timeout(1500), pytest.mark.usefixtures("images")]

NAMES = ("m0", "m1")
SCENARIOS = "monmaptool or lrc-without or librados-zero"
FIRST_ADDRESS = 40
NO_ENGINE = "DOCKER_HOST=unix:///nonexistent/docker.sock"
PIP = [f"{name}={value}" for name, value in os.environ.items() if name.startswith("PIP_")]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    if os.environ.get(SSH_VARIABLE) != "1":
        pytest.skip(f"machines are installed and sent images where {SSH_VARIABLE}=1, as `tox -e lab` has it: minutes")
    skip_without(Kind.LOOPBACK)
    below = Path(tempfile.mkdtemp(prefix="on-"))  # short: sockets lie below it
    spots = [
        Spot(
            name,
            f"{Loopback.network}.{FIRST_ADDRESS + number}",
            more="SetEnv " + " ".join([f"CEPHLAB_HOME={below / name}", *PIP, *([NO_ENGINE] if number else [])]),
        )
        for number, name in enumerate(NAMES)
    ]
    try:
        with yard(tmp_path_factory.mktemp("yard") / "hosts", spots) as bare_machines:
            yield bare_machines
    finally:
        shutil.rmtree(below, ignore_errors=True)


@dataclass
class Watching(Heard):
    """Notes what it hears, and acts once, at a line that has all these words."""

    words: tuple[str, ...] = ("nothing",)
    acts: list[object] = field(default_factory=list)

    def pytest_cephlab_progress(self, line: str) -> None:
        super().pytest_cephlab_progress(line)
        if all(word in line for word in self.words) and not self.acts:
            self.acts.append(self.act())

    def act(self) -> object:
        return None


class Killing(Watching):
    """Kills the lane on m1."""

    def act(self) -> object:
        for candidate in psutil.process_iter(["cmdline", "environ"]):
            words, settings = candidate.info["cmdline"] or [], candidate.info["environ"] or {}
            there = str(settings.get("CEPHLAB_HOME", "")).endswith("/m1")
            if there and "python" in Path((words or [""])[0]).name and any("fixtures.lane" in word for word in words):
                candidate.kill()
                return candidate.pid
        raise AssertionError("m1 runs no lane")


class Interrupting(Watching):
    """Sends this process what Ctrl-C sends."""

    def act(self) -> object:
        os.kill(os.getpid(), signal.SIGINT)
        return True


def gate(hosts: Yard, folder: Path, home: Home, heard: Watching, lab: str = "local") -> GateResult:
    request = Request(folder / "archive", home.path, lab=lab, seed=5, suites=("defects",), expression=SCENARIOS)
    machines = machines_of(",".join(NAMES), hosts.inventory)
    return run_in(request, prepare(machines, request, 1, heard), heard)


def home_of(hosts: Yard, name: str) -> Home:
    return Home(Path(next(word for word in hosts.spot(name).more.split() if word.startswith("CEPHLAB_HOME"))[13:]))


def test_two_machines_make_one_archive_and_are_sent_things_once(hosts: Yard, tmp_path: Path, home: Home) -> None:
    heard = Watching()
    result = gate(hosts, tmp_path / "first", home, heard)
    assert result.code == 0, (result.trouble, heard.lines)
    archive = read_archive(result.archive)
    assert (altered(result.archive), archive.doubts, archive.lost) == ([], (), ())
    assert not [again for again in judge(archive) if again.differs]
    assert {facts["machine"] for facts in archive.manifest["clusters"]} == set(NAMES)
    assert [event.at_s for event in archive.events] == sorted(event.at_s for event in archive.events)
    assert len(result.records) == 3
    assert {record.cluster for record in result.records} == {facts["name"] for facts in archive.manifest["clusters"]}
    sent = [line for line in heard.lines if "sending" in line or "installing" in line]
    assert len(sent) == 2 * len(NAMES)

    again = Watching()
    assert gate(hosts, tmp_path / "second", home, again).code == 0
    assert not [line for line in again.lines if "sending" in line or "installing" in line]
    assert [list(Runs(home_of(hosts, name)).all()) for name in NAMES] == [[], []]


def test_a_host_without_the_engine_is_refused_by_its_name(hosts: Yard, tmp_path: Path, home: Home) -> None:
    if ContainerProvider().unavailable() is not None:
        pytest.skip("there is no engine here either, so m0 would be refused too")
    heard = Watching()
    with pytest.raises(SpecError, match=r"^m1: "):
        gate(hosts, tmp_path, home, heard, lab="container")
    assert not [line for line in heard.lines if "raising" in line]
    assert not (tmp_path / "archive").exists()


def test_a_lane_that_is_killed_there_costs_what_it_ran(hosts: Yard, tmp_path: Path, home: Home) -> None:
    result = gate(hosts, tmp_path, home, Killing(words=("[m1]", " is healthy")))
    endings = sorted(record.ending for record in result.records)
    lost = [run.id for run in Runs(home_of(hosts, "m1")).all()]
    assert len(lost) == 1
    assert result.code == 3
    assert endings == [Ending.ERROR, Ending.PASS, Ending.PASS]
    [told] = [line for line in result.trouble if "ended unexpectedly" in line]
    assert lost[0] in told
    command = told.partition("`")[2].partition("`")[0]
    key = ("-o", f"UserKnownHostsFile={hosts.known_hosts}")
    name, *words = command.split()
    subprocess.run([name, *key, *words], check=True, stdin=subprocess.DEVNULL, capture_output=True)
    assert list(Runs(home_of(hosts, "m1")).all()) == []


def test_an_interruption_reaches_them(hosts: Yard, tmp_path: Path, home: Home) -> None:
    result = gate(hosts, tmp_path, home, Interrupting(words=(" is healthy",)))
    assert result.code == 128 + signal.SIGINT
    assert read_archive(result.archive).manifest["state"] == "interrupted"
    assert not result.trouble
    assert read_archive(result.archive).left
    assert {record.ending for record in result.records} <= {Ending.INCONCLUSIVE, Ending.PASS}
    assert [list(Runs(home_of(hosts, name)).all()) for name in NAMES] == [[], []]
