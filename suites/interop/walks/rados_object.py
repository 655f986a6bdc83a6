"""What one object must hold, for the model of a walk over RADOS, in the form in which a side tells it."""

import struct
from dataclasses import dataclass, field
from typing import Any

from cephlab.suites.interop.walks.walk import Unfit, told


@dataclass
class Lock:
    """A lock of an object. holders: (side, cookie). Once nobody holds it, its kind and tag stay."""

    kind: int
    tag: str
    holders: set[tuple[str, str]] = field(default_factory=set)


@dataclass
class WantedObject:
    """What one object must hold. omap: key -> value.

    version: number and tag, of class `version`. references: tags of class `refcount`, None if it was never used;
    retired: tags that were given back.
    """

    data: bytearray = field(default_factory=bytearray)
    xattrs: dict[str, bytes] = field(default_factory=dict)
    omap: dict[bytes, bytes] = field(default_factory=dict)
    locks: dict[str, Lock] = field(default_factory=dict)
    version: tuple[int, str] | None = None
    references: set[str] | None = None
    retired: set[str] = field(default_factory=set)


def state_of(wanted: WantedObject) -> list[Any]:
    xattrs = {key: told(value) for key, value in {**wanted.xattrs, **kept_by_classes(wanted)}.items()}
    # Who holds a lock is asked for by its own step: its attribute has the client's address and time.
    return [told(wanted.data), {**xattrs, **{f"lock.{name}": "" for name in wanted.locks}}, omap_of(wanted)]


def kept_by_classes(wanted: WantedObject) -> dict[str, bytes]:
    """The attributes in which object classes keep what they know of an object."""
    kept = {}
    if wanted.version is not None:
        number, tag = wanted.version
        kept["ceph.objclass.version"] = encoded(1, struct.pack("<Q", number) + text(tag))
    if wanted.references is not None:
        references = b"".join(text(tag) + b"\1" for tag in sorted(wanted.references))
        counts = [struct.pack("<I", len(tags)) for tags in (wanted.references, wanted.retired)]
        kept["refcount"] = encoded(2, counts[0] + references + counts[1] + b"".join(map(text, sorted(wanted.retired))))
    return kept


def encoded(version: int, body: bytes) -> bytes:
    """A structure as Ceph encodes it: its version, the oldest one that can read it, and its size."""
    return struct.pack("<BBI", version, 1, len(body)) + body


def text(value: str) -> bytes:
    """A string as Ceph encodes it."""
    return struct.pack("<I", len(value.encode())) + value.encode()


def omap_of(wanted: WantedObject) -> list[list[str]]:
    return [[key.hex(), told(wanted.omap[key])] for key in sorted(wanted.omap)]


def page_of(wanted: WantedObject, after: str, prefix: str, most: int) -> list[list[str]]:
    """The first `most` entries after a key, of the keys with a prefix."""
    if not most:
        raise Unfit
    return [entry for entry in omap_of(wanted) if entry[0] > after and entry[0].startswith(prefix)][:most]
