"""Measures a capacity requirement: how full each OSD gets with a pool's placement groups as CRUSH places them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cephlab.lab.base.numbers import how_many
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.telemetry.demand import Interval
from cephlab.suites.machines import machine_of_osds, machines_with_osds
from cephlab.suites.profile.measured import Seen, data_pool, shards_of
from cephlab.suites.profile.plug import unlike
from cephlab.tuning.profile import Profile
from cephlab.tuning.requirements import CapacityRequirement, Protection
from cephlab.tuning.units import terabytes

KB = 1024


@dataclass(frozen=True)
class Placed:
    """One OSD. size_bytes: as Ceph counts it; beside_bytes: used by anything but data; shards: the pool's PGs on it."""

    host: str
    size_bytes: float
    beside_bytes: float
    shards: int


def room(stage: Stage, profile: Profile, requirement: CapacityRequirement) -> Seen | str:
    """What users can store, from a pool made for it; a sentence where such a pool would tell nothing."""
    cluster, guard = stage.cluster, requirement.protection
    there = machines_with_osds(cluster)
    if other := unlike(cluster, profile):
        return other
    if there < shards_of(guard):
        return f"{guard} on {how_many(there, 'machine')}: CRUSH's default rule leaves such a pool's PGs undersized"
    with data_pool(cluster, guard) as pool:
        cluster.settle()  # `df` leaves out a pool for which the manager has no statistics yet
        pgs = pools.pgs_of(cluster, pool)
        shards = Counter(osd for pg in pgs for osd in pg.acting)
        osds = placed(cluster, shards)
        stage.recorder.witness("shards of the pool's PGs", got=sum(shards.values()), least=len(pgs) * shards_of(guard))
        stage.recorder.record("placed", osds={str(osd): vars(each) for osd, each in osds.items()}, pgs=len(pgs))
        spare = available(cluster, pool)
    capacity = usable(list(osds.values()), len(pgs), requirement.fill, guard)
    sentences = (
        f"Capacity follows from the sizes of the OSDs and the {len(pgs)} PGs of a pool that was made for it: from what "
        "the fullest OSD allows with the PGs as they are placed, to what an even placement would allow. Fewer PGs are "
        "placed less evenly.",
        f"It assumes an empty cluster. Ceph's own MAX AVAIL for that pool is {terabytes(spare)}: by CRUSH weights, "
        "up to full_ratio, and without what is stored already.",
    )
    return Seen(capacity, sentences)


def placed(cluster: Cluster, shards: Mapping[int, int]) -> dict[int, Placed]:
    """The OSDs as Ceph counts them. A disk for metadata counts as used, and as part of its OSD's size."""
    homes = machine_of_osds(cluster)
    return {
        osd: Placed(homes[osd], each["kb"] * KB, (each["kb_used"] - each["kb_used_data"]) * KB, shards.get(osd, 0))
        for each in cluster.client.mon("osd df")["nodes"]
        if (osd := int(each["id"])) in homes
    }


def available(cluster: Cluster, pool: str) -> float:
    """MAX AVAIL of a pool, in bytes."""
    [known] = [each for each in cluster.client.mon("df")["pools"] if each["name"] == pool]
    return float(known["stats"]["max_avail"])


def usable(osds: Sequence[Placed], pgs: int, fill: float, guard: Protection) -> Interval:
    """User bytes until the first OSD is at `fill`. PGs are equally large, as objects are spread over them by hash.

    mean, low: with the PGs as placed. high: if shards were placed evenly, at most one of an object on each machine.
    """
    each_shard = guard.k or 1
    rooms = [max(0.0, fill * osd.size_bytes - osd.beside_bytes) for osd in osds]
    lying = [space * pgs * each_shard / osd.shards for osd, space in zip(osds, rooms, strict=True) if osd.shards]
    hosts: dict[str, float] = {}
    for osd, space in zip(osds, rooms, strict=True):
        hosts[osd.host] = hosts.get(osd.host, 0.0) + space
    now = min(lying, default=0.0)
    return Interval(now, now, max(now, each_shard * evenly(list(hosts.values()), shards_of(guard))), len(osds))


def evenly(rooms: Sequence[float], shards: int) -> float:
    """The most bytes per shard that fit, with each object's shards on `shards` different machines.

    x fits where the sum of min(room, x) is at least shards * x: the largest rooms are cut to x, the others are full.
    """
    ordered = sorted(rooms, reverse=True)
    return min(sum(ordered[cut:]) / (shards - cut) for cut in range(shards))
