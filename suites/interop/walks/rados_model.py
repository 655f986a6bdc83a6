"""The model of a walk over RADOS: what it does to a few objects, and what they must hold."""

from copy import deepcopy
from random import Random
from typing import Any

from cephlab.suites.interop import edges
from cephlab.suites.interop.walks.model import draw_size, overwrite, put_tail
from cephlab.suites.interop.walks.rados_object import WantedObject, omap_of, page_of, state_of
from cephlab.suites.interop.walks.rados_shared import NUMBERS, Drawn, Shared
from cephlab.suites.interop.walks.walk import Refused, Unfit, content, told

NAMES, KEYS, SNAPS = 5, 4, 3
REACH = 3 * edges.BLOCK
"""Writes start below this offset, so that they overlap."""
MOVES, SHARING, CALLS = 0.025, 0.25, 0.2
"""The share of steps that change OSDs, PGs or copies; of those that use locks, watches or object classes; and of calls
of object classes among the parts of compound operations."""
TOGETHER = 5
"""Most parts of one compound operation."""
COMPARED_BYTES = 300
"""Most bytes that one comparison sends."""
CHANGES = {
    **dict.fromkeys(("full", "write", "append", "same", "truncate", "zero"), "data"),
    **dict.fromkeys(("set_omap", "remove_omap", "remove_omap_range", "clear_omap"), "omap"),
    **dict.fromkeys(("add", "multiply"), "omap"),
    **dict.fromkeys(("create", "remove", "release", "unlock"), "all"),
    **dict.fromkeys(("set_version", "next_version"), "version"),
    **dict.fromkeys(("refer", "set_references"), "references"),
    "lock": "locks",
}
"""What a part of a compound operation changes. Attributes are left out, because no part compares them."""
CUT = {"full", "truncate", "zero"}
"""What can shorten an object."""
REMOVE = {"remove", "release", "unlock"}
"""What removes an object. A lock or a reference does if it is the last one."""
GUARDS = {
    "compare": {"data", "all"},
    "compare_omap": {"omap", "all"},
    "version": {"all"},
    **{operation: {"omap", "all"} for operation in ("add", "multiply")},
    **{operation: {"version", "all"} for operation in ("next_version", "check_version")},
    **{operation: {"references", "all"} for operation in ("refer", "release")},
    **{operation: {"locks", "all"} for operation in ("lock", "unlock", "held")},
}
"""What a part reads. OSDs read it as it was before the operation, so an earlier part must not have changed it."""


