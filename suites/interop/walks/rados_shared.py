"""What clients share through objects beside content, in the model of a walk over RADOS: locks, watches, classes."""

from collections import defaultdict
from collections.abc import Callable
from random import Random
from typing import Any

from cephlab.suites.interop.walks.rados_object import Lock, WantedObject
from cephlab.suites.interop.walks.walk import Refused, Unfit

Drawn = tuple[str, dict[str, Any]]

EXCLUSIVE, SHARED, EPHEMERAL = 1, 2, 3
"""Kinds of locks. An ephemeral one is exclusive, and its object is removed with it (cls_lock_types.h)."""
NEW, MAY_RENEW, MUST_RENEW = 0, 1, 2
HANDLES = ("w0", "w1")
"""Names of the watches of a side."""
NUMBERS = ("6e30", "6e31")
"""Keys, in hex, of omap values that are numbers."""
CONDITIONS: tuple[Callable[[tuple[int, str], tuple[int, str]], bool], ...] = (
    lambda there, asked: True,
    lambda there, asked: there == asked,
    lambda there, asked: there[0] > asked[0],
    lambda there, asked: there[0] >= asked[0],
    lambda there, asked: there[0] < asked[0],
    lambda there, asked: there[0] <= asked[0],
    lambda there, asked: there[1] == asked[1],
    lambda there, asked: there[1] != asked[1],
)
"""What class `version` can demand, in the order of cls_version_types.h."""


