"""Devices: how long one shard keeps a disk busy, and how long an operation waits for an otherwise idle disk.

Rated figures of rotating disks hold for the whole disk. They are corrected where the data lies close together.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from cephlab.tuning.derivation import DerivationStep
from cephlab.tuning.profile import DiskRole, Disks, Figure, MachineClass
from cephlab.tuning.units import Measure, show
from cephlab.tuning.work import OperationWork
from cephlab.tuning.workload import Flow, Shape

SMALL_BYTES = 4096.0
EXTENT_BYTES = 4.0 * (1 << 20)

PIECE_BYTES = 64.0 * 1024
"""bluestore_max_blob_size: BlueStore's largest write. 4 MiB were measured as 66 writes, 64 of them contiguous."""

DEFERRED_BYTES = 64 * 1024
"""bluestore_prefer_deferred_size_hdd: a smaller write to a rotating disk is acknowledged once it is in the log."""


@dataclass(frozen=True)
class Visit:
    """Visit of one shard to one disk. busy_s: time that the disk is busy; path_s: time that the operation waits.

    alone_s: path_s on an otherwise idle disk: at least the device's latency.
    """

    busy_s: float
    path_s: float
    alone_s: float
    how: str


def visit(disks: Disks, machine: MachineClass, work: OperationWork) -> Visit:
    """One shard on one of `disks`, for data or for metadata. A missing rated figure is no limit."""
    if work.shape.flow is Flow.READ:
        return _read(disks, machine, work)
    written = _write(disks, machine, work)
    if not work.shape.reads_first or disks.role is not DiskRole.DATA:
        return written
    before = _part(disks, work, 1.0, float(work.shape.stripe_unit))
    # k of the k + m shards are read; a disk holds one of these by chance.
    share = work.shape.k / work.shape.copies
    return Visit(
        written.busy_s + share * before.busy_s,
        written.path_s + before.path_s,
        written.alone_s + before.alone_s,
        f"{written.how} + {share:.2f} x {before.how} read before",
    )


def _read(disks: Disks, machine: MachineClass, work: OperationWork) -> Visit:
    shape, missed = work.shape, 1 - work.shape.hit_ratio
    if disks.role is DiskRole.METADATA:
        count = missed * work.metadata_reads
        return _part(disks, work, count, count * SMALL_BYTES)
    if shape.bare:  # an index is in RocksDB, which is on the data device where there is no other
        count = 0.0 if machine.metadata_disks else missed * work.metadata_reads
        return _part(disks, work, count, count * SMALL_BYTES)
    count, size = missed * max(1.0, shape.shard_bytes / EXTENT_BYTES), missed * shape.shard_bytes
    if shape.data_bytes and not machine.metadata_disks:  # only then is the number of metadata reads known
        before = missed * work.metadata_reads
        count, size = count + before, size + before * SMALL_BYTES
    return _part(disks, work, count, size)


def _part(disks: Disks, work: OperationWork, count: float, size: float) -> Visit:
    """`count` reads of `size` bytes altogether."""
    busy, how = _affine(count, size, read_iops(disks, work.shape), disks.seq_read)
    # An object's extents are read ahead: the latency counts once, then the bytes.
    alone = min(1.0, count) * read_latency(disks, work.shape) + _beyond(size, count, disks.seq_read)
    return Visit(busy, busy, max(busy, alone), how)


def _write(disks: Disks, machine: MachineClass, work: OperationWork) -> Visit:
    count, size = _writes(work, data=disks.role is DiskRole.DATA, alone=not machine.metadata_disks)
    busy, how = _affine(count, size, disks.write_iops.value if disks.write_iops else 0.0, disks.seq_write)
    answer = disks.sync_latency.value if disks.sync_latency else 0.0
    deferred = disks.kind.rotates and work.shape.shard_bytes < DEFERRED_BYTES
    if disks.role is DiskRole.METADATA:
        return Visit(busy, busy, max(busy, answer), how)
    if machine.metadata_disks and deferred:
        return Visit(busy, 0.0, 0.0, f"{how}, after the acknowledgement")
    if deferred:
        # The log is on the same disk: the operation waits for one write to it, the rest follows later.
        once = busy / count if count else 0.0
        return Visit(busy, once, max(once, answer), how)
    return Visit(busy, busy, max(busy, answer + _beyond(size, count, disks.seq_write)), how)


