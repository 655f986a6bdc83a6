"""What the baseline suite reads of real machines' memory, links, firmware and NUMA nodes, and what it must catch."""

import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cephlab.lab.base.errors import LabBroken, Unavailable
from cephlab.lab.checks import Outcome
from cephlab.suites.baseline import SCENARIOS, hardware
from cephlab.suites.baseline.hardware import Firmware, Module, modules
from tests.fake_stage import verdict_of


def structure(kind: int, body: bytes, *texts: str) -> bytes:
    strings = b"\0".join(text.encode() for text in texts) + b"\0\0" if texts else b"\0\0"
    return struct.pack("<BBH", kind, 4 + len(body), 0) + body + strings


def module(size: int, speed: int, *, slot: str = "DIMM A1", extended: int = 0) -> bytes:
    body = bytearray(0x22 - 4)
    struct.pack_into("<H", body, 0x0C - 4, size)
    body[0x10 - 4] = 1
    struct.pack_into("<I", body, 0x1C - 4, extended)
    struct.pack_into("<H", body, 0x20 - 4, speed)
    return structure(17, bytes(body), slot, "BANK 0")


def test_modules_are_read_and_empty_slots_left_out() -> None:
    table = structure(1, b"\0" * 8, "maker") + module(16384, 3200) + module(0, 0) + module(0x7FFF, 3200, extended=65536)
    assert modules(table + structure(127, b"")) == [Module("DIMM A1", 16384, 3200), Module("DIMM A1", 65536, 3200)]


def test_a_table_that_is_cut_off_is_not_half_read() -> None:
    with pytest.raises(LabBroken, match="ends within a structure"):
        modules(module(16384, 3200)[:-3])


def pci(device: str, kind: str, *link: str, node: str = "0") -> dict[str, str]:
    names = ("current_link_speed", "max_link_speed", "current_link_width", "max_link_width")
    attributes = dict(zip(names, link, strict=False))
    return {
        f"{hardware.PCI}/{device}/{name}": text
        for name, text in {**attributes, "class": kind, "numa_node": node}.items()
    }


FULL = ("16.0 GT/s PCIe", "16.0 GT/s PCIe", "4", "4")


def test_links_of_disks_and_cards_are_found() -> None:
    files = {
        **pci("0000:01:00.0", "0x010802", *FULL, node="1"),
        **pci("0000:02:00.0", "0x020000", "8.0 GT/s PCIe", "16.0 GT/s PCIe", "8", "16"),
        **pci("0000:03:00.0", "0x030000", *FULL),
        **pci("0000:04:00.0", "0x010802", "Unknown", "Unknown", "0", "0"),
        **pci("0000:05:00.0", "0x020000"),
    }
    good, bad = hardware.links_of(files)
    assert (good.kind, good.state == good.top, good.node) == ("NVMe", True, 1)
    assert (bad.state, bad.top) == ("8.0 GT/s PCIe x8", "16.0 GT/s PCIe x16")


def numa(number: int, cpus: str, kib: int) -> dict[str, str]:
    base = f"{hardware.NUMA}/node{number}"
    return {
        f"{base}/cpulist": cpus,
        f"{base}/meminfo": f"Node {number} MemTotal:  {kib} kB\nNode {number} MemFree: 1 kB",
    }


def test_a_numa_node_without_its_share_is_found() -> None:
    nodes = hardware.numa_of({**numa(0, "0-31", 64_000), **numa(1, "32-63", 65_000), **numa(10, "", 500_000)})
    assert [node.number for node in nodes] == [0, 1, 10]
    assert hardware.uneven(nodes) == []
    assert hardware.uneven(hardware.numa_of({**numa(0, "0-31", 64_000), **numa(1, "32-63", 0)})) == [0, 1]


FIRMWARE = next(scenario for scenario in SCENARIOS if scenario.name == "baseline.firmware")
CD8, BOARD = "KIOXIA KCD8XPUG6T40", "MT_0000000838"


