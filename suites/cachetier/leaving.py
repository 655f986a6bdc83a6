"""Leaving a tier while clients write: no error, no acknowledged write lost, and the longest that anybody waited."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Literal

from cephlab.lab.base import clock
from cephlab.lab.base.clock import SYSTEM, Deadline
from cephlab.lab.base.workers import Workers
from cephlab.lab.faults import inflict
from cephlab.lab.faults.daemons import KillDaemon
from cephlab.lab.history.history import Phase
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.telemetry.watch import watched
from cephlab.lab.workloads.recorded import Load, RecordedLoad
from cephlab.suites.cachetier import tiers
from cephlab.suites.cachetier.stand import POOL, cached, scenario_on_paper_layout
from cephlab.suites.cachetier.tiers import Drained, PoolPair
from cephlab.suites.limits import no_errors
from cephlab.suites.migration.trial import client_nodes
from cephlab.suites.resilience.trial import EXPECTED, under_way

KEYS = 32
WORKERS = 2
PAUSE_S = 0.02
"""Between two operations of a worker: on two cores an unbounded load would leave nothing to the flush."""

UNDER_WAY = 200
"""Operations before the tier is left: each key was written about twice, and is dirty in the cache."""
UNDER_WAY_S = 120.0
AFTER_S = 3.0
"""Clients work on this long after the tier is gone."""
LEAST_AFTER = 20
LEAST_DIRTY = 16
PASSES = 2

STAMPS = frozenset({"access_timestamp", "modify_timestamp"})
"""Of an image's header: when it was last used, which librbd notes once a minute for itself (rbd_atime_update_interval,
rbd_mtime_update_interval). One that comes between the last flush and the end of the overlay stays in the cache."""

SLOW_S = 30.0
"""Ceph itself calls an operation slow after this time (osd_op_complaint_time)."""

KINDS: tuple[Literal["objects"], Literal["blocks"]] = ("objects", "blocks")

Leave = Callable[[Stage, PoolPair], None]


@contextmanager
def step(stage: Stage, name: str) -> Iterator[None]:
    """One step of the procedure, with its time."""
    began = SYSTEM.monotonic()
    stage.recorder.step(name, Phase.BEGAN)
    yield
    took = round(SYSTEM.monotonic() - began, 3)
    stage.recorder.step(name, Phase.ENDED, took)
    stage.recorder.figure(f"step_s[{name}]", took, "s")


def loads(stage: Stage, pool: str) -> list[RecordedLoad]:
    """Objects and blocks, both in the pool that has the tier, from every machine for clients."""
    nodes = client_nodes(stage.cluster)
    made = []
    for kind in KINDS:
        seed = stage.rng.randrange(1 << 30)
        load = Load(pool, nodes, seed, name=kind, kind=kind, keys=KEYS, workers=WORKERS, pause_s=PAUSE_S)
        made.append(RecordedLoad(stage.cluster, stage.recorder, load))
    return made


def under_load(stage: Stage, leave: Leave) -> None:
    """Leave a tier that clients have filled with changes and go on working through, then read everything back."""
    cluster, recorder = stage.cluster, stage.recorder
    limit(stage)
    with tiers.tier(cluster, POOL) as pair:
        running = loads(stage, pair.base)
        for load in running:
            load.prepare()
        with ExitStack() as work:
            work.enter_context(watched(cluster, recorder))
            for load in running:
                work.enter_context(load.running())
            for load in running:
                under_way(load, UNDER_WAY)
            dirty = tiers.pool_statistics(cluster, pair.cache)["num_objects_dirty"]
            recorder.witness("dirty objects when the tier is left", got=dirty, least=LEAST_DIRTY)
            leave(stage, pair)
            done = [load.completed() for load in running]
            Deadline.after(AFTER_S).pause(AFTER_S)
            for load, before in zip(running, done, strict=True):
                after = load.completed() - before
                recorder.witness(f"operations of {load.load.name} without the tier", got=after, least=LEAST_AFTER)
        for load in running:
            load.verify()
            load.clean()


def limit(stage: Stage) -> None:
    """What clients may see of it."""
    no_errors(stage.recorder, "leaving a tier is no reason to refuse anyone anything")
    cluster = stage.cluster
    emulated = any(cluster.host_of(f"osd.{osd}").emulated for osd in cluster.osd_ids())
    patience = cluster.patience if emulated else 1.0
    high = SLOW_S * patience
    why = f"osd_op_complaint_time of {SLOW_S:g} s times a patience of {patience:g} with OSDs"
    stage.recorder.limit("longest_wait_s", high, "s", why)


def by_proxy(stage: Stage, pair: PoolPair) -> None:
    """The procedure of Ceph's documentation."""
    cluster = stage.cluster
    before = tiers.tier_counters(cluster)
    with step(stage, "cache mode proxy"):
        tiers.set_mode(cluster, pair, "proxy")
    with step(stage, "flush and evict"):
        drained = tiers.drain(cluster, pair)
    note_drained(stage, drained)
    finish(stage, pair, drained)
    counters = tiers.since(cluster, before)
    stage.recorder.record("tier_counters", what="leaving", counters=counters)


