"""Costs read on the host that has the processes: the same figures as this machine's kernel has, from a real agent."""

import os
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base import clock
from cephlab.lab.base.errors import LabBroken, Unavailable
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.providers.guest.host import GuestHost
from cephlab.lab.providers.host import HostProcess
from cephlab.lab.providers.marks import TOKEN_VARIABLE
from cephlab.lab.telemetry import account_program, accounting
from cephlab.lab.telemetry.accountants import Account, Teller, There, known_by
from cephlab.lab.telemetry.accounting import HERE, KernelUnits
from cephlab.lab.telemetry.demand import Resource, Role
from cephlab.lab.telemetry.meter import Meter, accounted_by, busy_elsewhere_s, require_metered, runs_here
from cephlab.lab.telemetry.readings import spent
from tests.agent_here import agent_here

BURN_S = 0.2
BURNING = """
import subprocess, sys, threading, time
child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"])
def burn():
    while time.thread_time() < float(sys.argv[1]):
        pass
worker = threading.Thread(target=burn)
worker.start()
worker.join()
open(sys.argv[2], "w").close()
time.sleep(60)
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestHost]:
    with agent_here(tmp_path_factory.mktemp("guest")) as made:
        yield made


@pytest.fixture
def process(host: GuestHost, tmp_path: Path) -> Iterator[HostProcess]:
    """A program with a child, that burns CPU at once and then sleeps."""
    argv = ("python3", "-S", "-c", BURNING, str(BURN_S), str(tmp_path / "burnt"))
    made = host.spawn(argv, log=PurePosixPath(tmp_path / "words"), env={TOKEN_VARIABLE: f"mark-{tmp_path.name}"})
    yield made
    made.signal(signal.SIGKILL)


@pytest.fixture
def teller(host: GuestHost) -> Iterator[Teller]:
    made = Teller(host)
    yield made
    made.close()


def burnt(tmp_path: Path) -> None:
    clock.wait((tmp_path / "burnt").exists, bool, what="the end of burning", timeout_s=30, interval_s=0.01)


@pytest.mark.slow
def test_a_host_says_of_its_processes_what_this_kernel_does(
    process: HostProcess, teller: Teller, tmp_path: Path
) -> None:
    assert process.pid == 0
    burnt(tmp_path)
    kernel = There(teller)
    pids = kernel.pids(process)
    assert sorted(pids) == sorted(accounting.tree(process.ref["pid"]))
    assert len(pids) == 2
    told = kernel.read({Role.PRIMARY: pids}).usage[Role.PRIMARY]
    own = accounting.usage_of_trees({Role.PRIMARY: pids})[Role.PRIMARY]
    assert told.cpu_s == pytest.approx(own.cpu_s, rel=0.01)
    assert (told.user_s, told.system_s) == pytest.approx((own.user_s, own.system_s), rel=0.01)
    assert (told.threads, told.read_bytes, told.write_bytes) == (own.threads, own.read_bytes, own.write_bytes)
    assert told.resident_bytes == own.resident_bytes
    assert told.cpu_s > BURN_S


@pytest.mark.slow
def test_processes_are_found_by_their_mark_where_nobody_knows_their_number(
    process: HostProcess, teller: Teller, tmp_path: Path
) -> None:
    burnt(tmp_path)
    marked = cast("HostProcess", SimpleNamespace(ref={"pid": 0, "token": f"mark-{tmp_path.name}"}, pid=0))
    kernel = There(teller)
    assert sorted(kernel.pids(marked)) == sorted(accounting.tree(process.ref["pid"]))
    with pytest.raises(LabBroken, match="was not found on"):
        kernel.pids(cast("HostProcess", SimpleNamespace(ref={"token": "nobody"}, pid=0)))
    with pytest.raises(LabBroken, match="no pid and no mark"):
        known_by(cast("HostProcess", SimpleNamespace(ref={}, pid=0)))


def test_what_a_host_is_asked_for_is_the_harnesss_own(teller: Teller) -> None:
    kernel = There(teller)
    before = kernel.read({Role.PRIMARY: (os.getpid(),)})
    assert abs(before.ahead_s) < 1.0
    first_s = teller.spent_s()
    kernel.read({Role.PRIMARY: (os.getpid(),)})
    assert 0 < first_s < teller.spent_s()
    told_s = teller.spent_s()
    teller.close()
    kernel.read({Role.PRIMARY: (os.getpid(),)})
    assert teller.spent_s() > told_s - 0.001, "what an earlier program has cost is not forgotten"


def test_a_process_that_ended_is_trouble_and_one_that_is_hidden_is_named(
    teller: Teller, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(LabBroken, match="the resource usage of a process on n0 cannot be read"):
        There(teller).read({Role.PRIMARY: (4_000_001,)})
    answer = b'{"error": "PermissionError: /proc/1/io", "own_s": 0.0}'
    channel = SimpleNamespace(ask=lambda _line, timeout_s: answer, alive=lambda: True, close=lambda: None)
    hidden = Teller(teller.host)
    monkeypatch.setattr(hidden, "_channel", channel)
    with pytest.raises(Unavailable, match="this user may not read"):
        hidden.ask("read")


@pytest.mark.slow
def test_a_meter_counts_on_a_host_and_calls_the_roles_by_it(
    host: GuestHost, process: HostProcess, tmp_path: Path
) -> None:
    burnt(tmp_path)
    daemon = SimpleNamespace(name="osd.0", host=host, process=process)
    tell = lambda _name, _what: {"osd": {"op": 7}}  # noqa: E731
    cluster = SimpleNamespace(
        client=SimpleNamespace(tell=tell), clients={}, daemons={"osd.0": daemon}, lab=SimpleNamespace()
    )
    meter = Meter(cast("Cluster", cluster), {Role.PRIMARY: [daemon]})
    try:
        before, after = meter.read(), meter.read()
    finally:
        meter.close()
    own_s = accounting.usage_of_trees({Role.PRIMARY: accounting.tree(process.ref["pid"])})[Role.PRIMARY].cpu_s
    assert after.usage[Role.PRIMARY].cpu_s == pytest.approx(own_s, rel=0.01)
    used = spent(before, after)
    assert used.usage_times[Role.PRIMARY][0] < used.usage_times[Role.PRIMARY][1] < time.time()
    assert used.harness_s > 0
    assert used.costs[Role.PRIMARY][Resource.CPU_USER_S] == pytest.approx(0.0, abs=0.01)
    assert not runs_here(cast("Cluster", cluster))
    assert accounted_by(cast("Cluster", cluster)) == "the kernel of each host"


class Told:
    """A guest whose clocks say what they are told to, of two processes."""

    def __init__(self) -> None:
        self.host = SimpleNamespace(name="g", address="10.1.1.1")
        self.clocks: dict[str, float] = {"1": 10.0, "2": 10.0}
        self.lab_s = 0.0

    def spent_s(self) -> float:
        return self.lab_s

    def ask(self, _what: str, **_more: Any) -> dict[str, Any]:
        stat = "1 (x) S 1 1 1 0 -1 0 0 0 0 0 {0} {0} 0 0 20 0 1 0 1 1 10 1 " + "0 " * 27
        io = "read_bytes: 0\nwrite_bytes: 0\ncancelled_write_bytes: 0\n"
        ticks = {pid: stat.format(int(spent * 100)) for pid, spent in self.clocks.items()}
        dev = "head\nhead\n  eth0: 100 2 0 0 0 0 0 0 300 4 0 0 0 0 0 0\n  ctl: 1 9 0 0 0 0 0 0 3 9 0 0 0 0 0 0\n"
        return {
            "at_s": 100.0,
            "took_s": 0.0,
            "clocks": self.clocks,
            "busy": "cpu  100 0 100 900 9 1 1 1 50 0",
            "texts": {pid: {"stat": text, "io": io, "tasks": [[text, 3]]} for pid, text in ticks.items()},
            "networks": {"net:[1]": [dev, [1, 2]]},
            "interface": "eth0",
            "boot": "b",
            "ticks_s": 100,
            "page_bytes": 65536,
        }


def test_roles_of_a_guest_share_what_its_machine_spent_here_by_the_guests_clocks() -> None:
    told = Told()
    spent_s = iter([100.0, 104.0])
    kernel = There(cast("Teller", told), lambda: next(spent_s), networked=True)
    trees: Mapping[Role, tuple[int, ...]] = {Role.MON: (1,), Role.MGR: (2,)}
    before = kernel.read(trees)
    told.clocks, told.lab_s = {"1": 30.0, "2": 20.0}, 10.0
    after = kernel.read(trees)
    mon, mgr = (after.usage[role].since(before.usage[role]) for role in (Role.MON, Role.MGR))
    assert (mon.cpu_s, mgr.cpu_s) == pytest.approx((2.0, 1.0))
    assert mon.user_s + mon.system_s == pytest.approx(2.0)
    assert sum(mon.threads.values()) == pytest.approx(2.0)
    assert (after.clock_s - before.clock_s, after.machine_s - before.machine_s) == (30.0, 4.0)
    assert kernel.harness_s == pytest.approx(1.0)
    assert after.interfaces[Role.MON]["sent_packets"] == 4, "those of the line to the agent are nobody's"
    assert after.usage[Role.MON].resident_bytes == 10 * 65536


def test_a_kernel_is_busy_once_however_many_hosts_share_it() -> None:
    busy_s = accounting.busy_of("cpu  100 0 100 900 9 1 1 1 50 0", KernelUnits(0.01, 4096))
    assert busy_s == pytest.approx(2.03)
    accounts = [Account(0.0, {}, {}, busy_s, boot) for boot in ("a", "a", "b")]
    assert busy_elsewhere_s(accounts) == pytest.approx(2 * busy_s)
    line = Path("/proc/stat").read_text().partition("\n")[0]
    assert accounting.busy_of(line, HERE) > 0


@pytest.mark.slow
def test_the_interface_of_an_address_is_found() -> None:
    assert account_program.interface_of("127.0.0.1") == "lo"
    assert account_program.interface_of("192.0.2.1") == ""


@pytest.mark.slow
def test_a_cluster_is_measured_where_roles_and_processes_can_be_told() -> None:
    daemon = SimpleNamespace(name="osd.0", host=SimpleNamespace(name="m0"), accounted=lambda: None)
    cluster = cast("Cluster", SimpleNamespace(osd_ids=lambda: [0, 1, 2], daemons={"osd.0": daemon}))
    with pytest.raises(Unavailable, match=r"the cost of osd\.0 cannot be measured"):
        require_metered(cluster, 3)
    with pytest.raises(Unavailable, match="cannot be told apart on 3 OSDs"):
        require_metered(cluster, 2)
