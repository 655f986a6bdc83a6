"""The program that a tuning runs on a host: its files, its swap and its answer, on a folder and a made-up kernel."""

import base64
import ctypes
import errno
import fcntl
import io
import json
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cephlab.lab.tunables import on_host
from tests.fake_machine import SWAPS

NOBODY = "192.0.2.1"


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def written(path: Path, content: bytes | None, *, create: bool = False) -> str | None:
    data = None if content is None else encoded(content)
    return on_host.write({"path": str(path), "data": data, "create": create})


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_file_has_what_was_written_and_nothing_of_before(tmp_path: Path) -> None:
    path = tmp_path / "swappiness"
    path.write_text("a longer value\n")
    assert written(path, b"60\n") is None
    assert path.read_bytes() == b"60\n"
    before = open_files()
    assert written(path, b"0\n") is None
    assert open_files() == before


def test_only_a_file_that_may_be_new_is_made_with_its_folders(tmp_path: Path) -> None:
    path = tmp_path / "security" / "limits.d" / "95.conf"
    assert written(path, b"x") == "ENOENT: No such file or directory"
    assert not path.parent.exists()
    before = os.umask(0o022)
    try:
        assert [written(path, content, create=True) for content in (b"x", b"y")] == [None, None]
    finally:
        os.umask(before)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"y", 0o644)
    assert written(path.parent / "other", b"x") == "ENOENT: No such file or directory"


def test_a_file_that_was_none_is_removed_once_or_twice(tmp_path: Path) -> None:
    path = tmp_path / "95.conf"
    path.touch()
    assert [written(path, None), written(path, None)] == [None, None]
    assert not path.exists()
    assert written(tmp_path, None) == "EISDIR: Is a directory"


def test_each_file_of_a_pattern_has_its_content_or_why_it_cannot_be_read(tmp_path: Path) -> None:
    for name in ("b.conf", "a.conf", "c.txt"):
        (tmp_path / name).write_text(name)
    (tmp_path / "aa.conf").mkdir()
    seen = on_host.read(f"{tmp_path}/*.conf", "")
    assert list(seen.items()) == [
        (f"{tmp_path}/a.conf", {"data": encoded(b"a.conf")}),
        (f"{tmp_path}/aa.conf", {"error": "EISDIR: Is a directory"}),
        (f"{tmp_path}/b.conf", {"data": encoded(b"b.conf")}),
    ]


def test_an_error_that_only_the_kernel_has_a_name_for_is_its_number() -> None:
    """524 is the kernel's ENOTSUPP."""
    assert on_host.words(OSError(524, "")) == f"524: {os.strerror(524)}"


def test_an_interface_without_an_address_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = {"lo": "127.0.0.1", "eth0": "198.51.100.1", "eth1": NOBODY}

    def ioctl(_number: int, request: int, asked: bytes) -> bytes:
        assert (request, len(asked)) == (0x8915, 256)
        name = asked.rstrip(b"\0").decode()
        if name not in addresses:
            raise OSError(errno.EADDRNOTAVAIL, "")
        return bytes(20) + socket.inet_aton(addresses[name]) + bytes([7] * 232)

    monkeypatch.setattr(socket, "if_nameindex", lambda: list(enumerate(("lo", "eth0", "down", "eth1"))))
    monkeypatch.setattr(fcntl, "ioctl", ioctl)
    assert [on_host.interface_of(address) for address in (NOBODY, "198.51.100.2")] == ["eth1", None]


def test_the_interface_is_the_one_that_carries_the_address() -> None:
    """All of 127.0.0.0/8 is on the loopback interface, which tells one address of it."""
    assert [on_host.interface_of(address) for address in ("127.0.0.1", "127.0.7.1", NOBODY)] == ["lo", "lo", None]
    mtu = "/sys/class/net/{interface}/mtu"
    assert list(on_host.read(mtu, "127.0.0.1")) == ["/sys/class/net/lo/mtu"]
    assert [on_host.read(mtu, address) for address in (NOBODY, "")] == [{}, {}]


