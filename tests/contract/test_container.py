"""What the container provider has beyond the contract: partitions, limits, and images by name."""

import errno
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from signal import SIGKILL

import pytest

from cephlab.lab.base import clock
from cephlab.lab.base.errors import LabBroken, SpecError, Unavailable
from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import Run, Runs
from cephlab.lab.images.image import Image
from cephlab.lab.providers.base import Images, Provider
from cephlab.lab.providers.blockdevices import BlockDevices
from cephlab.lab.providers.container import ContainerProvider, limits
from cephlab.lab.providers.container.lab import ContainerLab
from cephlab.lab.providers.host import Host
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import MIB, Capability, Disk, DiskLimits, Node
from tests.contract import probes
from tests.contract.conftest import Place, has, node, spec_of
from tests.contract.probes import python, scratch

pytestmark = [pytest.mark.real, pytest.mark.parametrize("provider", ["container"], indirect=True)]

Launch = Callable[..., AbstractContextManager[Place]]

# argv: path, count. Writes 4 KiB blocks past every cache and prints the seconds that they took.
DIRECT_WRITES = """
import mmap, os, sys, time
block = mmap.mmap(-1, 4096)
target = os.open(sys.argv[1], os.O_RDWR | os.O_DIRECT)
count = int(sys.argv[2])
os.pwrite(target, block, 0)
began = time.monotonic()
for number in range(count):
    os.pwrite(target, block, number % 256 * 4096)
print(time.monotonic() - began)
"""

EAT = "block = b'x' * (int(__import__('sys').argv[1]) << 20); print(len(block))"

# argv: the call's number. Prints the error number of the call with nothing in its arguments.
IO_PGETEVENTS = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall(*map(ctypes.c_long, (int(sys.argv[1]), 0, 0, 0, 0, 0, 0)))
print(ctypes.get_errno())
"""

IOPS = 200
WRITES = 400


def direct_writes_s(host: Host, disk: str, count: int = WRITES) -> float:
    return float(host.run(python(DIRECT_WRITES, str(host.disk(disk)), str(count))).stdout)


def bounded(name: str, iops: int = IOPS) -> Disk:
    return Disk(name, 16 * MIB, limits=DiskLimits(write_iops=iops))


def machine(name: str, *disks: Disk, cores: float | None = None, memory_bytes: int | None = None) -> Node:
    return Node(name, host_arch(), disks, cores=cores, memory_bytes=memory_bytes)


def loops_of(run: Run) -> list[str]:
    """Files below loop devices, of this run."""
    files = [path.read_text().strip() for path in Path("/sys/block").glob("loop*/loop/backing_file")]
    return [file for file in files if f"cephlab-{run.id}." in file]


def test_a_partitioned_node_is_cut_off_and_comes_back(launch: Launch) -> None:
    with launch(node("n0"), node("n1")) as place:
        lab = place.lab
        assert isinstance(lab, ContainerLab)
        server, client = lab.hosts["n0"], lab.hosts["n1"]
        log = scratch(server)
        server.spawn(python(probes.LISTEN, "0.0.0.0", "7412"), log=log)
        clock.wait(
            lambda: server.exists(log) and server.read(log), lambda text: text == b"ready\n", what="x", timeout_s=30
        )
        connect = python(probes.CONNECT, server.address, "7412")
        assert client.run(connect).stdout == "hello\n"
        lab.disconnect("n0")
        assert client.run(connect, check=False).code != 0
        assert server.run(("true",)).code == 0
        lab.connect("n0")
        assert client.run(connect).stdout == "hello\n"


def test_a_container_beside_a_node_has_its_address_directory_and_disks(launch: Launch, images: Images) -> None:
    """A program of the other image is reached where the node's are, and both see the same files."""
    with launch(machine("n0", Disk("d0", 16 * MIB))) as place:
        lab = place.lab
        assert isinstance(lab, ContainerLab)
        host = lab.hosts["n0"]
        beside = lab.with_image("n0", images[host_arch()])
        assert (beside.name, beside.address) == ("n0", host.address)
        log = scratch(beside)
        beside.spawn(python(probes.LISTEN, "0.0.0.0", "7412"), log=log)
        clock.wait(lambda: host.exists(log) and host.read(log), lambda text: text == b"ready\n", what="x", timeout_s=30)
        assert host.run(python(probes.CONNECT, host.address, "7412")).stdout == "hello\n"
        host.run(("dd", "if=/dev/urandom", f"of={host.disk('d0')}", "bs=4096", "count=1", "conv=notrunc"))
        sums = [each.run(("sha256sum", str(each.disk("d0")))).stdout for each in (host, beside)]
        assert sums[0] == sums[1]
        other = images[host_arch()].arch.other
        with pytest.raises(SpecError):
            lab.with_image("n0", replace(images[host_arch()], arch=other))


def test_a_container_beside_a_node_loses_and_regains_power_with_it(launch: Launch, images: Images) -> None:
    with launch(machine("n0")) as place:
        lab = place.lab
        assert isinstance(lab, ContainerLab)
        beside = lab.with_image("n0", images[host_arch()])
        daemon = beside.spawn(("sleep", "300"), log=scratch(beside))
        lab.kill_node("n0")
        assert (lab.hosts["n0"].up(), beside.up(), daemon.alive()) == (False, False, False)
        lab.start_node("n0")
        assert "eth0" in beside.run(("cat", "/proc/net/dev")).stdout


def test_the_system_call_that_bluestore_waits_with_is_allowed(place: Place) -> None:
    """An engine's filter answers EPERM; the kernel itself finds that there is no such context, EINVAL."""
    number = {Arch.X86_64: 333, Arch.AARCH64: 292}[host_arch()]
    assert int(place.native.run(python(IO_PGETEVENTS, str(number))).stdout) == errno.EINVAL


