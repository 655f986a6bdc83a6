"""Makes disks nearfull, backfillfull or full by lowering Ceph's thresholds below the space in use."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from random import Random
from typing import ClassVar, Self

from cephlab.lab.base.errors import try_all
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.faults.fault import Fault, Layout, Sign, health_sign


class Level(StrEnum):
    """How full a disk is, in Ceph's terms."""

    NEARFULL = "nearfull"
    BACKFILLFULL = "backfillfull"
    FULL = "full"

    @property
    def health(self) -> str:
        """The health check that reports it."""
        return f"OSD_{self.name}"


_BELOW = 0.5
"""Threshold as a share of the space in use: low enough that a disk whose data are being deleted stays above it."""
_STEP = 0.8
"""Factor from one threshold to the next lower one, because Ceph requires nearfull < backfillfull < full."""


@dataclass(frozen=True)
class FullDisks(Fault):
    """Ceph's thresholds are set below the space already in use, so every OSD counts as this full.

    A disk of the lab is sparse and has 10 GiB. Filling it would take minutes and test nothing more of Ceph.
    """

    name: ClassVar[str] = "full-disks"
    in_labs: ClassVar[bool] = True
    level: Level = Level.FULL

    @property
    def target(self) -> str:
        return f"all disks, {self.level}"

    @classmethod
    def aim(cls, layout: Layout, rng: Random) -> Self | None:
        return cls(rng.choice(list(Level))) if layout.daemons("osd") else None

    def nodes(self, layout: Layout) -> frozenset[str]:
        return frozenset(layout.node_of(name) for name in layout.daemons("osd"))

    @contextmanager
    def broken(self, cluster: Cluster) -> Iterator[None]:
        before = thresholds(cluster)
        # OSDs correct thresholds that are out of order, so the lowest is lowered first, and the highest raised first.
        try:
            for level, ratio in lowered(before, self.level, used_ratio(cluster)).items():
                set_threshold(cluster, level, ratio)
            yield
        finally:
            restore_thresholds(cluster, before)

    def sign(self, cluster: Cluster) -> Sign:
        return health_sign(cluster, self.level.health)


def thresholds(cluster: Cluster) -> dict[Level, float]:
    """The current ratios, each a share of a disk."""
    osd_map = cluster.client.mon("osd dump")
    return {level: float(osd_map[f"{level}_ratio"]) for level in Level}


def set_threshold(cluster: Cluster, level: Level, ratio: float) -> None:
    """Set one of the ratios, a share of a disk."""
    cluster.client.mon(f"osd set-{level}-ratio", ratio=ratio)


def restore_thresholds(cluster: Cluster, before: Mapping[Level, float]) -> None:
    """Set all ratios again, the highest first, also after an error."""
    try_all(partial(set_threshold, cluster, level, before[level]) for level in reversed(Level))


def used_ratio(cluster: Cluster) -> float:
    """Share of its disk that the emptiest OSD uses. Every OSD is above a threshold that is lower than this share."""
    osds = cluster.client.mgr("osd df")["nodes"]
    return min(float(entry["kb_used"]) / float(entry["kb"]) for entry in osds if entry["kb"])


def lowered(before: dict[Level, float], level: Level, used: float) -> dict[Level, float]:
    """Thresholds that put disks with a share `used` in use at exactly this level, lowest first; higher ones stay."""
    levels = list(Level)
    reached = levels.index(level)
    return {
        step: used * _BELOW * _STEP ** (reached - n) if n <= reached else before[step] for n, step in enumerate(levels)
    }
