"""Steady load by clients that read everything once and then end: each batch is part of one such pass."""

from __future__ import annotations

from collections.abc import Sequence

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.telemetry.bench import Bench, Look, Rates, counted
from cephlab.lab.telemetry.demand import Role
from cephlab.lab.telemetry.demandfile import Batch
from cephlab.lab.telemetry.plan import Load, Loaded, main_cost
from cephlab.lab.telemetry.readings import Spent, spent, summed
from cephlab.lab.telemetry.statistics import Stop
from cephlab.lab.workloads.fio import FioResult

_ENOUGH = 0.5
"""Share of a pass after which the second look begins. The look must end before the pass."""

_LEAST_S, _MOST_S = 0.1, 0.3
"""Between two looks at the progress of a pass: half of the time that it seems to need, as its speed may change."""

_LONGEST_S = 600.0


def load_in_passes(bench: Bench, load: Load, idle: Rates, stop: Stop) -> Loaded:
    """One batch per pass, until `stop` has a reason. Operations are the requests that the primary counts."""
    looks: list[tuple[Look, Look]] = []
    batches: list[Batch] = []
    results: list[FioResult] = []
    reason = None
    while reason is None:
        before, after, ended = one_pass(bench, load)
        looks.append((before, after))
        results += ended
        batches.append(bench.batch(before, after, load, idle, counted(before, after)))
        costs = [main_cost(batch.costs) for batch in batches]
        reason = stop.reason(costs, sum(batch.seconds for batch in batches))
        bench.say(
            f"{load}, pass {len(costs)}: {batches[-1].operations / batches[-1].seconds:.0f}/s, "
            f"{costs[-1] * 1e6:.0f} us of CPU an operation"
        )
    parts = [spent(before.reading, after.reading, in_memory=bench.in_memory) for before, after in looks]
    operations = sum(batch.operations for batch in batches)
    requests = sum(after.requests - before.requests for before, after in looks)
    return Loaded(
        batches=tuple(batches),
        whole=summed(parts),
        operations=operations,
        ceph_operations={role: _counted(looks, parts, role) for role in parts[0].ceph_times},
        requests=requests,
        results=tuple(results),
        stopped=reason,
    )


def _counted(looks: Sequence[tuple[Look, Look]], parts: Sequence[Spent], role: Role) -> float:
    """Operations in the times of a role's own counters."""
    return sum(counted(*pair)(*part.ceph_times[role]) for pair, part in zip(looks, parts, strict=True))


def one_pass(bench: Bench, load: Load) -> tuple[Look, Look, tuple[FioResult, ...]]:
    """Two looks at one pass, and its clients' results; LabBroken when they did not read everything once."""
    plan, meter = bench.plan, bench.meter
    objects = plan.image_bytes // plan.operation.block_bytes * load.clients
    at_start = meter.requests()
    with bench.running(load, _LONGEST_S) as running:
        bench.arrive(running, at_start)
        meter.follow(running)
        before, began = bench.look(), bench.clock.monotonic()
        first = read = meter.requests() - at_start
        while read < _ENOUGH * objects:
            since, elapsed_s = read - first, bench.clock.monotonic() - began
            left_s = (_ENOUGH * objects - read) * elapsed_s / since if since else 0.0
            bench.clock.sleep(min(_MOST_S, max(_LEAST_S, left_s / 2)))
            bench.must_run(running)
            read = meter.requests() - at_start
        after = bench.look()
        meter.unfollow()
        ended = tuple(client.finish() for client in running)
    done = sum(result.operations for result in ended)
    if done != objects:
        raise LabBroken(f"{done} objects were read in a pass over {objects}")
    return before, after, ended
