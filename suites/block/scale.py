"""How large and how long a published setting is run: as published where the machines are there, else as a lab can."""

from __future__ import annotations

from dataclasses import dataclass

from cephlab.lab.scenario.scenario import Stage
from cephlab.suites.block.stand import IMAGE_BYTES
from cephlab.suites.machines import are_machines_of, profile_of
from cephlab.tuning.profile import Profile
from cephlab.tuning.profilefile import THIS_MACHINE

COPIES = 3
SHARE = 0.05
"""Of what a cluster can hold, that all images of a setting together may take: far from full, where Ceph slows down."""

LEAST_SHARE_OF_TIME = 0.01
LEAST_S = 3.0
"""On a lab, of the paper's time, but no less than LEAST_S: its figures are written down, and settle within seconds."""

LAB_VOLUMES = 6
"""At most, on a lab: two for each of its client machines, which share two cores with all OSDs."""

_OBJECT_BYTES = 4 << 20


@dataclass(frozen=True)
class Scale:
    """capacity_bytes: of the data disks that are there, 0 for a lab's; at_length: as long as published."""

    capacity_bytes: float = 0.0
    at_length: bool = False

    def image_bytes(self, published: int, volumes: int) -> int:
        """Of each image: as published where there is room, never below a lab's, in whole objects."""
        room = int(self.capacity_bytes * SHARE / COPIES / volumes)
        return max(IMAGE_BYTES, min(published, room) // _OBJECT_BYTES * _OBJECT_BYTES)

    def volumes(self, published: int) -> int:
        """Images that are loaded at once."""
        return published if self.at_length else min(published, LAB_VOLUMES)

    def seconds(self, published_s: float) -> float:
        """To run instead of the published ones."""
        return published_s if self.at_length else max(LEAST_S, published_s * LEAST_SHARE_OF_TIME)

    def words(self, published: int, volumes: int, published_s: float) -> str:
        """What became of the published number, size and time."""
        count, seconds = self.volumes(volumes), self.seconds(published_s)
        size = self.image_bytes(published, count)
        fewer = f"{count} of {volumes} images, " if count < volumes else ""
        return f"{fewer}{size >> 20} of {published >> 20} MiB, {seconds:g} of {published_s:g} s"


def scale_of(stage: Stage) -> Scale:
    """By the profile that the run is held against, where its machines are those that are there."""
    profile = profile_of(stage)
    if profile is None or not are_machines_of(stage.cluster.provider, profile):
        return Scale()
    return scale(profile)


def scale(profile: Profile) -> Scale:
    """For the machines of a profile. This machine alone is shared, whatever it holds: the time stays a lab's."""
    capacity = sum(machine.count * machine.weight for machine in profile.nodes)
    return Scale(capacity, at_length=profile.name != THIS_MACHINE)
