"""Removing a tier while clients write: no error, no acknowledged write lost, and a limit on latency."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import partial
from typing import Any, Literal

from cephlab.lab.base import clock
from cephlab.lab.base.clock import SYSTEM
from cephlab.lab.base.workers import Workers
from cephlab.lab.cluster.watch import watched
from cephlab.lab.faults import inflict
from cephlab.lab.faults.daemons import KillDaemon
from cephlab.lab.history.history import Basis, Phase
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.workloads.recorded import Load, RecordedLoad
from cephlab.suites.cachetier import tiers
from cephlab.suites.cachetier.stand import APART, PAPER, POOL, cached, counted
from cephlab.suites.cachetier.tiers import PoolPair
from cephlab.suites.limits import RECORDED, no_errors
from cephlab.suites.migration.trial import client_nodes
from cephlab.suites.resilience.trial import EXPECTED, under_way

KEYS = 32
WORKERS = 2
PAUSE_S = 0.02
"""Pause of a worker between two operations. Without it, the load would leave the flush no CPU on two cores."""

UNDER_WAY = 200
"""Operations before the tier is removed: by then each key was written about twice and is dirty in the cache."""
UNDER_WAY_S = 120.0
AFTER_S = 3.0
"""How long clients continue after the tier is removed."""
LEAST_AFTER = 20
LEAST_DIRTY = 16
PASSES = 2

STAMPS = frozenset({"access_timestamp", "modify_timestamp"})
"""Access and modify times of an image, which librbd writes to its header once a minute (rbd_atime_update_interval,
rbd_mtime_update_interval). An update between the last flush and the removal of the overlay stays in the cache."""

SLOW_S = 30.0
"""Ceph calls an operation slow after this time (osd_op_complaint_time)."""

KINDS: tuple[Literal["objects"], Literal["blocks"]] = ("objects", "blocks")

Leave = Callable[[Stage, PoolPair], None]


@contextmanager
def step(stage: Stage, name: str) -> Iterator[None]:
    """Record a step of the procedure and its duration."""
    began = SYSTEM.monotonic()
    stage.recorder.step(name, Phase.BEGAN)
    yield
    took_s = round(SYSTEM.monotonic() - began, 3)
    stage.recorder.step(name, Phase.ENDED, took_s)
    stage.recorder.figure(f"step_s[{name}]", took_s, "s", RECORDED)


def loads(stage: Stage, pool: str) -> list[RecordedLoad]:
    """Loads of objects and of blocks, both in the pool with the tier, from every client machine."""
    nodes = client_nodes(stage.cluster)

    def load_of(kind: Literal["objects", "blocks"]) -> RecordedLoad:
        seed = stage.rng.randrange(1 << 30)
        load = Load(pool, nodes, seed, name=kind, kind=kind, keys=KEYS, workers=WORKERS, pause_s=PAUSE_S)
        return RecordedLoad(stage.cluster, stage.recorder, load)

    return [load_of(kind) for kind in KINDS]


def under_load(stage: Stage, leave: Leave) -> None:
    """Remove a tier full of dirty objects while clients use it, then read everything back."""
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
            recorder.witness("dirty objects before the tier is removed", got=dirty, least=LEAST_DIRTY)
            leave(stage, pair)
            completed = [load.completed() for load in running]
            SYSTEM.sleep(AFTER_S)
            for load, before in zip(running, completed, strict=True):
                after = load.completed() - before
                recorder.witness(f"operations of {load.load.name} without the tier", got=after, least=LEAST_AFTER)
        for load in running:
            load.verify()
            load.clean()


def limit(stage: Stage) -> None:
    """Limit the errors and the latency that clients may see."""
    no_errors(stage.recorder, "removing a tier must not make an operation fail")
    cluster = stage.cluster
    emulated = any(cluster.host_of(f"osd.{osd}").emulated for osd in cluster.osd_ids())
    patience = cluster.patience if emulated else 1.0
    why = f"osd_op_complaint_time of {SLOW_S:g} s, times a patience of {patience:g} for the OSDs"
    stage.recorder.limit("longest_wait_s", SLOW_S * patience, "s", why, basis=Basis.CORRECTNESS)


def by_proxy(stage: Stage, pair: PoolPair) -> None:
    """Remove the tier as Ceph's documentation says."""
    cluster = stage.cluster
    before = tiers.tier_counters(cluster)
    with step(stage, "cache mode proxy"):
        tiers.set_mode(cluster, pair, "proxy")
    drain_and_remove(stage, pair, "flush and evict")
    counted(stage, before, "leaving")