def test_swap_on_a_file_is_found_by_its_own_name() -> None:
    """The kernel escapes spaces, and leaves what is not ASCII as it is (mangle_path in fs/seq_file.c)."""
    lines = ["Filename Type Size Used Priority", "/sw\u00e4p/a\\040b file 1048572 0 -2", "/dev/sda2 partition 1 0 5"]
    wide = "/a\u3000b file 1 0 3"
    assert list(on_host.areas([*lines, wide])) == [("/sw\u00e4p/a b", -2), ("/dev/sda2", 5), ("/a\u3000b", 3)]


class Kernel:
    """Swap of a made-up kernel. calls: what was asked of it; refuses: paths that it does not switch."""

    def __init__(self, refuses: frozenset[bytes] = frozenset()) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.refuses = refuses

    def library(self, name: str | None, *, use_errno: bool) -> "Kernel":
        assert (name, use_errno) == (None, True)
        return self

    def swapoff(self, path: bytes) -> int:
        return self._called("off", path)

    def swapon(self, path: bytes, flags: ctypes.c_int) -> int:
        return self._called("on", path, flags.value)

    def _called(self, *call: Any) -> int:
        self.calls.append(call)
        if call[1] not in self.refuses:
            return 0
        ctypes.set_errno(errno.EPERM)
        return -1


def swapping(monkeypatch: pytest.MonkeyPatch, kernel: Kernel, now: str) -> None:
    files = {"/proc/swaps": now}
    monkeypatch.setattr(ctypes, "CDLL", kernel.library)
    monkeypatch.setattr(Path, "read_text", lambda path: files[str(path)])


def test_all_swap_is_switched_off_and_what_stays_on_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(refuses=frozenset({b"/dev/sda2"}))
    swapping(monkeypatch, kernel, f"{SWAPS}/sw\\040ap file 9 0 3\n")
    assert on_host.change_swap("off") == ["swapoff /dev/sda2: Operation not permitted"]
    assert kernel.calls == [("off", b"/dev/sda2"), ("off", b"/sw ap")]


def test_swap_is_switched_on_again_where_it_is_off_with_the_priority_that_somebody_gave_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel = Kernel(refuses=frozenset({b"/high"}))
    swapping(monkeypatch, kernel, SWAPS)
    wanted = [*SWAPS.splitlines(), "/own file 9 0 -3", "/low file 9 0 0", "/high file 9 0 7"]
    assert on_host.change_swap(wanted) == ["swapon /high: Operation not permitted"]
    assert kernel.calls == [("on", b"/own", 0), ("on", b"/low", 0x8000), ("on", b"/high", 0x8007)]


def answer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], request: Mapping[str, Any]) -> Any:
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(request)))
    on_host.main()
    return json.loads(capsys.readouterr().out)


def test_a_request_is_answered_in_its_order_and_writes_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, missing = tmp_path / "swappiness", tmp_path / "missing"
    path.write_text("60\n")
    items = [{"path": str(each), "data": encoded(b"0\n"), "create": False} for each in (missing, path)]
    mtu = "/sys/class/net/{interface}/mtu"
    request = {"address": "127.0.0.1", "write": items, "swap": None, "read": [str(path), str(missing), mtu]}
    told = answer(monkeypatch, capsys, request)
    assert told["write"] == ["ENOENT: No such file or directory", None]
    assert told["swap"] == []
    assert told["read"] == {
        str(path): {str(path): {"data": encoded(b"0\n")}},
        str(missing): {},
        mtu: on_host.read(mtu, "127.0.0.1"),
    }


def test_a_request_for_swap_is_one_for_swap(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = Kernel(refuses=frozenset({b"/dev/sda2"}))
    swapping(monkeypatch, kernel, SWAPS)
    told = answer(monkeypatch, capsys, {"address": "", "write": [], "swap": "off", "read": []})
    assert told == {"write": [], "swap": ["swapoff /dev/sda2: Operation not permitted"], "read": {}}
