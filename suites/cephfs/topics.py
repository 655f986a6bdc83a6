"""Fixed steps, by topic, that two clients run alternately on a CephFS tree, each checking what the other did."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from cephlab.suites.cephfs.model import EXCLUSIVE, NAME_BYTES, NONE, SHARED
from cephlab.suites.interop import edges
from cephlab.suites.interop.walks.walk import LOOK, Step

OBJECT = 4 << 20
"""The object size of files in CephFS's default layout."""
XATTR_BYTES = (0, 1, 255, 4096, 60_000)
"""An inode can have 64 KiB of attributes (mds_max_xattr_pairs_size)."""
NAMES = 16

Topic = Callable[[str, str, Random], Iterator[Step]]
"""The steps of two sides, of which the first starts."""


def does(side: str, operation: str, *words: Any, **more: Any) -> Step:
    """A step. words: the paths of the operation, in its order."""
    keys = {"rename": ("path", "to"), "link": ("path", "to"), "symlink": ("target", "path"), "snap": ("path", "snap")}
    keys |= {"drop": ("path", "snap"), "setxattr": ("path", "name"), "removexattr": ("path", "name")}
    return Step(side, operation, {**dict(zip(keys.get(operation, ("path",)), words, strict=False)), **more})


def writes(side: str, path: str, size: int, offset: int = 0, seed: int = 7) -> Step:
    return does(side, "write", path, seed=seed, size=size, offset=offset)


def looks(side: str) -> Step:
    return Step(side, LOOK, {})


def contents(first: str, second: str, rng: Random) -> Iterator[Step]:
    """Sizes around blocks and objects. Each client overwrites, truncates and extends what the other wrote."""
    for size in (*edges.SIZES, OBJECT - 1, OBJECT + 1):
        yield writes(first, f"f{size}", size, seed=rng.randrange(1 << 16))
    yield looks(second)
    for size, offset in ((2, OBJECT - 1), (10, OBJECT + 1), (9000, OBJECT - 4500), (1, 3 * OBJECT)):
        path = f"f{rng.choice((OBJECT - 1, OBJECT + 1))}"
        yield writes(second, path, size, offset, seed=rng.randrange(1 << 16))
        yield does(first, "read", path, offset=max(0, offset - 5), size=size + 10)
    for side, size in ((first, OBJECT + 1), (second, OBJECT), (first, 1), (second, OBJECT + 3), (first, 0)):
        yield does(side, "truncate", f"f{OBJECT + 1}", size=size)
        yield writes(first, "f1", 3, rng.randrange(50))
    yield looks(second)
    yield looks(first)


