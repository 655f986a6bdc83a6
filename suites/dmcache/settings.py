"""The paper's other questions: block sizes, database sizes, and a cache smaller than the database."""

from collections.abc import Sequence
from dataclasses import replace

from cephlab.lab.blockstack.dmcache import DmCacheMode
from cephlab.lab.blockstack.mapper import SECTOR_BYTES
from cephlab.lab.blockstack.mariadb import Settings
from cephlab.lab.history.history import Basis, Bound, Recorder
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.spec.clusterspec import MIB
from cephlab.lab.telemetry.statistics import interval, ratio_of_means
from cephlab.lab.workloads import sysbench
from cephlab.suites.dmcache.benefit import FEW_THREADS, NO_LIMIT, SECONDS, begin
from cephlab.suites.dmcache.findings import note_findings, thread_counts
from cephlab.suites.dmcache.oltp import ROWS, WARM_S, job, measured, steady
from cephlab.suites.dmcache.stand import CACHE_BYTES, IMAGE_BYTES, Stand, scenario_on_stand, standing
from cephlab.suites.machines import profile_of_disks
from cephlab.tuning.comparison import OltpRun, runs

BLOCK_SECTORS = (64, 2048)
"""32 KiB and 1 MiB. The paper's text goes down to 512 bytes, which the kernel refuses; its table has 512 sectors."""
ROUNDS, ROUND_S = 5, WARM_S + 6
"""How often both sizes take turns, and for how long: two runs of one size can differ by more than the seconds of either
of them, so several runs say more than long ones."""
WARMED_S, WARMINGS, WARM_HITS = 5, 2, 0.98
"""A cache is warmed by runs of this length, until this share of one run's accesses hits, or so many times."""
SHORT_LOG = Settings(log_bytes=4 * MIB)
"""InnoDB writes its log in order: each new block of it misses until the log comes round, which this one does soon."""
DATABASE_ROWS = (ROWS, 4 * ROWS, 16 * ROWS)
"""Up to the paper's 160000, which it runs with the small cache."""
SMALL_CACHE_BYTES = 16 * MIB
"""Just over a third of the space of 160000 rows, so that the cache has to evict. The paper has 512 MB under 8 GiB."""
SMALL_POOL = Settings(buffer_pool_bytes=8 * MIB)
"""Smaller than the database: otherwise InnoDB's own cache hides the one below."""
THREADS = 4
MANY_THREADS = 32
FITS = 0.9
OF_BLOCKS = (
    "small cache blocks commit more transactions before threads saturate",
    "large cache blocks commit more transactions after threads saturate",
)
OF_SIZES = ("a larger database has a longer latency tail through dm-cache",)
OF_ROOM = ("a dm-cache that is too small commits fewer transactions",)
"""The findings that are the goals of these scenarios: a run without them shows nothing of its goal."""
SMQ_S = 60
"""smq puts promoted blocks on its highest level and evicts from the lower half only. It moves blocks between levels
this often (CACHE_UPDATE_PERIOD of the kernel's dm-cache-policy-smq.c), so it evicts nothing before that."""


def block_sizes(stage: Stage) -> None:
    """Run the same load with a warm cache of each block size in turns, at few threads and at many."""
    with standing(stage) as stand:
        stand.database = replace(stand.database, settings=SHORT_LOG)
        begin(stand, stage)
        for threads in (FEW_THREADS, thread_counts(stand.host, MANY_THREADS)[-1]):
            rates: dict[str, list[float]] = {}
            for sectors in BLOCK_SECTORS * ROUNDS:
                label = f"blocks of {sectors * SECTOR_BYTES >> 10} KiB, {threads} threads"
                warm(stand, stage, sectors)
                wanted = job(stand, stage, threads=threads, runtime_s=ROUND_S)
                seconds = steady(measured(stand, stage, label, wanted))
                rates.setdefault(label, []).append(sum(seconds) / len(seconds))
            for label, of_runs in rates.items():
                note_rate(stage.recorder, label, of_runs)
    note_findings(stage)


def warm(stand: Stand, stage: Stage, sectors: int) -> None:
    """Use a new cache until it holds database and log, as in the paper's runs of ten minutes, over a fast origin.

    A fresh cache of large blocks holds them after a few promotions, and one of small blocks after many.
    """
    cache, slow = stand.cached(DmCacheMode.WRITEBACK, sectors), profile_of_disks(stage) is None
    if slow:
        stand.impose(slow=False)
    for _ in range(WARMINGS):
        before = cache.status()
        sysbench.run(stand.host, job(stand, stage, threads=THREADS, runtime_s=WARMED_S))
        if cache.status().since(before).hit_ratio >= WARM_HITS:
            break
    if slow:
        stand.impose()


