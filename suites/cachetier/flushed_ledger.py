"""Transactions committed through a cache tier are in the base once it is flushed: the ledger, read without the tier."""

from __future__ import annotations

from cephlab.lab.base.clock import SYSTEM
from cephlab.lab.history.history import Bound
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.workloads.committed import Ledger
from cephlab.suites.cachetier import tiers
from cephlab.suites.cachetier.database import Layers, layered, scenario_over_database
from cephlab.suites.cachetier.flushing import NO_LIMIT
from cephlab.suites.cachetier.oltp import begin
from cephlab.suites.cachetier.stand import cached
from cephlab.suites.dmcache.oltp import job
from cephlab.suites.dmcache.power import CLIENTS, COMMITTED, came_up, wait_committed
from cephlab.suites.dmcache.stand import STORAGE

SECONDS = 8


def flushed(stage: Stage) -> None:
    """Load a database through a tier, flush it, and read everything back from the base alone."""
    recorder = stage.recorder
    with layered(stage) as layers:
        stand = layers.stand
        begin(layers, stage)
        ledger = Ledger(stand.database, [stage.cluster.hosts[STORAGE]] * CLIENTS)
        ledger.prepare()
        layers.tiered()
        stand.warm()
        enough = stage.rng.randint(*COMMITTED)
        with ledger.running():
            layers.measured(stage, "the tier, before its flush", job(stand, stage, runtime_s=SECONDS))
            wait_committed(ledger, enough)
        stand.detach()
        leave(stage, layers)
        stand.attach()
        stand.plain()
        recorder.witness("acknowledged transactions", got=len(ledger.acknowledged), least=enough)
        if came_up(stand, recorder, "the database on the base alone"):
            ledger.note(recorder, ledger.read_back())
            (checked,) = stand.database.query("CHECK TABLE sbtest.sbtest1")
            recorder.observe("CHECK TABLE from the base alone", got=checked[-1], wanted="OK")


def leave(stage: Stage, layers: Layers) -> None:
    """Flush and evict everything, timed, and remove the tier; the base alone has the image afterwards."""
    cluster, recorder, pair = stage.cluster, stage.recorder, layers.tier
    held = tiers.pool_statistics(cluster, pair.cache)
    recorder.witness("dirty objects before the flush", got=held["num_objects_dirty"], least=1)
    tiers.set_mode(cluster, pair, "proxy")
    began = SYSTEM.monotonic()
    said = tiers.flush_evict(cluster, pair)
    took = SYSTEM.monotonic() - began
    layers.look("after the flush")
    done = layers.counters()
    recorder.record("tier_counters", what="transactions and the flush", counters=done)
    recorder.observe("what cache-flush-evict-all complained of", got=said or "nothing", wanted="nothing")
    recorder.observe("objects left in the cache", got=cached(cluster, pair), wanted=[], of=held["num_objects"])
    recorder.witness("promotions", got=done["tier_promote"], least=1)
    recorder.witness("flushes", got=done["tier_flush"] + done["tier_try_flush"], least=1)
    recorder.witness("evictions", got=done["tier_evict"], least=1)
    recorder.figure("time of cache-flush-evict-all", took, "s", Bound(NO_LIMIT))
    recorder.figure("bytes in the cache before it", held["num_bytes"], "B", Bound(NO_LIMIT))
    tiers.remove_overlay(cluster, pair)
    layers.drop()


SCENARIOS = (
    scenario_over_database(
        name="cachetier.oltp-flush",
        goal="Transactions that a writeback tier acknowledged are all in the base once the tier is flushed.",
        method="sysbench and a ledger through a tier; cache-flush-evict-all, timed; the database from the base alone.",
        run=flushed,
    ),
)
