"""Runs sysbench on a stand, and records its result with the cache's counters and the traffic of every layer."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

from cephlab.lab.base import clock
from cephlab.lab.base.workers import Workers
from cephlab.lab.blockstack import devices
from cephlab.lab.blockstack.devices import DiskTraffic
from cephlab.lab.blockstack.dmcache import CacheDevice, CacheStatus, WritecacheStatus
from cephlab.lab.blockstack.mapper import SECTOR_BYTES
from cephlab.lab.blockstack.mariadb import DATABASE
from cephlab.lab.history.history import Recorder
from cephlab.lab.report.series import record_look
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.workloads import sysbench
from cephlab.lab.workloads.sysbench import Oltp, SysbenchResult
from cephlab.suites.dmcache.stand import Stand

ROWS = 10_000
"""Rows of the one table, as in the paper's base case and sysbench's default."""
THREADS = 8
WARM_S = 2
"""First seconds of each run, which do not count: the buffer pool and the cache are cold."""
LEAST_TRANSACTIONS = 20
"""Least transactions of one run: with fewer, there is no load and the rate is noise. Measured with one thread and no
cache, on two cores that had other work: 47 to 196 in 10 s."""

_LOOK_S = 1.0
_END_S = 600.0


def job(stand: Stand, stage: Stage, *, threads: int = THREADS, runtime_s: int = 10, rows: int = ROWS) -> Oltp:
    """A sysbench run whose seed follows from the scenario's."""
    seed = stage.rng.randrange(1, 1 << 31)
    return Oltp(stand.database.socket, DATABASE, rows, threads=threads, runtime_s=runtime_s, seed=seed)


def fill(stand: Stand, stage: Stage, rows: int) -> None:
    """Create a database on the origin alone, and fill it."""
    stand.plain()
    stand.new_database()
    sysbench.prepare(stand.host, job(stand, stage, rows=rows))


@dataclass(frozen=True)
class Elsewhere:
    """A cache that is not on the client. room_bytes: its size; look: records its counters."""

    kind: str
    room_bytes: int
    look: Callable[[], None]


def look_at(recorder: Recorder, label: str, status: CacheStatus | WritecacheStatus) -> None:
    """Record a cache's counters; promotions and evictions that its kind does not count are drawn as 0."""
    facts = asdict(status)
    moved = {"promoted": facts.get("promotions", 0), "evicted": facts.get("demotions", 0)}
    looks: dict[str, dict[str, float]] = {"blocks since the cache was made": moved}
    looks["dirty blocks"] = {"dirty": status.dirty}
    if isinstance(status, CacheStatus):
        looks["hits since the cache was made, share of requests"] = {"hits": status.hit_ratio}
    record_look(recorder, "cache", label, looks, **facts)


def measured(
    stand: Stand, stage: Stage, label: str, wanted: Oltp, elsewhere: Elsewhere | None = None
) -> SysbenchResult:
    """Run a job; record its seconds, the cache's counters once a second and the traffic per transaction."""
    recorder = stage.recorder
    before = devices.traffic(stand.host, stand.layers)
    with Workers(max_workers=1, thread_name_prefix="sysbench") as worker:
        running = worker.submit(sysbench.run, stand.host, wanted)

        def look() -> bool:
            if stand.cache is not None:
                look_at(recorder, label, stand.cache.status())
            if elsewhere is not None:
                elsewhere.look()
            return running.done()

        clock.wait(look, bool, what="the end of sysbench", timeout_s=_END_S, interval_s=_LOOK_S)
        result = running.result()
    after = devices.traffic(stand.host, stand.layers)
    recorder.record(
        "oltp",
        stand=label,
        **described(stand, elsewhere),
        threads=wanted.threads,
        rows=wanted.rows,
        **asdict(result),
        traffic={layer: per_transaction(after[layer].since(before[layer]), result) for layer in after},
    )
    recorder.witness(f"transactions of {label}", got=result.transactions, least=LEAST_TRANSACTIONS)
    return result


def described(stand: Stand, elsewhere: Elsewhere | None) -> dict[str, str | int]:
    """Describe the cache, if any; 0 for what does not apply."""
    if elsewhere is not None:
        return {"cache": elsewhere.kind, "block_bytes": 0, "room_bytes": elsewhere.room_bytes}
    block = stand.cache.block_sectors * SECTOR_BYTES if isinstance(stand.cache, CacheDevice) else 0
    return {"cache": stand.kind, "block_bytes": block, "room_bytes": stand.cache_bytes if stand.cache else 0}


def per_transaction(traffic: DiskTraffic, result: SysbenchResult) -> Mapping[str, float]:
    """Requests and bytes of one layer for each committed transaction."""
    share = max(1, result.transactions)
    return {name: round(count / share, 3) for name, count in asdict(traffic).items()}


def steady(result: SysbenchResult) -> list[float]:
    """Transactions of each second after the first WARM_S."""
    return [sample.tps for sample in result.samples if sample.at_s > WARM_S]
