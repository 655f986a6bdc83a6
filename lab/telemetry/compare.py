"""Compares two sets of demands: which costs rose, judged by their intervals, and which cannot be judged."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cephlab.lab.base.numbers import rise
from cephlab.lab.checks.regression import FOUND, RULE, SAME, STORED, judge
from cephlab.lab.checks.verdict import Outcome, Verdict, merge
from cephlab.lab.telemetry.demand import CPU, OSD_ROLES, Demand, Operation, Resource, Role
from cephlab.lab.telemetry.demandfile import CALIBRATED, PAIR, Batch, Measurement
from cephlab.lab.telemetry.describe import NAMES, amount, operation_text
from cephlab.lab.telemetry.plan import WORKING, cost_of
from cephlab.lab.telemetry.regression import CONFIDENCE, Covariates, Ratio, covariates, paired, ratio

CPU_SPREAD = 0.035
TRAFFIC_SPREAD = 0.005
"""Standard deviation of a cost's logarithm from one start of the same daemons to the next: CPU_SPREAD was measured, see
docs/regression.md; TRAFFIC_SPREAD is the largest difference of two runs of the block suite."""

ALONE = 1 - (1 - CONFIDENCE) / 10
"""Confidence of the interval of one role or one kind of traffic: there are about ten, which together may err once in
100 comparisons."""

EARLY = 0.999
"""Confidence before the last start: so high that judging repeatedly adds almost no false alarms."""

LEAST_SHARE = 0.05
"""Roles with less of the CPU than this on both sides are shown but not judged: their percents are noise."""

_EXECUTED = {Resource.INSTRUCTIONS}
_ON_DEVICE = {Resource.DEVICE_WRITES, Resource.DEVICE_WRITE_BYTES}
LEAST_AMOUNT = {
    Resource.INSTRUCTIONS: 1000.0,
    Resource.DEVICE_READS: 0.05,
    Resource.DEVICE_WRITES: 0.05,
    Resource.DEVICE_READ_BYTES: 256.0,
    Resource.DEVICE_WRITE_BYTES: 256.0,
    Resource.WIRE_SENT_BYTES: 1024.0,
    Resource.WIRE_RECEIVED_BYTES: 1024.0,
}
"""Resources that are judged -> least amount per operation. Below it, heartbeats and reports dominate, whose cost
depends on time, not on operations."""


@dataclass(frozen=True)
class CostChange:
    """One cost on both sides. outcome: None if it is only shown; least: the ratio that must be detected."""

    what: str
    before: float
    after: float
    ratio: Ratio
    outcome: Outcome | None
    resource: Resource
    least: float

    @property
    def line(self) -> str:
        """One line with figures and limit."""
        change = f"{rise(self.ratio.value)} [{rise(self.ratio.low)} .. {rise(self.ratio.high)}]"
        return f"{self.what}: {amount(self.before, self.resource)} -> {amount(self.after, self.resource)}, {change}"


@dataclass(frozen=True)
class Compared:
    """One operation on both sides."""

    operation: Operation
    changes: tuple[CostChange, ...]
    verdict: Verdict


def compare(before: Sequence[Measurement], after: Sequence[Measurement]) -> list[Compared]:
    """Compare operation by operation; an operation that only one side has is inconclusive."""
    left, right = _by_operation(before), _by_operation(after)
    return [_compare_operation(operation, left.get(operation), right.get(operation)) for operation in {**left, **right}]


def settled(before: Sequence[Batch], after: Sequence[Batch], calibrated: bool) -> str | None:
    """Why two parallel measurements may end early (the verdict on the CPU of the OSDs is clear), or None.

    Source of the rule, by which the last start keeps its whole confidence: Haybittle 1971; Peto et al. 1976.
    """
    old, new = (_cpu_costs(side, OSD_ROLES, calibrated) for side in (before, after))
    if min((*old, *new)) <= 0:
        return None
    both = (covariates(before), covariates(after))
    ratio = paired(old, new, _explaining(both, pair=True, by_client=calibrated), confidence=EARLY)
    outcome = judge(ratio.value, ratio.low, ratio.high)
    return None if outcome is Outcome.INCONCLUSIVE else f"CPU of the OSDs is settled: {outcome}"


def _cpu_costs(batches: Sequence[Batch], roles: Sequence[Role], by_client: bool) -> list[float]:
    """CPU seconds of an operation, batch by batch. by_client: relative to the CPU time of the client.

    A client that runs the same program on both sides does the same work. Whatever raises its cost on one side (shared
    caches, the number of requests that a wake-up handles) raises the cost of the OSDs there by the same factor.
    """
    costs = [cost_of(batch.costs, roles, CPU) for batch in batches]
    if not by_client:
        return costs
    clients = [cost_of(batch.costs, (Role.CLIENT,), CPU) for batch in batches]
    return [cost / client if client > 0 else 0.0 for cost, client in zip(costs, clients, strict=True)]


def _explaining(both: Covariates, *, pair: bool, by_client: bool) -> Covariates:
    """Covariates to remove from a cost: none if it is divided by the client's cost; in a pair not the common pace."""
    if by_client:
        return {}, {}
    return _kept(both, ("switches",)) if pair else both