def names(first: str, second: str, rng: Random) -> Iterator[Step]:
    """Names of 1 to 255 bytes, of any bytes that a name may have; one byte more is refused."""
    texts = [name for name in edges.texts(rng, NAMES, NAME_BYTES, but="/\0") if name not in (".", "..")]
    texts += ["x" * NAME_BYTES, "é" * (NAME_BYTES // 2), "文" * (NAME_BYTES // 3)]
    for number, name in enumerate(dict.fromkeys(texts)):
        side, other = (first, second) if number % 2 else (second, first)
        yield writes(side, name, number)
        yield does(other, "mkdir", f"d{number}")
        yield does(other, "rename", name, f"d{number}/{name}")
        yield does(other, "mkdir", name)
        yield writes(side, f"{name}/{name}", 2)
    for path in ("x" * (NAME_BYTES + 1), "é" * (NAME_BYTES // 2 + 1)):
        yield does(second, "mkdir", path)
        yield writes(first, path, 1)
    yield looks(first)
    yield looks(second)


def xattrs(first: str, second: str, rng: Random) -> Iterator[Step]:
    yield writes(first, "file", 5)
    yield does(second, "mkdir", "directory")
    for path in ("file", "directory"):
        for size in XATTR_BYTES[: None if path == "file" else 4]:
            yield does(first, "setxattr", path, f"user.{size}", seed=rng.randrange(1 << 16), size=size)
        yield does(first, "setxattr", path, "user." + "n" * 250, seed=1, size=3)
        yield looks(second)
        yield does(second, "setxattr", path, "user.1", seed=rng.randrange(1 << 16), size=2)
        yield does(second, "removexattr", path, "user.4096")
        yield does(first, "removexattr", path, "user.4096")
    yield looks(first)


def links(first: str, second: str, _rng: Random) -> Iterator[Step]:
    """Hard links stay one file whatever happens to its names; symbolic links keep their target."""
    yield does(first, "mkdir", "d")
    yield writes(first, "first", 5000)
    yield does(second, "link", "first", "d/second")
    yield does(first, "link", "d/second", "third")
    yield writes(second, "third", 100, 4950)
    yield looks(first)
    yield does(first, "link", "d", "e")
    yield does(first, "link", "first", "third")
    yield does(first, "unlink", "first")
    yield does(second, "truncate", "d/second", size=77)
    yield looks(first)
    yield does(second, "rename", "third", "d/fourth")
    yield does(second, "symlink", "../nowhere/ü", "d/soft")
    yield does(second, "symlink", "d", "soft")
    yield does(first, "symlink", "d", "soft")
    yield does(first, "rename", "d/soft", "hard")
    yield does(first, "unlink", "d/second")
    yield looks(first)
    yield looks(second)


def renames(first: str, second: str, _rng: Random) -> Iterator[Step]:
    """Renames of files and directories, also onto existing ones, and renames that must be refused."""
    for path in ("a", "b", "a/deep", "full"):
        yield does(first, "mkdir", path)
    for path in ("a/f", "a/deep/f", "b/g", "full/h"):
        yield writes(first, path, len(path))
    yield looks(second)
    for side, path, to in (
        *((second, "a/f", "b/f"), (first, "b/f", "b/g"), (first, "a/f", "b/x"), (second, "a/deep", "b/deep")),
        *((second, "b", "full"), (first, "b", "b/deep/b"), (second, "b/g", "a"), (first, "b", "b/g")),
        *((first, "b", "a"), (second, "a/deep/f", "a/deep/f"), (second, "full", "a/deep/full")),
        (first, "a/deep", "deep"),
    ):
        yield does(side, "rename", path, to)
        yield looks(second if side == first else first)


def locks(first: str, second: str, _rng: Random) -> Iterator[Step]:
    """Locks on whole files (flock) and on ranges (fcntl), without waiting. Owners below 10 are on the first client."""
    yield writes(first, "f", 100)
    for side, kind, owner in (
        *((first, EXCLUSIVE, 1), (second, EXCLUSIVE, 11), (second, SHARED, 11), (first, NONE, 1), (second, SHARED, 11)),
        *((first, SHARED, 1), (first, EXCLUSIVE, 2), (second, NONE, 11), (first, EXCLUSIVE, 2), (first, EXCLUSIVE, 1)),
        *((first, NONE, 1), (second, EXCLUSIVE, 11), (first, SHARED, 1)),
    ):
        yield does(side, "flock", "f", kind=kind, owner=owner)
    for side, kind, owner, start, length in (
        *((first, EXCLUSIVE, 1, 0, 10), (second, EXCLUSIVE, 11, 10, 10), (second, SHARED, 12, 5, 2)),
        *((first, SHARED, 2, 20, 10), (second, SHARED, 12, 15, 10), (second, SHARED, 12, 25, 10)),
        *((first, EXCLUSIVE, 3, 34, 1), (first, EXCLUSIVE, 3, 35, 0), (second, SHARED, 13, 1 << 40, 1)),
        *((first, NONE, 1, 0, 10), (second, EXCLUSIVE, 14, 0, 10), (first, SHARED, 1, 9, 1)),
    ):
        yield does(side, "range", "f", kind=kind, owner=owner, start=start, length=length)


def quotas(first: str, second: str, _rng: Random) -> Iterator[Step]:
    """A write beyond the quota of its directory is refused for either client; a write within it is not."""
    yield does(first, "mkdir", "q")
    yield does(first, "quota", "q", of="bytes", most=OBJECT)
    for side in (second, first):
        yield writes(side, f"q/large-{side}", OBJECT + 1)
        yield writes(side, f"q/small-{side}", 4096)
    yield looks(second)
    yield does(second, "quota", "q", of="bytes", most=0)
    yield writes(second, f"q/large-{first}", OBJECT + 1)
    yield looks(first)


def snapshots(first: str, second: str, _rng: Random) -> Iterator[Step]:
    """The content of a snapshot stays as it was, even if the original is changed or removed."""
    yield does(first, "mkdir", "d")
    yield does(first, "mkdir", "d/below")
    yield writes(first, "d/f", 9000)
    yield writes(second, "d/below/g", OBJECT + 5)
    yield does(first, "snap", "d", "first")
    yield does(second, "snap", "d", "first")
    yield writes(first, "d/f", 100, 4090, seed=8)
    yield does(second, "truncate", "d/below/g", size=OBJECT - 1)
    yield does(second, "setxattr", "d/f", "user.later", seed=1, size=5)
    yield looks(second)
    yield does(second, "snap", "d/below", "ü second")
    yield does(second, "unlink", "d/below/g")
    yield does(first, "rename", "d/f", "d/below/f")
    yield looks(first)
    yield does(first, "rmdir", "d/below")
    yield does(first, "drop", "d/below", "ü second")
    yield looks(second)
    yield does(second, "drop", "d", "first")
    yield looks(first)


TOPICS: dict[str, Topic] = {
    topic.__name__: topic for topic in (contents, names, xattrs, links, renames, locks, quotas, snapshots)
}
