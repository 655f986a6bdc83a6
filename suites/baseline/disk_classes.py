"""Known devices beside which a disk is placed: the Proxmox paper's table of synchronous 4 KiB writes."""

from __future__ import annotations

from dataclasses import dataclass

SOURCE = "Proxmox VE hyper-converged Ceph benchmark, 2020, SSDs for Ceph OSD"


@dataclass(frozen=True)
class RatedDevice:
    """A device's published figures for 4 KiB, direct, synchronous, one in flight. latency_ms: to two digits."""

    device: str
    kind: str
    iops: float
    latency_ms: float
    bandwidth_kb_s: float


REFERENCES = (
    RatedDevice("Intel Optane SSD DC P4800X 375 GB", "3D XPoint NVMe", 80732, 0.01, 322931),
    RatedDevice("Intel SSD DC P3700 800 GB", "data centre NVMe", 75162, 0.01, 300650),
    RatedDevice("Micron 9300 MAX 3.2 TB", "data centre NVMe", 51000, 0.02, 205824),
    RatedDevice("Samsung SM863 240 GB", "data centre SATA SSD", 17485, 0.06, 69942),
    RatedDevice("Intel DC S3510 120 GB", "data centre SATA SSD", 12518, 0.08, 50075),
    RatedDevice("Intel DC S3500 120 GB", "data centre SATA SSD", 12099, 0.08, 48398),
    RatedDevice("Samsung SSD 850 EVO 1 TB", "consumer SATA SSD", 339, 2.94, 1359),
    RatedDevice("Crucial MX100 512 GB", "consumer SATA SSD", 254, 3.93, 1017),
    RatedDevice("Seagate Constellation 7200.2 500 GB", "hard disk, 7200 rpm", 117, 8.47, 471),
)
"""From fastest to slowest."""


def place(iops: float) -> str:
    """The devices of the table on either side of a rate, in words."""
    above = [known for known in REFERENCES if known.iops >= iops]
    below = [known for known in REFERENCES if known.iops < iops]
    if not above:
        return f"faster than {_name(below[0])}"
    if not below:
        return f"slower than {_name(above[-1])}"
    return f"between {_name(above[-1])} and {_name(below[0])}"


def _name(known: RatedDevice) -> str:
    return f"{known.device} ({known.kind}, {known.iops:g}/s)"