def _kept(both: Covariates, names: Sequence[str]) -> Covariates:
    old, new = ({name: side[name] for name in names if name in side} for side in both)
    return old, new


def overall(compared: Sequence[Compared]) -> Verdict:
    """All operations as one verdict; nothing to compare is inconclusive."""
    return merge(operation.verdict for operation in compared)


def _by_operation(measured: Sequence[Measurement]) -> dict[Operation, Measurement]:
    return {measurement.demand.operation: measurement for measurement in measured}


def _compare_operation(operation: Operation, before: Measurement | None, after: Measurement | None) -> Compared:
    if before is None or after is None:
        side = "the first" if before is None else "the second"
        words = f"{operation_text(operation)}: {side} side did not measure it"
        return Compared(operation, (), Verdict(Outcome.INCONCLUSIVE, words))
    why_not = not_judged(before, after)
    changes = tuple(_changes(before, after, judged=why_not is None))
    return Compared(operation, changes, _verdict(operation, changes, why_not))


def not_judged(before: Measurement, after: Measurement) -> Verdict | None:
    """The verdict where a difference would say nothing about Ceph, else None.

    Two architectures differ by nature, so they are only shown, and pass.
    """
    old, new = before.demand, after.demand
    if old.arch is not new.arch:
        return Verdict(Outcome.PASS, f"{old.arch} compared with {new.arch}: shown, not judged")
    if old.emulated or new.emulated:
        why = "the processors or the kernel are emulated: CPU time says nothing about Ceph"
        return Verdict(Outcome.INCONCLUSIVE, why)
    for key, named in (("cpu", "CPU"), ("provider", "provider"), ("disks", "disks")):
        left, right = before.conditions.get(key), after.conditions.get(key)
        if left != right:
            return Verdict(Outcome.INCONCLUSIVE, f"measured on another {named}: {left} and {right}")
    return None


def _verdict(operation: Operation, changes: Sequence[CostChange], why_not: Verdict | None) -> Verdict:
    name = operation_text(operation)
    if why_not is not None:
        return Verdict(why_not.outcome, f"{name}: {why_not.reason}", tuple(change.line for change in changes))
    if not changes:
        return Verdict(Outcome.INCONCLUSIVE, f"{name}: none of its costs has two batches on both sides")
    judged = [change for change in changes if change.outcome is not None]
    return merge(
        Verdict(change.outcome, f"{name}, {change.line}", (f"{name}, {change.line}; {RULE}",))
        for change in judged
        if change.outcome is not None
    )


