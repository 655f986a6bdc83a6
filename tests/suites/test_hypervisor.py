"""Guests that a host runs itself, without one: QEMU's command line, what it costs, and what a power cut must leave."""

import itertools
import json
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.providers.host import Host
from cephlab.lab.spec.arch import Arch
from cephlab.lab.telemetry import account_program
from cephlab.suites.hci.hypervisor import inside, relay
from cephlab.suites.hci.hypervisor.command import CacheMode, GuestOrder, RbdDisk, device, disk_id
from cephlab.suites.hci.hypervisor.guest import HostedGuest, Requests
from cephlab.suites.hci.hypervisor.inside import BLOCK_BYTES, content, place
from cephlab.suites.hci.load import QemuSpent, spent, spent_by
from cephlab.suites.hci.power import compare

SEED, BLOCKS = 7, 64
FIRMWARE = ("/image/usr/share/qemu", "/image/usr/share/seabios")


def order(*caches: CacheMode) -> GuestOrder:
    disks = tuple(RbdDisk("p", f"i{number}", cache) for number, cache in enumerate(caches))
    files = (PurePosixPath("/k"), PurePosixPath("/initrd"), PurePosixPath("/root.ext4"))
    return GuestOrder("g0", Arch.X86_64, disks, PurePosixPath("/node/g0"), *files, image_root=PurePosixPath("/image"))


def blockdevs(argv: list[str]) -> list[dict[str, object]]:
    return [json.loads(after) for word, after in itertools.pairwise(argv) if word == "-blockdev"]


@pytest.mark.parametrize(
    ("cache", "direct", "no_flush"),
    [(CacheMode.NONE, True, False), (CacheMode.WRITEBACK, False, False), (CacheMode.UNSAFE, False, True)],
)
def test_a_cache_mode_is_what_qemu_means_by_it(cache: CacheMode, direct: bool, no_flush: bool) -> None:
    disks = [disk for disk in blockdevs(order(cache).argv()) if disk["driver"] == "rbd"]
    assert [disk["cache"] for disk in disks] == [{"direct": direct, "no-flush": no_flush}]


def test_the_root_is_shared_and_never_written() -> None:
    root = blockdevs(order(CacheMode.NONE).argv())[0]
    assert root["node-name"] == "root"
    assert root["read-only"] is True


def test_each_disk_has_a_client_and_a_name_of_its_own() -> None:
    argv = order(CacheMode.NONE, CacheMode.WRITEBACK).argv()
    disks = [disk for disk in blockdevs(argv) if disk["driver"] == "rbd"]
    assert [disk["conf"] for disk in disks] == ["/node/g0/ceph0.conf", "/node/g0/ceph1.conf"]
    assert [device(0), device(1)] == ["/dev/vdb", "/dev/vdc"]
    assert all(any(f"id={disk_id(number)}," in word for word in argv) for number in (0, 1))


def test_no_key_is_on_the_command_line() -> None:
    text = " ".join(order(CacheMode.NONE).argv())
    assert "key" not in text.replace("keyring", "")
    assert '"conf": "/node/g0/ceph0.conf"' in text


def test_drivers_and_firmware_are_the_images_own() -> None:
    wanted = order(CacheMode.NONE)
    assert wanted.env() == {"QEMU_MODULE_DIR": "/image/usr/lib/x86_64-linux-gnu/qemu"}
    assert "/image/usr/share/seabios" in wanted.argv()


def test_a_machines_own_qemu_finds_its_files_itself() -> None:
    """A distribution may have them anywhere."""
    wanted = replace(order(CacheMode.NONE), image_root=PurePosixPath("/"))
    assert wanted.env() == {}
    assert "-L" not in wanted.argv()
    assert [word for word in order(CacheMode.NONE).argv() if word not in ("-L", *FIRMWARE)] == wanted.argv()


