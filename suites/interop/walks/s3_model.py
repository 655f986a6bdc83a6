"""The model of a walk over S3: what it does to the objects of a bucket, and what the gateways must answer."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
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
PARTS = (1, 2, 3, 10, 9999, 10000)
"""Numbers of parts. 10000 is the highest; RGW names parts in decimal, so that 10 comes before 2."""
SHARDS = (1, 3, 7, 11)
TAGS: tuple[dict[str, str], ...] = ({}, {"a": ""}, {"é +": "b c+d=e/f@g", "a": "&<>"}, {"k" * 128: "v" * 256})
"""Tags of objects, up to the longest key and value that S3 allows."""
WHEN = ("same", "other")
LARGE = 65537
VERSIONS = 4
"""Most versions of one key."""


@dataclass(frozen=True)
class WantedObject:
    """note: user metadata; tag: the ETag, with its quotes; tags: the object's tags."""

    data: bytes
    note: str
    tag: str
    tags: dict[str, str] = field(default_factory=dict)

    def told(self) -> list[Any]:
        """As sides report it."""
        return [told(self.data), self.note, self.tag, self.tags]


@dataclass(frozen=True)
class Version:
    """wanted: None for a delete marker; null: whether its ID is `null`."""

    wanted: WantedObject | None
    null: bool


@dataclass
class Upload:
    """A multipart upload in progress. parts: number -> content."""

    note: str
    parts: dict[int, bytes] = field(default_factory=dict)


