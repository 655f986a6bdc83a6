"""Puts steady load on a cluster and reads the meter at the ends of batches or passes, until there are enough."""

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

from cephlab.lab.base import clock as clocks
from cephlab.lab.base.clock import Clock
from cephlab.lab.base.errors import LabBroken, try_all
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.telemetry.clients import Clients
from cephlab.lab.telemetry.demand import Resource, Role
from cephlab.lab.telemetry.demandfile import Batch
from cephlab.lab.telemetry.meter import COUNT, LoadClient, Meter
from cephlab.lab.telemetry.pace import Reference, ReferencePace
from cephlab.lab.telemetry.place import Say
from cephlab.lab.telemetry.plan import WORKING, Load, Loaded, Plan, main_cost
from cephlab.lab.telemetry.readings import Reading, Spent, spent, summed
from cephlab.lab.telemetry.statistics import Stop
from cephlab.lab.workloads.fio import FioResult, Progress

LEAST_OPERATIONS = 50
"""Least operations in a batch: with fewer, single requests that cross its ends change the cost by percents."""

LARGEST_SHARE = 0.05
"""Largest CPU time of the harness as a share of the measured one. Batches grow to get below it, if there is time."""

_ENOUGH = 1.5
"""Requests at the primary must exceed LEAST_OPERATIONS by this factor: they are not exactly the client operations."""

_MARGIN_S = 30.0
_APPEAR_S = 60.0
LOG_LAG_S = 0.5

Rates = Mapping[Role, Mapping[Resource, float]]
"""Cost of each role per second at rest."""

Done = Callable[[float, float], float]
"""(begin, end), in seconds since the epoch -> operations between them."""


@dataclass(frozen=True)
class Look:
    """The readings of the meter and the reference work at one moment."""

    reading: Reading
    pace: ReferencePace

    @property
    def requests(self) -> float:
        """Client requests that the primary has answered."""
        return self.reading.ceph[Role.PRIMARY].get(COUNT, 0.0)


