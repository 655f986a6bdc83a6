"""Emptying a cache: how long a flush takes, whether the base then has everything, and how many hit sets are kept."""

from cephlab.lab.base.clock import SYSTEM, Deadline
from cephlab.lab.history.history import Basis, Bound
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.suites.cachetier import stand, tiers
from cephlab.suites.cachetier.tiers import PoolPair, TierSettings
from cephlab.suites.cachetier.tierspec import TieredTopology, TierLayout

LIMITED = TieredTopology(layout=TierLayout(servers=2, limited=True), lone_client=True, options=stand.UNTHROTTLED)
"""Slow disks limited to the speed of a 7200 rpm disk. Two servers, because each of their disks takes one of the
machine's eight loop devices."""

NO_LIMIT = "recorded only: measured on a shared machine"

HIT_SET_PERIOD_S = 2
HIT_SET_COUNT = 3
ACCESS_S = 12.0
"""Six periods, so that twice as many hit sets are started as kept."""


def flush(stage: Stage) -> None:
    """Make every object in the cache dirty; flush and evict all in one pass; then read all from the base alone."""
    cluster, recorder = stage.cluster, stage.recorder
    count = stand.OBJECTS[stage.tier]
    with tiers.tier(cluster, stand.POOL) as pair:
        objects: dict[str, bytes] = {}
        # The first write of an object is proxied to the base and promotes it; the second write makes it dirty.
        for _ in range(2):
            objects = stand.contents(stage, count)
            for name, data in objects.items():
                cluster.client.write_full(pair.base, name, data)
        dirty = tiers.pool_statistics(cluster, pair.cache)["num_objects_dirty"]
        recorder.witness("dirty objects before the flush", got=dirty, least=count)
        before = tiers.tier_counters(cluster)
        took_s = flush_all(stage, pair)
        counts = stand.counted(stage, before, "cache-flush-evict-all")
        recorder.observe("objects evicted", got=counts["tier_evict"], wanted=count)
        recorder.witness("flushes", got=tiers.flushes(counts), least=count)
        recorder.figure(
            "objects flushed and evicted a second", count / took_s, "1/s", Bound(NO_LIMIT, basis=Basis.NOTED)
        )
        tiers.remove_overlay(cluster, pair)
        stand.observe_contents(stage, pair.base, objects, "from the base", everywhere=True)


def flush_all(stage: Stage, pair: PoolPair) -> float:
    """Empty a cache in one pass, and observe that nothing is left; returns the time taken, in seconds."""
    recorder = stage.recorder
    objects = tiers.pool_statistics(stage.cluster, pair.cache)["num_objects"]
    began = SYSTEM.monotonic()
    error = tiers.flush_evict(stage.cluster, pair)
    took_s = SYSTEM.monotonic() - began
    recorder.observe("errors of cache-flush-evict-all", got=error or "none", wanted="none")
    left = stand.cached(stage.cluster, pair)
    recorder.observe("objects left in the cache", got=left, wanted=[], of=objects)
    recorder.figure("time of cache-flush-evict-all", took_s, "s", Bound(NO_LIMIT, basis=Basis.NOTED))
    return took_s


def hit_sets(stage: Stage) -> None:
    """Read objects over several periods, and observe that exactly hit_set_count hit sets are kept."""
    cluster, recorder = stage.cluster, stage.recorder
    settings = TierSettings(hit_set_count=HIT_SET_COUNT, hit_set_period_s=HIT_SET_PERIOD_S)
    objects = stand.contents(stage, stand.OBJECTS[Tier.QUICK])
    with tiers.tier(cluster, stand.POOL, settings, fill=objects, pg_num=2) as pair:
        deadline = Deadline.after(ACCESS_S)
        accesses = 0
        while not deadline.passed():
            for name in objects:
                cluster.client.read(pair.base, name, 1)
                accesses += 1
            deadline.pause(0.2)
        kept = {pgid: len(sets) for pgid, sets in tiers.hit_sets(cluster, pair.cache).items()}
        recorder.record("hit_sets", kept=kept, accesses=accesses)
        recorder.observe("archived hit sets of each PG", got=sorted(set(kept.values())), wanted=[HIT_SET_COUNT])
        statistics = tiers.pool_statistics(cluster, pair.cache)
        archived = statistics["num_objects_hit_set_archive"]
        recorder.observe("hit sets in the PG statistics", got=archived, wanted=sum(kept.values()))
        recorder.witness("bytes of hit sets", got=statistics["num_bytes_hit_set_archive"], least=1)


def scenario(topology: Topology) -> Scenario:
    limited = topology is LIMITED
    return stand.scenario_on_paper_layout(
        name=f"cachetier.flush[disks={'limited' if limited else 'plain'}]",
        goal="One pass of cache-flush-evict-all empties a cache, and the base then has every object.",
        method="Makes all objects dirty, times `rados cache-flush-evict-all`, removes the overlay, reads the base.",
        run=flush,
        check="figures",
        tier=Tier.FULL if limited else Tier.QUICK,
        topology=topology,
    )


SCENARIOS = (
    scenario(stand.PAPER),
    scenario(LIMITED),
    stand.scenario_on_paper_layout(
        name="cachetier.hit-sets",
        goal="A PG keeps hit_set_count hit sets, one for each period.",
        method="Reads objects over six periods; compares each PG's history and statistics with hit_set_count.",
        run=hit_sets,
        tier=Tier.FULL,
    ),
)
