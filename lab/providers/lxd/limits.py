"""A disk's ceilings as LXD spells them."""

from __future__ import annotations

from cephlab.lab.base.errors import SpecError
from cephlab.lab.spec.clusterspec import DiskLimits


def options(limits: DiskLimits) -> dict[str, str]:
    """Of a disk among an instance's devices; SpecError for both kinds in one direction, of which LXD knows one."""
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
