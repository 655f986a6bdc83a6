"""The paper's database over a cache tier: what the tier gains over threads, beside dm-cache and beside nothing."""

from __future__ import annotations

from cephlab.lab.blockstack.dmcache import Mode
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.workloads import sysbench
from cephlab.suites.cachetier.database import TIER, Layers, layered, scenario_over_database
from cephlab.suites.dmcache.benefit import FEW_THREADS, ROUNDS, SECONDS, THREADS, note_gain
from cephlab.suites.dmcache.oltp import ROWS, job, steady
from cephlab.suites.dmcache.stand import NO_CACHE

KINDS = (NO_CACHE, Mode.WRITEBACK.value, TIER)


def begin(layers: Layers, stage: Stage, rows: int = ROWS) -> None:
    """A database on the base alone, filled; then the base's disk gets its class."""
    stand = layers.stand
    stand.plain()
    stand.new_database()
    sysbench.prepare(stand.host, job(stand, stage, rows=rows))
    layers.slow.impose()


def in_turns(layers: Layers, stage: Stage, threads: int, rounds: int) -> dict[str, list[float]]:
    """Transactions of each second with nothing, dm-cache and a tier, each of them fresh and then read through once."""
    seconds: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for _ in range(rounds):
        for kind in KINDS:
            layers.put(kind)
            layers.stand.warm()
            wanted = job(layers.stand, stage, threads=threads, runtime_s=SECONDS[stage.tier])
            seconds[kind] += steady(layers.measured(stage, f"{kind}, {threads} threads", wanted))
    return seconds


def sweep(stage: Stage) -> None:
    """The three over the thread counts; a gain is judged where the paper's is without doubt, at few threads."""
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
        goal="At few threads a tier commits more transactions than slow disks alone; over threads, beside dm-cache.",
        method="sysbench on MariaDB on an RBD image: nothing, dm-cache, a writeback tier, each fresh, at each count.",
        run=sweep,
    ),
)
