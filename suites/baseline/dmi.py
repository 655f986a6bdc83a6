"""Reads memory modules from the firmware's table: SMBIOS structures of type 17."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from cephlab.lab.base.errors import LabBroken

_MEMORY_DEVICE = 17
_END = 127
_HEADER = struct.Struct("<BBH")


@dataclass(frozen=True)
class Module:
    """A populated slot. speed_mt_s: as configured, 0 where the firmware does not say."""

    slot: str
    size_mib: int
    speed_mt_s: int


def modules(table: bytes) -> list[Module]:
    """The populated slots in a table like /sys/firmware/dmi/tables/DMI.

    Layout: DMTF DSP0134 (SMBIOS 3.6), 6.1 and 7.18. LabBroken when the table ends within a structure.
    """
    slots = (_module(body, texts) for kind, body, texts in _structures(table) if kind == _MEMORY_DEVICE)
    return [module for module in slots if module is not None]


def _structures(table: bytes) -> Iterator[tuple[int, bytes, list[str]]]:
    """Type, formatted part and strings of each structure."""
    at = 0
    while at + _HEADER.size <= len(table):
        kind, length, _ = _HEADER.unpack_from(table, at)
        end = table.find(b"\0\0", at + length)
        if length < _HEADER.size or end < 0:
            raise LabBroken("the firmware's table ends within a structure", f"at byte {at} of {len(table)}")
        texts = [text.decode(errors="replace") for text in table[at + length : end].split(b"\0")]
        yield kind, table[at : at + length], texts
        if kind == _END:
            return
        at = end + 2


def _module(body: bytes, texts: list[str]) -> Module | None:
    size = struct.unpack_from("<H", body, 0x0C)[0]
    if size == 0:
        return None
    if size == 0x7FFF:
        mib = struct.unpack_from("<I", body, 0x1C)[0] & 0x7FFFFFFF
    else:
        mib = (size & 0x7FFF) // 1024 if size & 0x8000 else size
    configured = struct.unpack_from("<H", body, 0x20)[0] if len(body) >= 0x22 else 0
    number = body[0x10]
    slot = texts[number - 1].strip() if 0 < number <= len(texts) else "?"
    return Module(slot, mib, configured)
