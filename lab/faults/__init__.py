"""Faults of machines, disks and networks, caused on purpose."""

from collections.abc import Mapping

from cephlab.lab.faults.copies import BitRot, MissingObject, ReadErrors
from cephlab.lab.faults.daemons import FlappingOsd, KillDaemon, KillEverything, KillTogether, PauseDaemon, StopDaemon
from cephlab.lab.faults.fault import Fault, Layout, Sign, aimed, inflict, layout_of, look_for, obstacle, refusal
from cephlab.lab.faults.full import FullDisks
from cephlab.lab.faults.monitors import ClockSkew, LostMonStore
from cephlab.lab.faults.network import Partition, PartitionOneWay, SlowNetwork
from cephlab.lab.faults.nodes import KillNode
from cephlab.lab.faults.power import PowerCut
from cephlab.lab.faults.resources import MemorySqueeze, SlowDisk
from cephlab.lab.faults.schedule import Pace, ThrashStep, plan, thrash

_KINDS: tuple[type[Fault], ...] = (
    KillDaemon,
    StopDaemon,
    PauseDaemon,
    FlappingOsd,
    KillNode,
    KillTogether,
    KillEverything,
    PowerCut,
    BitRot,
    MissingObject,
    ReadErrors,
    FullDisks,
    ClockSkew,
    LostMonStore,
    Partition,
    PartitionOneWay,
    SlowNetwork,
    SlowDisk,
    MemorySqueeze,
)

FAULTS: Mapping[str, type[Fault]] = {kind.name: kind for kind in _KINDS}
"""Every fault by its name."""

__all__ = [
    "FAULTS",
    "Fault",
    "Layout",
    "Pace",
    "Sign",
    "ThrashStep",
    "aimed",
    "inflict",
    "layout_of",
    "look_for",
    "obstacle",
    "plan",
    "refusal",
    "thrash",
]
