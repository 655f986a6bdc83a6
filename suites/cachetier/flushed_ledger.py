"""Transactions committed through a cache tier are in the base once it is flushed: the ledger, read without the tier."""

from __future__ import annotations

from lab import clock, tiers
from lab.blockstack.mariadb import DatabaseDown
from lab.clock import SYSTEM
from lab.errors import CommandFailed
from lab.scenario import Scenario, Stage, Tier
from lab.workloads.committed import Ledger
from suites.block.stand import note
from suites.cachetier.database import EXPECTS, NEEDS, TOPOLOGY, Layers, layered
from suites.cachetier.flushing import NO_LIMIT
from suites.cachetier.oltp import begin
from suites.cachetier.stand import cached
from suites.dmcache.oltp import job
from suites.dmcache.power import CLIENTS, COMMITTED, COMMITTED_S
from suites.dmcache.stand import STORAGE

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
            clock.wait(
                lambda: len(ledger.acknowledged),
                lambda count: count >= enough,
                what=f"{enough} committed transactions",
                timeout_s=COMMITTED_S,
            )
        stand.detach()
        leave(stage, layers)
        stand.attach()
        stand.plain()
        recorder.witness("acknowledged transactions", got=len(ledger.acknowledged), least=enough)
        if came_up(stage, layers):
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
    recorder.observe("what cache-flush-evict-all complained of", got=said, wanted="")
    recorder.observe("objects left in the cache", got=cached(cluster, pair), wanted=[])
    recorder.witness("promotions", got=done["tier_promote"], least=1)
    recorder.witness("flushes", got=done["tier_flush"] + done["tier_try_flush"], least=1)
    recorder.witness("evictions", got=done["tier_evict"], least=1)
    note(recorder, "time of cache-flush-evict-all", took, "s", why=NO_LIMIT)
    note(recorder, "bytes in the cache before it", held["num_bytes"], "B", why=NO_LIMIT)
    tiers.remove_overlay(cluster, pair)
    layers.drop()


def came_up(stage: Stage, layers: Layers) -> bool:
    """Whether the file system and the server come up on the base alone; noted."""
    what = "the database on the base alone"
    try:
        layers.stand.open_database()
    except (CommandFailed, DatabaseDown) as error:
        stage.recorder.observe(what, got=f"{error.what}: {error.detail[-3000:]}", wanted="up")
        return False
    stage.recorder.observe(what, got="up", wanted="up")
    return True


SCENARIOS = (
    Scenario(
        name="cachetier.oltp-flush",
        goal="Transactions that a writeback tier acknowledged are all in the base once the tier is flushed.",
        method="sysbench and a ledger through a tier; cache-flush-evict-all, timed; the database from the base alone.",
        run=flushed,
        check="figures",
        tier=Tier.FULL,
        topology=TOPOLOGY,
        needs=NEEDS,
        expects=EXPECTS,
    ),
)
