"""One, two and more clients on nodes of their own: what they do together, and whether each gets its share."""

from __future__ import annotations

from functools import partial

from lab.scenario import Scenario, Stage, Tier
from lab.series import Line, record_series
from lab.telemetry.place import client_name
from suites.block.depth import LATENCY, RATE
from suites.block.stand import CLIENTS, TOPOLOGY, job, note, note_run, run_jobs, written

BLOCK_BYTES = 4096
DEPTH = 8
COUNTS = {Tier.QUICK: (1, CLIENTS), Tier.FULL: tuple(range(1, CLIENTS + 1))}
LEAST_SHARE = 0.2
"""Of what the quickest client does: clients that ask for the same at the same depth queue for the same servers. Lower
than equal shares by what a busy machine's scheduler takes from one of them in a few seconds."""


def run(stage: Stage, pattern: str) -> None:
    """From one client to as many as there are nodes for, each with an image of its own."""
    rates, latencies = [], []
    with written(stage, CLIENTS) as images:
        for count in COUNTS[stage.tier]:
            jobs = [
                (client_name(number), job(stage, images[number], pattern, BLOCK_BYTES, DEPTH))
                for number in range(count)
            ]
            results = run_jobs(stage.cluster, jobs)
            for number, found in enumerate(results):
                note_run(stage.recorder, f"{pattern} by client {number + 1} of {count}", found, DEPTH)
            each = [found.iops for found in results]
            rates.append((float(count), sum(each)))
            mean_s = sum(found.main.latency_mean_s * found.iops for found in results) / sum(each) if sum(each) else 0.0
            latencies.append((float(count), mean_s))
            share = min(each) / max(each) if max(each) else 0.0
            why = "clients of equal depth share the same servers"
            what = f"slowest of {count} clients beside the quickest"
            note(stage.recorder, what, share, "", least=LEAST_SHARE, why=why)
    lines = [Line(RATE, "measured", tuple(rates)), Line(LATENCY, "measured", tuple(latencies))]
    title = f"{pattern} of 4 KiB at depth {DEPTH} each, against clients on nodes of their own"
    record_series(stage.recorder, title, lines, axis="clients", marks={})


def scenario(pattern: str, tier: Tier) -> Scenario:
    return Scenario(
        name=f"block.clients[op={pattern}]",
        goal="Clients on different nodes share a cluster fairly.",
        method=f"1 to {CLIENTS} fio processes on nodes and images of their own, {pattern} of 4 KiB at depth {DEPTH}.",
        run=partial(run, pattern=pattern),
        check="figures",
        tier=tier,
        topology=TOPOLOGY,
    )


SCENARIOS = (scenario("randread", Tier.QUICK), scenario("randwrite", Tier.FULL))