@dataclass(frozen=True)
class Bench:
    """A cluster and clients that are ready to load it."""

    cluster: Cluster
    meter: Meter
    reference: Reference
    plan: Plan
    clients: Clients
    say: Say
    clock: Clock

    @property
    def in_memory(self) -> bool:
        """Whether the cluster's disks are in memory."""
        return any(disk.in_memory for node in self.cluster.spec.nodes for disk in node.disks)

    def look(self) -> Look:
        return Look(self.meter.read(), self.reference.pace())

    def idle(self) -> Rates:
        """What every role spends per second at rest."""
        before = self.meter.read()
        self.clock.sleep(self.plan.idle_s)
        rest = spent(before, self.meter.read(), in_memory=self.in_memory)
        return per_operation(rest, {}, lambda began_s, ended_s: ended_s - began_s)

    def load(self, load: Load, idle: Rates, stop: Stop) -> Loaded:
        """Take batches of the plan's operation until `stop` gives a reason to end."""
        start = self.meter.requests()
        longest_s = self.plan.ramp_s + max(stop.budget_s, stop.least * self.plan.batch_s)
        with self.running(load, longest_s) as running:
            self.ramp(running, start)
            looks = [self.look()]
            reason, pause_s = None, self.plan.batch_s
            while reason is None:
                self.clock.sleep(pause_s)
                look = self.look()
                self.must_run(running)
                if self.too_short(looks[-1], look, stop):
                    self.say(f"{load}: {pause_s:g} s are too short for a batch, now {2 * pause_s:g} s")
                    pause_s *= 2
                    continue
                looks.append(look)
                rough = [
                    self.batch(before, after, load, idle, counted(before, after)) for before, after in pairwise(looks)
                ]
                costs = [main_cost(batch.costs) for batch in rough]
                reason = stop.reason(costs, looks[-1].reading.at_s - looks[0].reading.at_s) or self.clients.enough()
                self.say(
                    f"{load}, batch {len(costs)}: {rough[-1].operations / rough[-1].seconds:.0f}/s, "
                    f"{costs[-1] * 1e6:.0f} us of CPU per operation"
                )
            self.outlast(looks[-1], load)
            return self.loaded(looks, running, load, idle, reason)

    def too_short(self, before: Look, after: Look, stop: Stop) -> bool:
        """Whether a batch has too few operations or too much CPU time of the harness, and a longer one still fits."""
        used = spent(before.reading, after.reading, in_memory=self.in_memory)
        if after.requests - before.requests < _ENOUGH * LEAST_OPERATIONS:
            return used.seconds < stop.budget_s
        return used.harness_s > LARGEST_SHARE * used.cpu_s and used.seconds < stop.budget_s / stop.least

    def outlast(self, last: Look, load: Load) -> None:
        """Continue until the logs of the clients reach beyond the last look."""
        clocks.Deadline.after(_APPEAR_S * self.cluster.patience, self.clock).wait(
            self.meter.requests,
            lambda requests: requests > last.requests + load.in_flight,
            what="requests after the last look",
        )
        self.clock.sleep(LOG_LAG_S)

    def loaded(self, looks: list[Look], running: Sequence[LoadClient], load: Load, idle: Rates, why: str) -> Loaded:
        """End the load and sum up its looks. why: the reason for its end."""
        self.meter.unfollow()
        results = ended(running)
        operations = operations_of(
            [client.progress() for client in running], [self.meter.ahead_s(client.host) for client in running]
        )
        batches = tuple(self.batch(before, after, load, idle, operations) for before, after in pairwise(looks))
        whole = spent(looks[0].reading, looks[-1].reading, in_memory=self.in_memory)
        return Loaded(
            batches=batches,
            whole=whole,
            operations=operations(*whole.times),
            ceph_operations={role: operations(*times) for role, times in whole.ceph_times.items()},
            requests=looks[-1].requests - looks[0].requests,
            results=results,
            stopped=why,
        )

    @contextmanager
    def running(self, load: Load, longest_s: float) -> Iterator[list[LoadClient]]:
        """Clients that generate load while the block runs, for longest_s at most (times the cluster's patience)."""
        running: list[LoadClient] = []
        self.clients.ready()
        runtime_s = (longest_s + _MARGIN_S) * self.cluster.patience
        try:
            running.extend(self.clients.start(number, load.depth, runtime_s) for number in range(load.clients))
            yield running
        finally:
            try_all([self.meter.unfollow, *(client.kill for client in running)])

    def ramp(self, running: Sequence[LoadClient], start: float) -> None:
        """Wait until requests arrive, then for the ramp time of the plan."""
        self.arrive(running, start, LEAST_OPERATIONS)
        self.meter.follow(running)
        self.say(f"warming up for {self.plan.ramp_s:g} s")
        self.clock.sleep(self.plan.ramp_s)

    def arrive(self, running: Sequence[LoadClient], start: float, least: int = 1) -> None:
        """Wait until `least` requests of each client were answered. start: requests before."""

        def arrived() -> float:
            self.must_run(running)
            return self.meter.requests() - start

        clocks.Deadline.after(_APPEAR_S * self.cluster.patience, self.clock).wait(
            arrived,
            lambda requests: requests >= least * len(running),
            what="the first requests of the clients",
        )

    def must_run(self, running: Sequence[LoadClient]) -> None:
        """LabBroken if a client has ended, DaemonDied if a daemon has."""
        for client in running:
            if not client.process.alive():
                raise LabBroken("a client ended before it was asked to", client.words())
        self.cluster.check_daemons()

    def batch(self, before: Look, after: Look, load: Load, idle: Rates, done: Done) -> Batch:
        """The batch between two looks; LabBroken if it has too few operations."""
        used = spent(before.reading, after.reading, in_memory=self.in_memory)
        operations = done(*used.times)
        if operations < LEAST_OPERATIONS:
            raise LabBroken(
                f"only {operations:.0f} operations in {used.seconds:.1f} s: too few for the cost of one operation",
                f"at least {LEAST_OPERATIONS} wanted",
                "measure with longer batches, or on a quieter machine",
            )
        return Batch(
            operations=operations,
            seconds=used.seconds,
            depth=load.in_flight,
            costs=per_operation(used, idle, done),
            reference=after.pace.since(before.pace),
            batching=batching(used, operations, done),
        )


def ended(running: Sequence[LoadClient]) -> tuple[FioResult, ...]:
    """Tell every client to end, and return their results."""
    for client in running:
        client.process.signal(signal.SIGINT)
    return tuple(client.finish() for client in running)


