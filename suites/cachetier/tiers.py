"""Cache tiers: two CRUSH roots, an overlay over a pool, the tier's counters, and how to remove a tier."""

import errno
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cephlab.lab.base import clock
from cephlab.lab.base.clock import SYSTEM
from cephlab.lab.base.errors import CephTrouble, Unavailable
from cephlab.lab.ceph.client import CephCommandFailed
from cephlab.lab.ceph.pgs import pgids
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.telemetry import counters
from cephlab.suites.cachetier.tierspec import FAST

SLOW_ROOT = "default"
FAST_ROOT = "ssd"
FAST_RACK = "ssd-rack"
"""Names in the CRUSH map of the 2015 paper. As there, each node also has a bucket NODE-ssd."""

RULES = {SLOW_ROOT: "slow", FAST_ROOT: "fast"}

TIER_COUNTERS = (
    "op_cache_hit",
    "tier_promote",
    "tier_flush",
    "tier_flush_fail",
    "tier_try_flush",
    "tier_try_flush_fail",
    "tier_evict",
    "tier_whiteout",
    "tier_dirty",
    "tier_clean",
    "tier_delay",
    "tier_proxy_read",
    "tier_proxy_write",
    "agent_wake",
    "agent_skip",
    "agent_flush",
    "agent_evict",
)
"""Counters in the section `osd` of an OSD's `perf dump`."""

DEPRECATED = (
    "cache tiering is deprecated since Reef (release notes of 18.2.0), has no maintainer and may be removed without "
    "much notice"
)
DRAIN_S = 300.0
_PASS_S = 120.0


@dataclass(frozen=True)
class TierSettings:
    """Values for `osd pool set` on the cache pool. Ratios are shares of the target.

    read_recency, write_recency: how many of the latest hit sets must contain an object to promote it; 0: always.
    Hit sets have Ceph's only type for production. Defaults are those of Ceph, except recency and ages.
    """

    target_max_bytes: int = 1 << 30
    read_recency: int = 0
    write_recency: int = 0
    hit_set_count: int = 4
    hit_set_period_s: int = 1200
    dirty_ratio: float = 0.4
    dirty_high_ratio: float = 0.6
    full_ratio: float = 0.8

    def values(self) -> dict[str, str]:
        """The values by their Ceph names."""
        return {
            "hit_set_type": "bloom",
            "hit_set_count": str(self.hit_set_count),
            "hit_set_period": str(self.hit_set_period_s),
            "target_max_bytes": str(self.target_max_bytes),
            "cache_target_dirty_ratio": f"{self.dirty_ratio:g}",
            "cache_target_dirty_high_ratio": f"{self.dirty_high_ratio:g}",
            "cache_target_full_ratio": f"{self.full_ratio:g}",
            "cache_min_flush_age": "0",
            "cache_min_evict_age": "0",
            "min_read_recency_for_promote": str(self.read_recency),
            "min_write_recency_for_promote": str(self.write_recency),
        }


@dataclass(frozen=True)
class PoolPair:
    """A base pool and the cache pool over it."""

    base: str
    cache: str


# Placement


def fast_osds(cluster: Cluster) -> list[int]:
    """Ids of the OSDs on disks of the fast class."""
    classes = {disk.name: disk.device_class for node in cluster.spec.nodes for disk in node.disks}
    return [osd for osd in cluster.osd_ids() if classes[cluster.daemon(f"osd.{osd}").disks[0]] is FAST]


def lay_out(cluster: Cluster) -> None:
    """Give fast OSDs their own root, with a host bucket for each node, and make a rule for each root.

    May be called again. OSDs are kept from moving themselves back when they start.
    """
    client = cluster.client
    client.mon("config set", who="osd", name="osd_crush_update_on_start", value="false")
    weights = {entry["id"]: entry["crush_weight"] for entry in client.mon("osd df")["nodes"]}
    for osd in fast_osds(cluster):
        host = f"{cluster.host_of(f'osd.{osd}').name}-ssd"
        place = [f"root={FAST_ROOT}", f"rack={FAST_RACK}", f"host={host}"]
        client.mon("osd crush set", id=osd, weight=weights[osd], args=place)
    for root, rule in RULES.items():
        client.mon("osd crush rule create-replicated", name=rule, root=root, type="host")
    pools.wait_clean(cluster)


