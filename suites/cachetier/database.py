"""A database on an RBD image whose pool is on slow disks, and what may be between: nothing, dm-cache, or a cache tier.

sysbench -> MariaDB -> XFS -> dm-cache or nothing -> krbd -> base pool, or the tier over it -> OSDs, one of them slow
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from cephlab.lab.blockstack.dmcache import Mode
from cephlab.lab.blockstack.slowosd import SlowDisk, slow_disk
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import Recorder
from cephlab.lab.report.series import record_look
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.workloads.sysbench import Oltp, SysbenchResult
from cephlab.suites.cachetier import tiers
from cephlab.suites.cachetier.stand import EXPECTED, UNTHROTTLED
from cephlab.suites.cachetier.tiers import Drained, PoolPair, TierSettings
from cephlab.suites.cachetier.tierspec import TieredTopology, TierLayout
from cephlab.suites.dmcache import oltp
from cephlab.suites.dmcache.stand import (
    CACHE_BYTES,
    FAST_DISK,
    IMAGE_BYTES,
    METADATA_DISK,
    NEEDS,
    ORIGIN_MS,
    Stand,
    on_image,
)
from cephlab.suites.resilience.trial import EXPECTED as RESTARTED

BASE = "oltp"
TIER = "tier"
"""What the history calls a cache tier, beside the names that dm-cache's kinds have."""

TOPOLOGY = TieredTopology(
    layout=TierLayout(servers=1),
    lone_client=True,
    role_sets=("ceph", "database"),
    client_disks=(FAST_DISK, METADATA_DISK),
    options=(*UNTHROTTLED, ("mon_allow_pool_size_one", "true"), ("bluestore_default_buffered_read", "false")),
)
"""One server with an OSD of each class and pools of one copy, as the paper's pools: a machine without KVM has one CPU
for each server in any case. OSDs keep nothing of what they read in memory, or no slow disk would be asked twice."""

scenario_over_database = partial(
    Scenario, check="figures", tier=Tier.FULL, topology=TOPOLOGY, needs=NEEDS, expects={**EXPECTED, **RESTARTED}
)
"""Makes a scenario that loads the database."""

_COPIES = 1
_BASE_PGS = 16
_CACHE_PGS = 4


@dataclass
class Layers:
    """stand: the client's side; slow: the base's disk; pair: the tier over the base, None while there is none.

    room_bytes: what the tier may hold; before: the OSDs' counters when it was put there; made: how many there were.
    """

    cluster: Cluster
    stand: Stand
    slow: SlowDisk
    recorder: Recorder
    pair: PoolPair | None = None
    room_bytes: int = 0
    before: Mapping[str, float] = field(default_factory=dict)
    made: int = 0

    def plain(self) -> None:
        """The base alone, whatever was there before."""
        if self.stand.cache is not None:
            self.stand.plain()
        if self.pair is not None:
            self.leave()

    def dm_cached(self) -> None:
        """A fresh dm-cache on the client, as the paper's."""
        self.plain()
        self.stand.cached(Mode.WRITEBACK)

    def tiered(self, settings: TierSettings | None = None, *, pg_num: int = _CACHE_PGS) -> PoolPair:
        """A fresh cache pool over the base, under whatever uses the image meanwhile."""
        self.plain()
        self.made += 1
        pair = PoolPair(BASE, f"{BASE}-cache{self.made}")
        tiers.make_pool(self.cluster, pair.cache, tiers.FAST_ROOT, size=_COPIES, pg_num=pg_num)
        self.pair = pair
        pools.wait_clean(self.cluster)
        self.before = tiers.tier_counters(self.cluster)
        wanted = settings or TierSettings()
        self.room_bytes = wanted.target_max_bytes
        tiers.attach(self.cluster, pair, wanted)
        return pair

    def put(self, kind: str) -> None:
        """One of the three, by its name in the history."""
        if kind == TIER:
            self.tiered()
        elif kind == Mode.WRITEBACK:
            self.dm_cached()
        else:
            self.plain()

    def leave(self) -> Drained:
        """Flush and remove the tier as Ceph's documentation has it; an image that is open may stay so."""
        pair = self.tier
        tiers.set_mode(self.cluster, pair, "proxy")
        drained = tiers.drain(self.cluster, pair)
        self.recorder.record("drained", watched=list(drained.watched), passes=drained.passes, seconds=drained.seconds)
        tiers.remove_overlay(self.cluster, pair)
        self.drop()
        return drained

    def drop(self) -> None:
        """Remove the tier with what is in it."""
        tiers.discard(self.cluster, self.tier, keep_base=True)
        self.pair = None

    @property
    def tier(self) -> PoolPair:
        assert self.pair is not None, "there is no tier"
        return self.pair

    def counters(self) -> dict[str, float]:
        """What the tier did since it was put there."""
        return tiers.since(self.cluster, self.before)

    def look(self, label: str) -> None:
        """Put the tier's counters and what its pool holds into the history; the latter is some seconds old."""
        if self.pair is None:
            return
        sums = tiers.pool_statistics(self.cluster, self.pair.cache, settled=False)
        held = {name: sums.get(f"num_{name}", 0) for name in ("objects", "objects_dirty", "bytes")}
        counted = self.counters()
        drawn: dict[str, dict[str, float]] = {
            "objects since the tier was made": {
                "promoted": counted.get("tier_promote", 0),
                "flushed": counted.get("tier_flush", 0) + counted.get("tier_try_flush", 0),
                "evicted": counted.get("tier_evict", 0),
            },
            "dirty objects": {"dirty": held["objects_dirty"]},
        }
        record_look(self.recorder, "tier", label, drawn, counters=counted, **held)

    def measured(self, stage: Stage, label: str, wanted: Oltp) -> SysbenchResult:
        """As `oltp.measured`, with the tier's counters beside it."""
        if self.pair is None:
            return oltp.measured(self.stand, stage, label, wanted)
        elsewhere = oltp.Elsewhere(TIER, self.room_bytes, lambda: self.look(label))
        return oltp.measured(self.stand, stage, label, wanted, elsewhere)


@contextmanager
def layered(stage: Stage, *, cache_bytes: int = CACHE_BYTES, image_bytes: int = IMAGE_BYTES) -> Iterator[Layers]:
    """An image in a base pool on the slow disk, which is not slow yet and has nothing before it; all of it goes."""
    cluster = stage.cluster
    tiers.lay_out(cluster)
    (slow,) = set(cluster.osd_ids()) - set(tiers.fast_osds(cluster))
    with slow_disk(cluster, slow, ORIGIN_MS) as disk:
        tiers.make_pool(cluster, BASE, tiers.SLOW_ROOT, size=_COPIES, pg_num=_BASE_PGS)
        made: Layers | None = None
        try:
            pools.wait_clean(cluster)
            with on_image(stage, BASE, cache_bytes=cache_bytes, image_bytes=image_bytes) as stand:
                made = Layers(cluster, stand, disk, stage.recorder)
                yield made
        finally:
            disk.impose(slow=False)
            tiers.discard(cluster, (made and made.pair) or PoolPair(BASE, f"{BASE}-cache"))
