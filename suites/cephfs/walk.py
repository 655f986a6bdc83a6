"""A random walk over CephFS: clients of both architectures, with files that they keep open, compared with a model."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.suites.cephfs.model import (
    EXCLUSIVE,
    MOST_BYTES,
    NAME_BYTES,
    NONE,
    SHARED,
    SNAPS,
    FsModel,
    Inode,
    Layout,
    lock,
)
from cephlab.suites.cephfs.stand import EXPECTED, PAIR, wait_active
from cephlab.suites.cephfs.topics import NAMES
from cephlab.suites.interop import edges
from cephlab.suites.interop.walks.model import draw_size, overwrite, put_tail
from cephlab.suites.interop.walks.scenarios import clients, take_walk
from cephlab.suites.interop.walks.walk import Refused, Unfit, content, told

STRIPE = 65536
"""The smallest stripe unit that CephFS accepts."""
FAR_BYTES = 6 * STRIPE
"""The largest offset."""
SLOTS = 3
"""Files that a side can keep open at the same time."""
OWNERS = (1, 2)
"""Owners of locked ranges, for each side."""
DEFAULT_LAYOUT = (4 << 20, 1, 4 << 20)
END = -1
"""The offset that stands for the end of a file that was opened for appending."""
O_EXCL, O_TRUNC = 0o200, 0o1000
XATTR_CREATE, XATTR_REPLACE = 1, 2
OLDEST_NS, NEWEST_NS = 0, (1 << 30) * 10**9 - 1
"""Times that a walk sets. They are before 2004, so that a look can distinguish them from times that a clock gave."""

Drawn = tuple[str, dict[str, Any]]


@dataclass
class Handle:
    """A file that a side keeps open. append: whether it writes at the end."""

    inode: Inode
    append: bool


class WalkModel(FsModel):
    """The model for random walks, without the steps that libcephfs is known to get wrong, as the suite `defects` shows.

    libcephfs hangs after a rename that must be refused (`libcephfs-rename-waits`) and on a read of a directory
    (`libcephfs-directory-waits`). It truncates directories (`libcephfs-directory-truncated`). It does not find a file
    of which a rename replaced another name (`libcephfs-rename-hides`), nor what was renamed onto its own name
    (`libcephfs-rename-forgets`). A write to a directory is refused at open, so walks include it. The fixed steps of the
    topics include refused renames, but never use those names again. A file that truncate makes longer gets a wrong time
    (`libcephfs-truncate-time`), so walks set one afterwards. They set no times of files that are open, because those do
    not stay (`libcephfs-times-lost`).
    """

    whole = True

    def __init__(self, names: list[str]) -> None:
        super().__init__(names)
        self.handles: dict[tuple[str, int], Handle] = {}
        self.ranged: list[Inode] = []

    def draw(self, rng: Random) -> Drawn:
        if rng.random() < 0.4:
            return super().draw(rng)
        tree = dict(self.root.tree())
        there = rng.choice([*tree, rng.choice(self.names)])
        piece = {"seed": rng.randrange(1 << 16), "size": draw_size(rng, MOST_BYTES)}
        place = {"offset": draw_place(rng), "size": piece["size"]}
        resize = {"size": draw_place(rng), "mtime": rng.choice((None, rng.randrange(NEWEST_NS // 10**9)))}
        slot = {"slot": rng.randrange(SLOTS)}
        handle = self.handles.get((self.side, slot["slot"]))
        appends = handle is not None and handle.append
        kind = {"kind": rng.choice((SHARED, EXCLUSIVE, NONE))}
        range_of = {**kind, "start": rng.randrange(8), "length": rng.randrange(8), "owner": rng.choice(OWNERS)}
        units = rng.choice((1, 2)), rng.choice((1, 2, 3))
        layout = {"unit": STRIPE * units[0], "count": units[1], "object_size": STRIPE * units[0] * rng.choice((1, 2))}
        new = rng.choice(["", *(f"{path}/" for path, inode in tree.items() if inode.entries is not None)])
        times = {name: rng.randint(OLDEST_NS, NEWEST_NS) for name in ("atime", "mtime")}
        named = {"path": there, "name": f"user.{rng.randrange(3)}", "flags": rng.choice((XATTR_CREATE, XATTR_REPLACE))}
        steps: list[Drawn] = [
            *[("open", {"path": there, "append": rng.random() < 0.3, **slot})] * 3,
            *[("put", {**slot, **piece, "offset": END if appends else draw_place(rng)})] * 5,
            *[("get", {**slot, **place})] * 2,
            ("cut", {**slot, "size": resize["size"]}),
            ("sync", slot),
            ("about", slot),
            ("shut", slot),
            *[("lock", {**slot, **kind})] * 2,
            *[("punch", {"path": there, **place})] * 2,
            ("append", {"path": there, **piece}),
            *[("truncate", {"path": there, **resize})] * 2,
            ("write", {"path": there, **piece, "offset": draw_place(rng), "flags": rng.choice((0, O_TRUNC, O_EXCL))}),
            ("read", {"path": there, **place}),
            *[("create", {"path": new + rng.choice(self.names), **layout})] * 2,
            ("lay", {"path": there, **layout}),
            ("chmod", {"path": there, "mode": rng.randrange(0o1000)}),
            ("chown", {"path": there, "uid": rng.randrange(1 << 31), "gid": rng.randrange(1 << 31)}),
            *[("utimes", {"path": there, **times})] * 2,
            ("setxattr", {**named, "seed": piece["seed"], "size": 9}),
            ("rename_snap", {"path": new.rstrip("/"), "snap": rng.choice(SNAPS), "to": rng.choice(SNAPS)}),
            ("list", {"path": new.rstrip("/"), "at": rng.randrange(8)}),
            *[("range", {"path": there, **range_of})] * 2,
        ]
        return rng.choice(steps)

    # What steps change besides what is asked for

    def changed(self, *paths: str) -> None:
        """A clock gave the directories of these paths their time of change."""
        for path in paths:
            self.at(path.rpartition("/")[0]).times[1] = None

    def layout_for(self, path: str) -> Layout:
        """The layout of a new file: that of the nearest directory that has one."""
        above = path.rpartition("/")[0]
        return self.at(above).layout or (self.layout_for(above) if above else DEFAULT_LAYOUT)

    def made(self, path: str) -> None:
        """A file may be new."""
        inode = self.at(path)
        if inode.layout is None:
            inode.layout = self.layout_for(path)
            self.changed(path)

    def do_mkdir(self, path: str) -> None:
        super().do_mkdir(path)
        self.changed(path)

    def do_symlink(self, target: str, path: str) -> None:
        super().do_symlink(target, path)
        self.changed(path)

    def do_rmdir(self, path: str) -> None:
        super().do_rmdir(path)
        self.changed(path)

    def do_unlink(self, path: str) -> None:
        super().do_unlink(path)
        self.changed(path)

    def do_link(self, path: str, to: str) -> None:
        super().do_link(path, to)
        self.changed(to)

    def do_rename(self, path: str, to: str) -> None:
        try:
            directory, name = self.place(to)
            replaced = directory.within.get(name)
            if replaced is not None and (replaced.names > 1 or replaced is self.at(path)):
                raise Unfit
            super().do_rename(path, to)
        except Refused:
            raise Unfit from None
        self.changed(path, to)

    # Files by their path

    def do_write(self, path: str, seed: int, size: int, offset: int, flags: int = 0) -> None:
        directory, name = self.place(path)
        there = directory.within.get(name)
        if there and flags & O_EXCL:
            raise Refused("EEXIST")
        super().do_write(path, seed, size=0, offset=0)
        self.made(path)
        if flags & O_TRUNC:
            self.at(path).data.clear()
            self.at(path).times[1] = None
        written(self.at(path), seed, size, offset)

    def do_append(self, path: str, seed: int, size: int) -> None:
        super().do_write(path, seed, size=0, offset=0)
        self.made(path)
        written(self.at(path), seed, size, len(self.at(path).data))

    def do_read(self, path: str, offset: int, size: int) -> str:
        if self.at(path).entries is not None:
            raise Unfit
        return super().do_read(path, offset, size)

    def do_truncate(self, path: str, size: int, mtime: int | None = None) -> None:
        if self.at(path).entries is not None:
            raise Unfit
        self.resized(self.file(path), size, mtime)

    def resized(self, inode: Inode, size: int, mtime: int | None = None) -> None:
        """mtime: in seconds, to be set afterwards."""
        if mtime is not None:
            self.closed(inode)
        elif size >= len(inode.data):
            raise Unfit
        put_tail(inode.data, size)
        inode.times[1] = None if mtime is None else mtime * 10**9

    def do_punch(self, path: str, offset: int, size: int) -> None:
        """Write zeros, but not beyond the end of the file."""
        inode = self.file(path)
        if not size:
            raise Unfit
        end = min(offset + size, len(inode.data))
        inode.data[offset:end] = bytes(max(0, end - offset))
        inode.times[1] = None

    def do_create(self, path: str, unit: int, count: int, object_size: int) -> None:
        """A new file with a layout of its own."""
        layout = laid(unit, count, object_size)
        self.free(path)
        super().do_write(path, seed=0, size=0, offset=0)
        self.made(path)
        self.at(path).layout = layout

    def do_lay(self, path: str, unit: int, count: int, object_size: int) -> None:
        """Give new files in a directory a layout."""
        inode = self.at(path)
        if inode.entries is None:
            raise Unfit
        inode.layout = laid(unit, count, object_size)

    def do_chmod(self, path: str, mode: int) -> None:
        self.plain(path).mode = mode

    def do_chown(self, path: str, uid: int, gid: int) -> None:
        self.at(path).owner = uid, gid

    def do_utimes(self, path: str, atime: int, mtime: int) -> None:
        self.closed(self.at(path))
        self.at(path).times = [atime, mtime]

    def do_setxattr(self, path: str, name: str, seed: int, size: int, flags: int = 0) -> None:
        there = name in self.plain(path).xattrs
        if flags & XATTR_CREATE and there:
            raise Refused("EEXIST")
        if flags & XATTR_REPLACE and not there:
            raise Refused("ENODATA")
        super().do_setxattr(path, name, seed, size)

    def do_list(self, path: str, at: int) -> list[Any]:
        """Its names, and how many are left for a reader that goes on at a place that it was told."""
        within = self.at(path).entries
        if within is None:
            raise Unfit
        return [sorted(within), max(0, len(within) - at)]

    # Files that a side keeps open

    def closed(self, inode: Inode) -> None:
        """Unfit for a file that is open: its times do not stay what they are set to (`libcephfs-times-lost`)."""
        if any(inode is other for other in (*self.ranged, *(handle.inode for handle in self.handles.values()))):
            raise Unfit

    def handle(self, slot: int) -> Handle:
        if (self.side, slot) not in self.handles:
            raise Unfit
        return self.handles[self.side, slot]

    def do_open(self, path: str, slot: int, *, append: bool) -> None:
        inode = self.file(path)
        if (self.side, slot) in self.handles:
            raise Unfit
        self.handles[self.side, slot] = Handle(inode, append)

    def do_put(self, slot: int, seed: int, size: int, offset: int) -> None:
        """Write, and do not sync: others must see it all the same."""
        handle = self.handle(slot)
        if not size or (offset == END) != handle.append:
            raise Unfit
        written(handle.inode, seed, size, len(handle.inode.data) if handle.append else offset)

    def do_get(self, slot: int, offset: int, size: int) -> str:
        return told(self.handle(slot).inode.data[offset : offset + size])

    def do_cut(self, slot: int, size: int) -> None:
        self.resized(self.handle(slot).inode, size)

    def do_sync(self, slot: int) -> None:
        _ = self.handle(slot)

    def do_about(self, slot: int) -> list[int]:
        """Size, and number of names, which is 0 for a file that is no longer in the tree."""
        inode = self.handle(slot).inode
        return [len(inode.data), inode.names]

    def do_lock(self, slot: int, kind: str) -> None:
        lock(self.handle(slot).inode.flocks, (self.side, slot), kind, 0, 1)

    def do_shut(self, slot: int) -> None:
        """Close a file, which releases its lock."""
        handle = self.handle(slot)
        lock(handle.inode.flocks, (self.side, slot), NONE, 0, 1)
        del self.handles[self.side, slot]

    def do_range(self, path: str, kind: str, start: int, length: int, owner: int) -> None:
        inode = self.file(path)
        self.ranged.append(inode)
        lock(inode.ranges, (self.side, owner), kind, start, start + length if length else 1 << 63)

    # Snapshots

    def do_snap(self, path: str, snap: str) -> None:
        """What another client has not synced may miss a snapshot or come into it late, so none is made then."""
        below = [inode for _, inode in self.at(path).tree()]
        if any(side != self.side and handle.inode in below for (side, _), handle in self.handles.items()):
            raise Unfit
        super().do_snap(path, snap)

    def do_rename_snap(self, path: str, snap: str, to: str) -> None:
        snaps = self.at(path).snaps
        if snap not in snaps or to in snaps:
            raise Unfit
        snaps[to] = snaps.pop(snap)


def laid(unit: int, count: int, object_size: int) -> Layout:
    if unit <= 0 or unit % STRIPE or not count or object_size <= 0 or object_size % unit:
        raise Unfit
    return unit, count, object_size


def written(inode: Inode, seed: int, size: int, offset: int) -> None:
    if size:
        overwrite(inode.data, offset, content(seed, size))
        inode.times[1] = None


def draw_place(rng: Random) -> int:
    """Draw an offset, half of the time near the border of a stripe unit."""
    if rng.random() < 0.5:
        return max(0, rng.randrange(1 + FAR_BYTES // STRIPE) * STRIPE + rng.randint(-2, 2))
    return rng.randrange(FAR_BYTES)


def walked(stage: Stage) -> None:
    """Run random steps, each through a client of a random architecture."""
    cluster = stage.cluster
    wait_active(cluster)
    sides = clients(cluster, {"name": cluster.client_name})
    take_walk(stage, "cephfs", lambda rng: WalkModel(walk_names(rng)), sides, stage.tier)


def walk_names(rng: Random) -> list[str]:
    """Names for a walk, of any bytes that a name may have. None begins with a dot, so none is the snapshot folder."""
    return [name for name in edges.texts(rng, NAMES, NAME_BYTES, but="/\0") if not name.startswith(".")]


SCENARIOS = (
    Scenario(
        name="cephfs.walk",
        goal="A tree holds what was put there last, whichever architecture wrote it and whichever one reads it.",
        method="Runs random steps, each through a random one of two clients; compares every answer with a model, and "
        "from time to time the whole tree; shortens a walk that fails.",
        run=walked,
        check="witnessed",
        tier=Tier.QUICK,
        sees=("operations of .* through .*", "wrong answers on a walk over .*|walk over .*"),
        topology=PAIR,
        expects=EXPECTED,
    ),
)
