"""What two clients do in turn to a tree of CephFS, each looking at what the other did: fixed steps, by topic."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from cephlab.suites.cephfs.model import EXCLUSIVE, NAME_BYTES, NONE, SHARED
from cephlab.suites.interop import edges
from cephlab.suites.interop.walks.walk import LOOK, Step

OBJECT = 4 << 20
"""Of a file: as much lies in one object by CephFS' default layout."""
XATTR_BYTES = (0, 1, 255, 4096, 60_000)
"""An inode takes 64 KiB of attributes (mds_max_xattr_pairs_size)."""
NAMES = 16

Topic = Callable[[str, str, Random], Iterator[Step]]
"""The steps of two sides, the first of which begins."""


def does(side: str, operation: str, *words: Any, **more: Any) -> Step:
    """A step. words: paths, as the operation has them."""
    keys = {"rename": ("path", "to"), "link": ("path", "to"), "symlink": ("target", "path"), "snap": ("path", "snap")}
    keys |= {"drop": ("path", "snap"), "setxattr": ("path", "name"), "removexattr": ("path", "name")}
    return Step(side, operation, {**dict(zip(keys.get(operation, ("path",)), words, strict=False)), **more})


def writes(side: str, path: str, size: int, offset: int = 0, seed: int = 7) -> Step:
    return does(side, "write", path, seed=seed, size=size, offset=offset)


def looks(side: str) -> Step:
    return Step(side, LOOK, {})


def contents(one: str, other: str, rng: Random) -> Iterator[Step]:
    """Sizes about blocks and objects; what one wrote is written over, cut and extended by the other."""
    for size in (*edges.SIZES, OBJECT - 1, OBJECT + 1):
        yield writes(one, f"f{size}", size, seed=rng.randrange(1 << 16))
    yield looks(other)
    for size, offset in ((2, OBJECT - 1), (10, OBJECT + 1), (9000, OBJECT - 4500), (1, 3 * OBJECT)):
        path = f"f{rng.choice((OBJECT - 1, OBJECT + 1))}"
        yield writes(other, path, size, offset, seed=rng.randrange(1 << 16))
        yield does(one, "read", path, offset=max(0, offset - 5), size=size + 10)
    for side, size in ((one, OBJECT + 1), (other, OBJECT), (one, 1), (other, OBJECT + 3), (one, 0)):
        yield does(side, "truncate", f"f{OBJECT + 1}", size=size)
        yield writes(one, "f1", 3, rng.randrange(50))
    yield looks(other)
    yield looks(one)


