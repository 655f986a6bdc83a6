"""Deep-scrubs and repairs pools and reads the errors that scrub reports, to find and repair damage to one copy."""

import errno
import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from cephlab.lab.base import clock
from cephlab.lab.ceph.pgs import pgids
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster, insist

_SCRUB_S = 60.0


def deep_scrub(cluster: Cluster, pool: str) -> list[str]:
    """Deep-scrub every PG of a pool, wait for all, and return their ids."""
    return deep_scrub_all(cluster, [pool])[pool]


def deep_scrub_all(cluster: Cluster, pools: Sequence[str]) -> dict[str, list[str]]:
    """Deep-scrub every PG of several pools at once, and return their ids by pool.

    An OSD starts one scrub per second. Scrubbing one pool after another would wait, for each pool, for the OSD that is
    primary of most PGs.
    """
    return _scrubbed(cluster, pools, "deep-scrub")


def repair(cluster: Cluster, pool: str) -> None:
    """Let Ceph repair every PG of a pool, and wait until a deep-scrub finds no more errors."""
    _scrubbed(cluster, [pool], "repair")
    cluster.wait(lambda status: status.clean, what=f"{pool} repaired", timeout_s=_SCRUB_S)
    deep_scrub(cluster, pool)
    cluster.wait(
        lambda status: not status.has("OSD_SCRUB_ERRORS"), what=f"{pool} without scrub errors", timeout_s=_SCRUB_S
    )


def _scrubbed(cluster: Cluster, pools: Sequence[str], how: str) -> dict[str, list[str]]:
    before = {pool: _every_stamp(cluster, pool) for pool in pools}
    for stamps in before.values():
        request_scrub(cluster, how, list(stamps))
    for pool, stamps in before.items():
        _await_scrubbed(cluster, pool, stamps, how)
    return {pool: list(stamps) for pool, stamps in before.items()}


def _every_stamp(cluster: Cluster, pool: str) -> dict[str, str]:
    """As `scrub_stamps`, of every PG: a manager that has just started does not have statistics of all of them yet."""
    entry = pools.by_name(cluster)[pool]
    return clock.wait(
        partial(scrub_stamps, cluster, pool),
        lambda stamps: stamps.keys() >= set(pgids(entry)),
        what=f"the manager's statistics of every PG of {pool}",
        timeout_s=_SCRUB_S * cluster.patience,
    )


def _await_scrubbed(cluster: Cluster, pool: str, before: Mapping[str, str], how: str) -> None:
    clock.wait(
        lambda: scrub_stamps(cluster, pool),
        lambda now: all(now.get(pgid, stamp) != stamp for pgid, stamp in before.items()),
        what=f"{how} of {len(before)} PGs of {pool}",
        timeout_s=_SCRUB_S * cluster.patience,
    )


def request_scrub(cluster: Cluster, how: str, pgids: Sequence[str]) -> None:
    """Request a scrub of PGs, and return once Ceph has accepted it. how: `scrub`, `deep-scrub` or `repair`.

    Repeats a request that is refused because a manager has just started or an OSD has just come back.
    """
    for pgid in pgids:
        request = partial(cluster.client.mon, f"pg {how}", pgid=pgid)
        what = f"a manager that accepts a {how} of {pgid}"
        insist(cluster, request, (errno.EAGAIN,), what=what, timeout_s=_SCRUB_S)


def scrub_stamps(cluster: Cluster, pool: str) -> dict[str, str]:
    """When each PG of a pool was last deep-scrubbed, as Ceph prints it."""
    pgs = cluster.client.mon("pg ls-by-pool", poolstr=pool)["pg_stats"]
    return {entry["pgid"]: entry["last_deep_scrub_stamp"] for entry in pgs}


def blamed(cluster: Cluster, pgid: str) -> dict[str, dict[str, list[str]]]:
    """Errors that the last scrub found in a PG: object -> OSD -> errors."""
    damaged = rados_json(cluster, "list-inconsistent-obj", pgid)["inconsistents"]
    return {
        entry["object"]["name"]: {str(shard["osd"]): shard["errors"] for shard in entry["shards"] if shard["errors"]}
        for entry in damaged
    }


def rados_json(cluster: Cluster, *args: str) -> Any:
    """The JSON output of a `rados` command."""
    return json.loads(cluster.tool(cluster.client.host.name, "rados", *args, "--format=json"))
