"""Imbalance: how much more than its share the busiest OSD gets, since placement groups are few and random."""

import math

from cephlab.tuning import placement
from cephlab.tuning.derivation import DerivationStep
from cephlab.tuning.profile import Profile
from cephlab.tuning.workload import Flow, Shape

SOURCE = "largest of n binomial shares: 1 + sqrt(2 ln n / PGs led) (Raab and Steger 1998); upmap_max_deviation of Ceph"

TARGET_PGS_PER_OSD = 100.0
"""mon_target_pg_per_osd: what Ceph's autoscaler aims at, copies counted; used where the profile names no pg_num."""

UPMAP_MAX_DEVIATION = 5.0
"""Ceph's balancer evens out the PGs of OSDs to within this number. It ignores which OSD is primary."""


def busiest(profile: Profile, shape: Shape, together: float = 1.0) -> float:
    """Load of the busiest OSD over the mean, or of the busiest disk where so many OSDs share one.

    A read of a replicated object goes to the PG's primary OSD, which no balancer evens out. A write, or a read of k
    shards, goes to several OSDs of the PG, and Ceph's balancer evens out the PGs of each OSD.
    """
    parties = profile.osds / together
    if parties < 2:
        return 1.0
    pgs = pgs_per_osd(profile, shape)
    if shape.flow is Flow.WRITE or shape.k:
        return 1 + min(UPMAP_MAX_DEVIATION / pgs, _spread(pgs * together, parties))
    return 1 + _spread(pgs * together / shape.copies, parties)


def taken_over(profile: Profile, shape: Shape, lost: int) -> float:
    """PGs that the busiest OSD takes over from so many lost nodes, over the mean: they are few, and fall at random."""
    hosts = placement.hosts(profile)
    osds = round(profile.osds * (hosts - lost) / hosts)
    return 1 + _spread(pgs_per_osd(profile, shape) * lost / (hosts - lost), osds) if osds > 1 else 1.0


def pgs_per_osd(profile: Profile, shape: Shape) -> float:
    """PGs that an OSD holds, as primary or not."""
    if profile.pgs is None:
        return TARGET_PGS_PER_OSD
    return profile.pgs * shape.copies / profile.osds


def step(profile: Profile, shape: Shape) -> DerivationStep:
    """The arithmetic of the busiest OSD's share."""
    pgs, over = pgs_per_osd(profile, shape), busiest(profile, shape)
    chosen = f"{profile.pgs} PGs" if profile.pgs else "as many PGs as the autoscaler chooses"
    if profile.osds < 2:
        how = "one OSD"
    elif shape.flow is Flow.WRITE or shape.k:
        how = (
            f"{chosen} x {shape.copies} on {profile.osds} OSDs: {pgs:.4g} each; 1 + the lesser of "
            f"{UPMAP_MAX_DEVIATION:g} / {pgs:.4g} and sqrt(2 ln {profile.osds} / {pgs:.4g})"
        )
    else:
        led = pgs / shape.copies
        how = f"{chosen} on {profile.osds} OSDs: primary of {led:.4g} each; 1 + sqrt(2 ln {profile.osds} / {led:.4g})"
    return DerivationStep("load of the busiest OSD over the mean", how, f"{over:.4f}", SOURCE)


def _spread(expected: float, osds: float) -> float:
    # An OSD cannot be primary of more than all PGs; the formula assumes many PGs.
    return min(osds - 1.0, math.sqrt(2 * math.log(osds) / expected))
