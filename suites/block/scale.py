"""Size and length of a published setting: as published on the profile's machines, else scaled to a lab."""

from __future__ import annotations

from dataclasses import dataclass

from cephlab.lab.scenario.scenario import Stage
from cephlab.suites.block.stand import IMAGE_BYTES
from cephlab.suites.machines import are_machines_of, profile_of
from cephlab.tuning.profile import Profile
from cephlab.tuning.profilefile import THIS_MACHINE

COPIES = 3
SHARE = 0.05
"""Of the cluster's capacity, for all images of a setting: far from full, where Ceph slows down."""

LEAST_SHARE_OF_TIME = 0.01
LEAST_S = 3.0
"""On a lab: this share of the paper's time, but LEAST_S at least. Its figures are only noted, and settle in seconds."""

LAB_VOLUMES = 6
"""Most images on a lab: two for each client machine, which shares two cores with all OSDs."""

_OBJECT_BYTES = 4 << 20


@dataclass(frozen=True)
class Scale:
    """capacity_bytes: of the data disks, 0 for a lab's; at_length: run as long as published."""

    capacity_bytes: float = 0.0
    at_length: bool = False

    def image_bytes(self, published: int, volumes: int) -> int:
        """Size of each image in whole objects: as published where it fits, at least a lab's."""
        room = int(self.capacity_bytes * SHARE / COPIES / volumes)
        return max(IMAGE_BYTES, min(published, room) // _OBJECT_BYTES * _OBJECT_BYTES)

    def volumes(self, published: int) -> int:
        return published if self.at_length else min(published, LAB_VOLUMES)

    def seconds(self, published_s: float) -> float:
        """Length of a run in place of the published one."""
        return published_s if self.at_length else max(LEAST_S, published_s * LEAST_SHARE_OF_TIME)

    def words(self, published: int, volumes: int, published_s: float) -> str:
        """The number, size and time that a run uses, beside the published ones."""
        count, seconds = self.volumes(volumes), self.seconds(published_s)
        size = self.image_bytes(published, count)
        fewer = f"{count} of {volumes} images, " if count < volumes else ""
        return f"{fewer}{size >> 20} of {published >> 20} MiB, {seconds:g} of {published_s:g} s"


def scale_of(stage: Stage) -> Scale:
    """The scale of a run: that of the named profile where the cluster runs on its machines, else a lab's."""
    profile = profile_of(stage)
    if profile is None or not are_machines_of(stage.cluster.provider, profile):
        return Scale()
    return scale(profile)


def scale(profile: Profile) -> Scale:
    """The scale for a profile's machines. This machine is shared, so it keeps a lab's time."""
    capacity = sum(machine.count * machine.weight for machine in profile.nodes)
    return Scale(capacity, at_length=profile.name != THIS_MACHINE)
