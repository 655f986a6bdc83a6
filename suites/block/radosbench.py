"""rados bench with one, two and three clients: it writes, then reads everything back in order."""

from collections.abc import Sequence

from cephlab.lab.cluster import pools
from cephlab.lab.history.history import Bound
from cephlab.lab.report.series import Line, record_series
from cephlab.lab.scenario.scenario import Stage, Tier
from cephlab.lab.telemetry.demand import Interval
from cephlab.lab.workloads.radosbench import BenchJob, BenchResult, run_all
from cephlab.suites.block.expected import expect, rate_and_latency
from cephlab.suites.block.stand import CLIENTS, NO_LIMIT, PG_NUM, client_node, note_both, scenario_of_load, total
from cephlab.tuning.workload import Shape

SECONDS = {Tier.QUICK: 3, Tier.FULL: 8}
THREADS = 4
BLOCK_BYTES = 1 << 20  # a quarter of the papers' 4 MiB: disks in memory hold 2 GiB, and all data has three copies
MOST_BYTES = 256 << 20
MOST_CLIENTS = {Tier.QUICK: 1, Tier.FULL: CLIENTS}
LEAST_OPERATIONS = 20


def run(stage: Stage) -> None:
    """For each number of clients write into a pool of its own and read it back."""
    counts = range(1, MOST_CLIENTS[stage.tier] + 1)
    expected = {
        mode: expect(stage, [Shape(mode, BLOCK_BYTES, count, THREADS) for count in counts]) for mode in ("write", "seq")
    }
    runs: dict[str, list[list[BenchResult]]] = {mode: [] for mode in expected}
    for place, count in enumerate(counts):
        with pools.pool(stage.cluster, f"bench{count}", pg_num=PG_NUM) as pool:
            for mode, prediction in expected.items():
                results = bench(stage, pool, mode, count)
                note_all(stage, f"{mode} by {count} client(s)", results, prediction.bounds(place))
                runs[mode].append(results)
    for mode, prediction in expected.items():
        lines = [*measured_lines(counts, runs[mode]), *prediction.lines(counts)]
        title = f"rados bench {mode} of {BLOCK_BYTES >> 20} MiB against clients"
        record_series(stage.recorder, title, lines, axis="clients", marks={}, words=prediction.words)


def measured_lines(counts: Sequence[int], runs: Sequence[Sequence[BenchResult]]) -> list[Line]:
    """Lines of the total throughput and the mean latency of each run."""
    totals = [summed(results) for results in runs]
    rates, latencies = [rate.mean for rate, _ in totals], [latency.mean for _, latency in totals]
    return rate_and_latency("measured", counts, rates, latencies)


def summed(results: Sequence[BenchResult]) -> tuple[Interval, Interval]:
    """The total of clients that ran at once. rados bench takes one sample a second."""
    samples = min(int(result.seconds) for result in results)
    return total([(result.iops, result.iops_stddev, result.latency_mean_s) for result in results], samples)


def bench(stage: Stage, pool: str, mode: str, count: int) -> list[BenchResult]:
    """Run all clients at once, each on its own node with its own objects."""
    jobs = [
        (
            client_node(stage.cluster, number),
            BenchJob(pool, mode, SECONDS[stage.tier], THREADS, BLOCK_BYTES, f"client{number}", most_bytes=MOST_BYTES),
        )
        for number in range(count)
    ]
    return run_all(stage.cluster, jobs)


def note_all(stage: Stage, what: str, results: Sequence[BenchResult], bounds: tuple[Bound, Bound]) -> None:
    """Witness that each client did enough, and note the total of all clients with its bounds."""
    for number, result in enumerate(results):
        title = f"operations of {what}, client {number + 1}"
        stage.recorder.witness(title, got=result.operations, least=LEAST_OPERATIONS)
    rate, latency = summed(results)
    stage.recorder.figure(f"{what}: together", sum(result.bytes_per_s for result in results), "B/s", NO_LIMIT)
    note_both(stage.recorder, what, rate, latency, bounds)


SCENARIOS = (
    scenario_of_load(
        name="block.rados-bench",
        goal="rados bench reads back all objects that 1, 2 or 3 clients wrote.",
        method=f"Runs rados bench with {THREADS} operations in flight for each client: write, then seq.",
        run=run,
        sees=("operations of .*, client 1", ".*: together"),
    ),
)
