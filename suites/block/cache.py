"""librbd's cache off and on: how many requests reach the cluster."""

from dataclasses import replace

from cephlab.lab.history.history import Basis, Bound
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.telemetry import counters
from cephlab.lab.workloads.fio import FioJob, FioResult
from cephlab.suites.block.stand import client_node, job, note_run, run_jobs, scenario_of_load, written

BLOCK_BYTES = 4096
DEPTH = 4
NONE = {
    "rbd_cache": "false",
    # librbd's I/O scheduler also runs without a cache, and merges sequential writes in flight.
    "rbd_io_scheduler": "none",
}
WRITEBACK = {
    "rbd_cache": "true",
    "rbd_cache_policy": "writeback",
    # Without this, librbd writes through until a guest flushes for the first time.
    "rbd_cache_writethrough_until_flush": "false",
}
MOST_UNCACHED = 1.1
"""Most requests per operation without a cache: one, and sometimes one more from librbd itself."""

MOST_CACHED = 0.8
"""Most requests per operation with a cache, which merges sequential writes of 4 KiB."""


def run(stage: Stage) -> None:
    """Write small blocks in sequence, with the cache off and on. A writeback cache merges them."""
    with written(stage) as (image,):
        wanted = job(stage, image, "write", BLOCK_BYTES, DEPTH, ramp_time="0")
        for name, options, least, most in (
            ("none", NONE, 1.0, MOST_UNCACHED),
            ("writeback", WRITEBACK, None, MOST_CACHED),
        ):
            result, requests = counted(stage, replace(wanted, options=options))
            note_run(stage.recorder, f"cache {name}", result, DEPTH)
            share = requests / result.operations if result.operations else 0.0
            why = "each write goes to the cluster" if name == "none" else "the cache merges sequential writes"
            stage.recorder.figure(
                f"cache {name}: requests an operation", share, "", Bound(why, least=least, most=most, basis=Basis.SHAPE)
            )


def counted(stage: Stage, wanted: FioJob) -> tuple[FioResult, float]:
    """Run a job. Returns its result, and the number of client writes that the OSDs served during it."""
    before = _requests(stage)
    (result,) = run_jobs(stage.cluster, [(client_node(stage.cluster), wanted)])
    return result, _requests(stage) - before


def _requests(stage: Stage) -> float:
    return sum(dump.get("osd.op_w", 0.0) for dump in counters.of_osds(stage.cluster).values())


SCENARIOS = (
    scenario_of_load(
        name="block.cache",
        goal="librbd's writeback cache merges small sequential writes; without it, each write reaches the cluster.",
        method="Writes 4 KiB blocks in sequence with fio, cache off and on; reads the OSDs' request counters.",
        run=run,
    ),
)
