"""fio in a guest, with what each of its requests costs the host beside it, and how many of them reach the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from cephlab.lab.base import clock
from cephlab.lab.base.process import Result
from cephlab.lab.base.workers import Workers
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.telemetry import counters
from cephlab.lab.telemetry.demand import Interval
from cephlab.lab.telemetry.statistics import interval
from cephlab.lab.workloads import fio
from cephlab.lab.workloads.fio import FioResult
from cephlab.suites.hci.hypervisor import cost
from cephlab.suites.hci.hypervisor.guest import HostedGuest, Requests

BATCH_S = 1.0
LEAST_IN_BATCH = 10
"""A batch with fewer operations goes on until it has as many."""
IDLE_S = 3.0
_FOREVER_S = 3600.0
"""The guest's own deadline ends it before."""


@dataclass(frozen=True)
class GuestRun:
    """What fio did in one guest. asked: of its disk, by QEMU's count; cpu_s: of the host for one request, by batch."""

    result: FioResult
    asked: Requests
    cpu_s: tuple[float, ...]

    @property
    def cpu(self) -> Interval | None:
        """What one of fio's operations costs the host beside the guest's own processors; None where no batch was full.

        Batches count requests, of which the guest's kernel makes several where an operation is large.
        """
        if not (self.cpu_s and self.result.operations):
            return None
        pieces = self.asked.operations / self.result.operations
        return interval([cost * pieces for cost in self.cpu_s])


@dataclass(frozen=True)
class DiskLook:
    """A guest's disk at one moment."""

    asked: Requests
    disk_s: float
    at_s: float


def look(guest: HostedGuest, number: int) -> DiskLook:
    return DiskLook(guest.requests(number), cost.spent(guest.process.pid).disk_s, clock.SYSTEM.monotonic())


def at_rest(guest: HostedGuest, number: int) -> float:
    """CPU seconds that a guest's disk costs the host in a second in which nobody asks for anything."""
    before = look(guest, number)
    clock.SYSTEM.sleep(IDLE_S)
    after = look(guest, number)
    return (after.disk_s - before.disk_s) / (after.at_s - before.at_s)


def per_operation(looks: Sequence[DiskLook], idle: float) -> tuple[float, ...]:
    """Cost of an operation in each batch, less the cost at rest. A batch with too few operations joins the next."""
    costs = []
    begun = looks[0]
    for now in looks[1:]:
        done = now.asked.since(begun.asked).operations
        if done >= LEAST_IN_BATCH:
            costs.append((now.disk_s - begun.disk_s - idle * (now.at_s - begun.at_s)) / done)
            begun = now
    return tuple(costs)


def run_all(guests: Sequence[HostedGuest], number: int, argv: Sequence[str], timeout_s: float) -> list[GuestRun]:
    """The same command on a disk of every guest at the same time, watched from its first request to its end."""
    idle = [at_rest(guest, number) for guest in guests]
    before = [guest.requests(number) for guest in guests]
    with Workers(max_workers=len(guests), thread_name_prefix="fio") as workers:
        jobs = [workers.submit(guest.run, argv, timeout_s=timeout_s) for guest in guests]
        looks = _watched(guests, number, before, jobs)
        results = [fio.parse(job.result().stdout.encode()) for job in jobs]
    after = [guest.requests(number) for guest in guests]
    return [
        GuestRun(result, last.since(first), per_operation(seen, rest) if len(seen) > 1 else ())
        for result, first, last, seen, rest in zip(results, before, after, looks, idle, strict=True)
    ]


def _watched(
    guests: Sequence[HostedGuest], number: int, before: Sequence[Requests], jobs: Sequence[Future[Result]]
) -> list[list[DiskLook]]:
    """Looks at each guest while all of them are at work: from when the last has begun until the first has ended."""
    looks: list[list[DiskLook]] = [[] for _ in guests]

    def step() -> bool:
        now = [look(guest, number) for guest in guests]
        ended = any(job.done() for job in jobs)
        at_work = all(seen.asked.since(first).operations for seen, first in zip(now, before, strict=True))
        if at_work and not ended:
            for seen, latest in zip(looks, now, strict=True):
                seen.append(latest)
        return all(job.done() for job in jobs)

    clock.wait(step, bool, what="the end of fio in the guests", timeout_s=_FOREVER_S, interval_s=BATCH_S)
    return looks


def moved_bytes(cluster: Cluster) -> float:
    """What clients have sent the OSDs to write and were sent by them, however they cut it into requests."""
    return received_bytes(cluster) + _summed(cluster, "osd.op_r_out_bytes")


def received_bytes(cluster: Cluster) -> float:
    """What clients have sent the OSDs to write; librbd's own bookkeeping is many requests, but few bytes."""
    return _summed(cluster, "osd.op_w_in_bytes")


def _summed(cluster: Cluster, name: str) -> float:
    client = cluster.client
    return sum(counters.flatten(client.tell(f"osd.{osd}", "perf dump")).get(name, 0.0) for osd in cluster.osd_ids())
