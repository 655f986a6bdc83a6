"""Measures a recovery requirement: writes a sample, takes nodes' OSDs out, and times their recovery."""

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise

from cephlab.lab.base.clock import Deadline
from cephlab.lab.base.numbers import how_many, percent
from cephlab.lab.ceph.daemon import Wanted
from cephlab.lab.ceph.pgs import NO_OSD
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.scenario.scenario import Stage, Tier
from cephlab.lab.spec.clusterspec import Node
from cephlab.lab.telemetry.demand import Interval
from cephlab.lab.telemetry.statistics import LEAST_BATCHES, interval
from cephlab.suites.block.scale import scale
from cephlab.suites.migration.migrate import osd_nodes, osds_on
from cephlab.suites.migration.movement import PlacedPg, held_bytes, least_movement
from cephlab.suites.migration.trial import recovered_bytes, statistics
from cephlab.suites.profile.measured import POOL, Seen, images, shards_of
from cephlab.suites.profile.plug import unlike
from cephlab.tuning.held import Trust, on_each, too_full
from cephlab.tuning.profile import Profile
from cephlab.tuning.requirements import Protection, RecoveryRequirement
from cephlab.tuning.units import Measure, show

SAMPLE_BYTES = {Tier.QUICK: 8 << 30, Tier.FULL: 32 << 30}
"""Bytes on each OSD, or a twentieth of the disks if that is less."""
EVERY_S = 2.0
RECOVERED_S = {Tier.QUICK: 900.0, Tier.FULL: 3600.0}
STEADY = 0.8
"""Share of the sample. After it the rate falls, as some OSDs have finished."""
LEAST_COPIED = 0.9
"""Share of the bytes to copy, which follow from the placement before and after, in Ceph's own count."""
MOST_HELD = 0.001
"""Share of the disks. Other data on them would be copied too, and takes time."""
HEALTHY_S = 600.0


@dataclass(frozen=True)
class Sample:
    """points: seconds since the OSDs were marked out, and the share of the sample that was recovered by then.

    held_bytes: its bytes on the lost OSDs; whole: whether its PGs were clean in the end.
    """

    points: Sequence[tuple[float, float]]
    held_bytes: float
    whole: bool


def unfit(requirement: RecoveryRequirement) -> str:
    """Why taking OSDs out tells nothing about a requirement; empty where it does."""
    if requirement.replaced:
        return "there is no new machine to replace a lost one, and no existing one is emptied for it"
    if requirement.share < 1:
        return f"no client load is made that leaves recovery {requirement.share:g} of disks and network"
    return ""


def lost(stage: Stage, profile: Profile, trust: Trust, requirement: RecoveryRequirement) -> Seen | str:
    """The time for the required bytes at the rate of a sample; a sentence where no OSDs may be taken out."""
    nodes = sorted(osd_nodes(stage.cluster), key=_disks_bytes)
    cut = len(nodes) - requirement.nodes_lost
    there = unfit_there(stage.cluster, profile, nodes, cut, requirement.protection)
    if obstacle := there or too_full(requirement, profile):
        return obstacle
    osds = [osd for node in nodes[cut:] for osd in osds_on(stage.cluster, node.name)]
    sample = sampled(stage, profile, requirement.protection, osds)
    stage.recorder.witness("bytes of the sample on the lost OSDs", got=sample.held_bytes, least=1)
    whole_bytes = on_each(requirement, profile) * requirement.nodes_lost
    rotating = any(disks.kind.rotates for machine in profile.nodes for disks in machine.data_disks)
    return seen_of(sample, whole_bytes, trust.recovery if rotating else 1.0)


def unfit_there(cluster: Cluster, profile: Profile, nodes: Sequence[Node], left: int, guard: Protection) -> str:
    """Why no OSDs are taken out of this cluster; empty where they may be. left: machines afterwards."""
    if other := unlike(cluster, profile):
        return other
    if left < shards_of(guard):
        machines = how_many(left, "machine that would be left", "machines that would be left")
        return f"{guard} on the {machines}: CRUSH's default rule leaves PGs undersized there"
    stored_bytes = sum(int(pool["stats"]["stored"]) for pool in cluster.client.mon("df")["pools"])
    if stored_bytes > MOST_HELD * sum(map(_disks_bytes, nodes)):
        return f"the cluster holds {show(stored_bytes, Measure.BYTES)} of other data, which would be copied too"
    return ""


def _disks_bytes(node: Node) -> int:
    return sum(disk.size_bytes for disk in node.disks)


