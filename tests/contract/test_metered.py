"""What a host says that its processes have spent, on every provider, beside what this machine's kernel says of them."""

import signal
from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import pytest

from cephlab.lab.base import clock
from cephlab.lab.providers.base import RunsMachines
from cephlab.lab.providers.host import Host, HostProcess
from cephlab.lab.telemetry import accounting
from cephlab.lab.telemetry.accountants import Here, Teller, There
from cephlab.lab.telemetry.demand import Role
from tests.contract.conftest import Place

pytestmark = pytest.mark.real

BURN_S = 1.0
BURNING = """
import os, sys, time
go, done, burn_s = sys.argv[1], sys.argv[2], float(sys.argv[3])
while not os.path.exists(go):
    time.sleep(0.05)
until = time.process_time() + burn_s
while time.process_time() < until:
    pass
os.mkdir(done)
time.sleep(600)
"""

TREE = Role.PRIMARY


@pytest.fixture
def teller(place: Place) -> Iterator[Teller]:
    made = Teller(place.native)
    yield made
    made.close()


def kernel_of(place: Place, teller: Teller) -> There:
    lab = place.lab
    if isinstance(lab, RunsMachines):
        return There(teller, lambda: accounting.whole_s(lab.machine_pid("n0")))
    return There(teller)


def named(process: HostProcess) -> HostProcess:
    """As its host knows it: where it is a process here as well, not by the number that it has here."""
    ref = process.ref
    return cast("HostProcess", SimpleNamespace(ref={"token": ref["token"]} if "token" in ref else ref))


@pytest.fixture
def process(place: Place) -> Iterator[HostProcess]:
    host, base = place.native, place.native.directory / "burn"
    host.remove(base)
    host.make_directory(base)
    argv = ["python3", "-c", BURNING, str(base / "go"), str(base / "done"), str(BURN_S)]
    made = host.spawn(argv, log=base / "words")
    yield made
    made.signal(signal.SIGKILL)
    made.wait(30)


def burn(host: Host, process: HostProcess) -> None:
    """Let it burn what it is to burn."""
    base = host.directory / "burn"
    host.make_directory(base / "go")
    clock.wait(
        lambda: host.exists(base / "done") or not process.alive(),
        bool,
        what="the end of burning",
        timeout_s=120.0,
        interval_s=0.5,
    )
    assert process.alive()


def test_cpu_that_is_burnt_on_a_host_is_seen(place: Place, teller: Teller, process: HostProcess) -> None:
    kernel = kernel_of(place, teller)
    pids = kernel.pids(named(process))
    before = kernel.read({TREE: pids})
    burn(place.native, process)
    after = kernel.read({TREE: pids})
    assert after.clock_s - before.clock_s == pytest.approx(BURN_S, rel=0.1)
    assert kernel.teller.spent_s() > 0
    seen = after.usage[TREE].since(before.usage[TREE])
    if not isinstance(place.lab, RunsMachines):
        assert seen.cpu_s == pytest.approx(BURN_S, rel=0.1)
        return
    # A guest's clock runs on while its machine waits here; what is seen is a share of what this machine accounts.
    whole_s = after.machine_s - before.machine_s
    assert 0 < seen.cpu_s <= whole_s
    assert seen.cpu_s + kernel.harness_s == pytest.approx(whole_s, rel=0.01)


def test_a_host_and_this_machine_say_the_same_of_a_process_of_both(
    place: Place, teller: Teller, process: HostProcess
) -> None:
    if not process.pid:
        pytest.skip("its processes are no processes of this machine's kernel that anyone here can name")
    there, here = There(teller), Here()
    burn(place.native, process)
    told = there.read({TREE: there.pids(named(process))}).usage[TREE]
    own = here.read({TREE: here.pids(process)}).usage[TREE]
    assert told.cpu_s == pytest.approx(own.cpu_s, rel=0.01)
    assert (told.user_s, told.system_s) == pytest.approx((own.user_s, own.system_s), rel=0.05)
    assert told.resident_bytes == pytest.approx(own.resident_bytes, rel=0.05)
    assert (told.read_bytes, told.write_bytes) == (own.read_bytes, own.write_bytes)
