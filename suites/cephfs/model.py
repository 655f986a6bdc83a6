"""A model of a CephFS tree, the expected state after each step: files, links, xattrs, locks, quotas, snapshots."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from cephlab.suites.interop.walks.model import draw_size, overwrite, put_tail
from cephlab.suites.interop.walks.walk import Refused, Unfit, content, told

NAME_BYTES = 255
MOST_BYTES, XATTR_BYTES, SNAPS = 70_000, 5000, ("s1", "s2")
"""Limits of a random walk."""
SHARED, EXCLUSIVE, NONE = "shared", "exclusive", "none"
Held = dict[Hashable, list[tuple[str, int, int]]]
"""Owner -> its locks: (kind, first byte, the byte after the last)."""
Layout = tuple[int, int, int]
"""Stripe unit, stripe count and object size."""


@dataclass
class Inode:
    """A file, a directory (entries is a dict) or a symbolic link (target is a path).

    names: hard links to it. snaps: name -> the tree below as it was. quota_bytes: 0 for none. times: of the last access
    and change, in ns since 1970; None for one that a clock gave. layout: of a file, or of new files in a directory.
    """

    data: bytearray = field(default_factory=bytearray)
    xattrs: dict[str, bytes] = field(default_factory=dict)
    names: int = 1
    entries: dict[str, Inode] | None = None
    target: str | None = None
    snaps: dict[str, dict[str, Any]] = field(default_factory=dict)
    quota_bytes: int = 0
    flocks: Held = field(default_factory=dict)
    ranges: Held = field(default_factory=dict)
    mode: int = 0o644
    owner: tuple[int, int] = (0, 0)
    times: list[int | None] = field(default_factory=lambda: [None, None])
    layout: Layout | None = None

    @property
    def within(self) -> dict[str, Inode]:
        """Its entries; Refused with ENOTDIR if it is no directory."""
        if self.entries is None:
            raise Refused("ENOTDIR")
        return self.entries

    def told(self, whole: bool) -> dict[str, Any]:
        """Its state, as a look reports it. whole: with owner, times, mode and layout."""
        more: dict[str, Any] = {"owner": self.owner, "times": list(self.times)} if whole else {}
        if self.target is not None:
            return {"is": "link", "to": self.target, **more}
        more |= {"mode": self.mode, "layout": self.layout} if whole else {}
        more |= {"xattrs": {name: told(value) for name, value in self.xattrs.items()}}
        if self.entries is not None:
            return {"is": "directory", **more}
        return {"is": "file", "names": self.names, "now": told(self.data), **more}

    def tree(self, path: str = "") -> Iterator[tuple[str, Inode]]:
        """Everything below it: (path, inode)."""
        for name, inode in (self.entries or {}).items():
            yield path + name, inode
            yield from inode.tree(f"{path}{name}/")

    def tree_with_itself(self) -> Iterator[tuple[str, Inode]]:
        """As `tree`, and itself under an empty path."""
        yield "", self
        yield from self.tree()

    def bytes(self) -> int:
        """Bytes of all files below it."""
        return sum(len(inode.data) for _, inode in self.tree())


class FsModel:
    """A tree below one directory, initially empty. names: names that a random walk uses for new entries.

    whole: whether looks tell owners, times, modes and layouts.
    """

    side = ""
    whole = False

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.names = names
        self.root = Inode(entries={}, mode=0o755)
        self.looking: dict[str, Any] = {"whole": True} if self.whole else {}

    def draw(self, rng: Random) -> tuple[str, dict[str, Any]]:
        tree = dict(self.root.tree())
        places = ["", *(f"{path}/" for path, inode in tree.items() if inode.entries is not None and "/" not in path)]
        new, to = (rng.choice(places) + rng.choice(self.names) for _ in range(2))
        there = rng.choice([*tree, new])
        piece = {"path": rng.choice((there, new)), "seed": rng.randrange(1 << 16), "size": draw_size(rng, MOST_BYTES)}
        named = {"path": there, "name": f"user.{rng.randrange(3)}"}
        snap = {"path": rng.choice(places).rstrip("/"), "snap": rng.choice(SNAPS)}
        steps: list[tuple[str, dict[str, Any]]] = [
            *[("write", {**piece, "offset": draw_size(rng, MOST_BYTES)})] * 4,
            ("read", {"path": there, "offset": draw_size(rng, MOST_BYTES), "size": MOST_BYTES}),
            ("truncate", {"path": there, "size": draw_size(rng, MOST_BYTES)}),
            *[("mkdir", {"path": new})] * 2,
            *[("rename", {"path": there, "to": rng.choice((to, rng.choice([*tree, to])))})] * 4,
            *[("link", {"path": there, "to": to})] * 2,
            ("symlink", {"target": there, "path": new}),
            ("unlink", {"path": there}),
            ("rmdir", {"path": there}),
            ("setxattr", {**named, "seed": piece["seed"], "size": draw_size(rng, XATTR_BYTES)}),
            ("removexattr", named),
            ("snap", snap),
            ("drop", snap),
        ]
        return rng.choice(steps)

    def at(self, path: str) -> Inode:
        """The inode of a path; Refused with ENOENT. Unfit if the path goes through a file or a symbolic link."""
        inode = self.root
        for name in filter(None, path.split("/")):
            if name not in entries_of(inode):
                raise Refused("ENOENT")
            inode = inode.within[name]
        return inode

    def place(self, path: str) -> tuple[Inode, str]:
        """The directory of a path, and the name in it."""
        above, _, name = path.rpartition("/")
        if len(name.encode()) > NAME_BYTES:
            raise Refused("ENAMETOOLONG")
        directory = self.at(above)
        _ = entries_of(directory)
        return directory, name

    def free(self, path: str) -> tuple[Inode, str]:
        """As `place`; Refused with EEXIST if the name is taken."""
        directory, name = self.place(path)
        if name in directory.within:
            raise Refused("EEXIST")
        return directory, name

    def file(self, path: str) -> Inode:
        inode = self.at(path)
        if inode.target is not None:
            raise Unfit  # it would be followed
        if inode.entries is not None:
            raise Refused("EISDIR")
        return inode

    def plain(self, path: str) -> Inode:
        """A file or a directory."""
        inode = self.at(path)
        if inode.target is not None:
            raise Unfit
        return inode

    def do_write(self, path: str, seed: int, size: int, offset: int) -> None:
        directory, name = self.place(path)
        there = self.file(path) if name in directory.within else directory.within.setdefault(name, Inode())
        more = max(0, offset + size - len(there.data))
        if directory.quota_bytes and more and directory.bytes() + more > directory.quota_bytes:
            raise Refused("EDQUOT")  # but the file exists now
        if size:
            overwrite(there.data, offset, content(seed, size))

    def do_read(self, path: str, offset: int, size: int) -> str:
        return told(self.file(path).data[offset : offset + size])

    def do_truncate(self, path: str, size: int) -> None:
        put_tail(self.file(path).data, size)

    def do_mkdir(self, path: str) -> None:
        directory, name = self.free(path)
        directory.within[name] = Inode(entries={}, mode=0o755)

    def do_rmdir(self, path: str) -> None:
        directory, name = self.place(path)
        there = self.at(path)
        if there.within or there.snaps:
            raise Refused("ENOTEMPTY")
        del directory.within[name]

    def do_unlink(self, path: str) -> None:
        directory, name = self.place(path)
        there = self.at(path)
        if there.entries is not None:
            raise Refused("EISDIR")
        there.names -= 1
        del directory.within[name]

    def do_link(self, path: str, to: str) -> None:
        there = self.at(path)
        if there.target is not None:
            raise Unfit  # it would be followed
        if there.entries is not None:
            try:
                self.free(to)
            except Refused:
                raise Unfit from None  # it is not specified which of two errors is reported
            raise Refused("EPERM")
        directory, name = self.free(to)
        there.names += 1
        directory.within[name] = there

    def do_symlink(self, target: str, path: str) -> None:
        directory, name = self.free(path)
        directory.within[name] = Inode(target=target)

    def do_rename(self, path: str, to: str) -> None:
        """POSIX: renaming one name of a file to another name of the same file changes nothing.

        Walks leave this case out: a client of Ceph 18.2.7 forgets one of the names (docs/track-record.md).
        """
        source, name = self.place(path)
        moved = self.at(path)
        directory, new = self.place(to)
        if moved.entries is not None and f"{to}/".startswith(f"{path}/") and to != path:
            raise Refused("EINVAL")
        there = directory.within.get(new)
        if there is moved and (directory is not source or name != new):
            raise Unfit
        if there is moved:
            return
        if there is not None:
            if moved.entries is None and there.entries is not None:
                raise Refused("EISDIR")
            if moved.entries is not None and (there.within or there.snaps):
                raise Refused("ENOTEMPTY")
            there.names -= 1
        del source.within[name]
        directory.within[new] = moved

    def do_setxattr(self, path: str, name: str, seed: int, size: int) -> None:
        self.plain(path).xattrs[name] = content(seed, size)

    def do_removexattr(self, path: str, name: str) -> None:
        if self.plain(path).xattrs.pop(name, None) is None:
            raise Refused("ENODATA")

    def do_snap(self, path: str, snap: str) -> None:
        there = self.at(path)
        if there.entries is None:
            raise Unfit  # it is not specified how that is refused
        if snap in there.snaps:
            raise Refused("EEXIST")
        there.snaps[snap] = {below: inode.told(self.whole) for below, inode in there.tree()}

    def do_drop(self, path: str, snap: str) -> None:
        """Unfit for a snapshot that is not there: the client could not unmount (`libcephfs-unmount-waits`)."""
        there = self.at(path)
        if there.entries is None or there.snaps.pop(snap, None) is None:
            raise Unfit

    def do_quota(self, path: str, of: str, most: int) -> None:
        if of != "bytes":
            raise Unfit
        self.at(path).quota_bytes = most

    def do_pin(self, path: str, rank: int) -> None:
        """A pin changes nothing that a client sees. rank: of an active server."""
        _ = self.at(path).within, rank

    def do_flock(self, path: str, kind: str, owner: int) -> None:
        lock(self.file(path).flocks, owner, kind, 0, 1)

    def do_range(self, path: str, kind: str, start: int, length: int, owner: int) -> None:
        """length: 0 for up to the largest file size."""
        lock(self.file(path).ranges, owner, kind, start, start + length if length else 1 << 63)

    def do_look(self, **_looking: Any) -> Any:
        tree_below = {}
        for path, inode in self.root.tree_with_itself():
            if path:
                tree_below[path] = inode.told(self.whole)
            below = f"{path}/" if path else ""
            for snap, tree in inode.snaps.items():
                tree_below[f"{below}.snap/{snap}"] = {"is": "snapshot"}
                tree_below |= {f"{below}.snap/{snap}/{name}": what for name, what in tree.items()}
        return tree_below


def entries_of(inode: Inode) -> dict[str, Inode]:
    """The entries of a component of a path. Unfit if it is no directory."""
    if inode.entries is None:
        raise Unfit  # a link would be followed; for a file it is not specified whether ENOTDIR or EACCES is reported
    return inode.entries


def lock(held: Held, owner: Hashable, kind: str, first: int, end: int) -> None:
    """Take or release a lock; Refused with EAGAIN if it conflicts with a lock of another owner.

    It replaces what the owner has of that range.
    """
    others = [other for holder, locks in held.items() if holder != owner for other in locks]
    overlapping = [other for other, begin, until in others if begin < end and first < until]
    if kind != NONE and any(EXCLUSIVE in (kind, other) for other in overlapping):
        raise Refused("EAGAIN")
    kept = []
    for other, begin, until in held.get(owner, []):
        parts = ((begin, min(until, first)), (max(begin, end), until))
        kept += [(other, low, high) for low, high in parts if low < high]
    held[owner] = kept if kind == NONE else [*kept, (kind, first, end)]
