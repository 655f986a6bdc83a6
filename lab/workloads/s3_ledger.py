"""Tracks what an S3 load wrote: which versions of an object may exist, their lengths and their content.

It runs on a host as part of the load program, so it needs nothing but Python. The load is a single process, so that it
knows when each of its own writes began and when it was answered.
"""

import itertools
import random
import threading
import zlib
from typing import Any, NamedTuple

BLOCK_BYTES = 1_000_003
"""Length of the random bytes from which all bodies are cut. A prime, so that parts of an upload never look alike."""
WRITES = ("put", "multipart", "delete")
_TRIES = 20


class ObjectBytes:
    """Bodies by name, version and length: a line with these three, then bytes derived from the seed."""

    def __init__(self, seed: int) -> None:
        self.block = random.Random(f"{seed} bodies").randbytes(BLOCK_BYTES)

    def of(self, path: str, version: int, length: int) -> bytes:
        head = f"{path} {version} {length}\n".encode()
        begin = zlib.crc32(head) % BLOCK_BYTES
        turns = (begin + length) // BLOCK_BYTES + 1
        return (head + (self.block * turns)[begin : begin + length])[:length]


class Key:
    """The key of one object. acked, issued: its newest version that was answered, and that was begun; 0: never.

    unsure: versions whose write failed but that may still appear, now or later. busy: a write to it is in progress.
    """

    def __init__(self, bucket: str, name: str, version: int) -> None:
        self.bucket, self.name, self.path = bucket, name, f"/{bucket}/{name}"
        self.acked = self.issued = version
        self.unsure: set[int] = set()
        self.deleted: set[int] = set()
        self.busy = False


class Entry(NamedTuple):
    """An operation on a key. version: the one that a write creates, or the newest one answered before a read."""

    key: Key
    version: int
    kind: str


class Ledger:
    """All keys of a load. config: buckets, objects in each, sizes, seed; filled: whether version 1 of all exists.

    over: operation or phase -> the keys it uses: ranges of buckets and of objects, counted from 1, each (first, last,
    weight), and whether in order. An operation that is not in it uses all keys at random.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.buckets = [f"{config['bucket']}{number}" for number in range(config["buckets"])]
        first = 1 if config["filled"] else 0
        names = [f"o{number}" for number in range(config["objects"])]
        self.keys = [Key(bucket, name, first) for bucket in self.buckets for name in names]
        self.of_bucket = {bucket: [key for key in self.keys if key.bucket == bucket] for bucket in self.buckets}
        self.lock = threading.Lock()
        self.over: dict[str, dict[str, Any]] = config["over"]
        self.turns = {kind: itertools.cycle(self.keys_of(kind)) for kind, over in self.over.items() if over["in_order"]}

    def keys_of(self, kind: str) -> list[Key]:
        """All keys that an operation or a phase uses, in order."""
        over = self.over.get(kind)
        if over is None:
            return self.keys
        chosen = [
            {number - 1 for first, last, _ in ranges or ((1, most, 1.0),) for number in range(first, last + 1)}
            for ranges, most in ((over["buckets"], len(self.buckets)), (over["objects"], self.config["objects"]))
        ]
        return [self.of_bucket[self.buckets[bucket]][key] for bucket in sorted(chosen[0]) for key in sorted(chosen[1])]

    def pick(self, kind: str, rng: random.Random) -> Key:
        """Choose the key for an operation."""
        over = self.over.get(kind)
        if over is None:
            return rng.choice(self.keys)
        if over["in_order"]:
            with self.lock:
                return next(self.turns[kind])
        bucket = self.buckets[drawn(rng, over["buckets"], len(self.buckets))]
        return self.of_bucket[bucket][drawn(rng, over["objects"], self.config["objects"])]

    def length(self, key: Key, version: int) -> int:
        """Length of a version, from the seed: choose a range by its weight, then any size in it."""
        rng = random.Random(f"{self.config['seed']} {key.path} {version}")
        ranges = self.config["sizes"]
        least, most, _ = rng.choices(ranges, [weight for _, _, weight in ranges])[0]
        return rng.randint(least, most)

    def begin(self, kind: str, rng: random.Random) -> Entry:
        """Begin an operation on one of its keys; a write prefers a key without another write in progress."""
        key = self.pick(kind, rng)
        if kind in WRITES:
            for _ in range(_TRIES):
                if not key.busy:
                    break
                key = self.pick(kind, rng)
        return self.take(key, kind)

    def take(self, key: Key, kind: str) -> Entry:
        """Begin an operation on this key. A write to a key that is being written becomes a read."""
        with self.lock:
            if kind not in WRITES or key.busy:
                return Entry(key, key.acked, "get" if kind in WRITES else kind)
            key.busy, key.issued = True, key.issued + 1
            if kind == "delete":
                key.deleted.add(key.issued)
            return Entry(key, key.issued, kind)

    def end(self, entry: Entry, *, failed: bool) -> None:
        """End an operation: a write was answered, or it failed, so that it is unknown whether it took effect."""
        if entry.kind not in WRITES:
            return
        with self.lock:
            entry.key.busy = False
            if failed:
                entry.key.unsure.add(entry.version)
            else:
                entry.key.acked = entry.version

    def possible(self, entry: Entry) -> set[int]:
        """Versions that a read may find: from the newest answered before it to the newest begun, and unsure ones."""
        with self.lock:
            return {*range(entry.version, entry.key.issued + 1), *entry.key.unsure}

    def absent(self, key: Key, version: int) -> bool:
        """Whether a version means that there is no object."""
        return version == 0 or version in key.deleted

    def settled(self, bucket: str) -> dict[str, tuple[int, bool]]:
        """Name -> (version, whether the object exists) for keys without a write in progress or an unsure version."""
        with self.lock:
            return {
                key.name: (key.acked, not self.absent(key, key.acked))
                for key in self.of_bucket[bucket]
                if not key.busy and not key.unsure
            }


def drawn(rng: random.Random, ranges: Any, most: int) -> int:
    """A number counted from 0, drawn from weighted ranges counted from 1; without ranges any number below `most`."""
    if not ranges:
        return rng.randrange(most)
    first, last, _ = rng.choices(ranges, [weight for _, _, weight in ranges])[0]
    return rng.randint(first, last) - 1