def _changes(before: Measurement, after: Measurement, *, judged: bool) -> Iterator[CostChange]:
    both = (covariates(before.batches), covariates(after.batches))
    starts = _common_starts(before, after)
    same = bool(starts) and CALIBRATED in before.conditions
    for name, roles in CPU_GROUPS.items():
        by_client = same and Role.CLIENT not in roles
        values = [_cpu_costs(side.batches, roles, by_client) for side in (before, after)]
        beside = _explaining(both, pair=bool(starts), by_client=by_client)
        ratio = _ratio(values, starts, beside, CPU_SPREAD, CONFIDENCE if roles == OSD_ROLES else ALONE)
        # The client is the yardstick for the others, so it is not judged.
        counts = judged and by_client == same and (_counts(before.demand, roles) or _counts(after.demand, roles))
        # Replicas alone differ by more from start to start than primary and replicas together.
        same_to = SAME if roles == OSD_ROLES else FOUND
        rule = _Rule(counts, only_fails=roles != OSD_ROLES, least=FOUND if starts else STORED, same=same_to)
        cpu_costs = [_cpu_costs(side.batches, roles, False) for side in (before, after)]
        words = f"CPU of {name}, relative to the client" if by_client else f"CPU of {name}"
        yield from _change(words, cpu_costs, ratio, Resource.CPU_USER_S, rule)
    for role in WORKING:
        for resource, least in LEAST_AMOUNT.items():
            known = all(resource in side.demand.costs.get(role, {}) for side in (before, after))
            if not known or max(before.demand.of(role, resource), after.demand.of(role, resource)) < least:
                continue
            costs = [[cost_of(batch.costs, (role,), (resource,)) for batch in side.batches] for side in (before, after)]
            values = [at_least(side, least) for side in costs]
            words = f"{NAMES[resource]} by {role}{'' if values == costs else few(resource)}"
            # A commit writes one log block for all its operations; nothing else changes the traffic of an operation.
            # Instructions depend on how often threads wake up, but not on the load of neighbours.
            kept = ("syncs",) if resource in _ON_DEVICE else ("switches",) if resource in _EXECUTED else ()
            ratio = _ratio(values, starts, _kept(both, kept), TRAFFIC_SPREAD, ALONE if starts else CONFIDENCE)
            # The number of requests per commit differs by percents between two sides, whatever they run.
            vague = bool(starts) or values != costs
            rule = _Rule(judged, only_fails=True, same=FOUND) if vague else _Rule(judged)
            yield from _change(words, values, ratio, resource, rule)


CPU_GROUPS: Mapping[str, tuple[Role, ...]] = {
    "OSDs": OSD_ROLES,
    "osd.primary": (Role.PRIMARY,),
    "osd.replica": (Role.REPLICA,),
    "gateway": (Role.GATEWAY,),
    "client": (Role.CLIENT,),
}


def _common_starts(before: Measurement, after: Measurement) -> list[int]:
    """The daemon start that each batch belongs to, for two parallel measurements; empty for others."""
    pair = before.conditions.get(PAIR)
    if pair is None or pair != after.conditions.get(PAIR):
        return []
    starts, others = ([batch.start for batch in side.batches] for side in (before, after))
    return starts if starts == others else []


def _ratio(
    values: Sequence[Sequence[float]],
    starts: Sequence[int],
    beside: Covariates,
    spread: float,
    confidence: float = CONFIDENCE,
) -> Ratio | None:
    """after / before, in pairs if both sides ran in parallel; None for fewer than two batches or a mean of 0.

    Without ends where a single batch is not above 0, since the cost at rest is subtracted: nothing can be told then.
    """
    before, after = values
    if len(before) < 2 or len(after) < 2 or min(sum(before), sum(after)) <= 0:
        return None
    if min((*before, *after)) <= 0:
        return Ratio(sum(after) / len(after) / (sum(before) / len(before)), 0.0, math.inf)
    if starts:
        return paired(before, after, beside, confidence=confidence)
    return ratio(before, after, beside, spread=spread, confidence=confidence)


@dataclass(frozen=True)
class _Rule:
    """How a cost is judged. least: the ratio that must be detected; same: ratios up to this one count as equal;
    only_fails: the cost is judged only if it surely rose, since an uncertain part says nothing about the whole."""

    judged: bool
    only_fails: bool = False
    least: float = FOUND
    same: float = SAME


def _change(
    what: str, values: Sequence[Sequence[float]], ratio: Ratio | None, resource: Resource, rule: _Rule
) -> Iterator[CostChange]:
    before, after = values
    if ratio is None:
        return
    means = [sum(side) / len(side) for side in (before, after)]
    outcome = judge(ratio.value, ratio.low, ratio.high, rule.least, rule.same) if rule.judged else None
    if rule.only_fails and outcome is not Outcome.FAIL:
        outcome = None
    yield CostChange(what, means[0], means[1], ratio, outcome, resource, rule.least)


def at_least(costs: Sequence[float], least: float) -> list[float]:
    """Costs that are not below `least`: what begins to cost is a rise, and what changes below that amount is none."""
    return [max(least, cost) for cost in costs]


def few(resource: Resource) -> str:
    """What to add to the name of a cost whose amounts were raised to the least one."""
    return f", less than {amount(LEAST_AMOUNT[resource], resource)} counted as that"


def _counts(demand: Demand, roles: Sequence[Role]) -> bool:
    return _cpu(demand, roles) >= LEAST_SHARE * _cpu(demand, WORKING)


def _cpu(demand: Demand, roles: Sequence[Role]) -> float:
    return sum(demand.cpu_s(role) for role in roles)