class Shared:
    """Objects that clients lock, watch and count in."""

    side = ""

    def __init__(self, *, omap: bool) -> None:
        self.omap = omap
        self.snapped = 0
        self.objects: dict[str, WantedObject] = {}
        self.watches: dict[tuple[str, str], str] = {}
        self.notes: dict[tuple[str, str], list[str]] = defaultdict(list)

    def _existing(self, name: str) -> WantedObject:
        if name not in self.objects:
            raise Refused("ENOENT")
        return self.objects[name]

    def _never_kept(self, name: str) -> WantedObject:
        """The object, for what takes one that was removed after a snapshot for there (rados-removed-met)."""
        if name not in self.objects and self.snapped:
            raise Unfit
        return self._existing(name)

    def _fit(self, name: str) -> WantedObject:
        if name not in self.objects:
            raise Unfit
        return self.objects[name]

    def _made(self, name: str) -> WantedObject:
        return self.objects.setdefault(name, WantedObject())

    def do_remove(self, name: str) -> None:
        self._existing(name)
        del self.objects[name]
        self.watches = {handle: of for handle, of in self.watches.items() if of != name}

    def class_changes(self, rng: Random, name: str) -> list[Drawn]:
        """What changes an object through a class and can be part of a compound operation, without its name."""
        tag = rng.choice("xyy")
        steps: list[Drawn] = [
            (
                "lock",
                {
                    **self._lock(rng),
                    "renew": rng.choice((NEW, NEW, MAY_RENEW, MUST_RENEW)),
                    "brief": rng.random() < 0.2,
                },
            ),
            ("unlock", self._taken(rng, name)),
            ("set_version", {"number": rng.choice((1, 255, 1 << 40)), "tag": rng.choice(("t", "é" * 40))}),
            ("next_version", self._condition(rng, name)),
            ("refer", {"tag": tag, "implicit": rng.random() < 0.5}),
            ("release", {"tag": tag, "implicit": rng.random() < 0.5}),
            ("set_references", {"tags": sorted(rng.sample(["x", "y", "z" * 300], k=rng.randint(1, 3)))}),
        ]
        if self.omap:
            by = rng.choice(("1", "-2.5", "0.1", "1e10", "3.333333333333", "-1e-7"))
            steps += [(how, {"key": rng.choice(NUMBERS), "by": by}) for how in ("add", "multiply")]
        return steps

    def class_guards(self, rng: Random, name: str) -> list[Drawn]:
        """What a compound operation can demand of what classes keep."""
        held = self._lock(rng) | self._taken(rng, name)
        there = self._locks(name).get(held["lock"])
        if there is not None:
            held |= {"kind": there.kind, "tag": there.tag}
        return [("check_version", self._condition(rng, name)), ("held", held)]

    def sharing(self, rng: Random, name: str) -> list[Drawn]:
        """What clients do with locks and watches of each other."""
        watched, handle = sorted(set(self.watches.values())) or [name], {"handle": rng.choice(HANDLES)}
        return [
            ("break_lock", {"name": name, **self._taken(rng, name), "mine": rng.random() < 0.5}),
            *[("locked", {"name": name, "lock": self._taken(rng, name)["lock"]})] * 2,
            *[("watch", {"name": name, **handle})] * 2,
            ("unwatch", handle),
            *[("notify", {"name": rng.choice(watched), "text": f"{rng.randrange(1000)}"})] * 2,
            *[("heard", handle)] * 2,
        ]

    def _locks(self, name: str) -> dict[str, Lock]:
        return self.objects[name].locks if name in self.objects else {}

    def _lock(self, rng: Random) -> dict[str, Any]:
        kind = rng.choice((EXCLUSIVE, EXCLUSIVE, SHARED, SHARED, SHARED, EPHEMERAL))
        return {"lock": rng.choice("LM"), "kind": kind, "cookie": rng.choice("ab"), "tag": rng.choice("xyy")}

    def _taken(self, rng: Random, name: str) -> dict[str, Any]:
        """A lock and a cookie, mostly of one that is held."""
        held = sorted((lock, cookie) for lock, there in self._locks(name).items() for _, cookie in there.holders)
        lock, cookie = rng.choice(held) if held and rng.random() < 0.8 else (rng.choice("LM"), rng.choice("ab"))
        return {"lock": lock, "cookie": cookie}

    def _condition(self, rng: Random, name: str) -> dict[str, Any]:
        """A version near that of the object, and how to compare them."""
        number, tag = self.objects.get(name, WantedObject()).version or (0, "")
        near = {"number": max(0, number + rng.choice((-1, 0, 0, 1))), "tag": rng.choice((tag, "other"))}
        return {**near, "condition": rng.randrange(len(CONDITIONS))}

    def do_lock(self, name: str, lock: str, cookie: str, **how: Any) -> None:
        """Take a lock. how: kind, tag, renew, and brief: for a nanosecond, so that nobody holds it afterwards."""
        kind, tag = how["kind"], how["tag"]
        if how["brief"] and kind == EPHEMERAL:
            raise Unfit  # rados-lock-expired
        there = self.objects.get(name, WantedObject()).locks.get(lock, Lock(kind, tag))
        holder = (self.side, cookie)
        if there.holders and there.tag != tag:
            raise Refused("EBUSY")
        if holder in there.holders and how["renew"] == NEW:
            raise Refused("EEXIST")
        if holder not in there.holders and how["renew"] == MUST_RENEW:
            raise Refused("ENOENT")
        others = there.holders - {holder}
        if others and (kind != SHARED or there.kind != kind):
            raise Refused("EBUSY")
        self._made(name).locks[lock] = Lock(kind, tag, others if how["brief"] else others | {holder})

    def do_unlock(self, name: str, lock: str, cookie: str) -> None:
        self._unlock(name, lock, (self.side, cookie))

    def _unlock(self, name: str, lock: str, holder: tuple[str, str]) -> None:
        there = self._existing(name).locks.get(lock)
        if there is None or holder not in there.holders:
            raise Refused("ENOENT")
        if there.kind == EPHEMERAL:
            self.do_remove(name)
        else:
            there.holders.remove(holder)

    def do_break_lock(self, name: str, lock: str, cookie: str, *, mine: bool) -> None:
        """Take a lock away from its holder: this side, or another one."""
        there = self._existing(name).locks.get(lock, Lock(0, ""))
        holders = [holder for holder, of in there.holders if of == cookie and (holder == self.side) == mine]
        self._unlock(name, lock, (min(holders, default=""), cookie))

    def do_locked(self, name: str, lock: str) -> Any:
        there = self._existing(name).locks.get(lock, Lock(0, ""))
        return [there.kind, there.tag, sorted([cookie, holder == self.side] for holder, cookie in there.holders)]

    def do_held(self, name: str, lock: str, kind: int, cookie: str, tag: str) -> None:
        there = self._fit(name).locks.get(lock)
        if there is None or (there.kind, there.tag) != (kind, tag) or (self.side, cookie) not in there.holders:
            raise Refused("EBUSY")

    def do_watch(self, name: str, handle: str) -> None:
        if (self.side, handle) in self.watches or "\0" in name:
            raise Unfit  # librados-watch-locator
        self._never_kept(name)
        self.watches[self.side, handle] = name
        self.notes.pop((self.side, handle), None)

    def do_unwatch(self, handle: str) -> None:
        if self.watches.pop((self.side, handle), None) is None:
            raise Unfit

    def do_notify(self, name: str, text: str) -> None:
        """Notify the watches of an object, and wait until each has confirmed it."""
        self._existing(name)
        for handle, of in self.watches.items():
            if of == name:
                self.notes[handle].append(text)

    def do_heard(self, handle: str) -> Any:
        """What a watch was notified of since this was asked before."""
        return self.notes.pop((self.side, handle), [])

    def do_set_version(self, name: str, number: int, tag: str) -> None:
        self._made(name).version = (number, tag)

    def do_check_version(self, name: str, number: int, tag: str, condition: int) -> None:
        if not CONDITIONS[condition](self._fit(name).version or (0, ""), (number, tag)):
            raise Refused("ECANCELED")

    def do_next_version(self, name: str, number: int, tag: str, condition: int) -> None:
        """Increase the version if it fulfills a condition. Ceph gives a first version a random tag."""
        there = self._fit(name)
        if there.version is None:
            raise Unfit
        self.do_check_version(name, number, tag, condition)
        there.version = (there.version[0] + 1, there.version[1])

    def do_refer(self, name: str, tag: str, *, implicit: bool) -> None:
        """Add a reference. implicit: an object that was never counted has one without a tag."""
        there = self._never_kept(name)
        there.references = {*_references(there, implicit=implicit), tag}

    def do_release(self, name: str, tag: str, *, implicit: bool) -> None:
        """Give a reference back, or else the one without a tag. The object goes with its last reference."""
        there = self._never_kept(name)
        references = _references(there, implicit=implicit)
        if not references:
            raise Refused("EINVAL")
        given = tag if tag in references else ""
        if given not in references or (given != tag and not implicit) or tag in there.retired:
            return
        if references == {given}:
            self.do_remove(name)
            return
        there.references = references - {given}
        there.retired.add(tag)

    def do_set_references(self, name: str, tags: list[str]) -> None:
        if not tags:
            raise Unfit
        there = self._made(name)
        there.references, there.retired = set(tags), set()

    def do_add(self, name: str, key: str, by: str) -> None:
        self._number(name, key, lambda value: value + float(by))

    def do_multiply(self, name: str, key: str, by: str) -> None:
        self._number(name, key, lambda value: value * float(by))

    def _number(self, name: str, key: str, change: Callable[[float], float]) -> None:
        """Change a number in the omap, which Ceph keeps with ten digits. One that is not there is 0."""
        omap = self._made(name).omap
        omap[bytes.fromhex(key)] = b"%.10g" % change(float(omap.get(bytes.fromhex(key), b"0")))


def _references(there: WantedObject, *, implicit: bool) -> set[str]:
    if there.references is None:
        return {""} if implicit else set()
    return there.references
