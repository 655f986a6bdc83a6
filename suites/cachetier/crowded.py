"""Induced misses under a database: a tier whose target_max_bytes is too small for it, beside one with room for all."""

from __future__ import annotations

from dataclasses import replace

from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.spec.clusterspec import GIB, MIB
from cephlab.suites.cachetier.database import layered, scenario_over_database
from cephlab.suites.cachetier.oltp import begin
from cephlab.suites.cachetier.tiers import TierSettings
from cephlab.suites.dmcache.benefit import SECONDS
from cephlab.suites.dmcache.oltp import job, steady
from cephlab.suites.dmcache.settings import DATABASE_ROWS, SMALL_POOL, THREADS, note_rate
from cephlab.suites.dmcache.stand import IMAGE_BYTES

AMPLE_BYTES = GIB
CROWDED_BYTES = 48 * MIB
"""A good half of what 160000 rows take with InnoDB's files, in objects of 4 MiB. The paper has 512 MB under 8 GiB."""
RUNS = 3
"""Times as long as other runs: a crowded tier commits few transactions a second."""
CHECK_S = 300.0
_PGS = 1
"""A target is shared out among a pool's PGs: with more of them each would have room for an object or two."""


def misses(stage: Stage) -> None:
    """The same load through both, each fresh and read through once; then all is flushed and read from the base."""
    recorder, rows = stage.recorder, DATABASE_ROWS[-1]
    with layered(stage, image_bytes=2 * IMAGE_BYTES) as layers:
        stand = layers.stand
        stand.database = replace(stand.database, settings=SMALL_POOL)
        begin(layers, stage, rows)
        for label, room in (("ample tier", AMPLE_BYTES), ("crowded tier", CROWDED_BYTES)):
            layers.tiered(TierSettings(target_max_bytes=room), pg_num=_PGS)
            stand.warm()
            before = layers.counters()
            wanted = job(stand, stage, threads=THREADS, runtime_s=RUNS * SECONDS[stage.tier], rows=rows)
            note_rate(recorder, label, steady(layers.measured(stage, label, wanted)))
            done = {name: count - before[name] for name, count in layers.counters().items()}
            recorder.record("tier_counters", what=label, counters=done)
        recorder.witness("evictions under the load", got=done["tier_evict"], least=1)
        recorder.witness("promotions under the load", got=done["tier_promote"], least=1)
        recorder.witness("flushes under the load", got=done["tier_flush"] + done["tier_try_flush"], least=1)
        layers.plain()
        layers.slow.impose(slow=False)
        (checked,) = stand.database.query("CHECK TABLE sbtest.sbtest1", timeout_s=CHECK_S)
        recorder.observe("CHECK TABLE without the tier", got=checked[-1], wanted="OK")


SCENARIOS = (
    scenario_over_database(
        name="cachetier.oltp-misses",
        goal="A tier that the database does not fit into evicts, flushes and promotes, and loses nothing.",
        method="sysbench through a tier with room for all and one without; counters over time; CHECK TABLE at the end.",
        run=misses,
    ),
)
