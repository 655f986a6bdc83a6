"""Limits inside a daemon: thread pools that are full while the machine still has idle cores."""

from dataclasses import dataclass

from cephlab.lab.base.numbers import how_many
from cephlab.tuning import devices
from cephlab.tuning.profile import Disks, MachineClass, Threads
from cephlab.tuning.work import LOADED, OperationWork, Price
from cephlab.tuning.workload import Flow

SOURCE = "Ceph's defaults: osd_op_num_shards, osd_op_num_threads_per_shard, ms_async_op_threads; one kv thread per OSD"

SMT_GAIN = 1.25
"""Assumed: a core with two busy threads does a quarter more than with one. So a thread alone on its core runs at core
speed / 1.25. A profile can give a measured `thread_speed`."""

_SSD_SHARDS, _SSD_THREADS = 8, 2
_HDD_SHARDS, _HDD_THREADS = 5, 1

CLIENT_THREADS = {
    "msgr-worker": 3,
    "io_context_pool": 2,
    "fn-radosclient": 1,
    "fio": 1,
    "rados": 1,
    LOADED: 1,
}
"""Threads of one client process: ms_async_op_threads, librados_thread_count (Nautilus: one finisher), and the load
generator's own."""


BATCHING = frozenset({"bstore_kv_sync", "bstore_kv_final"})
"""Threads that commit everything waiting in one go. They limit throughput, but no queue forms there."""

EVENTS = frozenset({"msgr-worker", "bstore_aio"})
"""Threads that fetch all waiting events in one go and handle them one after the other."""


@dataclass(frozen=True)
class ThreadPool:
    """Threads of one name in one daemon. seconds: how long an operation occupies one of them, on this machine."""

    name: str
    threads: int
    seconds: float
    how: str

    @property
    def ceiling(self) -> float:
        """Operations a second of one daemon, by the utilisation law for `threads` servers."""
        return self.threads / self.seconds


def thread_speed(machine: MachineClass) -> float:
    """Points of a thread alone on its core.

    A full thread pool leaves most of a machine idle, so its threads compete with no sibling and no memory traffic.
    """
    if machine.thread_speed:
        return machine.thread_speed.value
    return machine.core_speed.value / (SMT_GAIN if machine.threads_per_core > 1 else 1.0)


def osd_threads(threads: Threads, disks: Disks) -> dict[str, int]:
    """Threads of one OSD by name."""
    shards = threads.osd_shards or (_HDD_SHARDS if disks.kind.rotates else _SSD_SHARDS)
    each = threads.threads_per_shard or (_HDD_THREADS if disks.kind.rotates else _SSD_THREADS)
    return {
        "tp_osd_tp": shards * each,
        "msgr-worker": threads.messenger,
        "bstore_kv_sync": 1,
        "bstore_kv_final": 1,
        "bstore_aio": 1,
    }


def osd_pools(
    threads: Threads, machine: MachineClass, disks: Disks, work: OperationWork, *, replica: float, before: float
) -> list[ThreadPool]:
    """The thread pools of one OSD, with their work for each operation of which it is the primary.

    replica: shards that it stores for other primaries, for each such operation. before: chunks read before a write. A
    read of BlueStore occupies its op thread until the device answers; a write does not, as kv threads acknowledge it.
    """
    speed = thread_speed(machine)
    price = work.primary.plus(work.replica.times(replica))
    if work.reread:
        price = price.plus(work.reread.times(before))
    reads = before if work.shape.flow is Flow.WRITE else (1 - work.shape.hit_ratio) * (1 + replica)
    waiting = devices.read_latency(disks, work.shape) * reads
    return [
        pool
        for name, count in osd_threads(threads, disks).items()
        if (pool := _pool(name, count, price, speed, waiting if name == "tp_osd_tp" else 0.0))
    ]


def client_pools(machine: MachineClass, work: OperationWork) -> list[ThreadPool]:
    """The pools of one load generator."""
    speed = thread_speed(machine)
    pools = [_pool(name, count, work.client, speed, 0.0) for name, count in CLIENT_THREADS.items()]
    return [pool for pool in pools if pool]


def _pool(name: str, count: int, price: Price, speed: float, waiting: float) -> ThreadPool | None:
    points = price.threads.get(name, 0.0)
    if points <= 0:
        return None
    seconds = points / speed + waiting
    how = f"{how_many(count, 'thread')} / ({points * 1e3:.4f} point-ms / {speed:.2f} points"
    how += f" + {waiting * 1e6:.0f} us waiting for the device)" if waiting else ")"
    return ThreadPool(name, count, seconds, how)