def make_pool(cluster: Cluster, name: str, root: str, *, size: int, pg_num: int) -> None:
    """Create a replicated pool of `size` copies below one root. It still serves with one copy left."""
    client = cluster.client
    client.mon("osd pool create", pool=name, pg_num=pg_num, pool_type="replicated", rule=RULES[root], size=size)
    client.mon("osd pool set", pool=name, var="min_size", val="1")
    client.mon("osd pool application enable", pool=name, app="rados")


def acting(cluster: Cluster, name: str) -> set[int]:
    """Ids of the OSDs with a copy of any PG of a pool."""
    return {osd for pg in pools.pgs_of(cluster, name) for osd in pg.acting}


# A tier


@contextmanager
def tier(
    cluster: Cluster,
    name: str,
    settings: TierSettings | None = None,
    *,
    size: int = 2,
    pg_num: int = 8,
    fill: Mapping[str, bytes] | None = None,
) -> Iterator[PoolPair]:
    """Create a base pool with a writeback cache over it for the block; both are removed afterwards.

    fill: objects written to the base before it has a cache.
    """
    pair = PoolPair(name, f"{name}-cache")
    lay_out(cluster)
    make_pool(cluster, pair.base, SLOW_ROOT, size=size, pg_num=pg_num)
    try:
        make_pool(cluster, pair.cache, FAST_ROOT, size=size, pg_num=pg_num)
        pools.wait_clean(cluster)
        for key, data in (fill or {}).items():
            cluster.client.write_full(pair.base, key, data)
        attach(cluster, pair, settings or TierSettings())
        yield pair
    finally:
        discard(cluster, pair)


def attach(cluster: Cluster, pair: PoolPair, settings: TierSettings) -> None:
    """Put the cache over the base, in the order of Ceph's documentation. Unavailable if the release has no tiers."""
    client = cluster.client
    try:
        client.mon("osd tier add", pool=pair.base, tierpool=pair.cache)
    except CephCommandFailed as error:
        if not _is_gone(error):
            raise
        raise Unavailable(f"{cluster.spec.release} has no cache tiers", error.status, DEPRECATED) from error
    for key, value in settings.values().items():
        client.mon("osd pool set", pool=pair.cache, var=key, val=value)
    client.mon("osd tier cache-mode", pool=pair.cache, mode="writeback")
    client.mon("osd tier set-overlay", pool=pair.base, overlaypool=pair.cache)
    pools.wait_map_in_use(cluster, pair.base, pair.cache)


def _is_gone(error: CephCommandFailed) -> bool:
    """Whether the monitor does not know the command, or always refuses it."""
    return error.code in (-errno.EOPNOTSUPP, -errno.EPERM) or "command not known" in error.status


def discard(cluster: Cluster, pair: PoolPair, *, keep_base: bool = False) -> None:
    """Remove a tier and both pools, or only the cache pool, with all data in them."""
    existing = pools.by_name(cluster)
    if existing.get(pair.base, {}).get("read_tier", -1) >= 0:
        remove_overlay(cluster, pair)
    if existing.get(pair.cache, {}).get("tier_of", -1) >= 0:
        remove(cluster, pair)
    for name in (pair.cache,) if keep_base else (pair.base, pair.cache):
        if name in existing:
            pools.delete(cluster, name)


# Removal


def set_mode(cluster: Cluster, pair: PoolPair, mode: str) -> None:
    """Change the cache mode and wait until every PG works with it."""
    cluster.client.mon("osd tier cache-mode", pool=pair.cache, mode=mode)
    pools.wait_map_in_use(cluster, pair.base, pair.cache)


def remove_overlay(cluster: Cluster, pair: PoolPair) -> None:
    """Send clients to the base from now on. They no longer see data that is only in the cache."""
    cluster.client.mon("osd tier remove-overlay", pool=pair.base)
    pools.wait_map_in_use(cluster, pair.base, pair.cache)


def remove(cluster: Cluster, pair: PoolPair) -> None:
    """Make the cache an ordinary pool again. Ceph does not check that it is empty."""
    cluster.client.mon("osd tier remove", pool=pair.base, tierpool=pair.cache)


