"""Rotating disks: how figures rated over the whole disk change when the data lies close together."""

from __future__ import annotations

import math
from collections.abc import Iterator

from cephlab.tuning.derivation import DerivationStep
from cephlab.tuning.profile import Disks, MachineClass
from cephlab.tuning.workload import Flow, Shape

SOURCE = "a seek takes a time that grows with the square root of its distance (Ruemmler and Wilkes 1994)"

TURN_S = 60 / 7200
"""Nearline disks turn 7200 times a minute."""

SETTLE_S = 0.001
"""The shortest seek: about what data sheets give from track to track, with settling."""

RATED_DEPTH = 16
"""Data sheets rate random accesses of nearline disks with this many in flight."""


def read_iops(disks: Disks, shape: Shape) -> float:
    """Random reads a second of one disk, when the data lies on `shape.span` of it; 0 when not rated.

    With n in flight a disk picks the nearest: waiting for the turn costs 1 / (n + 1) of a round, not half of one.
    """
    if disks.read_iops is None:
        return 0.0
    if not disks.kind.rotates or shape.span >= 1:
        return disks.read_iops.value
    return 1 / _closer(1 / disks.read_iops.value, SETTLE_S + TURN_S / (RATED_DEPTH + 1), shape.span)


def read_latency(disks: Disks, shape: Shape) -> float:
    """Seconds of one random read alone; 1 / IOPS, the least it can be, where it is not published; 0 without both."""
    if disks.read_latency is None:
        rate = read_iops(disks, shape)
        return 1 / rate if rate else 0.0
    if not disks.kind.rotates or shape.span >= 1:
        return disks.read_latency.value
    return _closer(disks.read_latency.value, SETTLE_S + TURN_S / 2, shape.span)


def steps(machine: MachineClass, shape: Shape) -> Iterator[DerivationStep]:
    """How a span of less than the whole disk changes the rated figures of a machine's rotating disks."""
    for disks in machine.data_disks:
        if disks.kind.rotates and disks.read_iops and shape.span < 1 and shape.flow is Flow.READ:
            least = SETTLE_S + TURN_S / (RATED_DEPTH + 1)
            yield DerivationStep(
                f"reads of {disks.name} on {shape.span:.4g} of it",
                f"1 / ({least * 1e3:.2f} ms + (1 / {disks.read_iops.value:,.0f} - {least * 1e3:.2f} ms) x "
                f"sqrt({shape.span:.4g}))",
                f"{read_iops(disks, shape):,.0f} IOPS",
                SOURCE,
            )


def _closer(rated_s: float, least_s: float, span: float) -> float:
    """Seconds of an access on a part of the disk: seeking shrinks with the square root of the distance."""
    return min(rated_s, least_s) + max(0.0, rated_s - least_s) * math.sqrt(span)
