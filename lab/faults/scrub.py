"""Deep-scrub and repair of a pool, and the errors that scrub reports: how damage to one copy is found and repaired."""

import errno
import json
from collections.abc import Sequence
from functools import partial
from typing import Any

from cephlab.lab.base import clock
from cephlab.lab.cluster.cluster import Cluster, insist

_SCRUB_S = 60.0


def deep_scrub(cluster: Cluster, pool: str) -> list[str]:
    """Deep-scrub every PG of a pool, wait for all, and return their ids."""
    return _scrubbed(cluster, pool, "deep-scrub")


def repair(cluster: Cluster, pool: str) -> None:
    """Let Ceph repair every PG of a pool, and wait until a deep-scrub finds no more errors."""
    _scrubbed(cluster, pool, "repair")
    cluster.wait(lambda status: status.clean, what=f"{pool} repaired", timeout_s=_SCRUB_S)
    _scrubbed(cluster, pool, "deep-scrub")
    cluster.wait(
        lambda status: not status.has("OSD_SCRUB_ERRORS"), what=f"{pool} without scrub errors", timeout_s=_SCRUB_S
    )


def _scrubbed(cluster: Cluster, pool: str, how: str) -> list[str]:
    before = scrub_stamps(cluster, pool)
    request_scrub(cluster, how, list(before))
    clock.wait(
        lambda: scrub_stamps(cluster, pool),
        lambda now: all(now[pgid] != stamp for pgid, stamp in before.items()),
        what=f"{how} of {len(before)} PGs of {pool}",
        timeout_s=_SCRUB_S * cluster.patience,
    )
    return list(before)


def request_scrub(cluster: Cluster, how: str, pgids: Sequence[str]) -> None:
    """Request a scrub of PGs, and return once Ceph has accepted it. how: `scrub`, `deep-scrub` or `repair`.

    Asks again when refused because a manager has just started or an OSD has just come back.
    """
    for pgid in pgids:
        asked = partial(cluster.client.mon, f"pg {how}", pgid=pgid)
        what = f"a manager that accepts a {how} of {pgid}"
        insist(cluster, asked, (errno.EAGAIN,), what=what, timeout_s=_SCRUB_S)


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
    """What a command of `rados` prints as JSON."""
    return json.loads(cluster.tool(cluster.client.host.name, "rados", *args, "--format=json"))
