"""Induced misses: a cache smaller than the data evicts, and everything reads the same through either architecture."""

from __future__ import annotations

from cephlab.lab.base.clock import Deadline
from cephlab.lab.scenario.scenario import Stage
from cephlab.suites.cachetier import tiers
from cephlab.suites.cachetier.stand import (
    EXPECTED,
    OBJECT_BYTES,
    OBJECTS,
    POOL,
    cached,
    contents,
    counted,
    observe_contents,
    scenario_on_paper_layout,
)
from cephlab.suites.cachetier.tiers import PoolPair, TierSettings

SHARE = 4
"""The data is so many times the cache's target. The paper reduced target_max_bytes to 512 MB for the same purpose."""

OVER = 1.25
"""Of the target: every PG keeps its own share of it, and acts when an object has already come."""

AGENT_S = 60.0
ROUNDS = 2


def misses(stage: Stage) -> None:
    """Everything is written and read several times through a cache that holds a quarter of it."""
    cluster = stage.cluster
    objects = contents(stage, OBJECTS[stage.tier])
    target = len(objects) * OBJECT_BYTES // SHARE
    with tiers.tier(cluster, POOL, TierSettings(target_max_bytes=target), fill=objects, pg_num=4) as pair:
        before = tiers.tier_counters(cluster)
        for turn in range(ROUNDS):
            for name in stage.rng.sample(sorted(objects), len(objects)):
                # The first write may be served past the cache and promote; the second one makes the object dirty.
                for _ in range(2):
                    objects[name] = stage.rng.randbytes(OBJECT_BYTES)
                    cluster.client.write_full(pair.base, name, objects[name])
            last = turn == ROUNDS - 1
            observe_contents(stage, pair.base, objects, f"through the tier, round {turn + 1}", everywhere=last)
        size = shrunk(stage, pair, target)
        done = counted(stage, before, "writing and reading")
        stage.recorder.observe("the cache shrinks to its target", got=size <= target * OVER, wanted=True, bytes=size)
        least = len(objects) // 2
        stage.recorder.witness("evictions", got=done["tier_evict"], least=least)
        stage.recorder.witness("promotions", got=done["tier_promote"], least=least)
        flushed = done["tier_flush"] + done["tier_try_flush"]
        stage.recorder.witness("flushes", got=flushed, least=len(objects) // SHARE)
        few = len(cached(cluster, pair))
        stage.recorder.observe("the cache holds fewer objects than there are", got=few < len(objects), wanted=True)


def shrunk(stage: Stage, pair: PoolPair, target: int) -> int:
    """Bytes in the cache once it has come down to its target, or after a while."""
    deadline = Deadline.after(AGENT_S * stage.cluster.patience)
    while True:
        size = tiers.pool_statistics(stage.cluster, pair.cache)["num_bytes"]
        if size <= target or deadline.passed():
            return size
        deadline.pause(0.5)


SCENARIOS = (
    scenario_on_paper_layout(
        name="cachetier.misses",
        goal="A cache smaller than the data evicts, keeps to its target, and loses nothing.",
        method=f"Data of {SHARE} times target_max_bytes is written and read on both architectures; counters, sha256.",
        run=misses,
        expects=EXPECTED,
    ),
)