def sampled(stage: Stage, profile: Profile, guard: Protection, osds: Sequence[int]) -> Sample:
    """Write a sample, lose these OSDs, and watch the others copy it. Afterwards everything is as before."""
    cluster, names = stage.cluster, [str(osd) for osd in osds]
    count, shards, k = len(cluster.load_nodes()), shards_of(guard), guard.k or 1
    wanted = SAMPLE_BYTES[stage.tier] * len(cluster.osd_ids()) * k // (shards * count)
    size_bytes = scale(profile).image_bytes(wanted, count, copies=shards / k)
    # They are in already. An OSD that an attached cluster's list does not allow is refused before anything is written.
    cluster.client.mon("osd in", ids=names)
    with ExitStack() as undo:
        undo.callback(cluster.wait_healthy, HEALTHY_S)
        undo.callback(cluster.client.mon, "osd in", ids=names)
        for osd in osds:
            undo.callback(_started, cluster, f"osd.{osd}")
        undo.enter_context(images(cluster, guard, count, size_bytes, passes=1))
        pool = f"{POOL}-data" if guard.k else POOL
        cluster.settle()
        before, counted = where(cluster, pool, guard.k), recovered_bytes(cluster, pool)
        for osd in osds:
            cluster.stop(f"osd.{osd}")
        cluster.client.mon("osd out", ids=names)
        points, whole = followed(cluster, pool, RECOVERED_S[stage.tier])
        to_copy = least_movement(before, where(cluster, pool, guard.k)).counted_bytes
    on_lost = held_bytes(before, set(names))
    stage.recorder.record(
        "recovered", points=points, counted_before=counted, to_copy=to_copy, held=on_lost, whole=whole
    )
    shares = [(0.0, 0.0), *((at_s, (bytes_ - counted) / to_copy) for at_s, bytes_ in points)] if to_copy else []
    return Sample(shares, on_lost, whole)


def _started(cluster: Cluster, name: str) -> None:
    """Start a daemon again that was stopped."""
    if cluster.daemon(name).wanted is not Wanted.RUNNING:
        cluster.start(name)


def where(cluster: Cluster, pool: str, k: int) -> list[PlacedPg]:
    """The OSDs of each PG, by number, and its bytes."""
    sizes = {pg["pgid"]: int(pg["stat_sum"]["num_bytes"]) for pg in statistics(cluster, pool)}
    return [
        PlacedPg(pg.pgid, tuple("" if osd == NO_OSD else str(osd) for osd in pg.acting), sizes.get(pg.pgid, 0), k)
        for pg in pools.pgs_of(cluster, pool)
    ]


def followed(cluster: Cluster, pool: str, most_s: float) -> tuple[list[tuple[float, int]], bool]:
    """(seconds, bytes that Ceph has recovered in a pool) at each look; and whether its PGs are clean in the end.

    PGs of other pools may never be clean: Ceph's own pool has three copies, however many machines are left.
    """
    deadline, points = Deadline.after(most_s * cluster.patience), []
    while True:
        cluster.settle()
        points.append((deadline.elapsed_s(), recovered_bytes(cluster, pool)))
        clean = all({"active", "clean"} <= set(str(pg["state"]).split("+")) for pg in statistics(cluster, pool))
        if clean or deadline.passed():
            return points, clean
        deadline.pause(EVERY_S)


def steady(points: Sequence[tuple[float, float]]) -> list[float]:
    """Shares a second between looks, without the first, while PGs peer, and without those after STEADY."""
    pairs = list(pairwise(points))[1:]
    return [(share - before) / (at_s - from_s) for (from_s, before), (at_s, share) in pairs if share <= STEADY]


def seen_of(sample: Sample, whole_bytes: float, slower: float) -> Seen:
    """The time to copy `whole_bytes` of the lost OSDs. slower: the factor by which fuller disks may be slower.

    It follows from the steady rate; the slow end is at least the sample's whole time, with beginning and end.
    """
    rates, (took_s, share) = steady(sample.points), sample.points[-1] if sample.points else (0.0, 0.0)
    if not sample.whole:
        return Seen(None, why_not=f"the sample was not fully recovered within {took_s:,.0f} s")
    if share < LEAST_COPIED or sample.held_bytes <= 0:
        return Seen(None, why_not=f"by Ceph's count only {percent(share, '.0f')} of the bytes to copy were copied")
    if len(rates) < LEAST_BATCHES or not any(rates):
        return Seen(None, why_not=f"the sample was fully recovered within {took_s:.3g} s: too soon for a steady rate")
    rate, times = interval(rates), whole_bytes / sample.held_bytes
    slow_s = max(times / rate.low if rate.low > 0 else math.inf, times * took_s) * slower
    copy_s = Interval(times / rate.mean, times / rate.high, slow_s, rate.samples)
    sentences = (
        f"Recovery of {show(sample.held_bytes, Measure.BYTES)} on the lost OSDs was measured without clients, and its "
        f"time multiplied by {times:,.4g}: from the upper end of the steady rate to the slower of its lower end and "
        f"the whole time of {took_s:,.0f} s{_fuller(slower)}.",
        "Not measured: whether the rate is the same on disks as full as required, and the scan of a backfill, which "
        "PGs with a short history do not need.",
    )
    return Seen(copy_s, sentences)


def _fuller(slower: float) -> str:
    return f", times {slower:.3g} on rotating disks, the model's error for recovery" if slower > 1 else ""