def by_readproxy(stage: Stage, pair: PoolPair) -> None:
    """Readproxy serves reads past the cache and still takes writes in, so that it cannot be emptied; then proxy."""
    cluster = stage.cluster
    with step(stage, "cache mode readproxy"):
        tiers.set_mode(cluster, pair, "readproxy")
    with step(stage, "flush and evict in readproxy"):
        for _ in range(PASSES):
            tiers.flush_evict(cluster, pair)
    dirty = tiers.pool_statistics(cluster, pair.cache)["num_objects_dirty"]
    stage.recorder.witness("objects that became dirty again in readproxy", got=dirty, least=1)
    by_proxy(stage, pair)


def finish(stage: Stage, pair: PoolPair, drained: Drained) -> None:
    """Remove the overlay and the tier; what clients watched stayed behind, and the base must have it as it was."""
    cluster = stage.cluster
    with step(stage, "remove overlay"):
        tiers.remove_overlay(cluster, pair)
    here = cached(cluster, pair)
    late = sorted(set(here) - set(drained.watched)) or "none"
    stage.recorder.observe("objects that came into the cache after it was empty", got=late, wanted="none")
    compare_headers(stage, pair, drained.watched)
    with step(stage, "remove tier"):
        tiers.remove(cluster, pair)


def compare_headers(stage: Stage, pair: PoolPair, names: Sequence[str]) -> None:
    """Compare watched objects, which stay in the cache, with those of the base."""
    differences = {name: differing(kept(stage, pair.cache, name), kept(stage, pair.base, name)) for name in names}
    stage.recorder.record("headers", behind={name: sorted(keys & STAMPS) for name, keys in differences.items()})
    lost = [f"{name}: {', '.join(sorted(keys - STAMPS))}" for name, keys in differences.items() if keys - STAMPS]
    what = "watched objects that the base has otherwise than the cache"
    stage.recorder.observe(what, got=lost, wanted=[], of=len(differences))


def kept(stage: Stage, pool: str, name: str) -> dict[str, Any]:
    """An object's content and omap. Attributes are left out: they hold locks, which change meanwhile."""
    content = stage.cluster.client.digest(pool, name)
    return {"size": content["size"], "sha256": content["sha256"], **content["omap"]}


def differing(left: Mapping[str, Any], other: Mapping[str, Any]) -> set[str]:
    """Keys in which two objects differ."""
    return {key for key in {*left, *other} if left.get(key) != other.get(key)}


def note_drained(stage: Stage, drained: Drained) -> None:
    """What a drain did. One that left more than what is watched has raised an error."""
    stage.recorder.record("drained", watched=list(drained.watched), passes=drained.passes, seconds=drained.seconds)


def with_fault(stage: Stage, pair: PoolPair) -> None:
    """An OSD of the cache is killed in the middle of a flush, and comes back before the overlay is removed."""
    cluster, recorder = stage.cluster, stage.recorder
    victim = stage.rng.choice(tiers.fast_osds(cluster))
    with step(stage, "cache mode proxy"):
        tiers.set_mode(cluster, pair, "proxy")
    full = len(cached(cluster, pair))
    with step(stage, f"flush and evict, osd.{victim} killed meanwhile"), Workers(1) as aside:
        draining = aside.submit(tiers.drain, cluster, pair)
        left = begun(stage, pair, full)
        with inflict(KillDaemon(f"osd.{victim}"), cluster, recorder):
            recorder.witness("objects gone from the cache when the OSD was killed", got=full - left, least=1)
            recorder.witness("objects in the cache when the OSD was killed", got=left, least=1)
            draining.result()
        cluster.wait(lambda status: status.all_up, what=f"osd.{victim} up again")
    with step(stage, "flush and evict what came back"):
        drained = tiers.drain(cluster, pair)
    note_drained(stage, drained)
    finish(stage, pair, drained)


def begun(stage: Stage, pair: PoolPair, full: int) -> int:
    """Wait until a flush has taken its first objects out of the cache; how many are left."""
    return clock.wait(
        lambda: len(cached(stage.cluster, pair)),
        lambda left: left < full,
        what="the first objects flushed and evicted",
        timeout_s=UNDER_WAY_S * stage.cluster.patience,
        interval_s=0.05,
    )


def scenario(name: str, tier: Tier, leave: Leave, how: str) -> Scenario:
    return scenario_on_paper_layout(
        name=f"cachetier.leaving[{name}]",
        goal="A writeback tier is left under load without an error or a lost write.",
        method=f"Objects and RBD images are written and read meanwhile; {how}; everything is read back from the base.",
        run=partial(under_load, leave=leave),
        check="recorded",
        tier=tier,
        expects=EXPECTED,
    )


SCENARIOS = (
    scenario("mode=proxy", Tier.QUICK, by_proxy, "mode proxy, flush and evict, overlay and tier removed"),
    scenario("mode=readproxy", Tier.FULL, by_readproxy, "mode readproxy and flushes, then as with proxy"),
    scenario("fault=osd", Tier.FULL, with_fault, "an OSD of the cache is killed while it is flushed"),
)
