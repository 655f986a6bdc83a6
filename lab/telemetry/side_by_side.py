"""Measures two clusters in parallel under equal load, so that effects of the machine cancel in their ratio."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace

from cephlab.lab.base.clock import SYSTEM
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.providers.host import Host
from cephlab.lab.spec.clusterspec import Capability, number_of
from cephlab.lab.telemetry.bench import LOG_LAG_S, Bench, Rates
from cephlab.lab.telemetry.demandfile import CALIBRATED, PAIR, Batch, Measurement
from cephlab.lab.telemetry.measure import conditions_of, demand_of, metering, prepared, steady
from cephlab.lab.telemetry.place import Say
from cephlab.lab.telemetry.plan import Loaded, Plan

_HEALTHY_S = 60.0


@dataclass(frozen=True)
class Side:
    """A cluster and the key of the image that its OSDs run."""

    cluster: Cluster
    image_key: str


@dataclass(frozen=True)
class Starts:
    """How often the OSDs of both sides are restarted, and how long both are loaded after each start.

    The cost of an OSD varies a little from start to start (memory layout, placement of threads); only several starts
    show by how much. least, most: number of starts; load_s: seconds of load after each, which make one batch.
    """

    least: int = 6
    most: int = 16
    load_s: float = 7.0

    @classmethod
    def within(cls, budget_s: float) -> Starts:
        """As many starts as fit into `budget_s` seconds of load."""
        usual = cls()
        return replace(usual, most=max(usual.least, int(budget_s / usual.load_s)))


Decide = Callable[[Sequence[Batch], Sequence[Batch], bool], str | None]
"""(batches of each side so far, whether their clients are the same) -> why these are enough, or None."""


def measure_beside(
    sides: tuple[Side, Side],
    plan: Plan,
    *,
    starts: Starts,
    decide: Decide,
    say: Say,
    conditions: Mapping[str, str],
) -> tuple[Measurement, Measurement]:
    """Measure one operation on two idle clusters at the same time, then remove everything created for it.

    Raises SpecError if the shape of a cluster does not fit, LabBroken if the load was not real.
    """
    before, after = sides
    loaded_by_side: tuple[list[Loaded], list[Loaded]] = ([], [])
    with ExitStack() as undo:
        clients = [undo.enter_context(prepared(side.cluster, plan, say)) for side in sides]
        reference = undo.enter_context(steady(before.cluster))
        reason, rest = None, None
        while reason is None:
            number = len(loaded_by_side[0])
            say(f"start {number + 1} of {starts.least} to {starts.most}")
            start_anew([side.cluster for side in sides])
            with ExitStack() as closing:
                meters = [
                    closing.enter_context(metering(side.cluster, own)) for side, own in zip(sides, clients, strict=True)
                ]
                benches = [
                    Bench(side.cluster, meter, reference, plan, own.lent(lenders), say, SYSTEM)
                    for side, meter, own, lenders in zip(sides, meters, clients, lent(before, after), strict=True)
                ]
                rest = rest or [bench.idle() for bench in benches]
                loads = load_both(benches, plan, starts.load_s, rest)
            for own, loaded in zip(loaded_by_side, loads, strict=True):
                own.append(numbered(loaded, number))
            decided = decide(batches_of(loaded_by_side[0]), batches_of(loaded_by_side[1]), calibrated(before, after))
            reason = enough(starts, number + 1, decided)
    names = " and ".join(side.cluster.name for side in sides)
    pair = {PAIR: names, **({CALIBRATED: "yes"} if calibrated(before, after) else {}), **conditions}
    old, new = (measurement_of(side, plan, own, reason, pair) for side, own in zip(sides, loaded_by_side, strict=True))
    return old, new


def calibrated(before: Side, after: Side) -> bool:
    """Whether the clients of both sides run the same programs, so that only the machine makes their costs differ."""
    return before.image_key == after.image_key or lent(before, after) != NOTHING_LENT


Lenders = Mapping[str, Host] | None
NOTHING_LENT: tuple[Lenders, Lenders] = (None, None)


def lent(before: Side, after: Side) -> tuple[Lenders, Lenders]:
    """For each side the hosts whose programs its clients run, if the images differ and the hosts share a network.

    Both run those of the later release, or of the old side if neither is later: Reef cannot read Tentacle's keys.
    """
    if before.image_key == after.image_key:
        return NOTHING_LENT
    if Capability.SHARED_NETWORK not in before.cluster.provider.capabilities():
        return NOTHING_LENT
    old, new = (number_of(side.cluster.spec.release) or 0 for side in (before, after))
    return (after.cluster.hosts, None) if new > old else (None, before.cluster.hosts)


def start_anew(clusters: Sequence[Cluster]) -> None:
    """Restart all OSDs of some clusters, and wait until the clusters are healthy."""
    for cluster in clusters:
        names = [f"osd.{osd}" for osd in cluster.osd_ids()]
        with ThreadPoolExecutor(max_workers=len(names), thread_name_prefix="anew") as workers:
            list(workers.map(cluster.stop, names))
            list(workers.map(cluster.start, names))
    for cluster in clusters:
        cluster.wait_healthy(_HEALTHY_S)


def load_both(benches: Sequence[Bench], plan: Plan, load_s: float, rest: Sequence[Rates]) -> list[Loaded]:
    """Put the plan's load on all clusters at once, and read the counters of each at its beginning and end."""
    before = [bench.meter.requests() for bench in benches]
    with ExitStack() as undo:
        running = [
            undo.enter_context(bench.running(plan.load, 2 * plan.ramp_s + load_s + LOG_LAG_S)) for bench in benches
        ]
        for bench, clients, start in zip(benches, running, before, strict=True):
            bench.ramp(clients, start)
        looks = [[bench.look()] for bench in benches]
        benches[0].clock.sleep(load_s)
        for bench, own, clients in zip(benches, looks, running, strict=True):
            own.append(bench.look())
            bench.must_run(clients)
        for bench, own in zip(benches, looks, strict=True):
            bench.outlast(own[-1], plan.load)
        return [
            bench.loaded(own, clients, plan.load, idle, f"{load_s:g} s of each start")
            for bench, own, clients, idle in zip(benches, looks, running, rest, strict=True)
        ]


def numbered(loaded: Loaded, start: int) -> Loaded:
    """The same load, with the number of its daemon start in every batch."""
    return replace(loaded, batches=tuple(replace(batch, start=start) for batch in loaded.batches))


def batches_of(loads: Sequence[Loaded]) -> tuple[Batch, ...]:
    """The batches of all starts."""
    return tuple(batch for loaded in loads for batch in loaded.batches)


def enough(starts: Starts, done: int, decided: str | None) -> str | None:
    """Why no more starts are wanted, or None."""
    if done >= starts.most:
        return decided or f"all {done} starts are done"
    return f"{decided}, after {done} starts" if decided and done >= starts.least else None


def measurement_of(
    side: Side, plan: Plan, loads: Sequence[Loaded], reason: str, conditions: Mapping[str, str]
) -> Measurement:
    """One measurement of all batches; figures of a whole load are those of the last load."""
    last = replace(loads[-1], batches=batches_of(loads))
    return Measurement(
        demand=demand_of(side.cluster, plan, last, side.image_key),
        batches=last.batches,
        stopped=reason,
        linearity="not checked: one load only",
        conditions={**conditions, **conditions_of(side.cluster, plan, last)},
    )
