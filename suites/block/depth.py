"""Throughput and latency against queue depth, the knee of the curve, and the model's prediction."""

from collections.abc import Sequence
from functools import partial

from cephlab.lab.cluster.pools import REPLICATED
from cephlab.lab.history.history import Basis, Bound, Recorder
from cephlab.lab.report.series import record_series
from cephlab.lab.scenario.scenario import Stage, Tier
from cephlab.lab.telemetry.statistics import interval_of, knee, ratio_of
from cephlab.lab.workloads.fio import FioResult
from cephlab.suites import gains
from cephlab.suites.bias import Bias
from cephlab.suites.block.expected import Expected, expect, rate_and_latency
from cephlab.suites.block.scale import PUBLISHED_BYTES, pg_num, scale_of, timed
from cephlab.suites.block.stand import client_node, job, note_run, run_judged, scenario_of_load, written
from cephlab.tuning.workload import Shape

BLOCK_BYTES = 4096
DEPTHS = {Tier.QUICK: (1, 4, 16, 64), Tier.FULL: (1, 2, 4, 8, 16, 32, 64, 128)}
LEAST_GAIN = 1.2
"""Least throughput with a full queue over that with one request at a time. More requests in flight can only help
(asymptotic bounds, Lazowska et al. 1984, chapter 5). A cluster that serves one request after another gains nothing."""
GAIN = Bound(
    "a cluster does more with parallel requests than with one after another", least=LEAST_GAIN, basis=Basis.SHAPE
)
"""The limit for a lab. `suites/gains.py` has the one for a profile's machines."""
GAINED = "throughput of the best depth over that of one request"


def run(stage: Stage, pattern: str) -> None:
    """Run fio once for each depth on the same written image."""
    depths, scale = DEPTHS[stage.tier], scale_of(stage)
    shapes = [Shape(pattern, BLOCK_BYTES, 1, depth) for depth in depths]
    expected = expect(stage, shapes)
    results = []
    with written(stage, 1, scale.image_bytes(PUBLISHED_BYTES, 1), pg_num=pg_num(stage, REPLICATED)) as (image,):
        node = client_node(stage.cluster)
        for number, depth in enumerate(depths):
            what, wanted = f"{pattern} at depth {depth}", timed(stage, job(stage, image, pattern, BLOCK_BYTES, depth))
            (result,), bias = run_judged(stage, what, [(node, wanted)])
            note_run(stage.recorder, what, result, depth, expected.bounds(number), bias)
            results.append((result, bias))
    limit = gains.of_growth(stage, shapes[0], shapes[-1], GAIN)
    title = f"{pattern} of 4 KiB against requests in flight"
    note_curve(stage.recorder, title, depths, results, expected, limit)


def note_curve(
    recorder: Recorder,
    title: str,
    depths: Sequence[int],
    results: Sequence[tuple[FioResult, Bias]],
    expected: Expected,
    limit: Bound,
) -> None:
    """Judge the gain of the best depth over one request by its interval, and draw the curve with its knee.

    depths: from one request in flight on, with the result of each, and which way it may be off. limit: of the gain.
    """
    spreads = [interval_of(result.iops, result.main.iops_stddev, result.main.iops_samples) for result, _ in results]
    best = max(range(len(spreads)), key=lambda number: spreads[number].mean)
    bias = results[best][1]
    gain = ratio_of(bias.rate(spreads[best]), spreads[0])
    recorder.figure(GAINED, gain.mean, "", bias.told(limit), interval=gain.ends)
    rates = [spread.mean for spread in spreads]
    bend = knee(depths, rates)
    latencies = [result.main.latency_mean_s for result, _ in results]
    lines = [*rate_and_latency("measured", depths, rates, latencies), *expected.lines(depths)]
    marks = {} if bend is None else {"knee": bend}
    words = "no knee in this range" if bend is None else f"knee at depth {bend:g}"
    record_series(recorder, title, lines, axis="in flight", marks=marks, words=f"{words}; {expected.words}")


SCENARIOS = tuple(
    scenario_of_load(
        name=f"block.depth[op={pattern}]",
        goal=f"A {pattern} workload gains from requests in flight up to a knee; rates and latencies are consistent.",
        method="Runs fio through librbd at one queue depth after another: 4 KiB, no cache.",
        run=partial(run, pattern=pattern),
        tier=tier,
    )
    for pattern, tier in (("randread", Tier.QUICK), ("randwrite", Tier.FULL))
)
