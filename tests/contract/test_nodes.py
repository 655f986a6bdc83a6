"""Every provider: machines that die and come back, disks that move, runs that leave nothing behind."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import psutil
import pytest

from cephlab.lab.base import clock
from cephlab.lab.base.errors import LabBroken, LabError
from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import Run, Runs
from cephlab.lab.providers.base import Images, Provider, TakesOver
from cephlab.lab.providers.host import Host
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.clusterspec import Capability
from tests.contract import other_process, probes
from tests.contract.conftest import DISK_BYTES, FOREIGN, Place, has, node, spec_of
from tests.contract.probes import python, scratch

pytestmark = [pytest.mark.real]

ROOT = Path(__file__).resolve().parents[2]
Launch = Callable[..., AbstractContextManager[Place]]

WRITE = "import sys; f = open(sys.argv[1], 'r+b'); f.seek(int(sys.argv[2])); f.write(sys.argv[3].encode())"
SIZE = "import os, sys; print(os.lseek(os.open(sys.argv[1], os.O_RDONLY), 0, os.SEEK_END))"
READ = "import sys; f = open(sys.argv[1], 'rb'); f.seek(int(sys.argv[2])); print(f.read(int(sys.argv[3])).decode())"


def write_disk(host: Host, disk: str, text: str) -> None:
    host.run(python(WRITE, str(host.disk(disk)), str(DISK_BYTES - 4096), text))


def read_disk(host: Host, disk: str, length: int) -> str:
    return host.run(python(READ, str(host.disk(disk)), str(DISK_BYTES - 4096), str(length))).stdout.strip()


def wait_for_command(pid: int, word: str) -> None:
    """A program just started is a shell first, and has no command line at all in between."""
    clock.wait(lambda: psutil.Process(pid).cmdline(), lambda line: word in line, what="the program", timeout_s=30)


def test_every_host_has_an_address_of_its_own_that_others_reach(place: Place) -> None:
    hosts = list(place.lab.hosts.values())
    assert len({host.address for host in hosts}) == len(hosts)
    server, client = hosts[0], hosts[-1]
    log = scratch(server)
    daemon = server.spawn(python(probes.LISTEN, server.address, "7411"), log=log)
    clock.wait(
        lambda: server.read(log) if server.exists(log) else b"", lambda text: b"ready" in text, what="x", timeout_s=30
    )
    assert client.run(python(probes.CONNECT, server.address, "7411")).stdout.strip() == "hello"
    daemon.signal(signal.SIGKILL)
    assert daemon.wait(30)


def test_a_disk_has_its_size(host: Host) -> None:
    disk = {"n0": "d0", "n2": "f0"}[host.name]
    size = host.run(python(SIZE, str(host.disk(disk)))).stdout.strip()
    assert int(size) == DISK_BYTES


def test_a_disk_of_another_node_is_not_handed_out(place: Place) -> None:
    with pytest.raises(LabBroken, match="e0"):
        place.native.disk("e0")


def test_a_dead_host_comes_back_with_its_files_and_disks(launch: Launch) -> None:
    with launch(node("n0", None, "d0"), node("n1")) as place:
        host = place.native
        host.push(b"kept", host.directory / "file")
        write_disk(host, "d0", "kept too")
        daemon = host.spawn(("sleep", "300"), log=host.directory / "log")
        place.lab.kill_node("n0")
        assert not host.up()
        assert daemon.wait(30)
        assert not daemon.alive()
        daemon.exit_code()
        with pytest.raises(LabBroken, match="n0"):
            host.run(("true",))
        assert place.lab.hosts["n1"].run(("true",)).code == 0
        back = place.lab.start_node("n0")
        assert back.up()
        assert back.address == host.address
        assert back.read(back.directory / "file") == b"kept"
        assert read_disk(back, "d0", 8) == "kept too"
        assert not daemon.alive()


def test_a_moved_disk_keeps_its_content(launch: Launch) -> None:
    with launch(node("n0", None, "d0"), node("n1")) as place:
        has(place.provider, Capability.MOVE_DISK)
        source, target = place.lab.hosts["n0"], place.lab.hosts["n1"]
        write_disk(source, "d0", "carried")
        place.lab.move_disk("d0", "n1")
        assert read_disk(target, "d0", 7) == "carried"
        with pytest.raises(LabBroken, match="d0"):
            source.disk("d0")
        with pytest.raises(LabError, match="no-such-disk"):
            place.lab.move_disk("no-such-disk", "n1")


def test_a_disk_moves_out_of_a_dead_host_to_the_other_architecture(launch: Launch, provider: Provider) -> None:
    has(provider, Capability.MOVE_DISK)
    has(provider, Capability.FOREIGN_ARCH)
    with launch(node("n0", None, "d0"), node("n1", FOREIGN)) as place:
        write_disk(place.native, "d0", "saved")
        place.lab.kill_node("n0")
        place.lab.move_disk("d0", "n1")
        assert read_disk(place.lab.hosts["n1"], "d0", 5) == "saved"


def test_an_added_node_is_like_the_others(launch: Launch) -> None:
    with launch(node("n0")) as place:
        before = place.native.address
        added = place.lab.add_node(node("n1", None, "late"))
        assert added.address != before
        write_disk(added, "late", "new")
        assert place.lab.hosts["n1"].run(("true",)).code == 0
        if Capability.MOVE_DISK in place.provider.capabilities():
            place.lab.move_disk("late", "n0")
            assert read_disk(place.native, "late", 3) == "new"
        with pytest.raises(LabError, match="n1"):
            place.lab.add_node(node("n1"))


def test_a_machine_takes_the_address_of_one_that_is_off(launch: Launch, provider: Provider) -> None:
    has(provider, Capability.TAKE_OVER)
    with launch(node("n0"), node("n1", None, "left")) as place:
        lab, old = place.lab, place.lab.hosts["n1"]
        assert isinstance(lab, TakesOver)
        with pytest.raises(LabError, match=old.address):
            lab.add_node_at(node("n2"), old.address)
        old.push(b"old", old.directory / "file")
        lab.kill_node("n1")
        new = lab.add_node_at(node("n2", None, "own"), old.address)
        assert (new.address, new.name) == (old.address, "n2")
        assert not new.exists(new.directory / "file")
        lab.move_disk("left", "n2")
        write_disk(new, "left", "taken over")
        assert read_disk(new, "left", 10) == "taken over"


def test_two_runs_side_by_side_do_not_meet(launch: Launch) -> None:
    with launch(node("n0", None, "d0")) as first:
        with launch(node("n0", None, "d0")) as second:
            assert first.native.address != second.native.address
            for place in (first, second):
                place.native.push(place.run.id.encode(), place.native.directory / "who")
                write_disk(place.native, "d0", place.run.id)
            for place in (first, second):
                assert place.native.read(place.native.directory / "who").decode() == place.run.id
                assert read_disk(place.native, "d0", len(place.run.id)) == place.run.id
        assert first.native.run(("true",)).code == 0


def test_an_exception_inside_the_block_leaves_nothing(provider: Provider, images: Images, home: Home) -> None:
    runs = Runs(home)
    run = runs.create(provider.name)
    daemons = []

    def broken() -> None:
        with provider.launch(spec_of(node("n0", None, "d0")), images, run) as lab:
            host = lab.hosts["n0"]
            daemons.append(host.spawn(("sleep", "300"), log=host.directory / "log"))
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        broken()
    assert provider.prune(home, run.id) == []
    assert [daemon.wait(30) for daemon in daemons] == [True]
    runs.forget(run)


def test_a_kept_run_stays_until_it_is_closed(provider: Provider, images: Images, home: Home) -> None:
    runs = Runs(home)
    run = runs.create(provider.name)
    with provider.launch(spec_of(node("n0", None, "d0")), images, run) as lab:
        write_disk(lab.hosts["n0"], "d0", "kept")
        run.claim(provider=provider.name, kept=True)
        state = json.loads(json.dumps(lab.state))
    again = provider.attach(run, state)
    assert read_disk(again.hosts["n0"], "d0", 4) == "kept"
    again.add_node(node("n1"))
    assert again.hosts["n1"].run(("true",)).code == 0
    again.close()
    assert provider.prune(home, run.id) == []
    runs.forget(run)


def test_what_a_killed_owner_left_is_pruned(provider: Provider, images: Images, home: Home) -> None:
    image = images[host_arch()]
    word = probes.mark()
    order = {
        "home": str(home.path),
        "provider": provider.name,
        "release": image.release,
        "key": image.key,
        "root": str(image.root),
        "mark": word,
    }
    owner = subprocess.Popen(
        [sys.executable, other_process.__file__, "launch", json.dumps(order)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with owner:
        assert owner.stdout is not None
        told = json.loads(owner.stdout.readline())
        owner.send_signal(signal.SIGKILL)
    run = Run(told["run"], home.runs / told["run"])
    assert run.abandoned()
    if told["pid"]:
        wait_for_command(told["pid"], word)
    run.state_file.unlink(missing_ok=True)
    assert provider.prune(home, run.id) != []
    assert provider.prune(home, run.id) == []
    if told["pid"]:
        assert ended(told["pid"])
    Runs(home).forget(run)


def ended(pid: int) -> bool:
    """Whether a process is over; the machine's first process may take its time to bury it."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