def test_other_system_calls_are_filtered(place: Place) -> None:
    """An unconfined program has mode 0; see proc(5)."""
    assert "Seccomp:\t2\n" in place.native.run(("cat", "/proc/self/status")).stdout


def test_memory_and_cpu_stay_within_the_spec(launch: Launch, provider: Provider) -> None:
    has(provider, Capability.MEMORY_LIMIT)
    has(provider, Capability.CPU_LIMIT)
    # What the interpreter's own start takes is a second on a slow machine, and says nothing of a share.
    burn = "import time\nbegan, end = time.process_time(), time.monotonic() + 1\nwhile time.monotonic() < end: pass\n"
    burn += "print(time.process_time() - began)"
    with launch(node("n0"), machine("n1", cores=0.25, memory_bytes=96 * MIB)) as place:
        free, tight = place.lab.hosts["n0"], place.lab.hosts["n1"]
        assert tight.facts().memory_bytes == 96 * MIB
        assert tight.facts().cores == 0.25
        assert free.run(python(EAT, "200")).code == 0
        assert tight.run(python(EAT, "20")).code == 0
        assert tight.run(python(EAT, "200"), check=False).code == 128 + SIGKILL
        assert float(tight.run(python(burn)).stdout) < 0.4


def at_the_limit(took_s: float) -> bool:
    """Never sooner than the limit allows, and hardly later: a machine that others use adds its own waiting."""
    return 0.9 <= took_s / (WRITES / IOPS) <= 1.5


def test_one_limited_disk_has_its_rate(launch: Launch, provider: Provider) -> None:
    has(provider, Capability.DISK_LIMIT)
    with launch(machine("n0", bounded("slow")), machine("n1", Disk("fast", 16 * MIB))) as place:
        assert at_the_limit(direct_writes_s(place.lab.hosts["n0"], "slow"))
        assert direct_writes_s(place.lab.hosts["n1"], "fast") < 0.9 * WRITES / IOPS


def test_several_limited_disks_have_a_rate_each_that_moves_with_them(launch: Launch, provider: Provider) -> None:
    has(provider, Capability.DISK_LIMIT)
    disks = (bounded("slow"), bounded("slower", IOPS // 2), Disk("fast", 16 * MIB))
    reason = limits.loop_obstacle(disks, BlockDevices(), local=True)
    if reason is not None:
        pytest.skip(str(reason))
    with launch(machine("n0", *disks), node("n1")) as place:
        host, other = place.lab.hosts["n0"], place.lab.hosts["n1"]
        assert at_the_limit(direct_writes_s(host, "slow"))
        assert at_the_limit(direct_writes_s(host, "slower", WRITES // 2))
        assert direct_writes_s(host, "fast") < 0.9 * WRITES / IOPS
        daemon = host.spawn(("sleep", "300"), log=host.directory / "log")
        with pytest.raises(LabBroken, match="idle"):
            place.lab.move_disk("slower", "n1")
        daemon.signal(SIGKILL)
        assert daemon.wait(30)
        host.push(b"kept", host.directory / "file")
        place.lab.move_disk("slower", "n1")
        assert at_the_limit(direct_writes_s(other, "slower", WRITES // 2))
        assert host.read(host.directory / "file") == b"kept"
        assert len(loops_of(place.run)) == 2
    assert loops_of(place.run) == []


def test_a_name_that_is_taken_is_refused_and_left_alone(
    launch: Launch, provider: Provider, images: Images, tmp_path: Path
) -> None:
    with launch(node("n0")) as place:
        elsewhere = Home(tmp_path)
        run = Runs(elsewhere).create(provider.name, place.run.id)
        with pytest.raises(SpecError, match=place.run.id), provider.launch(spec_of(node("n0")), images, run):
            pytest.fail("two runs of one name")
        assert provider.prune(elsewhere, run.id) == []
        assert place.native.run(("true",)).code == 0


def test_an_image_that_cannot_be_pulled_is_named_with_a_remedy(provider: Provider, images: Images, home: Home) -> None:
    absent = replace(images[host_arch()], reference="localhost:9/no/such:image")
    runs = Runs(home)
    run = runs.create(provider.name)
    with (
        pytest.raises(Unavailable, match="localhost:9/no/such:image") as caught,
        provider.launch(spec_of(node("n0")), {host_arch(): absent}, run),
    ):
        pytest.fail("an image from nowhere")
    assert "registry" in caught.value.hint
    assert provider.prune(home, run.id) == []
    runs.forget(run)


def test_an_image_by_name_that_is_in_the_engine_is_taken(
    launch: Launch, provider: Provider, images: Images, home: Home
) -> None:
    ours = images[host_arch()]
    with launch(node("n0")):
        named = Image(ours.release, ours.arch, "", Path("/nonexistent"), reference=_tag(ours))
    runs = Runs(home)
    run = runs.create(provider.name)
    with provider.launch(spec_of(node("n0")), {ours.arch: named}, run) as lab:
        assert lab.hosts["n0"].run(("uname", "-m")).stdout.strip() == ours.arch.value
    runs.forget(run)


def test_an_engine_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, provider: Provider) -> None:
    monkeypatch.setitem(os.environ, "DOCKER_HOST", "unix:///nonexistent/engine.sock")
    reason = ContainerProvider().unavailable(spec_of(node("n0")))
    assert reason is not None
    assert "DOCKER_HOST" in reason.hint
    assert provider.name == "container"


def _tag(image: Image) -> str:
    return f"cephlab/{image.release}-{image.arch.debian}:{image.key[:12]}"
