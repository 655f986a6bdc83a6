"""fio in a guest: the CPU time of the host for each request, and how many bytes reach the cluster."""

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
"""Names of threads that run the guest's processors start so; without KVM they emulate."""
MACHINE = frozenset({"worker", "IO mon_iothread", "call_rcu"})
"""Threads that serve the machine and no RBD image: QEMU's pool for files, its monitor, its own housekeeping."""


@dataclass(frozen=True)
class QemuSpent:
    """CPU seconds so far. threads: kind -> seconds; main: kind of QEMU's first thread, which serves the machine."""

    threads: Mapping[str, float]
    main: str

    @property
    def disk_s(self) -> float:
        """Time for the RBD disk, in QEMU's thread for it and in librbd's: native code even where the guest is not."""
        others = MACHINE | {self.main}
        return sum(s for kind, s in self.threads.items() if not kind.startswith(GUEST) and kind not in others)


def spent(pid: int, *, proc: Path = PROC) -> QemuSpent:
    """CPU time of a QEMU to the nanosecond (schedstat in the kernel's Documentation/scheduler/sched-stats.rst)."""
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
        raise LabBroken(f"process {pid} cannot be accounted for", str(error), "has it ended?") from error
    if not main:
        raise LabBroken(f"process {pid} cannot be accounted for", "it has no first thread", "has it ended?")
    return QemuSpent(dict(threads), main)


BATCH_S = 1.0
LEAST_IN_BATCH = 10
"""A batch with fewer operations goes on until it has as many."""
IDLE_S = 3.0
_FOREVER_S = 3600.0
"""The deadline of fio in the guest comes first."""


@dataclass(frozen=True)
class GuestRun:
    """fio in one guest. asked: requests to its disk, by QEMU's count; cpu_s: of the host for one request, by batch."""

    result: FioResult
    asked: Requests
    cpu_s: tuple[float, ...]

    @property
    def cpu(self) -> Interval | None:
        """CPU of the host for one of fio's operations, less the guest's processors; None without a full batch.

        Batches count requests, and the guest's kernel makes several of them from a large operation.
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
    return DiskLook(guest.requests(number), spent(guest.process.pid).disk_s, clock.SYSTEM.monotonic())


def at_rest(guests: Sequence[HostedGuest]) -> list[float]:
    """CPU seconds a second that the idle disks of each guest cost the host."""
    before = [look(guest, 0) for guest in guests]
    clock.SYSTEM.sleep(IDLE_S)
    after = [look(guest, 0) for guest in guests]
    return [(now.disk_s - then.disk_s) / (now.at_s - then.at_s) for then, now in zip(before, after, strict=True)]


def per_operation(looks: Sequence[DiskLook], idle: float) -> tuple[float, ...]:
    """Cost of an operation in each batch, less the idle cost. A batch with too few operations joins the next."""
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
    """Run the same command on a disk of every guest at once, and watch it from its first request to its end.

    idle: what each guest costs `at_rest`.
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
    """Looks at each guest while all are at work: from the start of the last one to the end of the first one."""
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
    """Bytes that clients have written to OSDs and read from them, however they were cut into requests."""
    return received_bytes(cluster) + _summed(cluster, "osd.op_r_out_bytes")


def received_bytes(cluster: Cluster) -> float:
    """Bytes that clients have written to OSDs; librbd's own bookkeeping is many requests, but few bytes."""
    return _summed(cluster, "osd.op_w_in_bytes")


def _summed(cluster: Cluster, name: str) -> float:
    return sum(dump.get(name, 0.0) for dump in counters.of_osds(cluster).values())