def test_kvm_is_asked_for_only_where_it_is_known_to_boot() -> None:
    assert "kvm" not in order(CacheMode.NONE).argv()
    slow = order(CacheMode.NONE)
    assert "kvm" in GuestOrder(**{**vars(slow), "kvm": True}).argv()


def test_blocks_are_all_over_a_device_and_no_two_at_one_place() -> None:
    places = {place(SEED, number, BLOCKS) for number in range(BLOCKS)}
    assert places == {number * BLOCK_BYTES for number in range(BLOCKS)}
    assert len(content(SEED, 1)) == BLOCK_BYTES
    assert content(SEED, 1) != content(SEED, 2)


def image(*numbers: int) -> bytearray:
    data = bytearray(BLOCKS * BLOCK_BYTES)
    for number in numbers:
        at = place(SEED, number, BLOCKS)
        data[at : at + BLOCK_BYTES] = content(SEED, number)
    return data


def test_an_image_has_what_was_promised_and_maybe_more() -> None:
    comparison = compare(bytes(image(0, 1, 2, 3)), SEED, begun=5, promised=3)
    assert (comparison.lost, comparison.made_up, comparison.unacknowledged) == ((), (), 1)


def test_a_promised_block_that_is_gone_is_named() -> None:
    assert compare(bytes(image(0, 2)), SEED, begun=4, promised=3).lost == (1,)


@pytest.mark.parametrize("number", [1, 9])
def test_a_block_that_is_torn_or_was_never_sent_is_made_up(number: int) -> None:
    data = image(0, 1, 2)
    data[place(SEED, number, BLOCKS)] = 1
    comparison = compare(bytes(data), SEED, begun=3, promised=3)
    assert len(comparison.made_up) == 1
    assert comparison.lost == ()


def test_a_guests_writes_are_where_the_lab_looks_for_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "O_DIRECT", 0)  # which a file system in memory may refuse
    disk = tmp_path / "disk"
    disk.write_bytes(bytes(BLOCKS * BLOCK_BYTES))
    known = inside.operations()
    asked = {"op": "write", "device": str(disk), "seed": SEED, "first": 0, "count": 5, "flush": True, "blocks": BLOCKS}
    assert json.loads(inside.answer(known, json.dumps(asked).encode())) == {"ok": 5}
    assert compare(disk.read_bytes(), SEED, begun=5, promised=5).lost == ()


def test_a_guest_says_what_the_system_refuses() -> None:
    asked = json.dumps({"op": "run", "argv": ["/no/such/program"]}).encode()
    assert "FileNotFoundError" in json.loads(inside.answer(inside.operations(), asked))["error"]


def task(folder: Path, tid: int, name: str, seconds: float) -> None:
    (folder / "task" / str(tid)).mkdir(parents=True)
    (folder / "task" / str(tid) / "comm").write_text(f"{name}\n")
    (folder / "task" / str(tid) / "schedstat").write_text(f"{int(seconds * 1e9)} 0 1\n")


def spent_below(folder: Path) -> QemuSpent:
    return spent_by(40, account_program.scheduled({"pid": 40}, folder))


def test_a_disks_share_of_qemu_is_neither_the_guests_nor_the_machines(tmp_path: Path) -> None:
    names = ("qemu-system-x86", "CPU 0/TCG", "IO disk", "msgr-worker-0", "msgr-worker-1", "worker", "IO mon_iothread")
    for offset, name in enumerate(names):
        task(tmp_path / "40", 40 + offset, name, 10.0**offset / 100)
    assert spent_below(tmp_path).disk_s == pytest.approx(1 + 10 + 100)


def test_a_thread_that_ends_while_it_is_looked_at_is_left_out_and_the_first_one_is_not(tmp_path: Path) -> None:
    task(tmp_path / "40", 40, "qemu-system-x86", 1.0)
    task(tmp_path / "40", 41, "IO disk", 2.0)
    (tmp_path / "40/task/42").mkdir()
    assert spent_below(tmp_path).disk_s == pytest.approx(2)
    (tmp_path / "40/task/40/comm").unlink()
    with pytest.raises(LabBroken, match="the CPU time of process 40 cannot be read"):
        spent_below(tmp_path)


