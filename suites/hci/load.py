"""fio in a guest: host CPU time per request, and the bytes that reach the cluster."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cephlab.lab.base import clock
from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.process import Result
from cephlab.lab.base.workers import Workers
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.telemetry import counters
from cephlab.lab.telemetry.accounting import PROC, thread_kind
from cephlab.lab.telemetry.demand import Interval
from cephlab.lab.telemetry.statistics import interval
from cephlab.lab.workloads import fio
from cephlab.lab.workloads.fio import FioResult
from cephlab.suites.hci.hypervisor.guest import HostedGuest, Requests

GUEST = "CPU"
"""Prefix of the names of threads that run the guest's processors; without KVM these threads emulate them."""
MACHINE = frozenset({"worker", "IO mon_iothread", "call_rcu"})
"""Threads that serve the machine and not an RBD image: QEMU's file I/O pool, its monitor, its housekeeping."""


@dataclass(frozen=True)
class QemuSpent:
    """CPU seconds so far. threads: kind -> seconds; main: the kind of QEMU's main thread, which serves the machine."""

    threads: Mapping[str, float]
    main: str

    @property
    def disk_s(self) -> float:
        """CPU time for the RBD disk, in QEMU's I/O thread and in librbd: native code even if the guest is emulated."""
        others = MACHINE | {self.main}
        return sum(s for kind, s in self.threads.items() if not kind.startswith(GUEST) and kind not in others)


def spent(pid: int, *, proc: Path = PROC) -> QemuSpent:
    """CPU time of a QEMU process in nanoseconds (schedstat in the kernel's Documentation/scheduler/sched-stats.rst)."""
    threads: dict[str, float] = defaultdict(float)
    main = ""
    try:
        for task in (proc / str(pid) / "task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):  # a thread of QEMU's pool that has just ended
                kind = thread_kind((task / "comm").read_text().strip())
                threads[kind] += int((task / "schedstat").read_text().split()[0]) / 1e9
                if task.name == str(pid):
                    main = kind
    except (OSError, IndexError) as error:
        raise LabBroken(
            f"the CPU time of process {pid} cannot be read", str(error), "check whether it has ended"
        ) from error
    if not main:
        raise LabBroken(
            f"the CPU time of process {pid} cannot be read", "it has no main thread", "check whether it has ended"
        )
    return QemuSpent(dict(threads), main)


BATCH_S = 1.0
LEAST_IN_BATCH = 10
"""A batch with fewer operations is extended until it has this many."""
IDLE_S = 3.0
_FOREVER_S = 3600.0
"""The deadline of fio in the guest comes first."""


@dataclass(frozen=True)
class GuestRun:
    """fio in one guest. asked: requests to its disk, as QEMU counts them; cpu_s: host CPU per request, by batch."""

    result: FioResult
    asked: Requests
    cpu_s: tuple[float, ...]

    @property
    def cpu(self) -> Interval | None:
        """Host CPU per fio operation, without the guest's processors; None without a full batch.

        Batches count requests, and the guest's kernel splits a large operation into several requests.
        """
        if not (self.cpu_s and self.result.operations):
            return None
        pieces = self.asked.operations / self.result.operations
        return interval([cost * pieces for cost in self.cpu_s])


@dataclass(frozen=True)
class DiskLook:
    """A sample of a guest's disk."""

    asked: Requests
    disk_s: float
    at_s: float


def look(guest: HostedGuest, number: int) -> DiskLook:
    return DiskLook(guest.requests(number), spent(guest.process.pid).disk_s, clock.SYSTEM.monotonic())


def at_rest(guests: Sequence[HostedGuest]) -> list[float]:
    """CPU seconds per second that the idle disks of each guest cost the host."""
    before = [look(guest, 0) for guest in guests]
    clock.SYSTEM.sleep(IDLE_S)
    after = [look(guest, 0) for guest in guests]
    return [(now.disk_s - then.disk_s) / (now.at_s - then.at_s) for then, now in zip(before, after, strict=True)]


def per_operation(looks: Sequence[DiskLook], idle: float) -> tuple[float, ...]:
    """Cost per operation in each batch, without idle cost. A batch with too few operations is merged with the next."""
    costs = []
    start = looks[0]
    for now in looks[1:]:
        done = now.asked.since(start.asked).operations
        if done >= LEAST_IN_BATCH:
            costs.append((now.disk_s - start.disk_s - idle * (now.at_s - start.at_s)) / done)
            start = now
    return tuple(costs)


def run_all(
    guests: Sequence[HostedGuest], idle: Sequence[float], number: int, argv: Sequence[str], timeout_s: float
) -> list[GuestRun]:
    """Run the same command on a disk of every guest at the same time, and sample it from its first request to its end.

    idle: the result of `at_rest` for each guest.
    """
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
    """Samples of each guest while all are working: from the start of the last one to the end of the first one."""
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
    """Bytes that clients have written to OSDs and read from them, however requests were split."""
    return received_bytes(cluster) + _summed(cluster, "osd.op_r_out_bytes")


def received_bytes(cluster: Cluster) -> float:
    """Bytes that clients have written to OSDs. The metadata updates of librbd are many requests but few bytes."""
    return _summed(cluster, "osd.op_w_in_bytes")


def _summed(cluster: Cluster, name: str) -> float:
    return sum(dump.get(name, 0.0) for dump in counters.of_osds(cluster).values())
