"""The images of a walk over RBD, and the part of its model that groups them and takes snapshots of a whole group."""

from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from cephlab.suites.interop.walks.walk import Unfit

GROUP_SNAPS = 2

Drawn = tuple[str, dict[str, Any]]
Entry = TypeVar("Entry")


@dataclass
class WantedImage:
    """parent: the image and snapshot that this one was cloned from; snaps, group_snaps: name -> content.

    unmapped: whether its object map is invalid; unmapped_at: the same of each snapshot, in the order of snapshots.
    source: while the image is being migrated, its name and its state before; zeroed, cut: whether part of it was
    zeroed, or cut off, since then.
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
    unmapped_at: dict[str, bool] = field(default_factory=dict)
    source: tuple[str, "WantedImage"] | None = None
    zeroed: bool = False
    cut: bool = False

    def turn_map(self, *, on: bool) -> None:
        """Turn the object map on or off. When on, it is invalid, as those of all snapshots, until it is rebuilt."""
        self.unmapped = on
        self.unmapped_at = dict.fromkeys(self.unmapped_at, on)

    def rename(self, snap: str, to: str) -> None:
        """Rename a snapshot."""
        self.snaps = renamed(self.snaps, snap, to)
        self.unmapped_at = renamed(self.unmapped_at, alone(snap), alone(to))

    def forget(self, snap: str) -> None:
        """Remove a snapshot's object map. If it was invalid, librbd makes the next one invalid, or the image's own."""
        names = [*self.unmapped_at]
        after = names[names.index(snap) + 1 :]
        if not self.unmapped_at.pop(snap):
            return
        if after:
            self.unmapped_at[after[0]] = True
        else:
            self.unmapped = True


def renamed(entries: dict[str, Entry], name: str, to: str) -> dict[str, Entry]:
    """The entries in the same order, one of them with another name."""
    return {to if each == name else each: entry for each, entry in entries.items()}


def alone(snap: str) -> str:
    """How looks call a snapshot of an image alone."""
    return f"at {snap}"


def together(snap: str) -> str:
    """How looks call the snapshot of an image that a snapshot of the group made."""
    return f"together at {snap}"


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
            image.unmapped_at[together(snap)] = image.unmapped

    def do_group_drop(self, snap: str) -> None:
        for image in self._snapped_together(snap):
            del image.group_snaps[snap]
            image.forget(together(snap))

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
