"""fio in a guest: host CPU time per request, and the bytes that reach the cluster."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from cephlab.lab.base import clock
from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.process import Result
from cephlab.lab.base.workers import Workers
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.telemetry import account_program, counters
from cephlab.lab.telemetry.accountants import There
from cephlab.lab.telemetry.accounting import thread_kind
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


def spent(guest: HostedGuest) -> QemuSpent:
    """CPU time of a guest's QEMU so far, as the kernel that runs it counts it."""
    pid = guest.process.pid
    try:
        if pid:
            return spent_by(pid, account_program.scheduled({"pid": pid}))
        pid, *_ = There(guest.teller).pids(guest.process)
        return spent_by(pid, guest.teller.ask("scheduled", pid=pid))
    except (OSError, ValueError) as error:
        raise _unread(pid, str(error)) from error


def spent_by(pid: int, thread_times: Mapping[str, tuple[str, float]]) -> QemuSpent:
    """The CPU time of a process by kind of thread. told: the answer of `account_program.scheduled`."""
    if str(pid) not in thread_times:
        raise _unread(pid, "it has no main thread")
    threads: dict[str, float] = defaultdict(float)
    for name, seconds in thread_times.values():
        threads[thread_kind(name)] += seconds
    return QemuSpent(dict(threads), thread_kind(thread_times[str(pid)][0]))


def _unread(pid: int, why: str) -> LabBroken:
    return LabBroken(f"the CPU time of process {pid} cannot be read", why, "check whether it has ended")


BATCH_S = 1.0
LEAST_IN_BATCH = 10
"""A batch with fewer operations is extended until it has this many."""
CHECK_S = 0.1
"""Time between two checks whether fio has ended."""
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
    return DiskLook(guest.requests(number), spent(guest).disk_s, clock.SYSTEM.monotonic())


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
        operations = now.asked.since(start.asked).operations
        if operations >= LEAST_IN_BATCH:
            costs.append((now.disk_s - start.disk_s - idle * (now.at_s - start.at_s)) / operations)
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
        GuestRun(result, last.since(first), per_operation(its_looks, rest) if len(its_looks) > 1 else ())
        for result, first, last, its_looks, rest in zip(results, before, after, looks, idle, strict=True)
    ]


def _watched(
    guests: Sequence[HostedGuest], number: int, before: Sequence[Requests], jobs: Sequence[Future[Result]]
) -> list[list[DiskLook]]:
    """Samples of each guest while all are working: from the start of the last one to the end of the first one."""
    looks: list[list[DiskLook]] = [[] for _ in guests]
    due_s = clock.SYSTEM.monotonic()

    def step() -> bool:
        nonlocal due_s
        if clock.SYSTEM.monotonic() >= due_s:
            due_s += BATCH_S
            now = [look(guest, number) for guest in guests]
            ended = any(job.done() for job in jobs)
            at_work = all(disk.asked.since(first).operations for disk, first in zip(now, before, strict=True))
            if at_work and not ended:
                for its_looks, disk in zip(looks, now, strict=True):
                    its_looks.append(disk)
        return all(job.done() for job in jobs)

    clock.wait(step, bool, what="the end of fio in the guests", timeout_s=_FOREVER_S, interval_s=CHECK_S)
    return looks


def moved_bytes(cluster: Cluster) -> float:
    """Bytes that clients have written to OSDs and read from them, however requests were split."""
    names = ("osd.op_w_in_bytes", "osd.op_r_out_bytes")
    return sum(dump.get(name, 0.0) for dump in counters.of_osds(cluster).values() for name in names)


def received_bytes(cluster: Cluster, pool: str) -> float:
    """Bytes that clients have written to a pool, without its copies: other clients of the cluster do not count.

    The metadata updates of librbd are many requests but few bytes.
    """
    cluster.settle()
    known = {usage["name"]: usage["stats"] for usage in cluster.client.mon("df", detail="detail")["pools"]}
    return float(known[pool]["wr_bytes"])
