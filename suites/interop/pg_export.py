"""Reads the objects in a file of `ceph-objectstore-tool --op export` without Ceph.

Layout (src/tools/RadosDump.h in Ceph): a 16-byte header, then sections of {18-byte header with type and size, payload,
10-byte footer}. The end of an object and the end of the PG consist of a header only.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from cephlab.lab.base.errors import CephTrouble

_HEAD, _SECTION_HEAD, _SECTION_FOOT = 16, 18, 10
_MAGIC = b"\xff\xce"  # super_header::shortmagic
_PG_END, _OBJECT_BEGIN, _OBJECT_END, _DATA, _OMAP = 2, 3, 4, 5, 8
_DATA_HEAD = 6 + 8 + 8 + 4  # version, offset, length, length of the bytes that follow
_HEAD_SNAP = (1 << 64) - 2  # CEPH_NOSNAP


@dataclass(frozen=True)
class Exported:
    """One object of an export. data: sha256 of its content; everything: sha256 of all its sections.

    omap: key in hexadecimal -> sha256 of its value.
    """

    data: str
    everything: str
    omap: Mapping[str, str] = field(default_factory=dict)


def read_export(content: bytes) -> Mapping[str, Exported]:
    """The objects of an export by `name@snapid` or `name@head`. CephTrouble if the layout is wrong."""
    objects: dict[str, Exported] = {}
    name, data, everything, omap = "", hashlib.sha256(), hashlib.sha256(), dict[str, str]()
    for kind, payload in _sections(content):
        if kind == _OBJECT_BEGIN:
            name, data, everything, omap = _name(payload), hashlib.sha256(), hashlib.sha256(), {}
        everything.update(bytes([kind]) + payload)
        if kind == _DATA:
            data.update(payload[_DATA_HEAD:])
        if kind == _OMAP:
            omap.update(_pairs(payload))
        if kind == _OBJECT_END:
            objects[name] = Exported(data.hexdigest(), everything.hexdigest(), omap)
    return objects


def _sections(content: bytes) -> Iterator[tuple[int, bytes]]:
    position = _HEAD
    while position < len(content):
        head = content[position : position + _SECTION_HEAD]
        if head[6:8] != _MAGIC[::-1] or len(head) < _SECTION_HEAD:
            raise CephTrouble("a PG export has no section header where one must be", f"byte {position}: {head.hex()}")
        kind, size = head[8], int.from_bytes(head[10:18], "little")
        start = position + _SECTION_HEAD
        if start + size > len(content):
            raise CephTrouble("a PG export is cut short", f"a section of {size} bytes at {start} of {len(content)}")
        yield kind, content[start : start + size]
        position = start + size + (0 if kind in (_PG_END, _OBJECT_END) else _SECTION_FOOT)


def _name(payload: bytes) -> str:
    """The name from the hobject_t at the start of an object: locator key, name, snapshot id."""
    position = 12  # two version headers of 6 bytes
    _key, position = _string(payload, position)
    name, position = _string(payload, position)
    snap = int.from_bytes(payload[position : position + 8], "little")
    return f"{name}@{'head' if snap == _HEAD_SNAP else snap}"


def _pairs(payload: bytes) -> Iterator[tuple[str, str]]:
    """Key and sha256 of value from an encoded map: the number of pairs, then each string after its length."""
    count, position = int.from_bytes(payload[6:10], "little"), 10
    for _ in range(count):
        key, position = _bytes(payload, position)
        value, position = _bytes(payload, position)
        yield key.hex(), hashlib.sha256(value).hexdigest()


def _string(payload: bytes, position: int) -> tuple[str, int]:
    content, position = _bytes(payload, position)
    return content.decode(errors="replace"), position


def _bytes(payload: bytes, position: int) -> tuple[bytes, int]:
    size = int.from_bytes(payload[position : position + 4], "little")
    start = position + 4
    return payload[start : start + size], start + size
