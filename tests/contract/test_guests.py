"""Providers whose nodes have a kernel of their own: power cuts, machines that are busy, and a network that is off."""

import platform
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from signal import SIGKILL

import pytest

from cephlab.lab.base.errors import Unavailable
from cephlab.lab.base.home import Home
from cephlab.lab.images.kernels import KernelStore
from cephlab.lab.providers.base import Provider
from cephlab.lab.providers.guest.lab import GuestLab
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import MIB, Capability
from tests.contract import probes
from tests.contract.conftest import Place, has, node
from tests.contract.probes import python, scratch

pytestmark = [pytest.mark.real]

MEMORY_BYTES = 640 * MIB
BUSY = 4
"""Programs that only compute: twice as many as a guest has CPUs at most."""

ANSWER_S = 20.0

UNSYNCED = "import sys; open(sys.argv[1], 'w').write('lost'); print(open(sys.argv[1]).read())"
SYNCED = "import os, sys; f = open(sys.argv[1], 'w'); f.write('kept'); f.flush(); os.fsync(f.fileno())"
SPIN = "while True: pass"
OLD_S = 60.0
UP = "import time; print(open('/proc/uptime').read().split()[0], time.monotonic())"
HAS_TIMES = "import os, sys; sys.exit(not (hasattr(os, 'unshare') and os.path.exists('/proc/self/ns/time')))"


@pytest.fixture(scope="module")
def pair(launch: Callable[..., AbstractContextManager[Place]], provider: Provider) -> Iterator[Place]:
    has(provider, Capability.POWER_CUT)
    with launch(node("n0"), replace(node("n1"), memory_bytes=MEMORY_BYTES)) as launched:
        yield launched


def test_the_kernel_and_its_memory_are_the_guests_own(pair: Place) -> None:
    host = pair.lab.hosts["n1"]
    facts = host.facts()
    assert facts.kernel != platform.release()
    assert MEMORY_BYTES * 0.8 < facts.memory_bytes <= MEMORY_BYTES
    loaded = host.run(("sh", "-c", "modprobe dm-cache-smq && grep -c ^dm_cache_smq /proc/modules"))
    assert loaded.stdout.strip() == "1"


def test_a_power_cut_takes_what_was_only_in_memory(pair: Place) -> None:
    host = pair.native
    kept, lost = scratch(host), scratch(host)
    host.run(python(SYNCED, str(kept)))
    assert host.run(python(UNSYNCED, str(lost))).stdout.strip() == "lost"
    pair.lab.kill_node("n0")
    back = pair.lab.start_node("n0")
    assert back.read(kept) == b"kept"
    assert not back.exists(lost) or back.read(lost) == b""


def test_a_new_machine_seems_old_until_its_power_is_cut(pair: Place) -> None:
    if not isinstance(pair.lab, GuestLab):
        pytest.skip("its machines are as old as they are")
    if pair.lab.hosts["n1"].run(python(HAS_TIMES), check=False).code != 0:
        pytest.skip("its kernel has no time namespaces, or its Python cannot make one")
    assert all(float(up) > OLD_S for up in pair.lab.hosts["n1"].run(python(UP)).stdout.split())
    pair.lab.kill_node("n1")
    assert all(float(up) < OLD_S for up in pair.lab.start_node("n1").run(python(UP)).stdout.split())


def test_a_busy_guest_still_answers(pair: Place) -> None:
    host = pair.native
    spinning = [host.spawn(python(SPIN), log=scratch(host)) for _ in range(BUSY)]
    try:
        assert host.run(("echo", "here"), timeout_s=ANSWER_S).stdout == "here\n"
        assert all(program.alive() for program in spinning)
    finally:
        for program in spinning:
            program.signal(SIGKILL)
    assert all(program.wait(ANSWER_S) for program in spinning)


def test_a_node_off_the_network_is_still_the_labs(pair: Place) -> None:
    has(pair.provider, Capability.PARTITION)
    lab = pair.lab
    assert isinstance(lab, GuestLab)
    first, second = lab.hosts["n0"], lab.hosts["n1"]
    server = second.spawn(python(probes.LISTEN, second.address, "7412"), log=scratch(second))
    asked = python(probes.CONNECT, second.address, "7412")
    answered = [first.run(asked, check=False).code == 0 for _ in range(3)]
    lab.disconnect("n1")
    assert first.run(asked, check=False).code != 0
    assert server.alive()
    lab.connect("n1")
    assert first.run(asked).stdout.strip() == "hello"
    assert answered[-1]
    server.signal(SIGKILL)


@pytest.mark.parametrize(("kernel", "size"), [("pages16k", 16 << 10), ("pages64k", 64 << 10)])
def test_a_node_has_the_pages_that_it_asks_for(
    launch: Callable[..., AbstractContextManager[Place]], provider: Provider, home: Home, kernel: str, size: int
) -> None:
    has(provider, Capability.PAGE_SIZE)
    try:
        KernelStore(home).get(kernel, Arch.AARCH64)
    except Unavailable as error:
        pytest.skip(str(error))
    with launch(node("n0"), replace(node("n1", Arch.AARCH64, "d0"), page_bytes=size)) as place:
        usual, paged = place.lab.hosts["n0"], place.lab.hosts["n1"]
        assert int(paged.run(("getconf", "PAGESIZE")).stdout) == size
        assert int(usual.run(("getconf", "PAGESIZE")).stdout) < size or usual.arch is Arch.AARCH64
        kept = scratch(paged)
        paged.run(python(SYNCED, str(kept)))
        paged.run(python(SYNCED, str(paged.disk("d0"))))
        place.lab.kill_node("n1")
        back = place.lab.start_node("n1")
        assert int(back.run(("getconf", "PAGESIZE")).stdout) == size
        assert back.read(kept) == b"kept"
        assert back.run(("head", "-c", "4", str(back.disk("d0")))).stdout == "kept"
