"""What an S3 load put where: which versions of an object can be there, how long they are, and what is in them.

It runs on a host beside the load's program, so it needs nothing but Python. The load is one process, so that it knows
of each of its own writes when it began and when it was answered.
"""

import itertools
import random
import threading
import zlib
from typing import Any, NamedTuple

BLOCK_BYTES = 1_000_003
"""Of random bytes that all bodies are cut from. A prime, so that parts of a multipart upload never look alike."""
WRITES = ("put", "multipart", "delete")
_TRIES = 20


class ObjectBytes:
    """Bodies by name, version and length: a line that names them, then bytes that follow from the seed."""

    def __init__(self, seed: int) -> None:
        self.block = random.Random(f"{seed} bodies").randbytes(BLOCK_BYTES)

    def of(self, path: str, version: int, length: int) -> bytes:
        head = f"{path} {version} {length}\n".encode()
        begin = zlib.crc32(head) % BLOCK_BYTES
        turns = (begin + length) // BLOCK_BYTES + 1
        return (head + (self.block * turns)[begin : begin + length])[:length]


class Key:
    """One object's place. acked, issued: its newest version that was answered, that was begun; 0: it never was.

    unsure: versions that failed and may be there all the same, now or later. busy: a write of it is under way.
    """

    def __init__(self, bucket: str, name: str, version: int) -> None:
        self.bucket, self.name, self.path = bucket, name, f"/{bucket}/{name}"
        self.acked = self.issued = version
        self.unsure: set[int] = set()
        self.deleted: set[int] = set()
        self.busy = False


class Entry(NamedTuple):
    """An operation on a key. version: that a write makes, or the newest that was answered before a read."""

    key: Key
    version: int
    kind: str


class Ledger:
    """All keys of a load. config: buckets, objects in each, sizes, seed, filled: whether version 1 of all is there.

    over: operation or phase -> which of them it takes: ranges of buckets and of objects from 1, each (first, last,
    weight), and whether in order; all of them by chance where it has none.
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
        """All keys that an operation or a phase takes, in order."""
        over = self.over.get(kind)
        if over is None:
            return self.keys
        chosen = [
            {number - 1 for first, last, _ in ranges or ((1, most, 1.0),) for number in range(first, last + 1)}
            for ranges, most in ((over["buckets"], len(self.buckets)), (over["objects"], self.config["objects"]))
        ]
        return [self.of_bucket[self.buckets[bucket]][key] for bucket in sorted(chosen[0]) for key in sorted(chosen[1])]

    def pick(self, kind: str, rng: random.Random) -> Key:
        """The key of an operation."""
        over = self.over.get(kind)
        if over is None:
            return rng.choice(self.keys)
        if over["in_order"]:
            with self.lock:
                return next(self.turns[kind])
        bucket = self.buckets[drawn(rng, over["buckets"], len(self.buckets))]
        return self.of_bucket[bucket][drawn(rng, over["objects"], self.config["objects"])]

    def length(self, key: Key, version: int) -> int:
        """Bytes of a version, by the seed: one of the ranges by its weight, then any size in it."""
        rng = random.Random(f"{self.config['seed']} {key.path} {version}")
        ranges = self.config["sizes"]
        least, most, _ = rng.choices(ranges, [weight for _, _, weight in ranges])[0]
        return rng.randint(least, most)

    def begin(self, kind: str, rng: random.Random) -> Entry:
        """An operation on a key that it may take; a write takes one that no other write has."""
        key = self.pick(kind, rng)
        if kind in WRITES:
            for _ in range(_TRIES):
                if not key.busy:
                    break
                key = self.pick(kind, rng)
        return self.take(key, kind)

    def take(self, key: Key, kind: str) -> Entry:
        """An operation on this key. A write of one that is being written becomes a read."""
        with self.lock:
            if kind not in WRITES or key.busy:
                return Entry(key, key.acked, "get" if kind in WRITES else kind)
            key.busy, key.issued = True, key.issued + 1
            if kind == "delete":
                key.deleted.add(key.issued)
            return Entry(key, key.issued, kind)

    def end(self, entry: Entry, *, failed: bool) -> None:
        """A write was answered, or failed: then nobody knows whether it is there."""
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
        """Name -> (version, whether it is there) of keys with no write under way and none that is unsure."""
        with self.lock:
            return {
                key.name: (key.acked, not self.absent(key, key.acked))
                for key in self.of_bucket[bucket]
                if not key.busy and not key.unsure
            }


def drawn(rng: random.Random, ranges: Any, most: int) -> int:
    """A number from 0, by ranges from 1 with weights; any below `most` without."""
    if not ranges:
        return rng.randrange(most)
    first, last, _ = rng.choices(ranges, [weight for _, _, weight in ranges])[0]
    return rng.randint(first, last) - 1