class S3Model:
    """One bucket. versioned: whether the walk switches versioning on and off."""

    side = ""

    def __init__(self, rng: Random, *, versioned: bool = False) -> None:
        texts = edges.texts(rng, DRAWN_KEYS, KEY_BYTES)
        self.keys = [*rng.sample(KEYS, k=8), *texts]
        self.versioned, self.status = versioned, ""
        self.versions: dict[str, list[Version]] = {}
        self.uploads: dict[str, Upload] = {}
        self.looking: dict[str, Any] = {"versioned": versioned}

    @property
    def objects(self) -> dict[str, WantedObject]:
        """The newest version of each key that is not deleted."""
        newest = {key: versions[0].wanted for key, versions in self.versions.items()}
        return {key: wanted for key, wanted in newest.items() if wanted is not None}

    def draw(self, rng: Random) -> tuple[str, dict[str, Any]]:
        there = sorted(self.objects) or self.keys
        key, old, seed = rng.choice(self.keys), rng.choice(there), rng.randrange(1 << 16)
        size, first = draw_size(rng, LARGE), draw_size(rng, LARGE)
        note = edges.text(rng, rng.randint(1, NOTE_BYTES), edges.PLAIN)
        prefix = rng.choice(["", *[known[: rng.randint(1, 2)] for known in self.keys]])
        paged = {"prefix": prefix, "delimiter": rng.choice(DELIMITERS), "page": rng.choice(PAGES)}
        either, tags = rng.choice([key, old]), rng.choice(TAGS)
        steps: list[tuple[str, dict[str, Any]]] = [
            *[("put", {"key": key, "seed": seed, "size": size, "note": note, "tags": tags})] * 6,
            *[("put_new", {"key": either, "seed": seed, "size": size, "note": note})] * 2,
            ("get", {"key": either}),
            ("get_if", {"key": old, "header": rng.choice(("If-Match", "If-None-Match")), "when": rng.choice(WHEN)}),
            *[("range", {"key": old, "first": first, "last": first + size})] * 2,
            ("rest", {"key": old, "first": first}),
            ("tail", {"key": old, "count": first}),
            *[("copy", {"key": rng.choice([key, old, old]), "to": rng.choice(self.keys)})] * 3,
            *[("recopy", {"key": old, "to": rng.choice([old, key]), "note": note})] * 2,
            *[("delete", {"key": either})] * 2,
            ("delete_many", {"keys": sorted(rng.sample(self.keys, k=3))}),
            ("multipart", {"key": key, "seed": seed, "sizes": [PART_BYTES, max(1, size)], "note": note}),
            ("tag", {"key": old, "tags": tags}),
            *[("list", paged)] * 2,
            ("list_after", {**paged, "after": either, "kind": rng.choice((1, 2))}),
            ("reshard", {"shards": rng.choice(SHARDS)}),
            ("count", {}),
            *self._upload_steps(rng, key, note),
            *(self._version_steps(rng, either, paged) if self.versioned else ()),
        ]
        return rng.choice(steps)

    def _upload_steps(self, rng: Random, key: str, note: str) -> list[tuple[str, dict[str, Any]]]:
        open_key = rng.choice(sorted(self.uploads)) if self.uploads else key
        number, seed = rng.choice(PARTS), rng.randrange(1 << 16)
        large = sorted(key for key, wanted in self.objects.items() if len(wanted.data) > PART_BYTES)
        source = rng.choice(large or self.keys)
        first = draw_size(rng, LARGE)
        piece = {"source": source, "first": first, "last": first + rng.choice((0, LARGE, PART_BYTES - 1))}
        size = rng.choice((PART_BYTES, PART_BYTES + 1, PART_BYTES, 1 + draw_size(rng, LARGE)))
        return [
            *[("initiate", {"key": key, "note": note})] * 2,
            *[("part", {"key": open_key, "number": number, "seed": seed, "size": size})] * 4,
            *[("part_copy", {"key": open_key, "number": number, **piece})] * 2,
            *[("complete", {"key": open_key})] * 2,
            ("abort", {"key": open_key}),
            ("parts", {"key": open_key, "page": rng.choice(PAGES)}),
            ("uploads", {"prefix": rng.choice(("", key[:1])), "delimiter": rng.choice(DELIMITERS), "page": 1000}),
        ]

    def _version_steps(self, rng: Random, key: str, paged: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        known = rng.choice([key, *sorted(self.versions)])
        number = rng.randrange(len(self.versions.get(known, ())) or 1)
        return [
            *[("versioning", {"status": rng.choice(("Enabled", "Suspended"))})] * 2,
            *[("get_version", {"key": known, "number": number})] * 2,
            *[("delete_version", {"key": known, "number": number})] * 6,
            ("copy_version", {"key": known, "number": number, "to": rng.choice(self.keys)}),
            *[("versions", paged)] * 4,
        ]

    def _there(self, key: str) -> WantedObject:
        if key not in self.objects:
            raise Refused("NoSuchKey")
        return self.objects[key]

    def _add(self, key: str, wanted: WantedObject | None) -> None:
        """Make a version, as the bucket's versioning wants it. wanted: None for a delete marker."""
        enabled = self.status == "Enabled"
        older = [version for version in self.versions.get(key, []) if enabled or not version.null]
        if len(older) == VERSIONS:
            raise Unfit
        self.versions[key] = [Version(wanted, null=not enabled), *older]

    def _unhidden(self, keys: Iterable[str]) -> None:
        """Unfit for a key that has versions, the newest of which is a delete marker."""
        if any(key in self.versions and key not in self.objects for key in keys):
            raise Unfit

    def do_put(self, key: str, seed: int, size: int, note: str, tags: dict[str, str]) -> None:
        data = content(seed, size)
        self._add(key, WantedObject(data, note, f'"{md5(data).hexdigest()}"', tags))

    def do_put_new(self, key: str, seed: int, size: int, note: str) -> None:
        """A PUT with If-None-Match: *, which RGW 18.2.7 ignores where versions are kept."""
        if self.status:
            raise Unfit
        if key in self.objects:
            raise Refused("PreconditionFailed")
        self.do_put(key, seed, size, note, {})

    def do_get(self, key: str) -> list[Any]:
        return self._there(key).told()

    def do_get_if(self, key: str, header: str, when: str) -> str:
        """A GET with the object's ETag, or another one, in a header. The answer is the body."""
        data = self._there(key).data
        if (header == "If-Match") != (when == "same"):
            raise Refused("PreconditionFailed" if header == "If-Match" else "304")
        return told(data)

    def do_range(self, key: str, first: int, last: int) -> list[str]:
        data = self._there(key).data
        if first > last:
            raise Unfit  # an empty range is not tested
        if first >= len(data):
            raise Refused("InvalidRange")
        last = min(last, len(data) - 1)
        return [told(data[first : last + 1]), f"bytes {first}-{last}/{len(data)}"]

    def do_rest(self, key: str, first: int) -> list[str]:
        """The bytes from `first` on."""
        return self.do_range(key, first, 1 << 62)

    def do_tail(self, key: str, count: int) -> list[str]:
        """The last bytes."""
        size = len(self._there(key).data)
        if not (count and size):
            raise Unfit  # RFC 9110 calls it unsatisfiable, but lets servers ignore ranges
        return self.do_range(key, max(0, size - count), 1 << 62)

    def do_copy(self, key: str, to: str) -> None:
        there = self._there(key)
        if key == to:
            raise Refused("InvalidRequest")  # nothing would change
        self._add(to, there)

    def do_recopy(self, key: str, to: str, note: str) -> None:
        """A copy with other metadata, also onto itself."""
        there = self._there(key)
        if there.tags:
            raise Unfit  # RGW drops tags here; Amazon keeps them
        self._add(to, replace(there, note=note))

    def do_delete(self, key: str) -> None:
        if self.status:
            self._unhidden([key])
            if key not in self.versions:
                raise Unfit
            self._add(key, None)
        else:
            self.versions.pop(key, None)

    def do_delete_many(self, keys: list[str]) -> list[str]:
        """Answers with the keys that S3 calls deleted."""
        if any(character < " " for key in keys for character in key):
            raise Unfit  # XML 1.0 has no such characters
        if self.status:
            raise Unfit
        for key in keys:
            self.do_delete(key)
        return keys

    def do_multipart(self, key: str, seed: int, sizes: list[int], note: str) -> None:
        if min([PART_BYTES, *sizes[:-1]]) < PART_BYTES or key in self.uploads:
            raise Unfit
        self._complete(key, Upload(note, {n: content(seed + n, size) for n, size in enumerate(sizes)}))

    def _complete(self, key: str, upload: Upload) -> None:
        parts = [upload.parts[number] for number in sorted(upload.parts)]
        tag = md5(b"".join(md5(part).digest() for part in parts)).hexdigest()
        self._add(key, WantedObject(b"".join(parts), upload.note, f'"{tag}-{len(parts)}"'))

    def _upload(self, key: str) -> Upload:
        if key not in self.uploads:
            raise Unfit
        return self.uploads[key]

    def do_initiate(self, key: str, note: str) -> None:
        """Begin an upload. A key has one at a time, by which sides find it."""
        if key in self.uploads:
            raise Unfit
        self.uploads[key] = Upload(note)

    def do_part(self, key: str, number: int, seed: int, size: int) -> str:
        """Upload a part, also one that is there already. Answers with its ETag."""
        if not (size and 1 <= number <= PARTS[-1]):
            raise Unfit  # Amazon takes an empty part only if there is no other
        part = self._upload(key).parts[number] = content(seed, size)
        return f'"{md5(part).hexdigest()}"'

    def do_part_copy(self, key: str, number: int, source: str, first: int, last: int) -> str:
        parts, data = self._upload(key).parts, self._there(source).data
        if not (first <= last < len(data) and 1 <= number <= PARTS[-1]) or "%" in source:
            raise Unfit  # the known defect rgw-part-source-decoded-twice
        parts[number] = data[first : last + 1]
        return f'"{md5(parts[number]).hexdigest()}"'

    def do_complete(self, key: str) -> None:
        """Complete an upload with all of its parts. RGW 18.2.7 refuses to leave out the first ones; Amazon does not."""
        upload = self._upload(key)
        if not upload.parts:
            raise Unfit
        if any(len(upload.parts[number]) < PART_BYTES for number in sorted(upload.parts)[:-1]):
            raise Refused("EntityTooSmall")
        self._complete(key, upload)
        del self.uploads[key]

    def do_abort(self, key: str) -> None:
        self._upload(key)
        del self.uploads[key]

    def do_parts(self, key: str, page: int) -> list[list[Any]]:
        """Number, size and ETag of each part. page: at most so many in one answer."""
        paged(page)
        parts = sorted(self._upload(key).parts.items())
        return [[number, len(part), f'"{md5(part).hexdigest()}"'] for number, part in parts]

    def do_uploads(self, prefix: str, delimiter: str, page: int) -> list[list[str]]:
        """Keys with an upload. RGW 18.2.7 leaves out what has the delimiter, in its key or in its ID."""
        paged(page)
        keys, prefixes = listed(self.uploads, prefix, delimiter)
        if prefixes or (keys and delimiter.isalnum()):
            raise Unfit
        return [keys, prefixes]

    def do_tag(self, key: str, tags: dict[str, str]) -> None:
        """Replace the tags of an object. Like S3, it makes no version."""
        there = self._there(key)
        newest, *older = self.versions[key]
        self.versions[key] = [replace(newest, wanted=replace(there, tags=tags)), *older]

    def do_list(self, prefix: str, delimiter: str, page: int) -> list[list[str]]:
        """Keys in byte order, and the common prefixes up to the delimiter, each once."""
        paged(page)
        return listed(self.objects, prefix, delimiter)

    def do_list_after(self, prefix: str, delimiter: str, page: int, after: str, kind: int) -> list[list[str]]:
        """The same with the older and the newer call, from a key on."""
        paged(page)
        if delimiter and after:
            raise Unfit  # not specified for a key within a common prefix
        return listed([key for key in self.objects if key.encode() > after.encode()], prefix, delimiter)

    def do_versioning(self, status: str) -> None:
        self.status = status

    def _version(self, key: str, number: int) -> Version:
        """number: from the newest version on."""
        if number >= len(self.versions.get(key, ())):
            raise Unfit
        return self.versions[key][number]

    def do_get_version(self, key: str, number: int) -> list[Any]:
        wanted = self._version(key, number).wanted
        if wanted is None:
            raise Unfit  # RGW answers NoSuchKey, Amazon MethodNotAllowed
        return wanted.told()

    def do_delete_version(self, key: str, number: int) -> None:
        self._version(key, number)
        del self.versions[key][number]
        if not self.versions[key]:
            del self.versions[key]

    def do_copy_version(self, key: str, number: int, to: str) -> None:
        wanted = self._version(key, number).wanted
        if wanted is None:
            raise Unfit
        self._add(to, wanted)

    def do_versions(self, prefix: str, delimiter: str, page: int) -> list[list[Any]]:
        """As `list`, with every version: key, size, ETag, whether it is null, whether it is the newest."""
        paged(page)
        keys, prefixes = listed(self.versions, prefix, delimiter)
        entries = [entry for key in keys for entry in self._entries(key)]
        if page < len(entries) + len(prefixes):
            raise Unfit  # RGW 18.2.7 passes over versions between pages, or answers a page again and again
        return [entries, prefixes]

    def _entries(self, key: str) -> list[list[Any]]:
        return [
            [key, len(wanted.data) if wanted else -1, wanted.tag if wanted else "", version.null, number == 0]
            for number, version in enumerate(self.versions[key])
            for wanted in (version.wanted,)
        ]

    def do_reshard(self, shards: int) -> None:
        """Give the bucket's index so many shards, which changes nothing for clients."""

    def do_count(self) -> list[int]:
        """Objects and bytes as the bucket's statistics count them. Parts in progress count too, so none may be."""
        if self.uploads or self.versioned:
            raise Unfit
        return [len(self.objects), sum(len(wanted.data) for wanted in self.objects.values())]

    def do_look(self, **_looking: Any) -> Any:
        keys, _ = listed(self.objects, "", "")
        entries, _ = self.do_versions("", "", 1000) if self.versioned else ([], [])
        return [[[key, *self.do_get(key)] for key in keys], entries]


def paged(page: int) -> None:
    """Unfit if a page has no entries, because a list would not end."""
    if page < 1:
        raise Unfit


def listed(keys: Iterable[str], prefix: str, delimiter: str) -> list[list[str]]:
    """Keys in byte order, and the common prefixes up to the delimiter, each once."""
    matching: list[str] = []
    prefixes: dict[str, None] = {}
    for key in sorted(keys, key=str.encode):
        if key.startswith(prefix):
            before, separator, _ = key[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
            if separator:
                prefixes[prefix + before + separator] = None
            else:
                matching.append(key)
    return [matching, list(prefixes)]


def md5(data: bytes) -> Any:
    return hashlib.md5(data, usedforsecurity=False)
