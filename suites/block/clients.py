"""One, two and more clients, each on its own node: their total throughput, and the share of each."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial

from cephlab.lab.base.numbers import how_many
from cephlab.lab.cluster.pools import REPLICATED
from cephlab.lab.history.history import Basis, Bound, Recorder
from cephlab.lab.report.series import record_series
from cephlab.lab.scenario.scenario import Stage, Tier
from cephlab.lab.telemetry.demand import Interval
from cephlab.lab.telemetry.statistics import ratio_of
from cephlab.lab.workloads.fio import FioResult
from cephlab.lab.workloads.image import BlockImage
from cephlab.suites import gains
from cephlab.suites.bias import UNBIASED, Bias, of_all
from cephlab.suites.block.expected import expect, rate_and_latency
from cephlab.suites.block.scale import PUBLISHED_BYTES, client_counts, pg_num, scale_of, timed
from cephlab.suites.block.stand import (
    CLIENTS,
    client_node,
    job,
    note_both,
    note_run,
    run_judged,
    scenario_of_load,
    total,
    written,
)
from cephlab.tuning.workload import Shape

BLOCK_BYTES = 4096
DEPTH = 8
COUNTS = {Tier.QUICK: (1, CLIENTS), Tier.FULL: tuple(range(1, CLIENTS + 1))}
TURNS = 2
LEAST_SHARE = 0.2
"""Least throughput of the slowest client over that of the fastest. Clients of equal depth queue at the same servers, so
their shares are equal except for what the scheduler of a busy machine takes from one of them in a few seconds."""
SHARED_CORES = Bound("recorded only: in a lab, clients and OSDs share the same cores", basis=Basis.NOTED)
"""For the growth with clients. `suites/gains.py` has the limit for a profile's machines."""
SEVERAL = Bound(
    "one client with one request in flight leaves the cluster idle, so several do more (Proxmox VE, 2020)",
    least=1.0,
    basis=Basis.SHAPE,
)


def run(stage: Stage, pattern: str) -> None:
    """Run one client, then more, up to CLIENTS or every client machine of an inventory; each has its own image."""
    rates, latencies, counts = [], [], client_counts(stage, COUNTS[stage.tier])
    shapes = [Shape(pattern, BLOCK_BYTES, count, DEPTH) for count in counts]
    expected = expect(stage, shapes)
    with images(stage, counts[-1]) as targets:
        for place, count in enumerate(counts):
            what = f"{pattern} by {how_many(count, 'client')} together"
            results, bias = loaded(stage, what, targets[:count], pattern, DEPTH)
            for number, result in enumerate(results):
                note_run(stage.recorder, f"{pattern} by client {number + 1} of {count}", result, DEPTH)
            rate, latency = together(stage.recorder, what, results, expected.bounds(place), bias)
            rates.append(rate)
            latencies.append(latency.mean)
            each = [result.iops for result in results]
            share = min(each) / max(each) if max(each) else 0.0
            why = "clients of equal depth share the same servers"
            what = f"slowest of {count} clients beside the quickest"
            stage.recorder.figure(what, share, "", Bound(why, least=LEAST_SHARE, basis=Basis.SHAPE))
    if len(counts) > 1:
        limit = gains.of_growth(stage, shapes[0], shapes[-1], SHARED_CORES)
        note_growth(stage.recorder, pattern, counts[-1], (rates[-1], rates[0]), limit, bias)
    chart = rate_and_latency("measured", counts, [rate.mean for rate in rates], latencies)
    lines = [*chart, *expected.lines(counts)]
    title = f"{pattern} of 4 KiB at depth {DEPTH} each, against number of clients, each on its own node"
    record_series(stage.recorder, title, lines, axis="clients", marks={}, words=expected.words)


def images(stage: Stage, count: int) -> AbstractContextManager[list[BlockImage]]:
    """Written images, one for each client."""
    size = scale_of(stage).image_bytes(PUBLISHED_BYTES, count)
    return written(stage, count, size, pg_num=pg_num(stage, REPLICATED))