class RadosModel(Shared):
    """Objects of one pool. A name may start with a locator key and a NUL.

    omap: whether the pool has omaps, which erasure-coded pools lack. moving: whether its OSDs, PGs and copies change.
    text_keys: whether keys of omaps, and values that are compared, are text, because the binding of pacific takes no
    others.
    """

    def __init__(self, rng: Random, *, omap: bool, moving: bool = False, text_keys: bool = False) -> None:
        super().__init__(omap=omap)
        own = edges.texts(rng, NAMES, edges.NAME_BYTES)
        self.names = [*own[:3], f"{own[0]}\0{own[1]}", f"{own[3]}\0{own[0]}"]
        self.keys = edges.texts(rng, KEYS, edges.XATTR_NAME_BYTES)
        known = [key for key in edges.binary_keys(rng, 24) if not text_keys or is_text(key)]
        self.omap_keys = [key.hex() for key in rng.sample(known, k=12)]
        self.moving, self.text_keys = moving, text_keys
        self.snaps: dict[str, dict[str, WantedObject]] = {}
        self.looking: dict[str, Any] = {"names": self.names, "omap": omap}

    def draw(self, rng: Random) -> Drawn:
        if self.moving and rng.random() < MOVES:
            return rng.choice(self._moves(rng))
        name = rng.choice(self.names)
        if rng.random() < SHARING:
            calls = [(operation, {"name": name, **some}) for operation, some in self.class_changes(rng, name)]
            return rng.choice([*self.sharing(rng, name), *calls])
        snap = rng.choice(sorted(self.snaps)) if self.snaps else ""
        steps: list[Drawn] = [
            *self._changes(rng, name),
            *self._questions(rng, name, snap),
            *[("compound", {"parts": [list(part) for part in self._parts(rng, name)]})] * 3,
            ("snap", {"snap": f"s{self.snapped}"}),
            ("drop", {"snap": snap}),
            ("rollback", {"snap": snap}),
        ]
        operation, arguments = rng.choice(steps)
        return operation, arguments if operation in ("snap", "drop") else {"name": name, **arguments}

    def _moves(self, rng: Random) -> list[Drawn]:
        """Changes of the cluster, which change no object. number: of an OSD."""
        number = {"number": rng.randrange(3)}
        copies: list[Drawn] = [("copies", {"size": rng.choice((2, 3))})] if self.omap else []
        return [
            ("restart", number),
            ("affinity", {**number, "percent": rng.choice((0, 100))}),
            ("split", {"pg_num": rng.choice((8, 12, 16, 24))}),
            ("scrub", {}),
            *copies,
        ]

    def _changes(self, rng: Random, name: str) -> list[Drawn]:
        """Every operation that changes the object and can be part of a compound one, without the object's name."""
        offset, key = draw_size(rng, REACH), rng.choice(self.keys)
        some = sorted(rng.sample(self.omap_keys, k=rng.randint(1, len(self.omap_keys))))
        data = {"seed": rng.randrange(1 << 16), "size": draw_size(rng, REACH)}
        steps: list[Drawn] = [
            ("full", data),
            ("write", {**data, "offset": offset}),
            ("append", data),
            ("same", {**data, "size": data["size"] % 600, "count": rng.randint(1, 20), "offset": offset}),
            ("truncate", {"size": offset}),
            ("zero", {"size": data["size"]}),
            ("create", {}),
            ("remove", {}),
            ("set_xattr", {"key": key, **data}),
            ("remove_xattr", {"key": key}),
        ]
        if self.omap:
            steps += [
                ("set_omap", {"keys": some, **data, "size": data["size"] % 1000}),
                ("remove_omap", {"keys": [*some[:3], rng.choice(NUMBERS)]}),
                ("remove_omap_range", {"begin": some[0], "end": some[-1]}),
                ("clear_omap", {}),
            ]
        return steps

    def _parts(self, rng: Random, name: str) -> list[Drawn]:
        """The parts of a compound operation, in half of the draws with one that compares or is refused."""
        parts = [
            rng.choice(self.class_changes(rng, name) if rng.random() < CALLS else self._changes(rng, name))
            for _ in range(rng.randint(1, TOGETHER))
        ]
        if rng.random() < 0.5:
            others: list[Drawn] = [
                ("compare", self._compared(rng, name)),
                ("version", {"than": rng.choice((-1, 0, 1))}),
                ("too_far", {}),
                *self.class_guards(rng, name),
            ]
            omap = self.objects[name].omap if name in self.objects else {}
            if omap and not self.text_keys:
                key, value = rng.choice(sorted(omap.items()))
                value = value if rng.random() < 0.5 else value[:-1] + b"?"
                others.append(("compare_omap", {"key": key.hex(), "data": value.hex()}))
            parts.insert(rng.randint(0, len(parts)), rng.choice(others))
        return parts

    def _questions(self, rng: Random, name: str, snap: str) -> list[Drawn]:
        extent = {"offset": draw_size(rng, REACH), "size": draw_size(rng, REACH)}
        steps: list[Drawn] = [
            ("read", extent),
            ("read_at", {"snap": snap, **extent}),
            ("compare", self._compared(rng, name)),
        ]
        if self.omap:
            after, key = rng.choice(["", *self.omap_keys]), rng.choice(self.omap_keys)
            prefix = key[: 2 * rng.randint(0, min(3, len(key) // 2))]
            if self.text_keys and not is_text(bytes.fromhex(prefix)):
                prefix = ""
            page = {"after": after, "prefix": prefix, "most": rng.choice((1, 3, 100))}
            some = sorted(rng.sample(self.omap_keys, k=4))
            steps += [("page", page), ("page_at", {"snap": snap, **page}), ("pick", {"keys": some})]
        return steps

    def _compared(self, rng: Random, name: str) -> dict[str, Any]:
        """A place of the object, and what it holds or, half of the time, something that differs in one byte."""
        offset, size = draw_size(rng, REACH), rng.randint(1, COMPARED_BYTES)
        there = self.objects[name].data if name in self.objects else bytearray()
        offset = max(0, offset - rng.choice((0, size // 2, size)))
        data = bytearray(bytes(there[offset : offset + size]).ljust(size, b"\0"))
        if rng.random() < 0.5:
            data[rng.randrange(size)] ^= 1 << rng.randrange(8)
        return {"offset": offset, "data": data.hex()}

    def do_full(self, name: str, seed: int, size: int) -> None:
        if not size and name not in self.objects and self.snapped:
            raise Unfit  # known to be wrong after a snapshot: rados-empty-not-created in suites/defects/known.toml
        self._made(name).data[:] = content(seed, size)

    def do_write(self, name: str, seed: int, size: int, offset: int) -> None:
        if not size:
            raise Unfit  # it is not specified whether an empty write beyond the end extends the object
        overwrite(self._made(name).data, offset, content(seed, size))

    def do_append(self, name: str, seed: int, size: int) -> None:
        self._made(name).data.extend(content(seed, size))

    def do_same(self, name: str, seed: int, size: int, count: int, offset: int) -> None:
        """Write `count` copies of one piece, one after another."""
        if not size or not count:
            raise Unfit
        overwrite(self._made(name).data, offset, content(seed, size) * count)

    def do_create(self, name: str) -> None:
        if name in self.objects:
            raise Refused("EEXIST")
        self._made(name)

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

    def do_remove_omap_range(self, name: str, begin: str, end: str) -> None:
        """Remove the keys from `begin` on that come before `end`."""
        omap = self._fit(name).omap
        if not begin < end:
            raise Unfit
        for key in [key for key in omap if bytes.fromhex(begin) <= key < bytes.fromhex(end)]:
            del omap[key]

    def do_compound(self, name: str, parts: list[list[Any]]) -> None:
        """Take all parts or, if one is refused, none."""
        if name not in self.objects and any(operation in GUARDS for operation, _ in parts):
            raise Unfit  # an OSD compares a missing object with zeros, which is not documented
        before = deepcopy(self.objects), self.watches
        used: set[str] = set()
        try:
            for operation, arguments in parts:
                changed = {CHANGES.get(earlier, "") for earlier in used}
                if GUARDS.get(operation, set()) & changed or self._known_wrong(operation, used):
                    raise Unfit
                getattr(self, f"do_{operation}")(name=name, **arguments)
                used.add(operation)
        except (Refused, Unfit):
            self.objects, self.watches = before
            raise

    def _known_wrong(self, operation: str, earlier: set[str]) -> bool:
        """Whether Ceph is known to do this part wrong after those (suites/defects/known.toml)."""
        if operation == "remove_omap_range":
            return bool({"set_omap", "add", "multiply"} & earlier)  # rados-range-keeps-new
        if operation in REMOVE:
            return bool(REMOVE & earlier)  # rados-removed-stays
        # erasure-cut-loses and erasure-cut-crashes
        data = {part for part in earlier if CHANGES.get(part) == "data"}
        return not self.omap and CHANGES.get(operation) == "data" and bool(data) and bool(CUT & {operation, *data})

    def do_compare(self, name: str, offset: int, data: str) -> None:
        """Bytes beyond the end of the object count as zeros."""
        wanted = bytes.fromhex(data)
        there = bytes(self._existing(name).data[offset : offset + len(wanted)]).ljust(len(wanted), b"\0")
        if there != wanted:
            raise Refused(f"differs at {next(at for at, byte in enumerate(wanted) if byte != there[at])}")

    def do_compare_omap(self, name: str, key: str, data: str) -> None:
        if self._fit(name).omap.get(bytes.fromhex(key), b"") != bytes.fromhex(data):
            raise Refused("ECANCELED")

    def do_version(self, name: str, than: int) -> None:
        """Assert the version of the object, or one that is lower or higher by one."""
        self._fit(name)
        if than:
            raise Refused("ERANGE" if than < 0 else "EOVERFLOW")

    def do_too_far(self, name: str) -> None:
        """Write a byte beyond the largest size of an object."""
        raise Refused("EFBIG")

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

    def do_read_at(self, name: str, snap: str, offset: int, size: int) -> str:
        if not size:
            raise Unfit
        return told(self._at(name, snap).data[offset : offset + size])

    def do_page(self, name: str, after: str, prefix: str, most: int) -> Any:
        return page_of(self._existing(name), after, prefix, most)

    def do_page_at(self, name: str, snap: str, after: str, prefix: str, most: int) -> Any:
        return page_of(self._at(name, snap), after, prefix, most)

    def do_pick(self, name: str, keys: list[str]) -> Any:
        there = self._existing(name)
        return [entry for entry in omap_of(there) if entry[0] in keys]

    def _at(self, name: str, snap: str) -> WantedObject:
        if snap not in self.snaps:
            raise Unfit
        if name not in self.snaps[snap]:
            raise Refused("ENOENT")
        return self.snaps[snap][name]

    def do_restart(self, number: int) -> None:
        """An OSD crashes and comes back."""

    def do_affinity(self, number: int, percent: int) -> None:
        """An OSD is to lead PGs, or none if others can."""

    def do_split(self, pg_num: int) -> None:
        """The number of PGs of the pool changes."""

    def do_copies(self, size: int) -> None:
        """The number of copies of the pool changes."""

    def do_scrub(self) -> None:
        """A deep scrub of the pool begins."""

    def do_look(self, **_looking: Any) -> Any:
        now = {name: state_of(wanted) for name, wanted in self.objects.items()}
        at = {
            f"at {snap}": {name: state_of(wanted) for name, wanted in objects.items()}
            for snap, objects in self.snaps.items()
        }
        return {"listed": sorted(self.objects), "now": now, **at}


def is_text(key: bytes) -> bool:
    """Whether it is UTF-8."""
    return key.decode(errors="ignore").encode() == key