def device(path: str, **files: str) -> dict[str, str]:
    return {f"{path}/{name}": text for name, text in files.items()}


def nvme(number: int, version: str, model: str = CD8) -> dict[str, str]:
    return device(f"/sys/class/nvme/nvme{number}", model=model, firmware_rev=version)


def card(version: str) -> dict[str, str]:
    return device("/sys/class/infiniband/mlx5_0", board_id=BOARD, fw_ver=version)


def test_firmware_is_that_of_devices_with_a_model_and_a_version() -> None:
    nameless = device("/sys/class/infiniband/mlx5_1", board_id=BOARD)
    sata = device("/sys/block/sda/device", model="SSDSC2KB", rev="0132")
    files = {**nvme(0, "1UET7104"), **card("28.41.1000"), **nameless, **sata, **nvme(1, "")}
    assert hardware.firmware_of(files) == [
        Firmware("/sys/class/nvme/nvme0", CD8, "1UET7104"),
        Firmware("/sys/class/infiniband/mlx5_0", BOARD, "28.41.1000"),
        Firmware("/sys/block/sda/device", "SSDSC2KB", "0132"),
    ]


OTHER = "n2 /sys/class/nvme/nvme0: 1UET7102, not 1UET7104"


@pytest.mark.parametrize(
    ("machines", "said"),
    [
        ([{**nvme(0, "1UET7104"), **card("28.41")}, {**nvme(0, "1UET7104"), **card("28.41")}], ""),
        ([nvme(0, "1UET7104"), nvme(0, "1UET7104"), nvme(0, "1UET7102")], OTHER),
        ([{**nvme(0, "1UET7104"), **nvme(1, "VDV1", "INTEL P4510")}, nvme(0, "1UET7104")], ""),
        ([card("28.41"), card("28.41"), card("28.39")], "n2 /sys/class/infiniband/mlx5_0: 28.39, not 28.41"),
    ],
)
def test_a_device_with_another_firmware_than_most_of_its_model_is_red(
    monkeypatch: pytest.MonkeyPatch, machines: list[dict[str, str]], said: str
) -> None:
    verdict = judged(monkeypatch, machines)
    assert verdict.outcome is (Outcome.FAIL if said else Outcome.PASS)
    assert said in verdict.reason


@pytest.mark.parametrize("machines", [[{}, {}], [nvme(0, "1UET7104"), nvme(0, "VDV1", "INTEL P4510")]])
def test_firmware_that_nothing_can_be_compared_with_is_skipped(
    monkeypatch: pytest.MonkeyPatch, machines: list[dict[str, str]]
) -> None:
    with pytest.raises(Unavailable, match="no two devices of one model"):
        judged(monkeypatch, machines)


def judged(monkeypatch: pytest.MonkeyPatch, machines: list[dict[str, str]]) -> Any:
    """The verdict on machines with these files."""
    hosts = {f"n{number}": SimpleNamespace(name=f"n{number}", files=files) for number, files in enumerate(machines)}
    monkeypatch.setattr(hardware, "read", lambda host, *_: host.files)
    return verdict_of(FIRMWARE, SimpleNamespace(hosts=hosts))


def test_every_file_of_a_device_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The patterns are those of the kernel, below another root."""
    for path, text in {**nvme(0, "1UET7104"), **nvme(1, "1UET7104"), **card("28.41")}.items():
        file = tmp_path / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")

    def read(_host: object, *patterns: str) -> dict[str, str]:
        files = [path for pattern in patterns for path in tmp_path.glob(pattern.lstrip("/"))]
        return {f"/{path.relative_to(tmp_path)}": path.read_text().strip() for path in files}

    monkeypatch.setattr(hardware, "read", read)
    host = SimpleNamespace(name="n0")
    assert verdict_of(FIRMWARE, SimpleNamespace(hosts={"n0": host})).outcome is Outcome.PASS
