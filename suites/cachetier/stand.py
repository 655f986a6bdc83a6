"""What the cache tier scenarios share: the paper's layout, objects with known content, and the cache's objects."""

import hashlib
from collections.abc import Iterable, Mapping
from functools import partial

from cephlab.lab.base import clock
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import Recorder
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.spec.arch import host_arch
from cephlab.suites.cachetier import tiers
from cephlab.suites.cachetier.tiers import PoolPair
from cephlab.suites.cachetier.tierspec import TieredTopology, TierLayout
from cephlab.suites.migration.trial import client_nodes

UNTHROTTLED = (
    ("osd_tier_promote_max_objects_sec", "100000"),
    ("osd_tier_promote_max_bytes_sec", str(1 << 30)),
)
"""With its default limits of 25 objects and 5 MiB per second for each OSD, Ceph skips promotions at random. In a short
scenario that would look like failed promotions."""

PAPER = TieredTopology(layout=TierLayout(servers=3), clients=True, options=UNTHROTTLED)
"""Three servers with one slow and one fast disk each (the paper had seven and one), and client machines."""

APART = {
    (host_arch() if fast_native else host_arch().other): TieredTopology(
        layout=TierLayout(servers=2, apart=True, fast_native=fast_native), clients=True, options=UNTHROTTLED
    )
    for fast_native in (True, False)
}
"""Architecture of the fast disks -> topology; the slow ones are of the other architecture."""

scenario_on_paper_layout = partial(Scenario, check="witnessed", topology=PAPER)
"""Makes a scenario of this suite; arguments of the call override these."""

POOL = "cold"
OBJECTS = {Tier.QUICK: 64, Tier.FULL: 256}
OBJECT_BYTES = 64 << 10
SETTLE_S = 30.0

EXPECTED = {
    r"\[WRN\] : Health check (failed|update): .*\((CACHE_POOL_NEAR_FULL|POOL_FULL)\)": (
        "The scenario fills the cache to its target on purpose."
    ),
}


def contents(stage: Stage, count: int) -> dict[str, bytes]:
    """Objects by name, with random content from the scenario's seed."""
    return {f"o{number}": stage.rng.randbytes(OBJECT_BYTES) for number in range(count)}


def observe_contents(
    stage: Stage, pool: str, wanted: Mapping[str, bytes], when: str, *, everywhere: bool = False
) -> None:
    """Observe that a client reads these objects right, by sha256. everywhere: a client on each architecture."""
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in wanted.items()}
    nodes = client_nodes(stage.cluster)
    for node in nodes if everywhere else nodes[:1]:
        client = stage.cluster.client_on(node)
        arch = client.host.arch.value
        wrong = sorted(name for name, sha256 in sums.items() if client.digest(pool, name)["sha256"] != sha256)
        what = f"objects whose content differs, read on {arch} {when}"
        stage.recorder.observe(what, got=wrong, wanted=[], of=len(sums))
        stage.recorder.witness(f"objects read on {arch} {when}", got=len(sums), least=1)


def cached(cluster: Cluster, pair: PoolPair) -> list[str]:
    """Names of the objects in the cache."""
    return cluster.client.list_objects(pair.cache)


def wait_cached(cluster: Cluster, pair: PoolPair, wanted: Iterable[str]) -> list[str]:
    """Wait for a limited time until these are promoted in the background; returns what is in the cache then."""
    names = set(wanted)
    deadline = clock.Deadline.after(SETTLE_S * cluster.patience)
    while not names <= set(there := cached(cluster, pair)) and not deadline.passed():
        deadline.pause(0.2)
    return there


def counted(stage: Stage, before: Mapping[str, float], what: str) -> dict[str, float]:
    """Tier counters since `before`; records them too."""
    counters = tiers.since(stage.cluster, before)
    stage.recorder.record("tier_counters", what=what, counters=counters)
    return counters


def witness_moves(recorder: Recorder, counters: Mapping[str, float], when: str = "") -> None:
    """Witness that a tier promoted, flushed and evicted."""
    recorder.witness(f"promotions{when}", got=counters["tier_promote"], least=1)
    recorder.witness(f"flushes{when}", got=tiers.flushes(counters), least=1)
    recorder.witness(f"evictions{when}", got=counters["tier_evict"], least=1)
