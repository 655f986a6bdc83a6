"""rados bench with one, two and three clients: write, then read in order what was written."""

from __future__ import annotations

from collections.abc import Sequence

from lab import pools
from lab.scenario import Scenario, Stage, Tier
from lab.series import Line, record_series
from lab.telemetry.place import client_name
from lab.workloads.radosbench import BenchJob, BenchResult, run_all
from suites.block.stand import CLIENTS, PG_NUM, TOPOLOGY, note

SECONDS = {Tier.QUICK: 3, Tier.FULL: 8}
THREADS = 4
BLOCK_BYTES = 1 << 20  # a quarter of the papers' 4 MiB: disks in memory hold 2 GiB, three copies of all that is written
MOST_BYTES = 256 << 20
MOST_CLIENTS = {Tier.QUICK: 1, Tier.FULL: CLIENTS}
LEAST_OPERATIONS = 20


def run(stage: Stage) -> None:
    """Each number of clients writes into a pool of its own and reads it again."""
    found: dict[str, list[tuple[float, float]]] = {"write": [], "seq": []}
    for count in range(1, MOST_CLIENTS[stage.tier] + 1):
        with pools.pool(stage.cluster, f"bench{count}", pg_num=PG_NUM) as pool:
            for mode, points in found.items():
                results = bench(stage, pool, mode, count)
                note_all(stage, f"{mode} by {count} client(s)", results)
                points.append((float(count), sum(result.bytes_per_s for result in results)))
    lines = [Line("bytes per second", mode, tuple(points)) for mode, points in found.items()]
    record_series(stage.recorder, "rados bench against clients", lines, axis="clients", marks={})


def bench(stage: Stage, pool: str, mode: str, count: int) -> list[BenchResult]:
    """All clients at once, each on its node and with objects of its own."""
    jobs = [
        (
            client_name(number),
            BenchJob(pool, mode, SECONDS[stage.tier], THREADS, BLOCK_BYTES, f"client{number}", most_bytes=MOST_BYTES),
        )
        for number in range(count)
    ]
    return run_all(stage.cluster, jobs)


def note_all(stage: Stage, what: str, results: Sequence[BenchResult]) -> None:
    for number, result in enumerate(results):
        least = LEAST_OPERATIONS
        stage.recorder.witness(f"operations of {what}, client {number + 1}", got=result.operations, least=least)
    note(stage.recorder, f"{what}: together", sum(result.bytes_per_s for result in results), "B/s")


SCENARIOS = (
    Scenario(
        name="block.rados-bench",
        goal="Objects that rados bench writes with 1, 2 or 3 clients are all read again.",
        method=f"rados bench with {THREADS} operations in flight for each client: write, then seq.",
        run=run,
        check="figures",
        topology=TOPOLOGY,
    ),
)
