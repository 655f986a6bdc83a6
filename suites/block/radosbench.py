"""rados bench with one, two and three clients: writes, then reads everything back in order."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cephlab.lab.base.numbers import how_many
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.pools import REPLICATED
from cephlab.lab.history.history import Basis, Bound, Recorder
from cephlab.lab.report.series import Line, record_series
from cephlab.lab.scenario.scenario import Stage, Tier
from cephlab.lab.telemetry.demand import Interval
from cephlab.lab.workloads.radosbench import BenchJob, BenchResult, run_all
from cephlab.suites import gains
from cephlab.suites.bias import UNBIASED, Bias, watched
from cephlab.suites.block.clients import note_growth
from cephlab.suites.block.expected import expect, rate_and_latency
from cephlab.suites.block.scale import client_counts, pg_num, scale_of
from cephlab.suites.block.stand import CLIENTS, NO_LIMIT, client_node, note_both, scenario_of_load, total
from cephlab.suites.machines import at_home
from cephlab.tuning.workload import Shape

SECONDS = {Tier.QUICK: 3, Tier.FULL: 8}
THREADS = 4
BLOCK_BYTES = 1 << 20  # a quarter of the papers' 4 MiB: in-memory disks hold 2 GiB, and all data has three copies
MOST_BYTES = 256 << 20
MOST_CLIENTS = {Tier.QUICK: 1, Tier.FULL: CLIENTS}
LEAST_OPERATIONS = 20
READ_TIMES = 10
"""The longest that reading may take, in times of writing, where all has to be read. It ends once all is read."""
MORE = Bound("one client cannot load the cluster (Proxmox VE benchmark 2020)", least=1.0, basis=Basis.SHAPE)


@dataclass(frozen=True)
class BenchSize:
    """most_bytes: limit for what one client writes; 0 for no limit."""

    block_bytes: int
    threads: int
    seconds: int
    most_bytes: int


PUBLISHED = BenchSize(4 << 20, 16, 600, 0)
"""`rados bench 600 write -b 4M -t 16` of the Proxmox VE benchmark, appendix 1."""
PUBLISHED_PGS = 512


def size_of(stage: Stage) -> BenchSize:
    """As published if the profile's machines run it, in the quick tier for a tenth of the time; else a lab's size."""
    if scale_of(stage).at_length:
        return PUBLISHED if stage.tier is Tier.FULL else replace(PUBLISHED, seconds=PUBLISHED.seconds // 10)
    return BenchSize(BLOCK_BYTES, THREADS, SECONDS[stage.tier], MOST_BYTES)


def run(stage: Stage) -> None:
    """For each number of clients, write into a new pool and read it back."""
    counts, size = client_counts(stage, tuple(range(1, MOST_CLIENTS[stage.tier] + 1))), size_of(stage)
    shapes = {
        mode: [Shape(mode, size.block_bytes, count, size.threads) for count in counts] for mode in ("write", "seq")
    }
    expected = {mode: expect(stage, of_mode) for mode, of_mode in shapes.items()}
    runs: dict[str, list[list[BenchResult]]] = {mode: [] for mode in expected}
    biases: dict[str, Bias] = {}
    for place, count in enumerate(counts):
        with pools.pool(stage.cluster, f"bench{place + 1}", pg_num=pg_num(stage, REPLICATED, PUBLISHED_PGS)) as pool:
            for mode, prediction in expected.items():
                what = f"{mode} by {how_many(count, 'client')}"
                results, bias = bench(stage, what, pool, mode, count, size)
                note_all(stage, what, results, prediction.bounds(place), bias)
                runs[mode].append(results)
                biases[mode] = bias
            if size.most_bytes:
                all_read(stage.recorder, count, runs["write"][-1], runs["seq"][-1])
    for mode, prediction in expected.items():
        lines = [*measured_lines(counts, runs[mode]), *prediction.lines(counts)]
        if scale_of(stage).at_length:
            limit = gains.of_growth(stage, shapes[mode][0], shapes[mode][-1], MORE)
            note_more(stage.recorder, mode, counts, runs[mode], limit, biases[mode])
        title = f"rados bench {mode} of {size.block_bytes >> 20} MiB against clients"
        record_series(stage.recorder, title, lines, axis="clients", marks={}, words=prediction.words)


def note_more(
    recorder: Recorder,
    mode: str,
    counts: Sequence[int],
    runs: Sequence[Sequence[BenchResult]],
    limit: Bound = MORE,
    bias: Bias = UNBIASED,
) -> None:
    """Judge, with an interval, that all clients do more than one. Only for client machines without OSDs."""
    if len(counts) > 1:
        note_growth(recorder, mode, counts[-1], (summed(runs[-1])[0], summed(runs[0])[0]), limit, bias)


def measured_lines(counts: Sequence[int], runs: Sequence[Sequence[BenchResult]]) -> list[Line]:
    """Lines of the total throughput and the mean latency of each run."""
    totals = [summed(results) for results in runs]
    rates, latencies = [rate.mean for rate, _ in totals], [latency.mean for _, latency in totals]
    return rate_and_latency("measured", counts, rates, latencies)


def summed(results: Sequence[BenchResult]) -> tuple[Interval, Interval]:
    """The total of clients that ran together. rados bench takes one sample per second."""
    samples = min(int(result.seconds) for result in results)
    return total([(result.iops, result.iops_stddev, result.latency_mean_s) for result in results], samples)


def bench(stage: Stage, what: str, pool: str, mode: str, count: int, size: BenchSize) -> tuple[list[BenchResult], Bias]:
    """Run all clients together, each on its own node with its own objects."""
    seconds = until_read(mode, size.seconds) if size.most_bytes else size.seconds
    jobs = [
        (
            client_node(stage.cluster, number),
            BenchJob(pool, mode, seconds, size.threads, size.block_bytes, f"client{number}", size.most_bytes),
        )
        for number in range(count)
    ]
    return bench_judged(stage, what, jobs)


def until_read(mode: str, seconds: int) -> int:
    """How long a job of a mode may take: writing for some seconds, reading until it has read everything."""
    return seconds if mode == "write" else READ_TIMES * seconds


def all_read(recorder: Recorder, count: int, written: Sequence[BenchResult], read: Sequence[BenchResult]) -> None:
    """Observe that each of the clients read as many objects as it wrote. rados bench compares their content itself."""
    wrote, got = ([result.operations for result in results] for results in (written, read))
    what = f"objects that {how_many(count, 'client')} read back"
    recorder.observe(what, got=got, wanted=wrote, of=sum(wrote))


def bench_judged(stage: Stage, what: str, jobs: Sequence[tuple[str, BenchJob]]) -> tuple[list[BenchResult], Bias]:
    """Run all (node, job) at the same time. Returns the results, and which way they may be off if they are judged.

    Memory answers no read: each object is read once, and BlueStore does not keep what is written.
    """
    with watched(stage, jobs, judged=at_home(stage)) as watch:
        results = run_all(stage.cluster, jobs)
    return results, watch.bias(what)


def note_all(
    stage: Stage, what: str, results: Sequence[BenchResult], bounds: tuple[Bound, Bound], bias: Bias = UNBIASED
) -> None:
    """Witness that each client did enough, and record the total of all clients with its bounds."""
    for number, result in enumerate(results):
        title = f"operations of {what}, client {number + 1}"
        stage.recorder.witness(title, got=result.operations, least=LEAST_OPERATIONS)
    rate, latency = summed(results)
    stage.recorder.figure(f"{what}: together", sum(result.bytes_per_s for result in results), "B/s", NO_LIMIT)
    note_both(stage.recorder, what, rate, latency, bounds, bias)


SCENARIOS = (
    scenario_of_load(
        name="block.rados-bench",
        goal="rados bench reads back all objects that 1, 2 or 3 clients wrote.",
        method=f"Runs rados bench with {THREADS} operations in flight for each client: write, then seq.",
        run=run,
        sees=("operations of .*, client 1", ".*: together"),
    ),
)
