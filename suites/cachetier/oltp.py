"""The paper's database over a cache tier: gain by thread count, a flush without data loss, induced misses."""

from dataclasses import replace

from cephlab.lab.blockstack.dmcache import DmCacheMode
from cephlab.lab.history.history import Basis, Bound
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.spec.clusterspec import GIB, MIB
from cephlab.suites import gains
from cephlab.suites.cachetier import tiers
from cephlab.suites.cachetier.database import TIER, Layers, layered, scenario_over_database
from cephlab.suites.cachetier.flushing import NO_LIMIT as NO_WHY
from cephlab.suites.cachetier.flushing import flush_all
from cephlab.suites.cachetier.stand import counted, witness_moves
from cephlab.suites.cachetier.tiers import TierSettings
from cephlab.suites.dmcache import settings
from cephlab.suites.dmcache.benefit import FEW_THREADS, GAIN, MOST_THREADS, NO_LIMIT, ROUNDS, SECONDS, note_gain
from cephlab.suites.dmcache.findings import note_findings, thread_counts
from cephlab.suites.dmcache.oltp import ROWS, fill, job, steady
from cephlab.suites.dmcache.power import COMMITTED, came_up, new_ledger, wait_committed
from cephlab.suites.dmcache.stand import IMAGE_BYTES, NO_CACHE
from cephlab.suites.gains import OverCache
from cephlab.suites.machines import profile_of_disks

OVER = OverCache(TIER, on_cluster=True)
KINDS = (NO_CACHE, DmCacheMode.WRITEBACK.value, TIER)


def begin(layers: Layers, stage: Stage, rows: int = ROWS) -> None:
    """Fill a database on the base pool alone, then slow the base's disk down, unless a profile describes the disks."""
    fill(layers.stand, stage, rows)
    if profile_of_disks(stage) is None:
        layers.slow.impose()


def in_turns(layers: Layers, stage: Stage, threads: int, rounds: int) -> dict[str, list[float]]:
    """Transactions of each second without a cache, with dm-cache and with a tier; each is new and read once first."""
    seconds: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for _ in range(rounds):
        for kind in KINDS:
            layers.put(kind)
            layers.stand.warm()
            wanted = job(layers.stand, stage, threads=threads, runtime_s=SECONDS[stage.tier])
            seconds[kind] += steady(layers.measured(stage, f"{kind}, {threads} threads", wanted))
    return seconds


def sweep(stage: Stage) -> None:
    """Compare the three at each thread count. Only few threads are judged, because the paper's gain is clear there."""
    with layered(stage) as layers:
        begin(layers, stage)
        for threads in thread_counts(layers.stand.host, MOST_THREADS):
            few = threads == FEW_THREADS
            seconds = in_turns(layers, stage, threads, ROUNDS if few else 1)
            for kind in KINDS[1:]:
                values = {True: seconds[kind], False: seconds[NO_CACHE]}
                judged = kind == TIER and few
                bound = gains.of_database(stage, OVER, threads, GAIN) if judged else NO_LIMIT
                note_gain(stage.recorder, f"{kind}, {threads} threads", values, bound)
    note_findings(stage)


LEDGER_S = 8


def flushed(stage: Stage) -> None:
    """Load a database through a tier, flush the tier, and read everything back from the base alone."""
    recorder = stage.recorder
    with layered(stage) as layers:
        stand = layers.stand
        begin(layers, stage)
        ledger = new_ledger(stand)
        layers.tiered()
        stand.warm()
        enough = stage.rng.randint(*COMMITTED)
        with ledger.running():
            layers.measured(stage, "the tier, before the flush", job(stand, stage, runtime_s=LEDGER_S))
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
    """Flush and evict everything, measure the time, and remove the tier; afterwards only the base has the image."""
    cluster, recorder, pair = stage.cluster, stage.recorder, layers.tier
    statistics = tiers.pool_statistics(cluster, pair.cache)
    recorder.witness("dirty objects before the flush", got=statistics["num_objects_dirty"], least=1)
    recorder.figure("bytes in the cache before it", statistics["num_bytes"], "B", Bound(NO_WHY, basis=Basis.NOTED))
    tiers.set_mode(cluster, pair, "proxy")
    flush_all(stage, pair)
    layers.look("after the flush")
    counts = counted(stage, layers.before, "transactions and the flush")
    witness_moves(recorder, counts)
    tiers.remove_overlay(cluster, pair)
    layers.drop()


AMPLE_BYTES = GIB
CROWDED_BYTES = 48 * MIB
"""A little over half of 160000 rows with InnoDB's files, in objects of 4 MiB. The paper has 512 MB for 8 GiB."""
CROWDED_RUNS = 3
"""How many times longer than other runs: a crowded tier commits few transactions per second."""
CHECK_S = 300.0
_PGS = 1
"""PGs share the pool's target: with several PGs, each would have room for only an object or two."""


def crowded_misses(stage: Stage) -> None:
    """Run the same load through an ample tier and a crowded one; then flush, and check the table from the base."""
    recorder, rows = stage.recorder, settings.DATABASE_ROWS[-1]
    with layered(stage, image_bytes=2 * IMAGE_BYTES) as layers:
        stand = layers.stand
        stand.database = replace(stand.database, settings=settings.SMALL_POOL)
        begin(layers, stage, rows)
        for label, room in (("ample tier", AMPLE_BYTES), ("crowded tier", CROWDED_BYTES)):
            layers.tiered(TierSettings(target_max_bytes=room), pg_num=_PGS)
            stand.warm()
            before = tiers.tier_counters(stage.cluster)
            wanted = job(
                stand, stage, threads=settings.THREADS, runtime_s=CROWDED_RUNS * SECONDS[stage.tier], rows=rows
            )
            settings.note_rate(recorder, label, steady(layers.measured(stage, label, wanted)))
            counts = counted(stage, before, label)
        witness_moves(recorder, counts, " under the load")
        layers.plain()
        layers.slow.impose(slow=False)
        recorder.observe("CHECK TABLE without the tier", got=stand.check_table(CHECK_S), wanted="OK")
    note_findings(stage)


SCENARIOS = (
    scenario_over_database(
        name="cachetier.oltp-threads",
        goal="With few threads, a database commits more transactions with a tier than on slow disks alone.",
        method="Runs sysbench on MariaDB with no cache, dm-cache and a writeback tier, each new, at each thread count.",
        run=sweep,
        sees=(f"{TIER}, .* threads.*",),
    ),
    scenario_over_database(
        name="cachetier.oltp-flush",
        goal="All transactions that a writeback tier acknowledged are in the base once the tier is flushed.",
        method="Runs sysbench and a transaction ledger through a tier, flushes it, reads everything from the base.",
        run=flushed,
    ),
    scenario_over_database(
        name="cachetier.oltp-misses",
        goal="A tier that is too small for its database flushes, evicts and promotes, and loses nothing.",
        method="Runs sysbench through a large tier and a small one; records counters over time; runs CHECK TABLE.",
        run=crowded_misses,
    ),
)