class Ending:
    """A guest whose QEMU is a process of this machine, or of another one if the pid is 0."""

    def __init__(self, pid: int, *answers: object) -> None:
        self.process = SimpleNamespace(pid=pid, ref={"pid": 40})
        self.answers = list(answers)
        self.asked: list[tuple[str, dict[str, int]]] = []
        self.teller = self
        self.host = SimpleNamespace(name="a")

    def ask(self, what: str, **more: int) -> object:
        self.asked.append((what, more))
        return self.answers.pop(0)


def test_a_qemu_that_has_ended_cannot_be_accounted_for() -> None:
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    with pytest.raises(LabBroken, match=f"the CPU time of process {ended.pid} cannot be read"):
        spent(cast("HostedGuest", Ending(ended.pid)))


def test_a_qemu_elsewhere_is_accounted_for_by_the_kernel_there() -> None:
    guest = Ending(0, [40, 44], {"40": ["qemu-system-x86", 5.0], "41": ["IO disk", 2.0], "42": ["tp_librbd", 0.5]})
    assert spent(cast("HostedGuest", guest)).disk_s == pytest.approx(2.5)
    assert guest.asked == [("find", {"pid": 40}), ("scheduled", {"pid": 40})]


def test_a_qemu_that_is_not_found_elsewhere_is_named_with_its_machine() -> None:
    with pytest.raises(LabBroken, match="a process was not found on a, so it cannot be accounted for"):
        spent(cast("HostedGuest", Ending(0, [])))


class Closed:
    """A channel, or a process that cannot be reached any more."""

    def __init__(self) -> None:
        self.closed = False

    def close(self) -> None:
        self.closed = True

    def signal(self, _number: int) -> None:
        raise LabBroken("the connection was lost")


def test_a_guest_that_cannot_be_reached_any_more_leaves_no_channel_open() -> None:
    parts = [Closed() for _ in range(4)]
    guest = HostedGuest(order(), cast("Host", None), *(cast("Any", part) for part in parts))
    with pytest.raises(LabBroken, match="the connection was lost"):
        guest.close()
    assert [part.closed for part in parts] == [False, True, True, True]


def test_requests_are_counted_from_a_moment_on() -> None:
    assert Requests(5, 9, 2).since(Requests(1, 2, 2)) == Requests(4, 7, 0)
    assert Requests(4, 7, 1).operations == 11


@pytest.mark.parametrize(("more", "wanted"), [((), b'{"QMP": 1}\n'), (("monitor",), b'{"return": 2}\n')])
def test_the_relay_leaves_out_what_a_monitor_says_unasked(tmp_path: Path, more: tuple[str, ...], wanted: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        server.listen()
        argv = [sys.executable, "-I", str(Path(relay.__file__)), str(tmp_path / "s"), *more]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            link, _ = server.accept()
            assert child.stdin is not None
            assert child.stdout is not None
            with link:
                child.stdin.write(b"asked\n")
                child.stdin.flush()
                assert link.recv(100) == b"asked\n"
                link.sendall(b'{"QMP": 1}\n{"event": "x"}\n{"return": 2}\n')
                assert child.stdout.readline() == wanted
            assert child.wait(timeout=20) == 0


def test_the_relay_ends_with_a_qemu_that_is_killed_before_it_has_read_a_request(tmp_path: Path) -> None:
    """Its end resets the socket then, and whoever waits for the answer must be told."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        server.listen()
        argv = [sys.executable, "-I", str(Path(relay.__file__)), str(tmp_path / "s")]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            link, _ = server.accept()
            assert child.stdin is not None
            with link:
                child.stdin.write(b"asked\n")
                child.stdin.flush()
                assert link.recv(100, socket.MSG_PEEK) == b"asked\n"
            try:
                assert child.wait(timeout=10) == 0
            finally:
                child.kill()
