"""Cache tiers: two roots in CRUSH, an overlay over a pool, what the tier did by its counters, and how to leave it."""

from __future__ import annotations

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
"""Names of the CRUSH map in the 2015 paper, as is a bucket NODE-ssd beside each node's own."""

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
"""Of an OSD's `perf dump`, section `osd`."""

DEPRECATED = (
    "cache tiering is deprecated since Reef (release notes of 18.2.0), has no maintainer and may be removed without "
    "much notice"
)
DRAIN_S = 300.0
_PASS_S = 120.0


@dataclass(frozen=True)
class TierSettings:
    """How a tier behaves: `osd pool set` values of the cache pool. Bytes of data, seconds, shares of the target.

    read_recency, write_recency: in how many of the last hit sets an object must be to be promoted; 0 is always.
    The hit sets' type is Ceph's only production one; defaults are Ceph's but for recency and ages.
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
        """By the names that Ceph has for them."""
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
    """Give fast OSDs a root of their own, with a host bucket beside each node's, and make a rule for each root.

    What is so already stays. OSDs do not move themselves back when they start.
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
    """A replicated pool below one root, with `size` copies, which serves on with one of them."""
    client = cluster.client
    client.mon("osd pool create", pool=name, pg_num=pg_num, pool_type="replicated", rule=RULES[root], size=size)
    client.mon("osd pool set", pool=name, var="min_size", val="1")
    client.mon("osd pool application enable", pool=name, app="rados")


def acting(cluster: Cluster, name: str) -> set[int]:
    """Ids of the OSDs that hold a copy of any PG of a pool."""
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
    """A base pool with a writeback cache over it for the length of a block; both are gone afterwards.

    fill: objects that are in the base before there is a cache.
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
    """Put the cache over the base, as Ceph's documentation has it: add, settings, mode, overlay.

    Raises Unavailable where the release has no cache tiers any more.
    """
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
    cluster.wait_map(cluster.up_osds())


def _is_gone(error: CephCommandFailed) -> bool:
    """Whether a monitor does not know the command, or refuses it to everybody."""
    return error.code in (-errno.EOPNOTSUPP, -errno.EPERM) or "command not known" in error.status


def discard(cluster: Cluster, pair: PoolPair, *, keep_base: bool = False) -> None:
    """Remove a tier with both of its pools, or with the cache alone, whatever is in them."""
    known = _known(cluster)
    if known.get(pair.base, {}).get("read_tier", -1) >= 0:
        remove_overlay(cluster, pair)
    if known.get(pair.cache, {}).get("tier_of", -1) >= 0:
        remove(cluster, pair)
    for name in (pair.cache,) if keep_base else (pair.base, pair.cache):
        if name in known:
            pools.delete(cluster, name)


def _known(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """Pools by name, as the OSD map has them."""
    return {pool["pool_name"]: pool for pool in cluster.client.mon("osd dump")["pools"]}


# Leaving


def set_mode(cluster: Cluster, pair: PoolPair, mode: str) -> None:
    """Change the cache mode and wait until every OSD that is up goes by it."""
    cluster.client.mon("osd tier cache-mode", pool=pair.cache, mode=mode)
    cluster.wait_map(cluster.up_osds())


def remove_overlay(cluster: Cluster, pair: PoolPair) -> None:
    """Clients go to the base from here on. What is only in the cache is then out of their sight."""
    cluster.client.mon("osd tier remove-overlay", pool=pair.base)
    cluster.wait_map(cluster.up_osds())


def remove(cluster: Cluster, pair: PoolPair) -> None:
    """The cache is a pool of its own from here on. Ceph asks nobody whether it was empty."""
    cluster.client.mon("osd tier remove", pool=pair.base, tierpool=pair.cache)


@dataclass(frozen=True)
class Drained:
    """watched: names of the objects that are still in the cache, because clients watch them.

    passes: how often all of the cache was flushed and evicted; seconds: how long that took.
    """

    watched: tuple[str, ...]
    passes: int
    seconds: float


def flush_evict(cluster: Cluster, pair: PoolPair) -> str:
    """One pass of `rados cache-flush-evict-all`; what it complained of, empty when all went."""
    node = cluster.client.host.name
    try:
        cluster.tool(node, "rados", "-p", pair.cache, "cache-flush-evict-all", timeout_s=_PASS_S)
    except CephTrouble as error:
        return error.detail
    return ""


def drain(cluster: Cluster, pair: PoolPair, timeout_s: float = DRAIN_S) -> Drained:
    """Flush and evict until nothing is left but what clients watch, which cannot be evicted.

    Raises NotReached when the time is over.
    """
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
        what=f"{pair.cache} empty but for what is watched",
        timeout_s=timeout_s * cluster.patience,
        timed_out=clock.not_reached_with(lambda state: f"{len(state[0])} objects left, {len(state[1])} watched"),
    )
    return Drained(tuple(watched), passes, SYSTEM.monotonic() - began)


def watchers(cluster: Cluster, pair: PoolPair, name: str) -> list[str]:
    """Who watches an object of the cache, in Ceph's words; nobody watches one that is gone."""
    try:
        said = cluster.tool(cluster.client.host.name, "rados", "-p", pair.cache, "listwatchers", name)
    except CephTrouble:
        return []
    return [line for line in said.splitlines() if line.startswith("watcher=")]


# What it did


def tier_counters(cluster: Cluster) -> dict[str, float]:
    """What tiers did since the OSDs that run were started, all OSDs together; every counter of TIER_COUNTERS."""
    client = cluster.client
    dumps = [counters.flatten(client.tell(f"osd.{osd}", "perf dump", logger="osd")) for osd in cluster.up_osds()]
    return {name: sum(dump.get(f"osd.{name}", 0.0) for dump in dumps) for name in TIER_COUNTERS}


def since(cluster: Cluster, before: Mapping[str, float]) -> dict[str, float]:
    """Counters less those of an earlier look. An OSD that was restarted meanwhile has begun anew."""
    return {name: value - before[name] for name, value in tier_counters(cluster).items()}


def pool_statistics(cluster: Cluster, name: str, *, settled: bool = True) -> dict[str, int]:
    """Sums over a pool's PGs: num_objects, num_objects_dirty, num_whiteouts, num_flush ...

    settled: waits until they are newer than this call; otherwise they are some seconds old.
    """
    if settled:
        cluster.settle()
    sums: dict[str, int] = {}
    for pg in cluster.client.mon("pg ls-by-pool", poolstr=name)["pg_stats"]:
        for key, value in pg["stat_sum"].items():
            sums[key] = sums.get(key, 0) + int(value)
    return sums


def hit_sets(cluster: Cluster, name: str) -> dict[str, list[dict[str, Any]]]:
    """pgid -> the archived hit sets that its primary keeps."""
    entry = next(pool for pool in cluster.client.mon("osd dump")["pools"] if pool["pool_name"] == name)
    histories = {}
    for pgid in pgids(entry):
        said = cluster.client.command(f"pg:{pgid}", "query", pgid=pgid, format="json")
        histories[pgid] = json.loads(said)["info"]["hit_set_history"]["history"]
    return histories