@dataclass(frozen=True)
class Drained:
    """A drained cache. watched: objects left in it because clients watch them; passes: passes over all objects."""

    watched: tuple[str, ...]
    passes: int
    seconds: float


def flush_evict(cluster: Cluster, pair: PoolPair) -> str:
    """Run one pass of `rados cache-flush-evict-all`; returns its error text, empty on success."""
    node = cluster.client.host.name
    try:
        cluster.tool(node, "rados", "-p", pair.cache, "cache-flush-evict-all", timeout_s=_PASS_S)
    except CephTrouble as error:
        return error.detail
    return ""


def drain(cluster: Cluster, pair: PoolPair, timeout_s: float = DRAIN_S) -> Drained:
    """Flush and evict until only watched objects are left, which cannot be evicted. NotReached if it takes too long."""
    began = SYSTEM.monotonic()
    passes = 0

    def one_pass() -> tuple[list[str], list[str]]:
        nonlocal passes
        passes += 1
        flush_evict(cluster, pair)
        left = cluster.client.list_objects(pair.cache)
        return left, [name for name in left if watchers(cluster, pair, name)]

    _, watched = clock.wait(
        one_pass,
        lambda state: state[0] == state[1],
        what=f"{pair.cache} to have only watched objects",
        timeout_s=timeout_s * cluster.patience,
        timed_out=clock.not_reached_with(lambda state: f"{len(state[0])} objects left, {len(state[1])} watched"),
    )
    return Drained(tuple(watched), passes, SYSTEM.monotonic() - began)


def watchers(cluster: Cluster, pair: PoolPair, name: str) -> list[str]:
    """The watchers of an object of the cache, as Ceph lists them; empty if the object is gone."""
    try:
        listed = cluster.tool(cluster.client.host.name, "rados", "-p", pair.cache, "listwatchers", name)
    except CephTrouble:
        return []
    return [line for line in listed.splitlines() if line.startswith("watcher=")]


# Counters


def tier_counters(cluster: Cluster) -> dict[str, float]:
    """TIER_COUNTERS summed over all running OSDs, since each OSD started."""
    dumps = counters.of_osds(cluster, cluster.up_osds()).values()
    return {name: sum(dump.get(f"osd.{name}", 0.0) for dump in dumps) for name in TIER_COUNTERS}


def since(cluster: Cluster, before: Mapping[str, float]) -> dict[str, float]:
    """Counters minus those of an earlier call. A restarted OSD counts from 0 again."""
    return {name: value - before[name] for name, value in tier_counters(cluster).items()}


def flushes(counters: Mapping[str, float]) -> float:
    """Objects flushed, from the tier's counters. try_flush is a flush that does not block clients."""
    return counters["tier_flush"] + counters["tier_try_flush"]


def hit_share(counters: Mapping[str, float]) -> float:
    """The hit ratio: hits as a share of the operations that clients sent to a cache; 0 without operations."""
    passed = counters["tier_proxy_read"] + counters["tier_proxy_write"]
    hits = counters["op_cache_hit"]
    return hits / (hits + passed) if hits else 0.0


def pool_statistics(cluster: Cluster, name: str, *, settled: bool = True) -> dict[str, int]:
    """Sums over a pool's PGs: num_objects, num_objects_dirty, num_whiteouts, num_flush ...

    settled: wait until they are newer than this call; otherwise they may be some seconds old.
    """
    if settled:
        cluster.settle()
    sums: dict[str, int] = {}
    for pg in cluster.client.mon("pg ls-by-pool", poolstr=name)["pg_stats"]:
        for key, value in pg["stat_sum"].items():
            sums[key] = sums.get(key, 0) + int(value)
    return sums


def hit_sets(cluster: Cluster, name: str) -> dict[str, list[dict[str, Any]]]:
    """pgid -> the archived hit sets that the PG's primary OSD keeps."""
    histories = {}
    for pgid in pgids(pools.by_name(cluster)[name]):
        answer = cluster.client.command(f"pg:{pgid}", "query", pgid=pgid, format="json")
        histories[pgid] = json.loads(answer)["info"]["hit_set_history"]["history"]
    return histories
