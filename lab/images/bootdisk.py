"""Makes a disk from which UEFI boots a machine: a loader with a kernel, kernel modules, and an image as its root."""

import struct
import uuid
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.images.export import write_root
from cephlab.lab.images.image import Image
from cephlab.lab.images.kernels import Kernel
from cephlab.lab.images.tools import Tools, call
from cephlab.lab.spec.arch import Arch

FORM = 1
"""Incremented when the same parts would give a different disk, so that every disk is rebuilt."""

ROOT = "cephlab-root"
MODULES = "cephlab-modules"
"""Names of partitions. The first program of the machine finds them by these."""

_SECTOR = 512
_TABLE_SECTORS = 34  # the protective record, the header, and 128 entries of 128 bytes
_ENTRIES, _ENTRY_BYTES = 128, 128
_GRAIN = 1 << 20
_CHUNK = 1 << 20
_ESP_SLACK = 8 << 20

_ESP_TYPE = uuid.UUID("c12a7328-f81f-11d2-ba4b-00a0c93ec93b")
_DATA_TYPE = uuid.UUID("0fc63daf-8483-4772-8e79-3d69d8477de4")
_NAMES = uuid.UUID("9c1d4a0e-6d0c-5b0b-9a57-2f1c6a3de7b1")
"""Namespace for partition IDs, which are derived from the names: they are the same on every such disk."""

_FIRMWARE_NAMES = {Arch.X86_64: "x64", Arch.AARCH64: "aa64"}
_CONSOLES = {Arch.X86_64: "ttyS0", Arch.AARCH64: "ttyAMA0"}


@dataclass(frozen=True)
class DiskPart:
    """A partition. begin, size: in bytes."""

    name: str
    kind: uuid.UUID
    begin: int
    size: int


def make(tools: Tools, image: Image, kernel: Kernel, initramfs: Path, *, size_bytes: int, scratch: Path) -> Path:
    """Make the disk as a sparse qcow2 file in `scratch`. size_bytes: as the machine sees it; the root gets the rest.

    Unavailable names the package of a missing tool; LabBroken an image or a kernel that does not fit.
    """
    esp = _boot_files(kernel, initramfs)
    content_bytes = sum(
        len(content) if isinstance(content, bytes) else content.stat().st_size for content in esp.values()
    )
    pieces = _layout(_rounded(content_bytes + _ESP_SLACK), kernel.modules.stat().st_size, size_bytes)
    disk = scratch / "disk.raw"
    with disk.open("wb") as file:
        file.truncate(size_bytes)
    write_table(disk, pieces)
    boot, modules, root = pieces
    _fill_boot(tools, disk, boot, esp, scratch)
    _copy_into(disk, modules.begin, kernel.modules)
    write_root(tools, image, disk, scratch, offset=root.begin, size_bytes=root.size)
    boot_disk = scratch / "disk.qcow2"
    call(tools, scratch, "qemu-img", "convert", "-f", "raw", "-O", "qcow2", str(disk), str(boot_disk))
    disk.unlink()
    return boot_disk


def _boot_files(kernel: Kernel, initramfs: Path) -> Mapping[str, Path | bytes]:
    """The partition that the firmware reads: path -> content. Without a stored boot entry, firmware starts EFI/BOOT."""
    short = _FIRMWARE_NAMES[kernel.arch]
    loader = kernel.folder / f"root/usr/lib/systemd/boot/efi/systemd-boot{short}.efi"
    if not loader.is_file():
        hint = "add systemd-boot-efi to its packages"
        raise LabBroken(f"the kernel {kernel.name} has no boot loader for UEFI", str(loader), hint)
    options = f"console=tty0 console={_CONSOLES[kernel.arch]} quiet panic=-1"
    return {
        f"EFI/BOOT/BOOT{short.upper()}.EFI": loader,
        "loader/loader.conf": b"timeout 0\ndefault cephlab.conf\neditor no\n",
        "loader/entries/cephlab.conf": f"title cephlab\nlinux /linux\ninitrd /initrd\noptions {options}\n".encode(),
        "linux": kernel.executable,
        "initrd": initramfs,
    }


