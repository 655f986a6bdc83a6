"""A disk's limits in LXD's spelling."""

from __future__ import annotations

from cephlab.lab.base.errors import SpecError
from cephlab.lab.spec.clusterspec import DiskLimits


def options(limits: DiskLimits) -> dict[str, str]:
    """Options of a disk device. SpecError for operations and bytes in one direction: LXD limits only one of them."""
    settings = {}
    for direction in ("read", "write"):
        iops, rate = getattr(limits, f"{direction}_iops"), getattr(limits, f"{direction}_bytes_s")
        if iops is not None and rate is not None:
            raise SpecError(
                f"LXD limits {direction}s either in number or in bytes",
                f"{direction}_iops is {iops}, {direction}_bytes_s is {rate}",
                "leave one of them out, or use --lab container",
            )
        if iops is not None:
            settings[f"limits.{direction}"] = f"{iops}iops"
        elif rate is not None:
            settings[f"limits.{direction}"] = f"{rate}B"
    return settings