def database_sizes(stage: Stage) -> None:
    """Run the same load on new databases of several sizes, all of which fit into the cache."""
    for rows in DATABASE_ROWS:
        with standing(stage) as stand:
            begin(stand, stage, rows)
            stand.cached(DmCacheMode.WRITEBACK)
            wanted = job(stand, stage, threads=THREADS, runtime_s=SECONDS[stage.tier], rows=rows)
            note_rate(stage.recorder, f"{rows} rows", steady(measured(stand, stage, f"{rows} rows", wanted)))
    note_findings(stage)


def small_cache(stage: Stage) -> None:
    """Run a database larger than its server's own cache over a cache that holds it, and over a smaller one.

    Each run is long enough that smq is sure to evict.
    """
    recorder, rows = stage.recorder, DATABASE_ROWS[-1]
    with standing(stage, image_bytes=2 * IMAGE_BYTES) as stand:
        stand.database = replace(stand.database, settings=SMALL_POOL)
        begin(stand, stage, rows)
        for label, room in (("large cache", CACHE_BYTES), ("small cache", SMALL_CACHE_BYTES)):
            stand.plain()
            stand.resize(room)
            cache = stand.cached(DmCacheMode.WRITEBACK)
            wanted = job(stand, stage, threads=THREADS, runtime_s=2 * SMQ_S + SECONDS[stage.tier], rows=rows)
            note_rate(recorder, label, steady(measured(stand, stage, label, wanted)))
            status = cache.status()
        recorder.witness("blocks evicted", got=status.demotions, least=1)
    large, small = (warm_hits(run) for run in runs(recorder.events()))
    note_hits(recorder, large, small)
    note_findings(stage)


def warm_hits(run: OltpRun) -> Sequence[float]:
    """Shares of accesses that hit, second by second, once half of the run has warmed the cache."""
    return run.hits[len(run.hits) // 2 :]


def note_hits(recorder: Recorder, large: Sequence[float], small: Sequence[float]) -> None:
    """Judge the hit ratios of a cache that holds the database and of one that does not, by interval."""
    share, beside = interval(large), ratio_of_means(small, large)
    bound = Bound("finding of the paper, 5.1.2: over 90 %, once the cache is warm", least=FITS, basis=Basis.SHAPE)
    what = "hit ratio of a cache that holds the database"
    recorder.figure(what, share.mean, "of accesses", bound, interval=share.ends)
    why = "a cache that evicts misses what it evicted; the paper's hit ratio was 0.75 to 0.96, with other sizes"
    bound = Bound(why, most=1.0, basis=Basis.SHAPE)
    what = "hits of a cache that is too small, beside one that is not"
    recorder.figure(what, beside.mean, "times", bound, interval=beside.ends)


def note_rate(recorder: Recorder, what: str, values: list[float]) -> None:
    """Record transactions a second as a figure without a limit."""
    rate = interval(values)
    recorder.figure(what, rate.mean, "transactions/s", NO_LIMIT, interval=rate.ends)


SCENARIOS = (
    scenario_on_stand(
        name="dmcache.block-size",
        goal="With few threads, small cache blocks give more transactions; with many, large ones (32 KiB and 1 MiB).",
        method="Runs sysbench on MariaDB with a warm cache of each block size in turns, with one thread and with many.",
        run=block_sizes,
        sees=("blocks of 32 KiB, .*", "blocks of 1024 KiB, .*", *OF_BLOCKS),
    ),
    scenario_on_stand(
        name="dmcache.database-size",
        goal="A larger database has a longer latency tail on dm-cache; its transactions are recorded.",
        method="Runs sysbench on MariaDB with a new database of each size.",
        run=database_sizes,
        sees=OF_SIZES,
    ),
    scenario_on_stand(
        name="dmcache.small-cache",
        goal="A cache that holds the database has over 90 % hits; a smaller one evicts, hits less and commits less.",
        method="Runs sysbench on MariaDB with a cache larger than the database and with a smaller one.",
        run=small_cache,
        sees=OF_ROOM,
    ),
)
