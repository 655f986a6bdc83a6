"""What the scenarios stand on: the paper's layout, objects with known content, and what releases say of tiers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import partial

from cephlab.lab.base import clock
from cephlab.lab.ceph.client import RadosClient
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.suites.cachetier import tiers
from cephlab.suites.cachetier.tiers import PoolPair
from cephlab.suites.cachetier.tierspec import TieredTopology, TierLayout
from cephlab.suites.migration.trial import client_nodes

UNTHROTTLED = (
    ("osd_tier_promote_max_objects_sec", "100000"),
    ("osd_tier_promote_max_bytes_sec", str(1 << 30)),
)
"""Ceph's own 25 objects and 5 MiB a second for each OSD let it pass over promotions by a roll of dice, which a short
scenario could not tell from promotions that failed."""

PAPER = TieredTopology(layout=TierLayout(servers=3), clients=True, options=UNTHROTTLED)
"""Three servers with disks of both kinds, as in the paper, one of each where that had seven and one; clients beside."""

scenario_on_paper_layout = partial(Scenario, check="witnessed", topology=PAPER)
"""Makes a scenario of this suite. What it says itself comes before these values."""

POOL = "cold"
OBJECTS = {Tier.QUICK: 64, Tier.FULL: 256}
OBJECT_BYTES = 64 << 10
SETTLE_S = 30.0

EXPECTED = {
    r"\[WRN\] : Health check (failed|update): .*\((CACHE_POOL_NEAR_FULL|POOL_FULL)\)": (
        "The scenario fills the cache to its target on purpose."
    ),
}


def contents(stage: Stage, count: int, prefix: str = "o") -> dict[str, bytes]:
    """Objects by name, with content from the scenario's seed."""
    return {f"{prefix}{number}": stage.rng.randbytes(OBJECT_BYTES) for number in range(count)}


def clients(cluster: Cluster) -> list[RadosClient]:
    """One on each machine that has no daemons: of each architecture where there are two."""
    return [cluster.client_on(name) for name in client_nodes(cluster)]


def observe_contents(
    stage: Stage, pool: str, wanted: Mapping[str, bytes], when: str, *, everywhere: bool = False
) -> None:
    """Observe what a client reads of a pool, object by object, as sha256. everywhere: one on each architecture."""
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in wanted.items()}
    readers = clients(stage.cluster)
    for client in readers if everywhere else readers[:1]:
        arch = client.host.arch.value
        got = {name: client.digest(pool, name)["sha256"] for name in wanted}
        wrong = sorted(name for name, sha256 in got.items() if sha256 != sums[name])
        what = f"objects whose content differs, read on {arch} {when}"
        stage.recorder.observe(what, got=wrong, wanted=[], of=len(got))
        stage.recorder.witness(f"objects read on {arch} {when}", got=len(got), least=1)


def cached(cluster: Cluster, pair: PoolPair) -> list[str]:
    """Names of the objects that are in the cache now."""
    return cluster.client.list_objects(pair.cache)


def wait_cached(cluster: Cluster, pair: PoolPair, wanted: Iterable[str]) -> list[str]:
    """Wait a while until these are in the cache, which takes them in beside serving; what is there at the end."""
    names = set(wanted)
    deadline = clock.Deadline.after(SETTLE_S * cluster.patience)
    while not names <= set(there := cached(cluster, pair)) and not deadline.passed():
        deadline.pause(0.2)
    return there


def counted(stage: Stage, before: Mapping[str, float], what: str) -> dict[str, float]:
    """Tier counters since `before`, written into the history under a name."""
    counters = tiers.since(stage.cluster, before)
    stage.recorder.record("tier_counters", what=what, counters=counters)
    return counters