def _beyond(size: float, count: float, bandwidth: Figure | None) -> float:
    return max(0.0, size - count * SMALL_BYTES) / bandwidth.value if bandwidth else 0.0


def _writes(work: OperationWork, *, data: bool, alone: bool) -> tuple[float, float]:
    """(operations, bytes) of one shard on its data device or on its metadata device.

    Both were measured together on one device. The pieces of data are contiguous: one operation for each extent. The
    other operations are those of RocksDB and its log.
    """
    shape = work.shape
    copies = shape.copies
    count = max(1.0, (work.primary.writes + (copies - 1) * work.replica.writes) / copies)
    size = max(shape.shard_bytes, (work.primary.write_bytes + (copies - 1) * work.replica.write_bytes) / copies)
    extents = 0.0 if shape.bare else max(1.0, shape.shard_bytes / EXTENT_BYTES)
    others = count if shape.bare else max(0.0, count - max(1.0, shape.shard_bytes / PIECE_BYTES))
    if alone:
        return extents + others, size
    return (extents, shape.shard_bytes) if data else (others, max(0.0, size - shape.shard_bytes))


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


SEEK_SOURCE = "seek time grows with the square root of the distance (Ruemmler and Wilkes 1994)"

TURN_S = 60 / 7200
"""Nearline disks turn 7200 times a minute."""

SETTLE_S = 0.001
"""The shortest seek: about what data sheets give from track to track, with settling."""

RATED_DEPTH = 16
"""Data sheets rate random accesses of nearline disks with this many in flight."""


def read_iops(disks: Disks, shape: Shape) -> float:
    """Random reads a second of one disk whose data is on `shape.span` of it; 0 when not rated.

    With n in flight a disk picks the nearest: its rotational latency is 1 / (n + 1) of a turn, not half of one.
    """
    if disks.read_iops is None:
        return 0.0
    if not disks.kind.rotates or shape.span >= 1:
        return disks.read_iops.value
    return 1 / _closer(1 / disks.read_iops.value, SETTLE_S + TURN_S / (RATED_DEPTH + 1), shape.span)


def read_latency(disks: Disks, shape: Shape) -> float:
    """Seconds of one random read alone. Where it is not published: 1 / IOPS, the least possible; 0 without both."""
    if disks.read_latency is None:
        rate = read_iops(disks, shape)
        return 1 / rate if rate else 0.0
    if not disks.kind.rotates or shape.span >= 1:
        return disks.read_latency.value
    return _closer(disks.read_latency.value, SETTLE_S + TURN_S / 2, shape.span)


def span_steps(machine: MachineClass, shape: Shape) -> Iterator[DerivationStep]:
    """How a span of less than the whole disk changes the rated figures of a machine's rotating disks."""
    for disks in machine.data_disks:
        if disks.kind.rotates and disks.read_iops and shape.span < 1 and shape.flow is Flow.READ:
            least = SETTLE_S + TURN_S / (RATED_DEPTH + 1)
            yield DerivationStep(
                f"reads of {disks.name} on {shape.span:.4g} of it",
                f"1 / ({least * 1e3:.2f} ms + (1 / {disks.read_iops.value:,.0f} - {least * 1e3:.2f} ms) x "
                f"sqrt({shape.span:.4g}))",
                f"{read_iops(disks, shape):,.0f} IOPS",
                SEEK_SOURCE,
            )


def _closer(rated_s: float, least_s: float, span: float) -> float:
    """Seconds of an access on a part of the disk: seek time shrinks with the square root of the distance."""
    return min(rated_s, least_s) + max(0.0, rated_s - least_s) * math.sqrt(span)