def _layout(esp: int, modules: int, disk: int) -> tuple[DiskPart, DiskPart, DiskPart]:
    """The partitions, one after another. The root comes last, so that it can grow with its disk."""
    first = DiskPart("cephlab-boot", _ESP_TYPE, _GRAIN, esp)
    second = DiskPart(MODULES, _DATA_TYPE, first.begin + esp, _rounded(modules))
    begin = second.begin + second.size
    left = (disk - begin - _TABLE_SECTORS * _SECTOR) // _GRAIN * _GRAIN
    if left <= 0:
        raise LabBroken(f"a disk of {disk} bytes has no room for a root", f"the other partitions take {begin} bytes")
    return first, second, DiskPart(ROOT, _DATA_TYPE, begin, left)


def _rounded(size: int) -> int:
    return -(-size // _GRAIN) * _GRAIN


def write_table(disk: Path, pieces: Sequence[DiskPart]) -> None:
    """Write a GUID partition table at both ends of a disk, see the UEFI specification, chapter 5."""
    sectors = disk.stat().st_size // _SECTOR
    entries = b"".join(_entry(piece) for piece in pieces).ljust(_ENTRIES * _ENTRY_BYTES, b"\0")
    with disk.open("r+b") as file:
        file.write(_protection(sectors) + _header(sectors, entries, own=1, other=sectors - 1, table=2) + entries)
        file.seek((sectors - _TABLE_SECTORS + 1) * _SECTOR)
        file.write(entries + _header(sectors, entries, own=sectors - 1, other=1, table=sectors - _TABLE_SECTORS + 1))


def _entry(piece: DiskPart) -> bytes:
    first, last = piece.begin // _SECTOR, (piece.begin + piece.size) // _SECTOR - 1
    name = piece.name.encode("utf-16-le").ljust(72, b"\0")
    return piece.kind.bytes_le + uuid.uuid5(_NAMES, piece.name).bytes_le + struct.pack("<QQQ", first, last, 0) + name


def _header(sectors: int, entries: bytes, *, own: int, other: int, table: int) -> bytes:
    def packed(checksum: int) -> bytes:
        begin = struct.pack("<8s4sIIIQQQQ", b"EFI PART", b"\0\0\1\0", 92, checksum, 0, own, other, *usable)
        identity = uuid.uuid5(_NAMES, "disk").bytes_le
        return begin + identity + struct.pack("<QIII", table, _ENTRIES, _ENTRY_BYTES, zlib.crc32(entries))

    usable = _TABLE_SECTORS, sectors - _TABLE_SECTORS
    return packed(zlib.crc32(packed(0))).ljust(_SECTOR, b"\0")


def _protection(sectors: int) -> bytes:
    """The protective MBR: older programs see one partition over the whole disk."""
    whole = struct.pack("<B3sB3sII", 0, b"\0\2\0", 0xEE, b"\xff\xff\xff", 1, min(sectors - 1, 0xFFFFFFFF))
    return bytes(446) + whole + bytes(48) + b"\x55\xaa"


def _fill_boot(tools: Tools, disk: Path, piece: DiskPart, files: Mapping[str, Path | bytes], scratch: Path) -> None:
    at = f"{disk}@@{piece.begin}"
    env = {"MTOOLS_SKIP_CHECK": "1"}
    sectors = str(piece.size // _SECTOR)
    call(tools, scratch, "mformat", "-i", at, "-T", sectors, "-h", "64", "-s", "32", "::", env=env)
    folders = dict.fromkeys(str(parent) for name in files for parent in reversed(Path(name).parents[:-1]))
    call(tools, scratch, "mmd", "-i", at, *(f"::{folder}" for folder in folders), env=env)
    for name, content in files.items():
        source = content if isinstance(content, Path) else scratch / "content"
        if isinstance(content, bytes):
            source.write_bytes(content)
        call(tools, scratch, "mcopy", "-i", at, str(source), f"::{name}", env=env)


def _copy_into(disk: Path, begin: int, source: Path) -> None:
    """Copy a file to an offset of the disk. Chunks of zeros stay holes."""
    with source.open("rb") as partition, disk.open("r+b") as file:
        for number, chunk in enumerate(iter(lambda: partition.read(_CHUNK), b"")):
            if any(chunk):
                file.seek(begin + number * _CHUNK)
                file.write(chunk)
