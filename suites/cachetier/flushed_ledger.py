"""Transactions committed through a cache tier are in the base after a flush: the ledger is read without the tier."""

from __future__ import annotations

from cephlab.lab.history.history import Bound
from cephlab.lab.scenario.scenario import Stage
from cephlab.suites.cachetier import tiers
from cephlab.suites.cachetier.database import Layers, layered, scenario_over_database
from cephlab.suites.cachetier.flushing import NO_LIMIT, flush_all
from cephlab.suites.cachetier.oltp import begin
from cephlab.suites.cachetier.stand import counted, witness_moves
from cephlab.suites.dmcache.oltp import job
from cephlab.suites.dmcache.power import COMMITTED, came_up, new_ledger, wait_committed

SECONDS = 8


def flushed(stage: Stage) -> None:
    """Load a database through a tier, flush it, and read everything back from the base alone."""
    recorder = stage.recorder
    with layered(stage) as layers:
        stand = layers.stand
        begin(layers, stage)
        ledger = new_ledger(stand)
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
            recorder.observe("CHECK TABLE from the base alone", got=stand.check_table(), wanted="OK")


def leave(stage: Stage, layers: Layers) -> None:
    """Flush and evict everything, timed, and remove the tier; afterwards the base alone has the image."""
    cluster, recorder, pair = stage.cluster, stage.recorder, layers.tier
    statistics = tiers.pool_statistics(cluster, pair.cache)
    recorder.witness("dirty objects before the flush", got=statistics["num_objects_dirty"], least=1)
    recorder.figure("bytes in the cache before it", statistics["num_bytes"], "B", Bound(NO_LIMIT))
    tiers.set_mode(cluster, pair, "proxy")
    flush_all(stage, pair)
    layers.look("after the flush")
    done = counted(stage, layers.before, "transactions and the flush")
    witness_moves(recorder, done)
    tiers.remove_overlay(cluster, pair)
    layers.drop()


SCENARIOS = (
    scenario_over_database(
        name="cachetier.oltp-flush",
        goal="Transactions that a writeback tier acknowledged are all in the base once the tier is flushed.",
        method="Runs sysbench and a ledger through a tier, times cache-flush-evict-all, reads the base alone.",
        run=flushed,
    ),
)
