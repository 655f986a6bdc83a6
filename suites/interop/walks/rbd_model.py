"""The model of a walk over RBD: what it does to a few images, and what they and their snapshots must hold."""

from copy import deepcopy
from dataclasses import replace
from random import Random
from typing import Any

from cephlab.suites.interop import edges
from cephlab.suites.interop.walks.model import draw_size, overwrite, put_tail
from cephlab.suites.interop.walks.rbd_groups import Drawn, WantedImage, alone, together
from cephlab.suites.interop.walks.rbd_opened import STREAMING, Opened, Stream
from cephlab.suites.interop.walks.walk import Refused, Unfit, content, told

IMAGES, SNAPS = 4, 3
ORDERS = (12, 13, 16)
"""Objects of 4, 8 and 64 KiB. 12 is the smallest order that librbd allows."""
MOST_BYTES = 160_000
"""Largest size of an image: 40 objects of 4 KiB, or three of 64 KiB."""
IMAGE_NAME_BYTES, SNAP_NAME_BYTES, NOTE_BYTES = 80, 80, 1000
NOTES = 3
"""Most keys of an image's metadata."""
STRIPES = (1, 1, 2, 3)
"""Numbers of objects that data is striped over. 1 is no striping; else a stripe unit is half of an object."""
FEATURES = ("object-map", "journaling")
"""Features that are turned on and off while there is data. With the object map goes fast-diff."""


