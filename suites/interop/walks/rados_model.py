"""The model of a walk over RADOS: what it does to a few objects, and what they must hold."""

from copy import deepcopy
from dataclasses import dataclass, field
from random import Random
from typing import Any

from cephlab.suites.interop import edges
from cephlab.suites.interop.walks.model import draw_size, overwrite, put_tail
from cephlab.suites.interop.walks.walk import Refused, Unfit, content, told

NAMES, KEYS, SNAPS = 5, 4, 3
REACH = 3 * edges.BLOCK
"""Writes start below this offset, so that they overlap."""


@dataclass
class WantedObject:
    """What one object must hold. omap: key -> value."""

    data: bytearray = field(default_factory=bytearray)
    xattrs: dict[str, bytes] = field(default_factory=dict)
    omap: dict[bytes, bytes] = field(default_factory=dict)


class RadosModel:
    """Objects of one pool. omap: whether the pool has omaps, which erasure-coded pools lack."""

    def __init__(self, rng: Random, *, omap: bool) -> None:
        self.names = edges.texts(rng, NAMES, edges.NAME_BYTES)
        self.keys = edges.texts(rng, KEYS, edges.XATTR_NAME_BYTES)
        self.omap_keys = [key.hex() for key in rng.sample(edges.binary_keys(rng, 24), k=12)]
        self.omap = omap
        self.objects: dict[str, WantedObject] = {}
        self.snaps: dict[str, dict[str, WantedObject]] = {}
        self.snapped = 0
        self.looking: dict[str, Any] = {"names": self.names, "omap": omap}

    def draw(self, rng: Random) -> tuple[str, dict[str, Any]]:
        name, seed, offset = rng.choice(self.names), rng.randrange(1 << 16), draw_size(rng, REACH)
        some = sorted(rng.sample(self.omap_keys, k=rng.randint(1, len(self.omap_keys))))
        snap = rng.choice(sorted(self.snaps)) if self.snaps else ""
        data = {"seed": seed, "size": draw_size(rng, REACH)}
        steps: list[tuple[str, dict[str, Any]]] = [
            ("full", {"name": name, **data}),
            ("write", {"name": name, **data, "offset": offset}),
            ("append", {"name": name, **data}),
            ("truncate", {"name": name, "size": offset}),
            ("zero", {"name": name, "size": data["size"]}),
            ("remove", {"name": name}),
            ("set_xattr", {"name": name, "key": rng.choice(self.keys), **data}),
            ("remove_xattr", {"name": name, "key": rng.choice(self.keys)}),
            ("snap", {"snap": f"s{self.snapped}"}),
            ("drop", {"snap": snap}),
            ("rollback", {"name": name, "snap": snap}),
            ("read", {"name": name, "offset": offset, "size": data["size"]}),
        ]
        if self.omap:
            steps += [
                ("set_omap", {"name": name, "keys": some, **data, "size": data["size"] % 1000}),
                ("remove_omap", {"name": name, "keys": some[:3]}),
                ("clear_omap", {"name": name}),
            ]
        return rng.choice(steps)

    def _existing(self, name: str) -> WantedObject:
        if name not in self.objects:
            raise Refused("ENOENT")
        return self.objects[name]

    def _fit(self, name: str) -> WantedObject:
        if name not in self.objects:
            raise Unfit
        return self.objects[name]

    def _made(self, name: str) -> WantedObject:
        return self.objects.setdefault(name, WantedObject())

    def do_full(self, name: str, seed: int, size: int) -> None:
        self._made(name).data[:] = content(seed, size)

    def do_write(self, name: str, seed: int, size: int, offset: int) -> None:
        if not size:
            raise Unfit  # it is not specified whether an empty write beyond the end extends the object
        overwrite(self._made(name).data, offset, content(seed, size))

    def do_append(self, name: str, seed: int, size: int) -> None:
        self._made(name).data.extend(content(seed, size))

    def do_truncate(self, name: str, size: int) -> None:
        put_tail(self._fit(name).data, size)

    def do_zero(self, name: str, size: int) -> None:
        """Zero `size` bytes from byte `size` on. Like OSDs, cut the object if the zeros reach its end or beyond."""
        data = self._fit(name).data
        if not size:
            raise Unfit
        if 2 * size < len(data):
            overwrite(data, size, bytes(size))
        elif size < len(data):
            put_tail(data, size)

    def do_remove(self, name: str) -> None:
        self._existing(name)
        del self.objects[name]

    def do_set_xattr(self, name: str, key: str, seed: int, size: int) -> None:
        self._made(name).xattrs[key] = content(seed, size)

    def do_remove_xattr(self, name: str, key: str) -> None:
        xattrs = self._fit(name).xattrs
        if key not in xattrs:
            raise Unfit
        del xattrs[key]

    def do_set_omap(self, name: str, keys: list[str], seed: int, size: int) -> None:
        omap = self._made(name).omap
        omap.update({bytes.fromhex(key): content(seed + number, size) for number, key in enumerate(keys)})

    def do_remove_omap(self, name: str, keys: list[str]) -> None:
        omap = self._fit(name).omap
        for key in keys:
            omap.pop(bytes.fromhex(key), None)

    def do_clear_omap(self, name: str) -> None:
        self._fit(name).omap.clear()

    def do_snap(self, snap: str) -> None:
        if snap in self.snaps or len(self.snaps) == SNAPS:
            raise Unfit
        self.snaps[snap] = deepcopy(self.objects)
        self.snapped += 1

    def do_drop(self, snap: str) -> None:
        if snap not in self.snaps:
            raise Unfit
        del self.snaps[snap]

    def do_rollback(self, name: str, snap: str) -> None:
        if name not in self.snaps.get(snap, {}):
            raise Unfit
        self.objects[name] = deepcopy(self.snaps[snap][name])

    def do_read(self, name: str, offset: int, size: int) -> str:
        if not size:
            raise Unfit
        return told(self._existing(name).data[offset : offset + size])

    def do_look(self, **_looking: Any) -> Any:
        now = {name: state_of(wanted) for name, wanted in self.objects.items()}
        at = {
            f"at {snap}": {name: [*state_of(wanted)[:2], []] for name, wanted in objects.items()}
            for snap, objects in self.snaps.items()
        }
        return {"listed": sorted(self.objects), "now": now, **at}


def state_of(wanted: WantedObject) -> list[Any]:
    xattrs = {key: told(value) for key, value in wanted.xattrs.items()}
    return [told(wanted.data), xattrs, [[key.hex(), told(wanted.omap[key])] for key in sorted(wanted.omap)]]
