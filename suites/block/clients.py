"""One, two and more clients on nodes of their own: what they do together, and whether each gets its share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from cephlab.lab.history.history import Bound, Recorder
from cephlab.lab.report.series import Line, record_series
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.telemetry.statistics import interval_of
from cephlab.lab.workloads.fio import FioResult
from cephlab.suites.block.expected import LATENCY, RATE, expect
from cephlab.suites.block.stand import (
    CLIENTS,
    beside,
    client_node,
    job,
    note_bound,
    note_run,
    run_jobs,
    scenario_of_load,
    written,
)
from cephlab.tuning.workload import Shape

BLOCK_BYTES = 4096
DEPTH = 8
COUNTS = {Tier.QUICK: (1, CLIENTS), Tier.FULL: tuple(range(1, CLIENTS + 1))}
LEAST_SHARE = 0.2
"""Of what the quickest client does: clients that ask for the same at the same depth queue for the same servers. Lower
than equal shares by what a busy machine's scheduler takes from one of them in a few seconds."""


def run(stage: Stage, pattern: str) -> None:
    """From one client to as many as there are nodes for, each with an image of its own."""
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
            together(stage.recorder, f"{pattern} by {count} client(s) together", results, expected.bounds(place))
            each = [result.iops for result in results]
            rates.append((float(count), sum(each)))
            mean_s = (
                sum(result.main.latency_mean_s * result.iops for result in results) / sum(each) if sum(each) else 0.0
            )
            latencies.append((float(count), mean_s))
            share = min(each) / max(each) if max(each) else 0.0
            why = "clients of equal depth share the same servers"
            what = f"slowest of {count} clients beside the quickest"
            stage.recorder.figure(what, share, "", Bound(why, least=LEAST_SHARE))
    lines = [Line(RATE, "measured", tuple(rates)), Line(LATENCY, "measured", tuple(latencies))]
    lines += expected.lines(counts)
    title = f"{pattern} of 4 KiB at depth {DEPTH} each, against clients on nodes of their own"
    record_series(stage.recorder, title, lines, axis="clients", marks={}, words=expected.words)


def together(recorder: Recorder, what: str, results: Sequence[FioResult], bounds: tuple[Bound, Bound]) -> None:
    """Note the sum of rates and the mean latency of all clients.

    The variance of a sum is the sum of variances; its samples are those of the client that has fewest.
    """
    done = [result.main for result in results]
    rate = interval_of(
        sum(result.iops for result in results),
        math.sqrt(sum(run.iops_stddev**2 for run in done)),
        min(run.iops_samples for run in done),
    )
    mean_s = sum(run.latency_mean_s * run.iops for run in done) / sum(run.iops for run in done) if rate.mean else 0.0
    note_bound(recorder, f"{what}: throughput", rate, "operations/s", bounds[0])
    note_bound(recorder, f"{what}: mean latency", beside(rate, mean_s), "s", bounds[1])


def scenario(pattern: str, tier: Tier) -> Scenario:
    return scenario_of_load(
        name=f"block.clients[op={pattern}]",
        goal="Clients on different nodes share a cluster fairly.",
        method=f"1 to {CLIENTS} fio processes on nodes and images of their own, {pattern} of 4 KiB at depth {DEPTH}.",
        run=partial(run, pattern=pattern),
        tier=tier,
    )


SCENARIOS = (scenario("randread", Tier.QUICK), scenario("randwrite", Tier.FULL))