def names(one: str, other: str, rng: Random) -> Iterator[Step]:
    """Of 1 to 255 bytes, any that a name may have; one byte more is refused."""
    drawn = [name for name in edges.texts(rng, NAMES, NAME_BYTES, but="/\0") if name not in (".", "..")]
    drawn += ["x" * NAME_BYTES, "é" * (NAME_BYTES // 2), "文" * (NAME_BYTES // 3)]
    for number, name in enumerate(dict.fromkeys(drawn)):
        side, twin = (one, other) if number % 2 else (other, one)
        yield writes(side, name, number)
        yield does(twin, "mkdir", f"d{number}")
        yield does(twin, "rename", name, f"d{number}/{name}")
        yield does(twin, "mkdir", name)
        yield writes(side, f"{name}/{name}", 2)
    for path in ("x" * (NAME_BYTES + 1), "é" * (NAME_BYTES // 2 + 1)):
        yield does(other, "mkdir", path)
        yield writes(one, path, 1)
    yield looks(one)
    yield looks(other)


def xattrs(one: str, other: str, rng: Random) -> Iterator[Step]:
    yield writes(one, "file", 5)
    yield does(other, "mkdir", "directory")
    for path in ("file", "directory"):
        for size in XATTR_BYTES[: None if path == "file" else 4]:
            yield does(one, "setxattr", path, f"user.{size}", seed=rng.randrange(1 << 16), size=size)
        yield does(one, "setxattr", path, "user." + "n" * 250, seed=1, size=3)
        yield looks(other)
        yield does(other, "setxattr", path, "user.1", seed=rng.randrange(1 << 16), size=2)
        yield does(other, "removexattr", path, "user.4096")
        yield does(one, "removexattr", path, "user.4096")
    yield looks(one)


def links(one: str, other: str, _rng: Random) -> Iterator[Step]:
    """Hard ones stay one file whatever happens to its names, soft ones stay what they say."""
    yield does(one, "mkdir", "d")
    yield writes(one, "first", 5000)
    yield does(other, "link", "first", "d/second")
    yield does(one, "link", "d/second", "third")
    yield writes(other, "third", 100, 4950)
    yield looks(one)
    yield does(one, "link", "d", "e")
    yield does(one, "link", "first", "third")
    yield does(one, "unlink", "first")
    yield does(other, "truncate", "d/second", size=77)
    yield looks(one)
    yield does(other, "rename", "third", "d/fourth")
    yield does(other, "symlink", "../nowhere/ü", "d/soft")
    yield does(other, "symlink", "d", "soft")
    yield does(one, "symlink", "d", "soft")
    yield does(one, "rename", "d/soft", "hard")
    yield does(one, "unlink", "d/second")
    yield looks(one)
    yield looks(other)


def renames(one: str, other: str, _rng: Random) -> Iterator[Step]:
    """Of files and directories, also onto others, and those that must be refused."""
    for path in ("a", "b", "a/deep", "full"):
        yield does(one, "mkdir", path)
    for path in ("a/f", "a/deep/f", "b/g", "full/h"):
        yield writes(one, path, len(path))
    yield looks(other)
    for side, path, to in (
        *((other, "a/f", "b/f"), (one, "b/f", "b/g"), (one, "a/f", "b/x"), (other, "a/deep", "b/deep")),
        *((other, "b", "full"), (one, "b", "b/deep/b"), (other, "b/g", "a"), (one, "b", "b/g"), (one, "b", "a")),
        *((other, "a/deep/f", "a/deep/f"), (other, "full", "a/deep/full"), (one, "a/deep", "deep")),
    ):
        yield does(side, "rename", path, to)
        yield looks(other if side == one else one)


def locks(one: str, other: str, _rng: Random) -> Iterator[Step]:
    """Of whole files (flock) and of ranges (fcntl), without waiting. Owners below 10 are of the first client."""
    yield writes(one, "f", 100)
    for side, kind, owner in (
        *((one, EXCLUSIVE, 1), (other, EXCLUSIVE, 11), (other, SHARED, 11), (one, NONE, 1), (other, SHARED, 11)),
        *((one, SHARED, 1), (one, EXCLUSIVE, 2), (other, NONE, 11), (one, EXCLUSIVE, 2), (one, EXCLUSIVE, 1)),
        *((one, NONE, 1), (other, EXCLUSIVE, 11), (one, SHARED, 1)),
    ):
        yield does(side, "flock", "f", kind=kind, owner=owner)
    for side, kind, owner, start, length in (
        *((one, EXCLUSIVE, 1, 0, 10), (other, EXCLUSIVE, 11, 10, 10), (other, SHARED, 12, 5, 2)),
        *((one, SHARED, 2, 20, 10), (other, SHARED, 12, 15, 10), (other, SHARED, 12, 25, 10)),
        *((one, EXCLUSIVE, 3, 34, 1), (one, EXCLUSIVE, 3, 35, 0), (other, SHARED, 13, 1 << 40, 1)),
        *((one, NONE, 1, 0, 10), (other, EXCLUSIVE, 14, 0, 10), (one, SHARED, 1, 9, 1)),
    ):
        yield does(side, "range", "f", kind=kind, owner=owner, start=start, length=length)


def quotas(one: str, other: str, _rng: Random) -> Iterator[Step]:
    """A write past the quota of its directory is refused to either client, one below it is not."""
    yield does(one, "mkdir", "q")
    yield does(one, "quota", "q", of="bytes", most=OBJECT)
    for side in (other, one):
        yield writes(side, f"q/large-{side}", OBJECT + 1)
        yield writes(side, f"q/small-{side}", 4096)
    yield looks(other)
    yield does(other, "quota", "q", of="bytes", most=0)
    yield writes(other, f"q/large-{one}", OBJECT + 1)
    yield looks(one)


def snapshots(one: str, other: str, _rng: Random) -> Iterator[Step]:
    """What is below a snapshot stays as it was, also where what it was taken of is gone."""
    yield does(one, "mkdir", "d")
    yield does(one, "mkdir", "d/below")
    yield writes(one, "d/f", 9000)
    yield writes(other, "d/below/g", OBJECT + 5)
    yield does(one, "snap", "d", "first")
    yield does(other, "snap", "d", "first")
    yield writes(one, "d/f", 100, 4090, seed=8)
    yield does(other, "truncate", "d/below/g", size=OBJECT - 1)
    yield does(other, "setxattr", "d/f", "user.later", seed=1, size=5)
    yield looks(other)
    yield does(other, "snap", "d/below", "ü second")
    yield does(other, "unlink", "d/below/g")
    yield does(one, "rename", "d/f", "d/below/f")
    yield looks(one)
    yield does(one, "rmdir", "d/below")
    yield does(one, "drop", "d/below", "ü second")
    yield looks(other)
    yield does(other, "drop", "d", "first")
    yield does(other, "drop", "d", "first")
    yield looks(one)


TOPICS: dict[str, Topic] = {
    topic.__name__: topic for topic in (contents, names, xattrs, links, renames, locks, quotas, snapshots)
}
