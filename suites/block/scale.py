"""The size of a run of the block suite: as published if the hosts are the profile's machines, else a lab's."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from cephlab.lab.cluster.attach.cluster import AttachedCluster
from cephlab.lab.cluster.pools import PoolKind
from cephlab.lab.scenario.scenario import Stage, Tier
from cephlab.lab.workloads.fio import FioJob
from cephlab.suites.block.stand import IMAGE_BYTES, PG_NUM, RAMP_S, SECONDS
from cephlab.suites.machines import are_machines_of, profile_of
from cephlab.tuning.profile import Profile
from cephlab.tuning.profilefile import THIS_MACHINE

COPIES = 3
SHARE = 0.05
"""Share of the capacity for all images of a load without a fill: far from full, because a full Ceph slows down."""

LEAST_SHARE_OF_TIME = 0.01
LEAST_S = 3.0
"""In a lab: this share of the paper's time, at least LEAST_S. Its figures are only recorded, and settle in seconds."""

LAB_VOLUMES = 6
"""Most images in a lab: two for each client machine, because they share two cores with all OSDs."""

POINT_S: Mapping[Tier, float] = {Tier.QUICK: 30.0, Tier.FULL: 300.0}
"""Length of one point of a sweep on a profile's machines. The longer one is that of the depth sweep in the Altra paper
(appendix 12.6)."""
POINT_RAMP_S: Mapping[Tier, float] = {Tier.QUICK: 5.0, Tier.FULL: 60.0}

PUBLISHED_BYTES = 200 << 30
"""Image size for each client, one or several, in the Altra paper (appendix 12.6)."""

PGS_PER_OSD = 100
_OBJECT_BYTES = 4 << 20


@dataclass(frozen=True)
class Scale:
    """capacity_bytes: of the data disks, 0 in a lab; at_length: run as large and as long as published."""

    capacity_bytes: float = 0.0
    at_length: bool = False

    def image_bytes(self, published: int, volumes: int, copies: float = COPIES, share: float = SHARE) -> int:
        """Size of each image in whole objects: as published if it fits, at least a lab's size.

        copies: bytes on disks per byte of an image; share: of the capacity, for all images together.
        """
        room = int(self.capacity_bytes * share / copies / volumes)
        return max(IMAGE_BYTES, min(published, room) // _OBJECT_BYTES * _OBJECT_BYTES)

    def volumes(self, published: int) -> int:
        return published if self.at_length else min(published, LAB_VOLUMES)

    def seconds(self, published_s: float) -> float:
        """Length of a run that replaces the published length."""
        return published_s if self.at_length else max(LEAST_S, published_s * LEAST_SHARE_OF_TIME)

    def ramp_s(self, published_s: float) -> float:
        """Ramp time that replaces the published one."""
        return published_s if self.at_length else RAMP_S

    def point_s(self, tier: Tier) -> float:
        """Length of one point of a sweep."""
        return POINT_S[tier] if self.at_length else SECONDS[tier]

    def point_ramp_s(self, tier: Tier) -> float:
        return POINT_RAMP_S[tier] if self.at_length else RAMP_S

    def ballast_bytes(self, fill: float, used_bytes: float, copies: float) -> int:
        """More bytes to write, so that the share `fill` of the capacity is used. used_bytes: used on disks so far."""
        room = int((self.capacity_bytes * fill - used_bytes) / copies) if self.at_length else 0
        return max(0, room) // _OBJECT_BYTES * _OBJECT_BYTES

    def words(self, published: int, volumes: int, published_s: float, image_bytes: int | None = None) -> str:
        """Number, size and time of a run, compared with the published ones."""
        count, seconds = self.volumes(volumes), self.seconds(published_s)
        size = self.image_bytes(published, count) if image_bytes is None else image_bytes
        fewer = f"{count} of {volumes} images, " if count < volumes else ""
        return f"{fewer}{size >> 20} of {published >> 20} MiB, {seconds:g} of {published_s:g} s"


def scale_of(stage: Stage) -> Scale:
    """The scale of a run: that of the named profile if the cluster runs on its machines, else a lab's."""
    profile = profile_of(stage)
    if profile is None or not are_machines_of(stage.cluster.provider, profile):
        return Scale()
    return scale(profile)


def scale(profile: Profile) -> Scale:
    """The scale for a profile's machines. This machine is shared, so it keeps the run times of a lab."""
    capacity = sum(machine.count * machine.weight for machine in profile.nodes)
    return Scale(capacity, at_length=profile.name != THIS_MACHINE)


def timed(stage: Stage, job: FioJob) -> FioJob:
    """The job with the length and the ramp of one point of a sweep."""
    scale = scale_of(stage)
    ramp = f"{scale.point_ramp_s(stage.tier):g}"
    return replace(job, runtime_s=scale.point_s(stage.tier), more={**job.more, "ramp_time": ramp})


def client_counts(stage: Stage, lab: tuple[int, ...]) -> tuple[int, ...]:
    """Numbers of clients of a sweep: those of a lab, or doubling up to every client machine of an inventory."""
    if not scale_of(stage).at_length or not isinstance(stage.cluster, AttachedCluster):
        return lab
    most = len(stage.cluster.load_nodes())
    doubled = [1 << power for power in range(most.bit_length()) if 1 << power < most]
    return (*doubled, most)


def pg_num(stage: Stage, kind: PoolKind, published: int = 0) -> int:
    """PGs of a pool: a lab's number, or on the profile's machines the published one (0: 100 PG copies per OSD)."""
    if not scale_of(stage).at_length:
        return PG_NUM
    osds = max(1, len(stage.cluster.osd_ids()))
    return published or 1 << max(3, round(math.log2(PGS_PER_OSD * osds / kind.size)))
