"""The paper's database over a cache tier: its gain at each thread count, compared with dm-cache and with no cache."""

from __future__ import annotations

from cephlab.lab.blockstack.dmcache import DmCacheMode
from cephlab.lab.scenario.scenario import Stage
from cephlab.suites.cachetier.database import TIER, Layers, layered, scenario_over_database
from cephlab.suites.dmcache.benefit import FEW_THREADS, ROUNDS, SECONDS, THREADS, note_gain
from cephlab.suites.dmcache.oltp import ROWS, fill, job, steady
from cephlab.suites.dmcache.stand import NO_CACHE

KINDS = (NO_CACHE, DmCacheMode.WRITEBACK.value, TIER)


def begin(layers: Layers, stage: Stage, rows: int = ROWS) -> None:
    """Fill a database on the base alone, then make the base's disk slow."""
    fill(layers.stand, stage, rows)
    layers.slow.impose()


def in_turns(layers: Layers, stage: Stage, threads: int, rounds: int) -> dict[str, list[float]]:
    """Transactions of each second with no cache, dm-cache and a tier, each of them fresh and then read once."""
    seconds: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for _ in range(rounds):
        for kind in KINDS:
            layers.put(kind)
            layers.stand.warm()
            wanted = job(layers.stand, stage, threads=threads, runtime_s=SECONDS[stage.tier])
            seconds[kind] += steady(layers.measured(stage, f"{kind}, {threads} threads", wanted))
    return seconds


def sweep(stage: Stage) -> None:
    """Compare the three at each thread count. Only few threads are judged, where the paper's gain is beyond doubt."""
    with layered(stage) as layers:
        begin(layers, stage)
        for threads in THREADS:
            few = threads == FEW_THREADS
            seconds = in_turns(layers, stage, threads, ROUNDS if few else 1)
            for kind in KINDS[1:]:
                values = {True: seconds[kind], False: seconds[NO_CACHE]}
                note_gain(stage.recorder, f"{kind}, {threads} threads", values, judged=kind == TIER and few)


SCENARIOS = (
    scenario_over_database(
        name="cachetier.oltp-threads",
        goal="At few threads, a tier commits more transactions than slow disks alone; dm-cache for comparison.",
        method="Runs sysbench on MariaDB over no cache, dm-cache and a writeback tier, each fresh, at each count.",
        run=sweep,
    ),
)
