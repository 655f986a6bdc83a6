"""Induced misses under a database: a tier whose target_max_bytes is too small for it, and one with room for all."""

from __future__ import annotations

from dataclasses import replace

from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.spec.clusterspec import GIB, MIB
from cephlab.suites.cachetier import tiers
from cephlab.suites.cachetier.database import layered, scenario_over_database
from cephlab.suites.cachetier.oltp import begin
from cephlab.suites.cachetier.stand import counted, witness_moves
from cephlab.suites.cachetier.tiers import TierSettings
from cephlab.suites.dmcache.benefit import SECONDS
from cephlab.suites.dmcache.oltp import job, steady
from cephlab.suites.dmcache.settings import DATABASE_ROWS, SMALL_POOL, THREADS, note_rate
from cephlab.suites.dmcache.stand import IMAGE_BYTES

AMPLE_BYTES = GIB
CROWDED_BYTES = 48 * MIB
"""A good half of what 160000 rows take with InnoDB's files, in objects of 4 MiB. The paper has 512 MB under 8 GiB."""
RUNS = 3
"""How many times longer than other runs: a crowded tier commits few transactions a second."""
CHECK_S = 300.0
_PGS = 1
"""A pool's PGs share its target: with several, each would have room for an object or two."""


def misses(stage: Stage) -> None:
    """Run the same load through both, each fresh and read once; then flush, and check the table from the base."""
    recorder, rows = stage.recorder, DATABASE_ROWS[-1]
    with layered(stage, image_bytes=2 * IMAGE_BYTES) as layers:
        stand = layers.stand
        stand.database = replace(stand.database, settings=SMALL_POOL)
        begin(layers, stage, rows)
        for label, room in (("ample tier", AMPLE_BYTES), ("crowded tier", CROWDED_BYTES)):
            layers.tiered(TierSettings(target_max_bytes=room), pg_num=_PGS)
            stand.warm()
            before = tiers.tier_counters(stage.cluster)
            wanted = job(stand, stage, threads=THREADS, runtime_s=RUNS * SECONDS[stage.tier], rows=rows)
            note_rate(recorder, label, steady(layers.measured(stage, label, wanted)))
            done = counted(stage, before, label)
        witness_moves(recorder, done, " under the load")
        layers.plain()
        layers.slow.impose(slow=False)
        recorder.observe("CHECK TABLE without the tier", got=stand.check_table(CHECK_S), wanted="OK")


SCENARIOS = (
    scenario_over_database(
        name="cachetier.oltp-misses",
        goal="A tier that is too small for its database evicts, flushes and promotes, and loses nothing.",
        method="Runs sysbench through a large tier and a small one; counters over time; CHECK TABLE at the end.",
        run=misses,
    ),
)
