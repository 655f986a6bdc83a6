"""What a provider says it can make worse really gets worse, is undone, and leaves nothing once its run is pruned."""

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from cephlab.lab.providers.base import CutsLinks, Provider, SlowsDisks, SlowsNetwork, SqueezesMemory
from cephlab.lab.providers.host import Host
from cephlab.lab.spec.clusterspec import MIB, Capability, DiskLimits
from tests.contract.conftest import Place, has, node

pytestmark = pytest.mark.real

PORT = 7777
WAIT_S = 2.0
"""Far longer than a connection within one machine takes."""

SENT = 6 * MIB
LEAST_S = 3.5
"""Under a limit 6 s of bytes and 5 s of writes take longer, whatever is let through at once; without one, far less."""

SERVE = """
import socket, sys
with socket.create_server((sys.argv[1], int(sys.argv[2]))) as server:
    print("listening", flush=True)
    while True:
        peer, _ = server.accept()
        peer.sendall(b"x" * int(sys.argv[3]))
        peer.close()
"""

ASK = """
import socket, sys
try:
    with socket.create_connection((sys.argv[2], int(sys.argv[3])), float(sys.argv[4]), (sys.argv[1], 0)) as peer:
        peer.settimeout(60)
        got = 0
        while piece := peer.recv(65536):
            got += len(piece)
    print(got)
except TimeoutError:
    print("timeout")
"""


@contextmanager
def served(host: Host, size: int) -> Iterator[None]:
    """Something on a host that sends this many bytes to whoever connects."""
    log = host.directory / "served.out"
    process = host.spawn(["python3", "-c", SERVE, host.address, str(PORT), str(size)], log=log)
    try:
        deadline = time.monotonic() + 20
        while not (host.exists(log) and b"listening" in host.read(log)):
            assert time.monotonic() < deadline, "the server does not come up"
        yield
    finally:
        process.signal(signal.SIGKILL)
        process.wait(10)


def ask(source: Host, target: Host) -> str:
    """Connect from one host's address to another's: bytes received, or `timeout`."""
    argv = ["python3", "-c", ASK, source.address, target.address, str(PORT), str(WAIT_S)]
    return source.run(argv, timeout_s=120).stdout.strip()


def test_capabilities_and_abilities_agree(place: Place) -> None:
    able = place.provider.capabilities()
    for capability, protocol in (
        (Capability.CUT_LINKS, CutsLinks),
        (Capability.SLOW_NETWORK, SlowsNetwork),
        (Capability.SLOW_DISK, SlowsDisks),
        (Capability.SQUEEZE_MEMORY, SqueezesMemory),
    ):
        if capability in able:
            assert isinstance(place.lab, protocol), f"{place.provider.name} has {capability}"


def test_a_cut_loses_packets_until_it_is_mended(place: Place) -> None:
    has(place.provider, Capability.CUT_LINKS)
    assert isinstance(place.lab, CutsLinks)
    near, far = place.lab.hosts["n0"], place.lab.hosts["n1"]
    with served(far, 10):
        assert ask(near, far) == "10"
        place.lab.cut("n0", "n1")
        try:
            assert ask(near, far) == "timeout"
            assert place.lab.cut_packets() > 0
        finally:
            place.lab.mend_links()
        assert ask(near, far) == "10"
        assert place.lab.cut_packets() == 0


def test_a_slow_network_holds_packets_back(place: Place) -> None:
    has(place.provider, Capability.SLOW_NETWORK)
    assert isinstance(place.lab, SlowsNetwork)
    near, far = place.lab.hosts["n0"], place.lab.hosts["n1"]
    with served(far, SENT):
        place.lab.slow_network("n1", MIB)
        try:
            began = time.monotonic()
            assert ask(near, far) == str(SENT)
            assert time.monotonic() - began > LEAST_S
            assert place.lab.held_packets("n1") > 0
        finally:
            place.lab.slow_network("n1", None)
        began = time.monotonic()
        assert ask(near, far) == str(SENT)
        assert time.monotonic() - began < LEAST_S


def test_slow_disks_serve_fewer_requests(place: Place) -> None:
    has(place.provider, Capability.SLOW_DISK)
    assert isinstance(place.lab, SlowsDisks)
    host = place.lab.hosts["n0"]
    argv = ["dd", "if=/dev/zero", f"of={host.disk('d0')}", "bs=4096", "count=100", "oflag=direct", "conv=notrunc"]
    place.lab.slow_disks("n0", DiskLimits(write_iops=20))
    try:
        began = time.monotonic()
        host.run(argv)
        assert time.monotonic() - began > LEAST_S
    finally:
        place.lab.slow_disks("n0", None)
    began = time.monotonic()
    host.run(argv)
    assert time.monotonic() - began < LEAST_S


def test_memory_that_is_squeezed_ends_who_wants_more(place: Place) -> None:
    has(place.provider, Capability.SQUEEZE_MEMORY)
    assert isinstance(place.lab, SqueezesMemory)
    host = place.lab.hosts["n0"]
    greedy = ["python3", "-c", f"held = bytearray({256 * MIB})\nfor at in range(0, len(held), 4096): held[at] = 1"]
    assert host.run(greedy, check=False).code == 0
    place.lab.squeeze_memory("n0", place.lab.memory_used("n0") + 64 * MIB)
    try:
        assert host.run(greedy, check=False).code in (-9, 137)
    finally:
        place.lab.squeeze_memory("n0", None)
    assert host.run(greedy, check=False).code == 0


def test_what_is_cut_is_mended_when_the_run_is_pruned(
    provider: Provider, launch: Callable[..., AbstractContextManager[Place]]
) -> None:
    """As after a kill: nobody mends the link, and prune removes the run."""
    has(provider, Capability.CUT_LINKS)
    with launch(node("n0"), node("n1")) as place:
        assert isinstance(place.lab, CutsLinks)
        place.lab.cut("n0", "n1")
        address = place.lab.hosts["n0"].address
        place.provider.prune(place.home, place.run.id)
        rules = subprocess.run(["iptables", "-w", "10", "-S"], capture_output=True, text=True, check=True).stdout
        assert f"{address}/32" not in rules
        assert place.run.id not in place.provider.leftovers(place.home)
