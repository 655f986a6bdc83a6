"""One, two and more clients on nodes of their own: their total throughput, and the share of each."""

from collections.abc import Sequence
from functools import partial

from cephlab.lab.history.history import Basis, Bound, Recorder
from cephlab.lab.report.series import record_series
from cephlab.lab.scenario.scenario import Stage, Tier
from cephlab.lab.telemetry.demand import Interval
from cephlab.lab.workloads.fio import FioResult
from cephlab.suites.block.expected import expect, rate_and_latency
from cephlab.suites.block.stand import (
    CLIENTS,
    client_node,
    job,
    note_both,
    note_run,
    run_jobs,
    scenario_of_load,
    total,
    written,
)
from cephlab.tuning.workload import Shape

BLOCK_BYTES = 4096
DEPTH = 8
COUNTS = {Tier.QUICK: (1, CLIENTS), Tier.FULL: tuple(range(1, CLIENTS + 1))}
LEAST_SHARE = 0.2
"""Least throughput of a client, as a share of the fastest one's. Clients of equal depth queue for the same servers, so
their shares are equal but for what a busy machine's scheduler takes from one of them in a few seconds."""


def run(stage: Stage, pattern: str) -> None:
    """Run one client, then more, up to CLIENTS; each has a node and an image of its own."""
    rates, latencies, counts = [], [], COUNTS[stage.tier]
    expected = expect(stage, [Shape(pattern, BLOCK_BYTES, count, DEPTH) for count in counts])
    with written(stage, CLIENTS) as images:
        for place, count in enumerate(counts):
            jobs = [
                (client_node(stage.cluster, number), job(stage, images[number], pattern, BLOCK_BYTES, DEPTH))
                for number in range(count)
            ]
            results = run_jobs(stage.cluster, jobs)
            for number, result in enumerate(results):
                note_run(stage.recorder, f"{pattern} by client {number + 1} of {count}", result, DEPTH)
            what = f"{pattern} by {count} client(s) together"
            rate, latency = together(stage.recorder, what, results, expected.bounds(place))
            rates.append(rate.mean)
            latencies.append(latency.mean)
            each = [result.iops for result in results]
            share = min(each) / max(each) if max(each) else 0.0
            why = "clients of equal depth share the same servers"
            what = f"slowest of {count} clients beside the quickest"
            stage.recorder.figure(what, share, "", Bound(why, least=LEAST_SHARE, basis=Basis.SHAPE))
    lines = [*rate_and_latency("measured", counts, rates, latencies), *expected.lines(counts)]
    title = f"{pattern} of 4 KiB at depth {DEPTH} each, against clients on nodes of their own"
    record_series(stage.recorder, title, lines, axis="clients", marks={}, words=expected.words)


def together(
    recorder: Recorder, what: str, results: Sequence[FioResult], bounds: tuple[Bound, Bound]
) -> tuple[Interval, Interval]:
    """Note the total rate and the mean latency of all clients. Returns both."""
    done = [result.main for result in results]
    samples = min(run.iops_samples for run in done)
    rate, latency = total([(run.iops, run.iops_stddev, run.latency_mean_s) for run in done], samples)
    note_both(recorder, what, rate, latency, bounds)
    return rate, latency


SCENARIOS = tuple(
    scenario_of_load(
        name=f"block.clients[op={pattern}]",
        goal="Clients on different nodes share a cluster fairly.",
        method=f"Runs 1 to {CLIENTS} fio processes, each on its own node and image: {pattern}, 4 KiB, depth {DEPTH}.",
        run=partial(run, pattern=pattern),
        sees=tuple(f"slowest of {count} clients beside the quickest" for count in COUNTS[Tier.QUICK]),
        tier=tier,
    )
    for pattern, tier in (("randread", Tier.QUICK), ("randwrite", Tier.FULL))
)
