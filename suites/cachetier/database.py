"""A database on an RBD image in a pool on slow disks, with no cache, with dm-cache, or with a cache tier.

sysbench -> MariaDB -> XFS -> dm-cache or nothing -> krbd -> base pool, or the tier over it -> OSDs, one of them slow
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial

from cephlab.lab.blockstack.dmcache import DmCacheMode
from cephlab.lab.blockstack.slowosd import DelayedDisk, slow_disk
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import Recorder
from cephlab.lab.report.series import record_look
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.workloads.sysbench import Oltp, SysbenchResult
from cephlab.suites.cachetier import tiers
from cephlab.suites.cachetier.stand import EXPECTED, UNTHROTTLED
from cephlab.suites.cachetier.tiers import PoolPair, TierSettings
from cephlab.suites.cachetier.tierspec import TieredTopology, TierLayout
from cephlab.suites.dmcache import oltp
from cephlab.suites.dmcache.stand import FAST_DISK, IMAGE_BYTES, METADATA_DISK, NEEDS, ORIGIN_MS, Stand, on_image
from cephlab.suites.resilience.trial import EXPECTED as RESTARTED

BASE = "oltp"
TIER = "tier"
"""The name of a cache tier in the history, like the names of dm-cache's kinds."""

TOPOLOGY = TieredTopology(
    layout=TierLayout(servers=1),
    lone_client=True,
    role_sets=("ceph", "database"),
    client_disks=(FAST_DISK, METADATA_DISK),
    options=(*UNTHROTTLED, ("mon_allow_pool_size_one", "true"), ("bluestore_default_buffered_read", "false")),
)
"""One server with an OSD of each class, because a machine without KVM has one CPU for each server; and pools of one
copy, as in the paper. OSDs do not cache reads in memory, because a slow disk would then never be read twice."""

scenario_over_database = partial(
    Scenario, check="figures", tier=Tier.FULL, topology=TOPOLOGY, needs=NEEDS, expects={**EXPECTED, **RESTARTED}
)
"""Makes a scenario of a loaded database; arguments of the call override these."""

_COPIES = 1
_BASE_PGS = 16
_CACHE_PGS = 4


@dataclass
class Layers:
    """The client's stand and the cluster below it. slow: the disk of the base pool; pair: the tier over it, if any.

    room_bytes: the size limit of the tier; before: OSD counters when it was made; caches_made: tiers so far.
    """

    cluster: Cluster
    stand: Stand
    slow: DelayedDisk
    recorder: Recorder
    pair: PoolPair | None = None
    room_bytes: int = 0
    before: Mapping[str, float] = field(default_factory=dict)
    caches_made: int = 0

    def plain(self) -> None:
        """Use the base pool without a cache; a cache is flushed and removed, even if the image is open."""
        if self.stand.cache is not None:
            self.stand.plain()
        if self.pair is not None:
            tiers.set_mode(self.cluster, self.pair, "proxy")
            self.recorder.record("drained", **asdict(tiers.drain(self.cluster, self.pair)))
            tiers.remove_overlay(self.cluster, self.pair)
            self.drop()

    def tiered(self, settings: TierSettings | None = None, *, pg_num: int = _CACHE_PGS) -> None:
        """Put a new, empty cache pool over the base pool, even if the image is open."""
        self.plain()
        self.caches_made += 1
        pair = PoolPair(BASE, f"{BASE}-cache{self.caches_made}")
        tiers.make_pool(self.cluster, pair.cache, tiers.FAST_ROOT, size=_COPIES, pg_num=pg_num)
        self.pair = pair
        pools.wait_clean(self.cluster)
        self.before = tiers.tier_counters(self.cluster)
        wanted = settings or TierSettings()
        self.room_bytes = wanted.target_max_bytes
        tiers.attach(self.cluster, pair, wanted)

    def put(self, kind: str) -> None:
        """Use a new, empty cache, by its name in the history: TIER, dm-cache's WRITEBACK, or none."""
        self.plain()
        if kind == TIER:
            self.tiered()
        elif kind == DmCacheMode.WRITEBACK:
            self.stand.cached(DmCacheMode.WRITEBACK)

    def drop(self) -> None:
        """Remove the tier and all data in it."""
        tiers.discard(self.cluster, self.tier, keep_base=True)
        self.pair = None

    @property
    def tier(self) -> PoolPair:
        assert self.pair is not None, "there is no tier"
        return self.pair

    def look(self, label: str) -> None:
        """Record the tier's counters and its pool's statistics. The statistics are some seconds old."""
        if self.pair is None:
            return
        sums = tiers.pool_statistics(self.cluster, self.pair.cache, settled=False)
        contents = {name: sums.get(f"num_{name}", 0) for name in ("objects", "objects_dirty", "bytes")}
        counts = tiers.since(self.cluster, self.before)
        moved = {"promoted": counts["tier_promote"], "flushed": tiers.flushes(counts), "evicted": counts["tier_evict"]}
        dirty: dict[str, float] = {"dirty": contents["objects_dirty"]}
        hits = {"hits": tiers.hit_share(counts)}
        looks = {
            "objects since the tier was made": moved,
            "dirty objects": dirty,
            "hit ratio since the tier was made": hits,
        }
        record_look(self.recorder, "tier", label, looks, counters=counts, **contents)

    def measured(self, stage: Stage, label: str, wanted: Oltp) -> SysbenchResult:
        """As `oltp.measured`, but records the tier's counters too."""
        if self.pair is None:
            return oltp.measured(self.stand, stage, label, wanted)
        elsewhere = oltp.Elsewhere(TIER, self.room_bytes, lambda: self.look(label))
        return oltp.measured(self.stand, stage, label, wanted, elsewhere)


@contextmanager
def layered(stage: Stage, *, image_bytes: int = IMAGE_BYTES) -> Iterator[Layers]:
    """Map an image in a base pool, without a cache, on a disk that is not slow yet. Removes all of it afterwards."""
    cluster = stage.cluster
    tiers.lay_out(cluster)
    (slow,) = set(cluster.osd_ids()) - set(tiers.fast_osds(cluster))
    with slow_disk(cluster, slow, ORIGIN_MS) as disk:
        tiers.make_pool(cluster, BASE, tiers.SLOW_ROOT, size=_COPIES, pg_num=_BASE_PGS)
        layers: Layers | None = None
        try:
            pools.wait_clean(cluster)
            with on_image(stage, BASE, image_bytes) as stand:
                layers = Layers(cluster, stand, disk, stage.recorder)
                yield layers
        finally:
            disk.impose(slow=False)
            tiers.discard(cluster, (layers and layers.pair) or PoolPair(BASE, f"{BASE}-cache"))