def loaded(
    stage: Stage, what: str, targets: Sequence[BlockImage], pattern: str, depth: int
) -> tuple[list[FioResult], Bias]:
    """Load all images at the same time, each from its own client."""
    jobs = [timed(stage, job(stage, target, pattern, BLOCK_BYTES, depth)) for target in targets]
    return run_judged(stage, what, [(client_node(stage.cluster, number), each) for number, each in enumerate(jobs)])


def one_is_not_enough(stage: Stage) -> None:
    """Run one client at depth 1 and all clients at depth 1, alternately."""
    count = client_counts(stage, COUNTS[Tier.QUICK])[-1]
    runs: dict[int, list[FioResult]] = {1: [], count: []}
    biases: list[Bias] = []
    with images(stage, count) as targets:
        for _ in range(TURNS):
            for number in runs:
                results, bias = loaded(stage, how_many(number, "client"), targets[:number], "randread", 1)
                for place, result in enumerate(results):
                    note_run(stage.recorder, f"client {place + 1} of {number}", result, 1)
                runs[number] += results
            biases.append(bias)  # of all clients, which run last in each turn
    alone, several = (Shape("randread", BLOCK_BYTES, number, 1) for number in (1, count))
    limit = gains.of_growth(stage, alone, several, SEVERAL)
    note_gain(stage.recorder, count, runs, limit, of_all(biases))


def note_gain(
    recorder: Recorder,
    count: int,
    runs: Mapping[int, Sequence[FioResult]],
    limit: Bound = SEVERAL,
    bias: Bias = UNBIASED,
) -> None:
    """Record the rate of all clients over that of one.

    runs: number of clients -> their results of all turns; bias: which way the rate of all may be off.
    """
    rates = {number: total_of(results, len(results) // number) for number, results in runs.items()}
    note_growth(recorder, "randread", count, (rates[count], rates[1]), limit, bias)


def note_growth(
    recorder: Recorder,
    what: str,
    count: int,
    rates: tuple[Interval, Interval],
    limit: Bound,
    bias: Bias,
) -> None:
    """Record the rate of `count` clients over that of one. rates: both; bias: which way the first may be off."""
    gain = ratio_of(bias.rate(rates[0]), rates[1])
    recorder.figure(f"{what} by {count} clients over that of one", gain.mean, "", bias.told(limit), interval=gain.ends)


def total_of(results: Sequence[FioResult], turns: int) -> Interval:
    """The mean rate of a turn, from the results of several turns."""
    mains = [run.main for run in results]
    samples = min(run.iops_samples for run in mains) * turns
    rate, _ = total([(run.iops / turns, run.iops_stddev / turns, run.latency_mean_s) for run in mains], samples)
    return rate


def together(
    recorder: Recorder,
    what: str,
    results: Sequence[FioResult],
    bounds: tuple[Bound, Bound],
    bias: Bias = UNBIASED,
) -> tuple[Interval, Interval]:
    """Record the total rate and the mean latency of all clients. Returns both."""
    mains = [result.main for result in results]
    samples = min(run.iops_samples for run in mains)
    rate, latency = total([(run.iops, run.iops_stddev, run.latency_mean_s) for run in mains], samples)
    note_both(recorder, what, rate, latency, bounds, bias)
    return rate, latency


SCENARIOS = (
    scenario_of_load(
        name="block.one-client",
        goal="Several clients with one request in flight each do more together than one such client.",
        method=f"Runs randread of 4 KiB at depth 1, {TURNS} times alternately with one client and all; compares rates.",
        run=one_is_not_enough,
        sees=("randread by .* clients over that of one",),
        tier=Tier.FULL,
    ),
    *(
        scenario_of_load(
            name=f"block.clients[op={pattern}]",
            goal="Clients on different nodes share a cluster fairly.",
            method=f"Runs 1 to {CLIENTS} fio processes, each on its own node and image: {pattern}, 4 KiB, "
            f"depth {DEPTH}.",
            run=partial(run, pattern=pattern),
            sees=("slowest of .* clients beside the quickest",),
            tier=tier,
        )
        for pattern, tier in (("randread", Tier.QUICK), ("randwrite", Tier.FULL))
    ),
)
