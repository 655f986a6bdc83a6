"""Disks that UEFI starts a machine from: their table as others read it, and what is on them, of a tiny tree."""

import os
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import pytest

from cephlab.lab.base.errors import LabBroken, Unavailable
from cephlab.lab.images import bootdisk
from cephlab.lab.images.export import write_root
from cephlab.lab.images.image import Image
from cephlab.lab.images.kernels import Kernel
from cephlab.lab.images.tools import SystemTools, require
from cephlab.lab.spec.arch import Arch

MIB = 1 << 20
SIZE = 96 * MIB
NEEDED = ("mke2fs", "debugfs", "mformat", "mcopy", "mmd", "qemu-img")


def kernel(folder: Path, arch: Arch = Arch.X86_64) -> Kernel:
    root = folder / "kernel/root"
    efi = root / "usr/lib/systemd/boot/efi"
    efi.mkdir(parents=True)
    (efi / "systemd-bootx64.efi").write_bytes(b"MZ loader")
    (root / "vmlinuz").write_bytes(b"MZ kernel")
    made = Kernel("machine", arch, "key", root.parent, root / "vmlinuz", "6.12", root)
    made.modules.write_bytes(bytes(3 * MIB) + b"modules" + bytes(MIB))
    return made


def image(folder: Path) -> Image:
    root = folder / "root"
    (root / "etc").mkdir(parents=True)
    (root / "etc/motd").write_text("hello")
    return Image("reef", Arch.X86_64, "k" * 64, root)


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A disk, as a machine sees it."""
    lacking = [name for name in NEEDED if SystemTools().locate(name) is None]
    if lacking:
        pytest.skip(f"{', '.join(lacking)} is not installed")
    tmp_path = tmp_path_factory.mktemp("bootdisk")
    (tmp_path / "initramfs").write_bytes(b"070701")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    made = bootdisk.make(
        SystemTools(), image(tmp_path), kernel(tmp_path), tmp_path / "initramfs", size_bytes=SIZE, scratch=scratch
    )
    assert made.read_bytes()[:4] == b"QFI\xfb"
    disk = tmp_path / "disk.raw"
    subprocess.run(["qemu-img", "convert", "-O", "raw", str(made), str(disk)], check=True)
    assert disk.stat().st_size == SIZE
    return disk


def partitions(disk: Path) -> dict[str, tuple[int, int]]:
    """Name -> where it begins and its size, in bytes, as util-linux reads the table."""
    argv = ["partx", "--raw", "--noheadings", "--output", "NAME,START,SECTORS", str(disk)]
    said = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    rows = [line.split() for line in said.splitlines()]
    return {name: (int(start) * 512, int(sectors) * 512) for name, start, sectors in rows}


def read_boot(disk: Path, name: str) -> bytes:
    begin, _ = partitions(disk)["cephlab-boot"]
    argv = ["mcopy", "-i", f"{disk}@@{begin}", f"::{name}", "-"]
    return subprocess.run(argv, check=True, capture_output=True).stdout


def debugfs(disk: Path, request: str) -> str:
    begin, _ = partitions(disk)[bootdisk.ROOT]
    program = SystemTools().locate("debugfs")
    assert program is not None
    argv = [program, "-R", request, f"{disk}?offset={begin}"]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


@pytest.mark.slow
def test_firmware_finds_a_loader_and_the_loader_a_kernel(raw: Path) -> None:
    assert read_boot(raw, "EFI/BOOT/BOOTX64.EFI") == b"MZ loader"
    entry = dict(line.split(" ", 1) for line in read_boot(raw, "loader/entries/cephlab.conf").decode().splitlines())
    assert read_boot(raw, entry["linux"]) == b"MZ kernel"
    assert read_boot(raw, entry["initrd"]) == b"070701"
    assert "console=ttyS0" in entry["options"]
    assert "timeout 0" in read_boot(raw, "loader/loader.conf").decode()


@pytest.mark.slow
def test_the_modules_and_the_root_are_in_partitions_of_their_names(raw: Path) -> None:
    by_name = partitions(raw)
    assert list(by_name) == ["cephlab-boot", bootdisk.MODULES, bootdisk.ROOT]
    begin, size = by_name[bootdisk.MODULES]
    held = raw.read_bytes()[begin : begin + size]
    assert held[3 * MIB : 3 * MIB + 7] == b"modules"
    assert held.strip(b"\0") == b"modules"
    assert debugfs(raw, "cat /etc/motd") == "hello"


def test_the_root_has_what_is_left_of_the_disk(raw: Path) -> None:
    begin, size = partitions(raw)[bootdisk.ROOT]
    assert SIZE - 2 * MIB < begin + size <= SIZE - 33 * 512
    assert f"Block count:              {size // 1024}" in debugfs(raw, "stats")


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a tree to somebody else takes root")
def test_a_tree_of_an_ordinary_user_is_roots_on_the_disk(tmp_path: Path) -> None:
    given = image(tmp_path)
    for path in (given.root, given.root / "etc", given.root / "etc/motd"):
        shutil.chown(path, 1234, 1234)
    disk = tmp_path / "disk"
    with disk.open("wb") as file:
        file.truncate(24 * MIB)
    write_root(SystemTools(), given, disk, tmp_path, offset=8 * MIB, size_bytes=16 * MIB)
    program = SystemTools().locate("debugfs")
    assert program is not None
    argv = [program, "-R", "stat /etc/motd", f"{disk}?offset={8 * MIB}"]
    said = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    assert "User:     0   Group:     0" in said


def header(data: bytes, sector: int) -> tuple[int, ...]:
    """(own place, the other's, where the entries are) of a table's header, whose sums are right."""
    held = data[sector * 512 : sector * 512 + 92]
    signature, revision, size, checksum, _, own, other = struct.unpack_from("<8sIIIIQQ", held)
    assert (signature, revision, size) == (b"EFI PART", 1 << 16, 92)
    assert zlib.crc32(held[:16] + bytes(4) + held[20:]) == checksum
    table, count, length, entries = struct.unpack_from("<QIII", held, 72)
    assert zlib.crc32(data[table * 512 : table * 512 + count * length]) == entries
    return own, other, table


def test_the_table_is_at_both_ends_and_its_sums_are_right(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.write_bytes(bytes(4 * MIB))
    bootdisk.write_table(disk, [bootdisk.DiskPart("a", bootdisk._DATA_TYPE, MIB, MIB)])
    data, last = disk.read_bytes(), 4 * MIB // 512 - 1
    assert header(data, 1) == (1, last, 2)
    assert header(data, last) == (last, 1, last - 32)
    assert data[510:512] == b"\x55\xaa"


def test_a_disk_that_is_too_small_and_a_kernel_without_a_loader_are_refused(tmp_path: Path) -> None:
    given, initramfs = kernel(tmp_path), tmp_path / "initramfs"
    initramfs.write_bytes(b"070701")
    with pytest.raises(LabBroken, match="no room for a root"):
        bootdisk.make(SystemTools(), image(tmp_path), given, initramfs, size_bytes=8 * MIB, scratch=tmp_path)
    (given.folder / "root/usr/lib/systemd/boot/efi/systemd-bootx64.efi").unlink()
    with pytest.raises(LabBroken, match="no boot loader for UEFI"):
        bootdisk.make(SystemTools(), image(tmp_path / "b"), given, initramfs, size_bytes=SIZE, scratch=tmp_path)


@pytest.mark.parametrize(("program", "package"), [("mformat", "mtools"), ("qemu-img", "qemu-utils")])
def test_a_missing_tool_is_named_with_its_package(program: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cephlab.lab.images.tools.shutil.which", lambda _name, path=None: None)
    with pytest.raises(Unavailable, match=program) as caught:
        require(SystemTools(), program)
    assert package in caught.value.hint
