"""A declared cluster scaled down: which of its machines each machine of a lab stands for, and the share it is held to.

Everything that bounds a rate is held to the same share k of what is declared, so a rate of the model is k times that of
the cluster. Times outside queues (a round trip, one seek) do not scale with it, and memory is left as it is.
"""

import math
from dataclasses import dataclass
from functools import reduce

from cephlab.lab.base.errors import SpecError
from cephlab.tuning.profile import MachineClass, Profile
from cephlab.tuning.requirements import Protection

MOST_MACHINES = 6
"""That a lab on a laptop can raise."""


@dataclass(frozen=True)
class Stand:
    """A machine of the lab. machine: the declared one that it stands for; times: how many of those."""

    machine: MachineClass
    times: float

    @property
    def points(self) -> float:
        """CPU of all that it stands for."""
        return self.times * self.machine.points

    def rate(self, key: str) -> float | None:
        """A figure of all data disks that it stands for, together; None where one of them is not known."""
        figures = [(disks.count, getattr(disks, key)) for disks in self.machine.data_disks]
        if not figures or any(figure is None for _, figure in figures):
            return None
        return float(self.times * sum(count * figure.value for count, figure in figures))

    @property
    def bandwidth(self) -> float:
        """Bytes a second of all links that it stands for, one direction."""
        return self.times * self.machine.bandwidth.value


def stands_for(profile: Profile, protection: Protection) -> tuple[Stand, ...]:
    """The machines of the smallest equal part of a profile with one machine for each copy or shard.

    SpecError where it has more than MOST_MACHINES, or disks that cannot be scaled: RocksDB on disks of its own.
    """
    width = protection.k + protection.m if protection.k else protection.replicas
    machines = [machine for machine in profile.nodes if machine.osds]
    apart = [machine.name for machine in machines if machine.metadata_disks]
    if apart:
        raise SpecError(
            f"{profile.name} has metadata on disks of its own",
            f"machines: {', '.join(apart)}",
            "a scale model has one disk for each machine: predict it instead (`cephlab predict`)",
        )
    common = reduce(math.gcd, (machine.count for machine in machines))
    parts = [part for part in range(common, 1, -1) if common % part == 0]
    total = sum(machine.count for machine in machines)
    part = next((part for part in parts if width * part <= total), 1)
    if not width <= total <= MOST_MACHINES * part:
        raise SpecError(
            f"{profile.name} has no equal part that a lab could raise",
            f"{total} machines, the smallest part with {width} has {total // part}; wanted: {width} to {MOST_MACHINES}",
            "predict it instead (`cephlab predict`)",
        )
    return tuple(Stand(machine, part) for machine in machines for _ in range(machine.count // part))


def kind_of(ceiling: str) -> str:
    """`CPU`, `disk` or `network` of the nodes, by a ceiling's name (tuning/ceilings.py); empty: not scaled."""
    whose, _, what = ceiling.partition(": ")
    if whose.startswith("clients"):
        return ""
    return next((kind for kind in ("CPU", "disk", "network") if what.startswith(kind)), "")
