"""Devices: how long one shard keeps a disk busy, and how long an operation waits for a disk that is idle otherwise."""

from __future__ import annotations

from dataclasses import dataclass

from cephlab.tuning import mechanics
from cephlab.tuning.profile import DiskRole, Disks, Figure, MachineClass
from cephlab.tuning.units import Measure, show
from cephlab.tuning.work import OperationWork
from cephlab.tuning.workload import STRIPE_UNIT, Flow

SMALL_BYTES = 4096.0
EXTENT_BYTES = 4.0 * (1 << 20)
_META_READS = 1.0
"""Assumed: an object's metadata that is not in memory takes one read from RocksDB's device."""

DEFERRED_BYTES = 64 * 1024
"""bluestore_prefer_deferred_size_hdd: a smaller write to a rotating disk is acknowledged from the log alone."""

SOURCE = "rated IOPS and bandwidth; BlueStore acknowledges what its log holds (bluestore_prefer_deferred_size_hdd)"


@dataclass(frozen=True)
class Visit:
    """Visit of one shard to one disk. busy_s: time that the disk is busy; path_s: time that the operation waits.

    alone_s: that wait when the disk is idle otherwise, which is at least the device's latency.
    """

    busy_s: float
    path_s: float
    alone_s: float
    how: str


def visit(disks: Disks, machine: MachineClass, work: OperationWork) -> Visit:
    """One shard on one of `disks`, of data or metadata. A missing rated figure is no limit."""
    if work.shape.flow is Flow.READ:
        return _read(disks, work)
    written = _write(disks, machine, work)
    if not work.shape.reads_first or disks.role is not DiskRole.DATA:
        return written
    before = _part(disks, work, 1.0, float(STRIPE_UNIT))
    # k of the k + m shards are read; whether a disk holds one of these is chance.
    share = work.shape.k / work.shape.copies
    return Visit(
        written.busy_s + share * before.busy_s,
        written.path_s + before.path_s,
        written.alone_s + before.alone_s,
        f"{written.how} + {share:.2f} x {before.how} read before",
    )


def _read(disks: Disks, work: OperationWork) -> Visit:
    shape, missed = work.shape, 1 - work.shape.hit_ratio
    if disks.role is DiskRole.METADATA:
        return _part(disks, work, missed * _META_READS, missed * _META_READS * SMALL_BYTES)
    count = missed * max(1.0, shape.shard_bytes / EXTENT_BYTES)
    return _part(disks, work, count, missed * shape.shard_bytes)


def _part(disks: Disks, work: OperationWork, count: float, size: float) -> Visit:
    """`count` reads of `size` bytes altogether."""
    busy, how = _affine(count, size, mechanics.read_iops(disks, work.shape), disks.seq_read)
    # The extents of an object are read ahead: one latency, then bytes.
    alone = min(1.0, count) * mechanics.read_latency(disks, work.shape) + _beyond(size, count, disks.seq_read)
    return Visit(busy, busy, max(busy, alone), how)


def _write(disks: Disks, machine: MachineClass, work: OperationWork) -> Visit:
    count, size = _writes(work, data=disks.role is DiskRole.DATA, alone=not machine.metadata_disks)
    busy, how = _affine(count, size, disks.write_iops.value if disks.write_iops else 0.0, disks.seq_write)
    answer = disks.sync_latency.value if disks.sync_latency else 0.0
    rotates = all(disks.kind.rotates for disks in machine.data_disks)
    deferred = rotates and work.shape.shard_bytes < DEFERRED_BYTES
    if disks.role is DiskRole.METADATA:
        return Visit(busy, busy, max(busy, answer), how)
    if machine.metadata_disks and deferred:
        return Visit(busy, 0.0, 0.0, f"{how}, after the answer")
    if deferred:
        # Its log is on the same disk: the operation waits for one write to it, the rest follows later.
        once = busy / count if count else 0.0
        return Visit(busy, once, max(once, answer), how)
    return Visit(busy, busy, max(busy, answer + _beyond(size, count, disks.seq_write)), how)


def _beyond(size: float, count: float, bandwidth: Figure | None) -> float:
    return max(0.0, size - count * SMALL_BYTES) / bandwidth.value if bandwidth else 0.0


def _writes(work: OperationWork, *, data: bool, alone: bool) -> tuple[float, float]:
    """(operations, bytes) of one shard on its data device or on its metadata device.

    They were measured together on one device. One write for each extent, and its bytes, belong to the data.
    """
    shape = work.shape
    copies = shape.copies
    count = max(1.0, (work.primary.writes + (copies - 1) * work.replica.writes) / copies)
    size = max(shape.shard_bytes, (work.primary.write_bytes + (copies - 1) * work.replica.write_bytes) / copies)
    if alone:
        return count, size
    data_count = max(1.0, shape.shard_bytes / EXTENT_BYTES)
    if data:
        return data_count, shape.shard_bytes
    return max(0.0, count - data_count), max(0.0, size - shape.shard_bytes)


def _affine(count: float, size: float, iops: float, bandwidth: Figure | None) -> tuple[float, str]:
    """Seconds for I/O: each at the rated IOPS, which include 4 KiB, and further bytes at the rated bandwidth."""
    seconds, parts = 0.0, []
    if iops:
        seconds += count / iops
        parts.append(f"{count:.2f} I/O at {iops:,.0f} IOPS")
    beyond = max(0.0, size - count * SMALL_BYTES) if iops else size
    if bandwidth and beyond:
        seconds += beyond / bandwidth.value
        parts.append(f"{show(beyond, Measure.BYTES)} at {bandwidth}")
    return seconds, f"({' + '.join(parts) or 'not rated'})"
