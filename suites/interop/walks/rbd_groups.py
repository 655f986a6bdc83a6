"""The images of a walk over RBD, and the part of its model that groups them and takes snapshots of a whole group."""

from dataclasses import dataclass, field
from random import Random
from typing import Any

from cephlab.suites.interop.walks.walk import Unfit

GROUP_SNAPS = 2

Drawn = tuple[str, dict[str, Any]]


@dataclass
class WantedImage:
    """parent: the image and snapshot that this one was cloned from; snaps, group_snaps: name -> content.

    unmapped: whether its object map was turned on and not rebuilt since. source: while the image is being migrated, its
    name and its state before; zeroed, cut: whether part of it was zeroed, or cut off, since then. was_open: whether a
    side has kept it open.
    """

    order: int
    data: bytearray
    parent: tuple[str, str] | None = None
    snaps: dict[str, bytes] = field(default_factory=dict)
    stripes: int = 1
    features: set[str] = field(default_factory=lambda: {"object-map"})
    notes: dict[str, str] = field(default_factory=dict)
    grouped: bool = False
    group_snaps: dict[str, bytes] = field(default_factory=dict)
    unmapped: bool = False
    source: tuple[str, "WantedImage"] | None = None
    zeroed: bool = False
    cut: bool = False
    was_open: bool = False


class Groups:
    """One group of images. Its snapshots hold all images that are in it."""

    images: dict[str, WantedImage]

    def _settled(self, image: str) -> WantedImage:
        """An image that is not being migrated."""
        if image not in self.images or self.images[image].source:
            raise Unfit
        return self.images[image]

    @property
    def group_snaps(self) -> list[str]:
        return sorted({snap for image in self.images.values() for snap in image.group_snaps})

    def group_steps(self, rng: Random, image: str, snap: str) -> list[Drawn]:
        known = rng.choice(self.group_snaps or [snap])
        return [
            *[("join", {"image": image})] * 2,
            ("leave", {"image": image}),
            *[("group_snap", {"snap": snap})] * 2,
            ("group_drop", {"snap": known}),
            ("group_rollback", {"snap": known}),
            ("members", {}),
        ]

    def do_join(self, image: str) -> None:
        if self._settled(image).grouped:
            raise Unfit
        self.images[image].grouped = True

    def do_leave(self, image: str) -> None:
        there = self._settled(image)
        if not there.grouped or there.group_snaps:
            raise Unfit
        there.grouped = False

    def do_group_snap(self, snap: str) -> None:
        members = [image for image in self.images.values() if image.grouped]
        if not members or any(image.source for image in members):
            raise Unfit
        if snap in self.group_snaps or len(self.group_snaps) == GROUP_SNAPS:
            raise Unfit
        for image in members:
            image.group_snaps[snap] = bytes(image.data)

    def do_group_drop(self, snap: str) -> None:
        for image in self._snapped_together(snap):
            del image.group_snaps[snap]

    def do_group_rollback(self, snap: str) -> None:
        snapped = self._snapped_together(snap)
        if any(image.grouped and snap not in image.group_snaps for image in self.images.values()):
            raise Unfit  # librbd 18.2.7 refuses, because an image joined after the snapshot
        for image in snapped:
            image.data[:] = image.group_snaps[snap]

    def _snapped_together(self, snap: str) -> list[WantedImage]:
        if snap not in self.group_snaps:
            raise Unfit
        return [image for image in self.images.values() if snap in image.group_snaps]

    def do_members(self) -> list[list[str]]:
        """The names of the group's images and snapshots."""
        return [sorted(name for name, image in self.images.items() if image.grouped), self.group_snaps]