def operations_of(logs: Sequence[Progress], ahead_s: Sequence[float] = ()) -> Done:
    """Operations of all clients, from their logs. ahead_s: how far the clock of each is ahead of this machine's."""
    clocks_ahead = ahead_s or [0.0] * len(logs)
    return lambda began_s, ended_s: sum(
        log.between(began_s + ahead, ended_s + ahead) for log, ahead in zip(logs, clocks_ahead, strict=True)
    )


def per_operation(used: Spent, idle: Rates, done: Done) -> dict[Role, dict[Resource, float]]:
    """Costs of one operation: what was used, minus what the same time costs at rest."""
    costs_of = {
        role: _share(costs, idle.get(role, {}), used.usage_times.get(role, used.times), done)
        for role, costs in used.costs.items()
    }
    for role, costs in used.ceph_costs.items():
        costs_of.setdefault(role, {}).update(_share(costs, idle.get(role, {}), used.ceph_times[role], done))
    return costs_of


def _share(
    costs: Mapping[Resource, float], rest: Mapping[Resource, float], times: tuple[float, float], done: Done
) -> dict[Resource, float]:
    operations, seconds = done(*times), times[1] - times[0]
    return {resource: (amount - rest.get(resource, 0.0) * seconds) / operations for resource, amount in costs.items()}


def counted(before: Look, after: Look) -> Done:
    """Operations as counted by the primary alone, for use until the log of fio is available."""
    began, ended = before.reading.ceph_at_s[Role.PRIMARY], after.reading.ceph_at_s[Role.PRIMARY]
    rate = max(1.0, after.requests - before.requests) / (ended - began)
    return lambda left, right: rate * (right - left)


def batching(used: Spent, operations: float, done: Done) -> dict[str, float]:
    """How often threads slept and stores committed per operation, and how many CPUs other programs used."""
    switches = sum(used.usage[role].switches for role in WORKING if role in used.usage)
    syncs = sum(
        changed.get("bluestore.kv_sync_lat", 0.0) / done(*used.ceph_times[role]) for role, changed in used.ceph.items()
    )
    return {"switches": switches / operations, "syncs": syncs, "others": used.others_s / used.seconds}


_PASS_SHARE = 0.5
"""Share of a pass after which the second look begins. It must end before the pass does."""

_LEAST_S, _MOST_S = 0.1, 0.3
"""Limits of the pause between two progress checks of a pass: half of the estimated time, as its speed may change."""

_LONGEST_S = 600.0


def load_in_passes(bench: Bench, load: Load, idle: Rates, stop: Stop) -> Loaded:
    """Take one batch per pass until `stop` gives a reason to end. Operations are requests counted by the primary."""
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
            f"{costs[-1] * 1e6:.0f} us of CPU per operation"
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
    """Operations within the times at which the counters of a role were read."""
    return sum(counted(*pair)(*part.ceph_times[role]) for pair, part in zip(looks, parts, strict=True))


def one_pass(bench: Bench, load: Load) -> tuple[Look, Look, tuple[FioResult, ...]]:
    """Two looks at one pass, and the results of its clients; LabBroken if they did not read every object once."""
    plan, meter = bench.plan, bench.meter
    objects = plan.image_bytes // plan.operation.block_bytes * load.clients
    at_start = meter.requests()
    with bench.running(load, _LONGEST_S) as running:
        bench.arrive(running, at_start)
        meter.follow(running)
        before, began = bench.look(), bench.clock.monotonic()
        first = read = meter.requests() - at_start
        while read < _PASS_SHARE * objects:
            since, elapsed_s = read - first, bench.clock.monotonic() - began
            left_s = (_PASS_SHARE * objects - read) * elapsed_s / since if since else 0.0
            bench.clock.sleep(min(_MOST_S, max(_LEAST_S, left_s / 2)))
            bench.must_run(running)
            read = meter.requests() - at_start
        after = bench.look()
        meter.unfollow()
        ended = tuple(client.finish() for client in running)
    operations = sum(result.operations for result in ended)
    if operations != objects:
        raise LabBroken(f"{operations} objects were read in a pass over {objects}")
    return before, after, ended