class RbdModel(Opened):
    """Images of one pool, of which sides keep some open. Snapshots are protected, so that they can be cloned."""

    def __init__(self, rng: Random) -> None:
        self.names = edges.texts(rng, IMAGES, IMAGE_NAME_BYTES, but="/@")
        self.snap_names = edges.texts(rng, 2 * SNAPS, SNAP_NAME_BYTES, but="/@")
        self.keys = [key for key in edges.texts(rng, NOTES, IMAGE_NAME_BYTES) if not key.startswith("conf_")]
        self.images: dict[str, WantedImage] = {}
        self.trash: dict[str, WantedImage] = {}
        self.opened: set[tuple[str, str]] = set()
        self.grown: dict[tuple[str, str], int] = {}
        self.streams: dict[str, Stream] = {}

    def draw(self, rng: Random) -> Drawn:
        if self.streams and rng.random() < STREAMING:
            return rng.choice(self.stream_steps(rng))
        image, to, seed = self.some_image(rng, self.names), rng.choice(self.names), rng.randrange(1 << 16)
        free = [name for name in self.names if name not in self.images]
        if free and rng.random() < 0.8:
            to = rng.choice(free)
        there = self.images.get(image)
        length = len(there.data) if there else MOST_BYTES
        offset = draw_place(rng, length, there.order if there else ORDERS[0])
        size = min(draw_size(rng, length), length - offset)
        snap = rng.choice(self.snap_names)
        snaps = sorted(there.snaps) if there else []
        clones = sorted(name for name, each in self.images.items() if each.parent)
        snap_there, since = (rng.choice(snaps), rng.choice(["", *snaps])) if snaps else (snap, "")
        layout = {"order": rng.choice(ORDERS), "stripes": rng.choice(STRIPES)}
        extent = {"offset": offset, "size": size}
        piece = {"image": image, **extent}
        steps: list[Drawn] = [
            ("create", {"image": image, "size": rng.randrange(MOST_BYTES), **layout}),
            *[("write", {**piece, "seed": seed})] * 3,
            *[("discard", piece), ("write_zeroes", piece)] * 2,
            ("resize", {"image": image, "size": draw_place(rng, MOST_BYTES, ORDERS[0])}),
            *[("snap", {"image": image, "snap": snap})] * 2,
            ("rollback", {"image": image, "snap": snap_there}),
            ("drop", {"image": image, "snap": snap_there}),
            *[("clone", {"image": image, "snap": snap_there, "to": to, **layout})] * 2,
            *[("flatten", {"image": rng.choice(clones or [image])})] * 2,
            ("read", piece),
            ("rename", {"image": image, "to": to}),
            ("remove", {"image": image}),
            *[("carry", {"image": image, "since": since, "snap": snap_there, "to": to})] * 2,
            *self._further(rng, image, to, snap, extent, layout),
            *self.group_steps(rng, image, snap),
            *self.open_steps(rng, image, offset),
        ]
        return rng.choice(steps)

    def _further(
        self, rng: Random, image: str, to: str, snap: str, extent: dict[str, int], layout: dict[str, int]
    ) -> list[Drawn]:
        there = self.images.get(image)
        snaps = sorted(there.snaps) if there else []
        at, since = rng.choice(["", *snaps]), rng.choice(["", *snaps])
        feature = {"image": image, "feature": rng.choice(FEATURES), "on": rng.random() < 0.5}
        trashed = rng.choice(sorted(self.trash)) if self.trash else image
        moved: list[Drawn] = [("migrate", {"image": image, "to": to, **layout})] * 2
        if there and there.source:
            moved = [("commit", {"image": image})] * 4 + [("abort", {"image": image})] * 2
        return [
            *moved,
            *[("deep_copy", {"image": image, "to": to, **layout})] * 2,
            *[("differ", {"image": image, "since": since, "at": at, "whole": rng.random() < 0.5, **extent})] * 2,
            ("read_at", {"image": image, "snap": at, **extent}),
            ("sparsify", {"image": image, "size": 1 << rng.randint(12, 16)}),
            ("feature", feature),
            ("rebuild", {"image": image}),
            ("rename_snap", {"image": image, "snap": at, "to": snap}),
            *[("note", {"image": image, "key": rng.choice(self.keys), "text": edges.texts(rng, 1, NOTE_BYTES)[0]})] * 2,
            ("drop_note", {"image": image, "key": rng.choice(self.keys)}),
            ("seize", {"image": image, "seed": rng.randrange(1 << 16), **extent}),
            ("shelve", {"image": image}),
            *[("restore", {"image": trashed, "to": rng.choice((trashed, to))})] * 2,
        ]

    def _there(self, image: str) -> WantedImage:
        self._still(image)
        if image not in self.images:
            raise Unfit
        return self.images[image]

    def _free(self, to: str) -> None:
        if to in self.images:
            raise Refused("EEXIST")
        if to in self.trash or any(image.source and image.source[0] == to for image in self.images.values()):
            raise Unfit  # an image may return to that name

    def _renamed(self, image: str, to: str) -> None:
        """Let the children of an image know its new name."""
        for child in (*self.images.values(), *self.trash.values()):
            if child.parent and child.parent[0] == image:
                child.parent = (to, child.parent[1])

    def _within(self, image: str, offset: int, size: int) -> bytearray:
        data = self._there(image).data
        if not size or offset + size > len(data):
            raise Unfit
        self._reach(image, offset + size)
        return data

    def _snapped(self, image: str, snap: str) -> bytes:
        snaps = self._there(image).snaps
        if snap not in snaps:
            raise Unfit
        return snaps[snap]

    def _children(self, image: str, snap: str) -> list[str]:
        images = (*self.images.items(), *self.trash.items())
        return [name for name, child in images if child.parent == (image, snap)]

    def _relative_moves(self, image: str, there: WantedImage) -> bool:
        """Whether its parent or a child of it is being migrated: librbd-migration-undo-crashes in known.toml."""
        parent = there.parent and self.images.get(there.parent[0])
        children = [child for child in self.images.values() if child.parent and child.parent[0] == image]
        return any(relative.source for relative in (*children, *([parent] if parent else [])))

    def _inherits(self, there: WantedImage) -> bool:
        """Whether its parent has metadata that it does not have: librbd-copy-inherits-metadata in known.toml."""
        parent = there.parent and (self.images.get(there.parent[0]) or self.trash[there.parent[0]])
        return bool(parent and set(parent.notes) - set(there.notes))

    def do_create(self, image: str, size: int, order: int, stripes: int) -> None:
        if order not in ORDERS or not stripes:
            raise Unfit
        self._free(image)
        self.images[image] = WantedImage(order, bytearray(size), stripes=stripes)

    def do_remove(self, image: str) -> None:
        if image not in self.images:
            raise Refused("ENOENT")
        there = self._settled(image)
        if there.snaps or there.grouped:
            raise Unfit
        if self._is_open(image):
            raise Refused("EBUSY")
        del self.images[image]

    def do_rename(self, image: str, to: str) -> None:
        there = self._closed(image)
        self._free(to)
        self.images[to] = there
        del self.images[image]
        self._renamed(image, to)

    def do_write(self, image: str, seed: int, size: int, offset: int) -> None:
        overwrite(self._within(image, offset, size), offset, content(seed, size))

    def do_discard(self, image: str, offset: int, size: int) -> None:
        overwrite(self._within(image, offset, size), offset, bytes(size))
        self.images[image].zeroed = True

    do_write_zeroes = do_discard

    def do_resize(self, image: str, size: int) -> None:
        there = self._there(image)
        if there.source and there.cut and size > len(there.data):
            raise Unfit  # known to be wrong: librbd-resize-migrating in suites/defects/known.toml
        there.cut |= size < len(there.data)
        self._resized(image, len(there.data), but=self.side)
        put_tail(there.data, size)

    def do_snap(self, image: str, snap: str) -> None:
        there = self._settled(image)  # known to be wrong: librbd-differences-migrating in suites/defects/known.toml
        if snap in there.snaps:
            raise Refused("EEXIST")
        if len(there.snaps) == SNAPS:
            raise Unfit
        there.snaps[snap] = bytes(there.data)
        there.unmapped_at[alone(snap)] = there.unmapped

    def do_drop(self, image: str, snap: str) -> None:
        self._settled(image)
        self._snapped(image, snap)
        if self._children(image, snap):
            raise Refused("EBUSY")
        del self.images[image].snaps[snap]
        self.images[image].forget(alone(snap))

    def do_rollback(self, image: str, snap: str) -> None:
        snapped = self._snapped(image, snap)
        self._mine(image)
        self._settled(image)  # known to be wrong: librbd-rollback-migrating in suites/defects/known.toml
        self.images[image].data[:] = snapped

    def do_clone(self, image: str, snap: str, to: str, order: int, stripes: int) -> None:
        self._settled(image)
        snapped = self._snapped(image, snap)
        if not snapped or order not in ORDERS or not stripes:
            raise Unfit
        self._free(to)
        notes = dict(self.images[image].notes)
        self.images[to] = WantedImage(order, bytearray(snapped), (image, snap), stripes=stripes, notes=notes)

    def do_flatten(self, image: str) -> None:
        there = self._settled(image)
        if there.parent is None:
            raise Unfit
        there.parent = None

    def do_read(self, image: str, offset: int, size: int) -> str:
        return told(self._within(image, offset, size)[offset : offset + size])

    def do_carry(self, image: str, since: str, snap: str, to: str) -> None:
        """Make a new image from diffs: first a full diff to the earlier snapshot, then the diff to the later one."""
        wanted = self._snapped(image, snap)
        snaps = list(self.images[image].snaps)
        if since and (since not in snaps or snaps.index(since) >= snaps.index(snap)):
            raise Unfit
        self._listed_since(image, since)
        self._free(to)
        self.images[to] = WantedImage(self.images[image].order, bytearray(wanted))

    def do_deep_copy(self, image: str, to: str, order: int, stripes: int) -> None:
        """Copy an image with its snapshots. A copy of a clone is a clone too."""
        there = self._settled(image)
        if order not in ORDERS or not stripes or self._inherits(there):
            raise Unfit
        if (self.side, image) in self.opened:
            raise Unfit  # known to be wrong: librbd-copy-outdated in suites/defects/known.toml
        self._free(to)
        maps = dict.fromkeys(map(alone, there.snaps), False)
        own: dict[str, Any] = {"grouped": False, "group_snaps": {}, "unmapped": False, "unmapped_at": maps}
        self.images[to] = replace(deepcopy(there), order=order, stripes=stripes, **own)

    def do_read_at(self, image: str, snap: str, offset: int, size: int) -> str:
        return told(self._part(self._snapped(image, snap), offset, size))

    def do_differ(self, image: str, since: str, at: str, offset: int, size: int, *, whole: bool) -> str:
        """Apply the differences in one place to what was there at `since`. at: a later snapshot; empty: now.

        whole: whether whole objects are reported, by the object map if there is one.
        """
        there = self._there(image)
        snaps = list(there.snaps)
        if {since, at} - {"", *snaps} or (since and at and snaps.index(since) >= snaps.index(at)):
            raise Unfit
        if since and (self.side, image) in self.opened:
            raise Unfit  # it may not know the snapshot, as a copy does not: librbd-copy-outdated
        self._listed_since(image, since)
        return told(self._part(there.snaps[at] if at else there.data, offset, size))

    def _listed_since(self, image: str, since: str) -> None:
        """Unfit where librbd lists no differences: librbd-incremental-migrating in suites/defects/known.toml."""
        if since:
            self._settled(image)

    def _part(self, data: bytes | bytearray, offset: int, size: int) -> bytes:
        if not size or offset + size > len(data):
            raise Unfit
        return bytes(data[offset : offset + size])

    def do_sparsify(self, image: str, size: int) -> None:
        """Give up zeros in pieces of `size`. The content stays."""
        if size not in (1 << order for order in range(12, self._settled(image).order + 1)):
            raise Unfit

    def do_feature(self, image: str, feature: str, *, on: bool) -> None:
        there = self._settled(image)
        if (feature in there.features) == on:
            raise Unfit
        there.features.symmetric_difference_update({feature})
        if feature == "object-map":
            there.turn_map(on=on)

    def do_rebuild(self, image: str) -> None:
        """Rebuild the object map. The content stays."""
        there = self._settled(image)
        if "object-map" not in there.features:
            raise Unfit
        there.unmapped = False

    def do_rename_snap(self, image: str, snap: str, to: str) -> None:
        there = self._settled(image)
        self._snapped(image, snap)
        if to in there.snaps:
            raise Refused("EEXIST")
        there.rename(snap, to)
        for name in self._children(image, snap):
            (self.images.get(name) or self.trash[name]).parent = (image, to)

    def do_shelve(self, image: str) -> None:
        """Move an image to the trash. Its clones stay."""
        if self._closed(image).grouped:
            raise Unfit
        self.trash[image] = self.images[image]
        del self.images[image]

    def do_restore(self, image: str, to: str) -> None:
        if image not in self.trash:
            raise Unfit
        if to != image:
            self._free(to)
        self.images[to] = self.trash.pop(image)
        self._renamed(image, to)

    def do_migrate(self, image: str, to: str, order: int, stripes: int) -> None:
        """Begin to migrate an image to another layout, and perhaps another name. It can be used there at once."""
        there = self._closed(image)
        if order not in ORDERS or not stripes or self._relative_moves(image, there) or self._inherits(there):
            raise Unfit
        if there.group_snaps:
            raise Refused("EBUSY")
        if to != image:
            self._free(to)
        source = (image, deepcopy(there))
        del self.images[image]
        there.turn_map(on=False)
        self.images[to] = replace(there, order=order, stripes=stripes, source=source, zeroed=False, cut=False)
        self._renamed(image, to)

    def do_commit(self, image: str) -> None:
        there = self._there(image)
        if not there.source:
            raise Unfit
        there.source = None

    def do_abort(self, image: str) -> None:
        """Go back to the source's name and layout. Data goes back with it (`Migration::revert_data` in librbd)."""
        there = self._there(image)
        if not there.source:
            raise Unfit
        name, before = there.source
        if (there.snaps, there.notes, len(there.data)) != (before.snaps, before.notes, len(before.data)):
            raise Unfit  # it is not specified what becomes of other sizes, new snapshots and new metadata
        if there.zeroed:
            raise Unfit  # known to be wrong: librbd-abort-restores-zeroed in suites/defects/known.toml
        del self.images[image]
        self.images[name] = replace(before, data=there.data)
        self._renamed(image, name)

    def do_note(self, image: str, key: str, text: str) -> None:
        """Set a key of the image's metadata."""
        self._there(image).notes[key] = text

    def do_drop_note(self, image: str, key: str) -> None:
        if key not in self._there(image).notes:
            raise Unfit
        del self.images[image].notes[key]

    def do_seize(self, image: str, seed: int, size: int, offset: int) -> str:
        """Write after breaking the lock of another client. Answers how a later write of that client ends."""
        self._settled(image)
        self.do_write(image, seed, size, offset)
        return "ESHUTDOWN"

    def do_look(self, **looking: Any) -> Any:
        but = looking["but"]
        self._still(*(image for image in self.images if image not in but))
        self._looked(but)
        return {
            name: {
                "order": image.order,
                "now": told(image.data),
                "parent": list(image.parent) if image.parent else None,
                "notes": image.notes,
                "grouped": image.grouped,
                "unmapped": image.unmapped,
                **{alone(snap): told(data) for snap, data in image.snaps.items()},
                **{together(snap): told(data) for snap, data in image.group_snaps.items()},
            }
            for name, image in self.images.items()
            if name not in but
        }


def draw_place(rng: Random, most: int, order: int) -> int:
    """Draw an offset of at most `most`, half of the time near the border of an object."""
    if rng.random() < 0.5:
        return rng.randint(0, most)
    return max(0, min(most, (rng.randint(0, most >> order) << order) + rng.choice((-1, 0, 1, -512, 512))))
