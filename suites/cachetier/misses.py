"""Induced misses: a cache smaller than the data evicts objects, and all data reads the same on each architecture."""

from cephlab.lab.base.clock import Deadline
from cephlab.lab.scenario.scenario import Stage
from cephlab.suites.cachetier import stand, tiers
from cephlab.suites.cachetier.tiers import PoolPair, TierSettings

SHARE = 4
"""The data is this many times target_max_bytes. The paper reduced target_max_bytes to 512 MB for the same purpose."""

OVER = 1.25
"""Allowed size over the target: every PG has its own share of it, and evicts only after an object is added."""

AGENT_S = 60.0
ROUNDS, MORE_ROUNDS = 2, 2
"""The second number holds for a cache that has flushed few objects by then: some writes go around it."""


def misses(stage: Stage) -> None:
    """Write and read everything several times through a cache that holds a quarter of it."""
    cluster, recorder = stage.cluster, stage.recorder
    objects = stand.contents(stage, stand.OBJECTS[stage.tier])
    target = len(objects) * stand.OBJECT_BYTES // SHARE
    with tiers.tier(cluster, stand.POOL, TierSettings(target_max_bytes=target), fill=objects, pg_num=4) as pair:
        before, least = tiers.tier_counters(cluster), len(objects) // SHARE
        for turn in range(ROUNDS):
            rewrite(stage, pair, objects)
            last = turn == ROUNDS - 1
            for _ in range(MORE_ROUNDS if last else 0):
                if tiers.flushes(tiers.tier_counters(cluster)) - tiers.flushes(before) < least:
                    rewrite(stage, pair, objects)
            stand.observe_contents(stage, pair.base, objects, f"through the tier, round {turn + 1}", everywhere=last)
        size = shrunk(stage, pair, target)
        counts = stand.counted(stage, before, "writing and reading")
        recorder.observe("the cache shrinks to its target", got=size <= target * OVER, wanted=True, bytes=size)
        recorder.witness("evictions", got=counts["tier_evict"], least=len(objects) // 2)
        recorder.witness("promotions", got=counts["tier_promote"], least=len(objects) // 2)
        recorder.witness("flushes", got=tiers.flushes(counts), least=least)
        few = len(stand.cached(cluster, pair)) < len(objects)
        recorder.observe("the cache holds fewer objects than the base", got=few, wanted=True)


def rewrite(stage: Stage, pair: PoolPair, objects: dict[str, bytes]) -> None:
    """Write new content to all objects, in random order."""
    for name in stage.rng.sample(sorted(objects), len(objects)):
        # The first write may be proxied to the base and promote the object; the second write makes it dirty.
        for _ in range(2):
            objects[name] = stage.rng.randbytes(stand.OBJECT_BYTES)
            stage.cluster.client.write_full(pair.base, name, objects[name])


def shrunk(stage: Stage, pair: PoolPair, target: int) -> int:
    """Wait for a limited time until the cache is down to its target; returns its size in bytes."""
    deadline = Deadline.after(AGENT_S * stage.cluster.patience)
    while True:
        size = tiers.pool_statistics(stage.cluster, pair.cache)["num_bytes"]
        if size <= target or deadline.passed():
            return size
        deadline.pause(0.5)


SCENARIOS = (
    stand.scenario_on_paper_layout(
        name="cachetier.misses",
        goal="A cache smaller than the data evicts objects, shrinks to its target, and loses nothing.",
        method=f"Writes and reads {SHARE} times target_max_bytes on both architectures; checks counters and sha256.",
        run=misses,
        expects=stand.EXPECTED,
    ),
)
