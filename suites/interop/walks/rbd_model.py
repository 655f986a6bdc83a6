"""The model of a walk over RBD: what it does to a few images, and what they and their snapshots must hold."""

from dataclasses import dataclass, field
from random import Random
from typing import Any

from cephlab.suites.interop import edges
from cephlab.suites.interop.walks.model import draw_size, overwrite, put_tail
from cephlab.suites.interop.walks.walk import Refused, Unfit, content, told

IMAGES, SNAPS = 4, 3
ORDERS = (12, 13, 16)
"""Objects of 4, 8 and 64 KiB. 12 is the smallest order that librbd allows."""
MOST_BYTES = 160_000
"""Largest size of an image: 40 objects of 4 KiB, or three of 64 KiB."""
IMAGE_NAME_BYTES, SNAP_NAME_BYTES = 80, 80


@dataclass
class WantedImage:
    """parent: the image and snapshot that this one was cloned from; snaps: name -> content."""

    order: int
    data: bytearray
    parent: tuple[str, str] | None = None
    snaps: dict[str, bytes] = field(default_factory=dict)


class RbdModel:
    """Images of one pool. Every snapshot is protected, so that it can be cloned."""

    def __init__(self, rng: Random) -> None:
        self.names = edges.texts(rng, IMAGES, IMAGE_NAME_BYTES, but="/@")
        self.snap_names = edges.texts(rng, 2 * SNAPS, SNAP_NAME_BYTES, but="/@")
        self.images: dict[str, WantedImage] = {}
        self.looking: dict[str, Any] = {}

    def draw(self, rng: Random) -> tuple[str, dict[str, Any]]:
        image, to, seed = rng.choice(self.names), rng.choice(self.names), rng.randrange(1 << 16)
        free = [name for name in self.names if name not in self.images]
        if free and rng.random() < 0.8:
            to = rng.choice(free)
        there = self.images.get(image)
        length = len(there.data) if there else MOST_BYTES
        offset = draw_place(rng, length, there.order if there else ORDERS[0])
        size = min(draw_size(rng, length), length - offset)
        snap = rng.choice(self.snap_names)
        snaps = sorted(there.snaps) if there else []
        snap_there, since = (rng.choice(snaps), rng.choice(["", *snaps])) if snaps else (snap, "")
        piece = {"image": image, "offset": offset, "size": size}
        steps: list[tuple[str, dict[str, Any]]] = [
            ("create", {"image": image, "size": rng.randrange(MOST_BYTES), "order": rng.choice(ORDERS)}),
            *[("write", {**piece, "seed": seed})] * 3,
            *[("discard", piece), ("write_zeroes", piece)] * 2,
            ("resize", {"image": image, "size": draw_place(rng, MOST_BYTES, ORDERS[0])}),
            *[("snap", {"image": image, "snap": snap})] * 2,
            ("rollback", {"image": image, "snap": snap_there}),
            ("drop", {"image": image, "snap": snap_there}),
            *[("clone", {"image": image, "snap": snap_there, "to": to})] * 2,
            ("flatten", {"image": image}),
            ("read", piece),
            ("rename", {"image": image, "to": to}),
            ("remove", {"image": image}),
            *[("carry", {"image": image, "since": since, "snap": snap_there, "to": to})] * 2,
        ]
        return rng.choice(steps)

    def _there(self, image: str) -> WantedImage:
        if image not in self.images:
            raise Unfit
        return self.images[image]

    def _within(self, image: str, offset: int, size: int) -> bytearray:
        data = self._there(image).data
        if not size or offset + size > len(data):
            raise Unfit
        return data

    def _snapped(self, image: str, snap: str) -> bytes:
        snaps = self._there(image).snaps
        if snap not in snaps:
            raise Unfit
        return snaps[snap]

    def _children(self, image: str, snap: str) -> list[str]:
        return [name for name, child in self.images.items() if child.parent == (image, snap)]

    def do_create(self, image: str, size: int, order: int) -> None:
        if order not in ORDERS:
            raise Unfit
        if image in self.images:
            raise Refused("EEXIST")
        self.images[image] = WantedImage(order, bytearray(size))

    def do_remove(self, image: str) -> None:
        if image not in self.images:
            raise Refused("ENOENT")
        if self.images[image].snaps:
            raise Unfit
        del self.images[image]

    def do_rename(self, image: str, to: str) -> None:
        there = self._there(image)
        if to in self.images:
            raise Refused("EEXIST")
        self.images[to] = there
        del self.images[image]
        for child in self.images.values():
            if child.parent and child.parent[0] == image:
                child.parent = (to, child.parent[1])

    def do_write(self, image: str, seed: int, size: int, offset: int) -> None:
        overwrite(self._within(image, offset, size), offset, content(seed, size))

    def do_discard(self, image: str, offset: int, size: int) -> None:
        overwrite(self._within(image, offset, size), offset, bytes(size))

    do_write_zeroes = do_discard

    def do_resize(self, image: str, size: int) -> None:
        put_tail(self._there(image).data, size)

    def do_snap(self, image: str, snap: str) -> None:
        there = self._there(image)
        if snap in there.snaps:
            raise Refused("EEXIST")
        if len(there.snaps) == SNAPS:
            raise Unfit
        there.snaps[snap] = bytes(there.data)

    def do_drop(self, image: str, snap: str) -> None:
        self._snapped(image, snap)
        if self._children(image, snap):
            raise Refused("EBUSY")
        del self.images[image].snaps[snap]

    def do_rollback(self, image: str, snap: str) -> None:
        snapped = self._snapped(image, snap)
        self.images[image].data[:] = snapped

    def do_clone(self, image: str, snap: str, to: str) -> None:
        snapped = self._snapped(image, snap)
        if to in self.images:
            raise Refused("EEXIST")
        if not snapped:
            raise Unfit
        self.images[to] = WantedImage(self.images[image].order, bytearray(snapped), (image, snap))

    def do_flatten(self, image: str) -> None:
        there = self._there(image)
        if there.parent is None or there.snaps:
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
        if to in self.images:
            raise Refused("EEXIST")
        self.images[to] = WantedImage(self.images[image].order, bytearray(wanted))

    def do_look(self, **_looking: Any) -> Any:
        return {
            name: {
                "order": image.order,
                "now": told(image.data),
                "parent": list(image.parent) if image.parent else None,
                **{f"at {snap}": told(data) for snap, data in image.snaps.items()},
            }
            for name, image in self.images.items()
        }


def draw_place(rng: Random, most: int, order: int) -> int:
    """Draw an offset of at most `most`, half of the time near the border of an object."""
    if rng.random() < 0.5:
        return rng.randint(0, most)
    return max(0, min(most, (rng.randint(0, most >> order) << order) + rng.choice((-1, 0, 1, -512, 512))))
