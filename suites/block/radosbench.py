"""rados bench with one, two and three clients: write, then read in order what was written."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cephlab.lab.cluster import pools
from cephlab.lab.history.history import Bound
from cephlab.lab.report.series import Line, record_series
from cephlab.lab.scenario.scenario import Stage, Tier
from cephlab.lab.telemetry.demand import Interval
from cephlab.lab.telemetry.statistics import interval_of
from cephlab.lab.workloads.radosbench import BenchJob, BenchResult, run_all
from cephlab.suites.block.expected import LATENCY, RATE, expect
from cephlab.suites.block.stand import CLIENTS, NO_LIMIT, PG_NUM, beside, client_node, note_bound, scenario_of_load
from cephlab.tuning.workload import Shape

SECONDS = {Tier.QUICK: 3, Tier.FULL: 8}
THREADS = 4
BLOCK_BYTES = 1 << 20  # a quarter of the papers' 4 MiB: disks in memory hold 2 GiB, three copies of all that is written
MOST_BYTES = 256 << 20
MOST_CLIENTS = {Tier.QUICK: 1, Tier.FULL: CLIENTS}
LEAST_OPERATIONS = 20


def run(stage: Stage) -> None:
    """Each number of clients writes into a pool of its own and reads it again."""
    counts = range(1, MOST_CLIENTS[stage.tier] + 1)
    expected = {
        mode: expect(stage, [Shape(mode, BLOCK_BYTES, count, THREADS) for count in counts]) for mode in ("write", "seq")
    }
    runs: dict[str, list[list[BenchResult]]] = {mode: [] for mode in expected}
    for place, count in enumerate(counts):
        with pools.pool(stage.cluster, f"bench{count}", pg_num=PG_NUM) as pool:
            for mode, said in expected.items():
                results = bench(stage, pool, mode, count)
                note_all(stage, f"{mode} by {count} client(s)", results, said.bounds(place))
                runs[mode].append(results)
    for mode, said in expected.items():
        lines = [*measured_lines(counts, runs[mode]), *said.lines(counts)]
        title = f"rados bench {mode} of {BLOCK_BYTES >> 20} MiB against clients"
        record_series(stage.recorder, title, lines, axis="clients", marks={}, words=said.words)


def measured_lines(counts: Sequence[int], runs: Sequence[Sequence[BenchResult]]) -> list[Line]:
    """Throughput and mean latency of all clients of each run."""
    both = [(float(count), summed(results)) for count, results in zip(counts, runs, strict=True)]
    rate = tuple((count, rate.mean) for count, (rate, _) in both)
    latency = tuple((count, latency.mean) for count, (_, latency) in both)
    return [Line(RATE, "measured", rate), Line(LATENCY, "measured", latency)]


def summed(results: Sequence[BenchResult]) -> tuple[Interval, Interval]:
    """(operations a second, mean latency in seconds) of clients that ran at once, with their intervals.

    rados bench looks once a second; the variance of a sum is the sum of variances.
    """
    total = sum(result.iops for result in results)
    stddev = math.sqrt(sum(result.iops_stddev**2 for result in results))
    rate = interval_of(total, stddev, min(int(result.seconds) for result in results))
    mean_s = sum(result.latency_mean_s * result.iops for result in results) / total if total else 0.0
    return rate, beside(rate, mean_s)


def bench(stage: Stage, pool: str, mode: str, count: int) -> list[BenchResult]:
    """All clients at once, each on its node and with objects of its own."""
    jobs = [
        (
            client_node(stage.cluster, number),
            BenchJob(pool, mode, SECONDS[stage.tier], THREADS, BLOCK_BYTES, f"client{number}", most_bytes=MOST_BYTES),
        )
        for number in range(count)
    ]
    return run_all(stage.cluster, jobs)


def note_all(stage: Stage, what: str, results: Sequence[BenchResult], bounds: tuple[Bound, Bound]) -> None:
    """Note that each client did enough, and what all of them did together, with its bounds."""
    for number, result in enumerate(results):
        least = LEAST_OPERATIONS
        stage.recorder.witness(f"operations of {what}, client {number + 1}", got=result.operations, least=least)
    rate, latency = summed(results)
    stage.recorder.figure(f"{what}: together", sum(result.bytes_per_s for result in results), "B/s", NO_LIMIT)
    note_bound(stage.recorder, f"{what}: throughput", rate, "operations/s", bounds[0])
    note_bound(stage.recorder, f"{what}: mean latency", latency, "s", bounds[1])


SCENARIOS = (
    scenario_of_load(
        name="block.rados-bench",
        goal="Objects that rados bench writes with 1, 2 or 3 clients are all read again.",
        method=f"rados bench with {THREADS} operations in flight for each client: write, then seq.",
        run=run,
    ),
)
