"""Puts all primaries of a pool on one OSD, so that what a primary costs is told from what replicas cost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lab import clock, pools
from lab.cluster import Cluster

_SETTLE_S = 60.0


@contextmanager
def primary_is(cluster: Cluster, osd: int, pool: str) -> Iterator[None]:
    """Every PG of a pool has this OSD as its primary inside the block, by primary affinity 0 for all others.

    The pool's copies, or shards, must be as many as the OSDs: a PG without the OSD cannot be led by it.
    """
    others = [one for one in cluster.osd_ids() if one != osd]
    try:
        _affinity(cluster, others, 0.0)
        clock.wait(
            lambda: pools.primaries(cluster, pool),
            lambda found: bool(found) and set(found.values()) == {osd},
            what=f"every primary of {pool} on osd.{osd}",
            timeout_s=_SETTLE_S * cluster.patience,
            interval_s=0.2,
        )
        pools.wait_clean(cluster)
        yield
    finally:
        _affinity(cluster, others, 1.0)
        pools.wait_clean(cluster)


def _affinity(cluster: Cluster, osds: list[int], weight: float) -> None:
    for osd in osds:
        cluster.client.mon("osd primary-affinity", id=osd, weight=weight)