def by_readproxy(stage: Stage, pair: PoolPair) -> None:
    """Try mode readproxy, in which a cache still takes writes and cannot be emptied; then use mode proxy."""
    cluster = stage.cluster
    with step(stage, "cache mode readproxy"):
        tiers.set_mode(cluster, pair, "readproxy")
    with step(stage, "flush and evict in readproxy"):
        for _ in range(PASSES):
            tiers.flush_evict(cluster, pair)
    dirty = tiers.pool_statistics(cluster, pair.cache)["num_objects_dirty"]
    stage.recorder.witness("objects that became dirty again in readproxy", got=dirty, least=1)
    by_proxy(stage, pair)


def drain_and_remove(stage: Stage, pair: PoolPair, name: str) -> None:
    """Drain the cache in a step of this name, then remove the overlay and the tier.

    Objects that clients watch stay in the cache, and the base must have the same content.
    """
    cluster = stage.cluster
    with step(stage, name):
        drained = tiers.drain(cluster, pair)
    stage.recorder.record("drained", **asdict(drained))
    with step(stage, "remove overlay"):
        tiers.remove_overlay(cluster, pair)
    late = sorted(set(cached(cluster, pair)) - set(drained.watched)) or "none"
    stage.recorder.observe("objects added to the cache after it was drained", got=late, wanted="none")
    compare_headers(stage, pair, drained.watched)
    with step(stage, "remove tier"):
        tiers.remove(cluster, pair)


def compare_headers(stage: Stage, pair: PoolPair, names: Sequence[str]) -> None:
    """Compare watched objects, which stay in the cache, with the same objects in the base."""
    differences = {}
    for name in names:
        cache, base = (content(stage, pool, name) for pool in (pair.cache, pair.base))
        differences[name] = {key for key in {*cache, *base} if cache.get(key) != base.get(key)}
    stage.recorder.record("headers", behind={name: sorted(keys & STAMPS) for name, keys in differences.items()})
    lost = [f"{name}: {', '.join(sorted(keys - STAMPS))}" for name, keys in differences.items() if keys - STAMPS]
    what = "watched objects that differ between the base and the cache"
    stage.recorder.observe(what, got=lost, wanted=[], of=len(differences))


def content(stage: Stage, pool: str, name: str) -> dict[str, Any]:
    """An object's content and omap. Attributes are left out because they hold locks, which change."""
    digest = stage.cluster.client.digest(pool, name)
    return {"size": digest["size"], "sha256": digest["sha256"], **digest["omap"]}


def with_fault(stage: Stage, pair: PoolPair) -> None:
    """Kill an OSD of the cache during a flush; it is up again before the overlay is removed."""
    cluster, recorder = stage.cluster, stage.recorder
    victim = stage.rng.choice(tiers.fast_osds(cluster))
    with step(stage, "cache mode proxy"):
        tiers.set_mode(cluster, pair, "proxy")
    at_start = len(cached(cluster, pair))
    with step(stage, f"flush and evict, osd.{victim} killed meanwhile"), Workers(1) as aside:
        draining = aside.submit(tiers.drain, cluster, pair)
        left = clock.wait(
            lambda: len(cached(cluster, pair)),
            lambda left: left < at_start,
            what="the first objects to be flushed and evicted",
            timeout_s=UNDER_WAY_S * cluster.patience,
            interval_s=0.05,
        )
        with inflict(KillDaemon(f"osd.{victim}"), cluster, recorder):
            recorder.witness("objects evicted before the OSD was killed", got=at_start - left, least=1)
            recorder.witness("objects still in the cache when the OSD was killed", got=left, least=1)
            draining.result()
        cluster.wait(lambda status: status.all_up, what=f"osd.{victim} to be up again")
    drain_and_remove(stage, pair, "flush and evict what came back")


def scenario(name: str, tier: Tier, leave: Leave, how: str, topology: Topology = PAPER) -> Scenario:
    return Scenario(
        name=f"cachetier.leaving[{name}]",
        goal="A writeback tier can be removed under load without an error or a lost write.",
        method=f"While clients use objects and RBD images, {how}; reads all back from the base.",
        run=partial(under_load, leave=leave),
        check="recorded",
        tier=tier,
        topology=topology,
        expects=EXPECTED,
    )


SCENARIOS = (
    scenario("mode=proxy", Tier.QUICK, by_proxy, "sets mode proxy, flushes and evicts, removes overlay and tier"),
    scenario("mode=readproxy", Tier.FULL, by_readproxy, "tries mode readproxy and flushes, then does as with proxy"),
    scenario(
        "fault=osd",
        Tier.FULL,
        with_fault,
        "kills an OSD of the cache, which is of the other architecture, during the flush",
        APART[host_arch().other],
    ),
)
