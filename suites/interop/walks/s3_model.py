"""The model of a walk over S3: what it does to the objects of a bucket, and what the gateways must answer."""

import hashlib
from dataclasses import dataclass
from random import Random
from typing import Any

from cephlab.suites.interop import edges
from cephlab.suites.interop.walks.model import draw_size
from cephlab.suites.interop.walks.walk import Refused, Unfit, content, told

KEY_BYTES = 1024
"""Longest key that S3 allows."""
DRAWN_KEYS = 5
PART_BYTES = 5 << 20
"""Smallest size that S3 allows for every part but the last."""
NOTE_BYTES = 200
KEYS = ("a", "a/b", "a/b/c", "a//b", "a/", "b", "a b", "a+b", "a%2Fb", "_a", "__a", ".", "a/../b", "\uffee", "😀")
"""Keys with delimiters, keys like paths, keys that RGW escapes, and two that UTF-8 and UTF-16 sort differently."""
DELIMITERS = ("", "/", "b", "//")
PAGES = (1, 2, 3, 1000)
LARGE = 65537


@dataclass(frozen=True)
class WantedObject:
    """note: user metadata; tag: the ETag, with its quotes."""

    data: bytes
    note: str
    tag: str


class S3Model:
    """One bucket without versioning."""

    def __init__(self, rng: Random) -> None:
        drawn = edges.texts(rng, DRAWN_KEYS, KEY_BYTES)
        self.keys = [*rng.sample(KEYS, k=8), *drawn]
        self.objects: dict[str, WantedObject] = {}
        self.looking: dict[str, Any] = {}

    def draw(self, rng: Random) -> tuple[str, dict[str, Any]]:
        there = sorted(self.objects) or self.keys
        key, old, seed = rng.choice(self.keys), rng.choice(there), rng.randrange(1 << 16)
        size, first = draw_size(rng, LARGE), draw_size(rng, LARGE)
        note = edges.text(rng, rng.randint(1, NOTE_BYTES), edges.PLAIN)
        prefix = rng.choice(["", *[known[: rng.randint(1, 2)] for known in self.keys]])
        steps: list[tuple[str, dict[str, Any]]] = [
            *[("put", {"key": key, "seed": seed, "size": size, "note": note})] * 6,
            ("get", {"key": rng.choice([key, old])}),
            *[("range", {"key": old, "first": first, "last": first + size})] * 2,
            *[("copy", {"key": rng.choice([key, old, old]), "to": rng.choice(self.keys)})] * 3,
            *[("delete", {"key": rng.choice([key, old])})] * 2,
            ("multipart", {"key": key, "seed": seed, "sizes": [PART_BYTES, max(1, size)], "note": note}),
            *[("list", {"prefix": prefix, "delimiter": rng.choice(DELIMITERS), "page": rng.choice(PAGES)})] * 3,
        ]
        return rng.choice(steps)

    def _there(self, key: str) -> WantedObject:
        if key not in self.objects:
            raise Refused("NoSuchKey")
        return self.objects[key]

    def do_put(self, key: str, seed: int, size: int, note: str) -> None:
        data = content(seed, size)
        self.objects[key] = WantedObject(data, note, f'"{md5(data).hexdigest()}"')

    def do_get(self, key: str) -> list[str]:
        there = self._there(key)
        return [told(there.data), there.note, there.tag]

    def do_range(self, key: str, first: int, last: int) -> list[str]:
        data = self._there(key).data
        if first > last:
            raise Unfit  # an empty range is not tested
        if first >= len(data):
            raise Refused("InvalidRange")
        last = min(last, len(data) - 1)
        return [told(data[first : last + 1]), f"bytes {first}-{last}/{len(data)}"]

    def do_copy(self, key: str, to: str) -> None:
        there = self._there(key)
        if key == to:
            raise Refused("InvalidRequest")  # nothing would change
        self.objects[to] = there

    def do_delete(self, key: str) -> None:
        self.objects.pop(key, None)

    def do_multipart(self, key: str, seed: int, sizes: list[int], note: str) -> None:
        if min([PART_BYTES, *sizes[:-1]]) < PART_BYTES:
            raise Unfit
        parts = [content(seed + number, size) for number, size in enumerate(sizes)]
        tag = md5(b"".join(md5(part).digest() for part in parts)).hexdigest()
        self.objects[key] = WantedObject(b"".join(parts), note, f'"{tag}-{len(parts)}"')

    def do_list(self, prefix: str, delimiter: str, page: int) -> list[list[str]]:
        """Keys in byte order, and the common prefixes up to the delimiter, each once."""
        keys: list[str] = []
        prefixes: dict[str, None] = {}
        for key in sorted(self.objects, key=str.encode):
            if key.startswith(prefix):
                before, separator, _ = key[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
                if separator:
                    prefixes[prefix + before + separator] = None
                else:
                    keys.append(key)
        return [keys, list(prefixes)]

    def do_look(self, **_looking: Any) -> Any:
        return [[key, *self.do_get(key)] for key in sorted(self.objects, key=str.encode)]


def md5(data: bytes) -> Any:
    return hashlib.md5(data, usedforsecurity=False)
