"""Throughput and latency against requests in flight, the knee between them, and what the model says to it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from cephlab.lab.history.history import Bound
from cephlab.lab.report.series import Line, record_series
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.telemetry.knee import knee
from cephlab.lab.workloads.fio import FioResult
from cephlab.suites.block.expected import LATENCY, RATE, expect
from cephlab.suites.block.stand import client_node, job, note_run, run_jobs, scenario_of_load, written
from cephlab.tuning.workload import Shape

BLOCK_BYTES = 4096
DEPTHS = {Tier.QUICK: (1, 4, 16, 64), Tier.FULL: (1, 2, 4, 8, 16, 32, 64, 128)}
LEAST_GAIN = 1.2
"""Full queue over one request at a time. More in flight can only help (asymptotic bounds, Lazowska et al. 1984,
chapter 5); a cluster in which every request waited for the one before would gain nothing."""


def run(stage: Stage, pattern: str) -> None:
    """One fio run for each depth, on the same written image."""
    depths = DEPTHS[stage.tier]
    expected = expect(stage, [Shape(pattern, BLOCK_BYTES, 1, depth) for depth in depths])
    results = []
    with written(stage) as (image,):
        node = client_node(stage.cluster)
        for number, depth in enumerate(depths):
            (result,) = run_jobs(stage.cluster, [(node, job(stage, image, pattern, BLOCK_BYTES, depth))])
            note_run(stage.recorder, f"{pattern} at depth {depth}", result, depth, *expected.bounds(number))
            results.append(result)
    rates = [result.iops for result in results]
    gain = max(rates) / rates[0] if rates[0] else 0.0
    why = "with requests in flight beside each other a cluster does more than one after the other"
    stage.recorder.figure(
        "throughput of the best depth over that of one request", gain, "", Bound(why, least=LEAST_GAIN)
    )
    bend = knee(depths, rates)
    lines = [*measured_lines(depths, results), *expected.lines(depths)]
    marks = {} if bend is None else {"knee": bend}
    said = "no knee in this range" if bend is None else f"knee at depth {bend:g}"
    title = f"{pattern} of 4 KiB against requests in flight"
    record_series(stage.recorder, title, lines, axis="in flight", marks=marks, words=f"{said}; {expected.words}")


def measured_lines(loads: Sequence[int], results: Sequence[FioResult]) -> list[Line]:
    """Throughput and latency as fio saw them."""
    rate = tuple((float(load), result.iops) for load, result in zip(loads, results, strict=True))
    latency = tuple((float(load), result.main.latency_mean_s) for load, result in zip(loads, results, strict=True))
    return [Line(RATE, "measured", rate), Line(LATENCY, "measured", latency)]


def scenario(pattern: str, tier: Tier) -> Scenario:
    return scenario_of_load(
        name=f"block.depth[op={pattern}]",
        goal=f"A {pattern} workload gains from requests in flight until a knee, and its figures fit each other.",
        method="fio through librbd, 4 KiB, no cache, at one queue depth after the other.",
        run=partial(run, pattern=pattern),
        tier=tier,
    )


SCENARIOS = (scenario("randread", Tier.QUICK), scenario("randwrite", Tier.FULL))
