"""What is taken into a cache, when, and what is served past it: by the tier's own counters, object by object."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from cephlab.lab.base.clock import Deadline
from cephlab.lab.ceph.client import RadosError
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.scenario.scenario import Stage
from cephlab.suites.cachetier import tiers
from cephlab.suites.cachetier.stand import (
    OBJECTS,
    POOL,
    SETTLE_S,
    cached,
    contents,
    counted,
    observe_contents,
    scenario_on_paper_layout,
    wait_cached,
)
from cephlab.suites.cachetier.tiers import PoolPair, TierSettings

_ABSENT = 2
"""ENOENT."""


def layout(stage: Stage) -> None:
    """Two roots, each with its class of disks, and pools that stay below theirs."""
    cluster, observe = stage.cluster, stage.recorder.observe
    with tiers.tier(cluster, POOL) as pair:
        fast = set(tiers.fast_osds(cluster))
        slow = set(cluster.osd_ids()) - fast
        known = {entry["id"]: entry for entry in cluster.client.mon("osd df")["nodes"]}
        for name, root, osds in ((pair.base, tiers.SLOW_ROOT, slow), (pair.cache, tiers.FAST_ROOT, fast)):
            classes = {known[osd]["device_class"] for osd in osds}
            observe(f"device classes below {root}", got=len(classes), wanted=1)
            acting = tiers.acting(cluster, name)
            observe(
                f"OSDs that serve {name} and are not below {root}", got=sorted(acting - osds), wanted=[], of=len(acting)
            )
            stage.recorder.witness(f"OSDs that serve {name}", got=len(acting), least=2)
        entry = {pool["pool_name"]: pool for pool in cluster.client.mon("osd dump")["pools"]}
        observe("cache mode", got=entry[pair.cache]["cache_mode"], wanted="writeback")
        observe("the base is read through", got=entry[pair.base]["read_tier"], wanted=entry[pair.cache]["pool"])
        observe("the base is written through", got=entry[pair.base]["write_tier"], wanted=entry[pair.cache]["pool"])


def promotion(stage: Stage, recency: int) -> None:
    """Objects of the base are read, then written; each is in the cache after as many accesses as recency wants."""
    objects = contents(stage, OBJECTS[stage.tier])
    settings = TierSettings(read_recency=recency, write_recency=recency)
    with tiers.tier(stage.cluster, POOL, settings, fill=objects) as pair:
        there = cached(stage.cluster, pair)
        stage.recorder.observe("objects in the cache at first", got=there, wanted=[], of=len(objects))
        half = len(objects) // 2
        names = sorted(objects)
        _read(stage, pair, names[:half], recency)
        objects |= _write(stage, pair, names[half:], recency)
        observe_contents(stage, pair.base, objects, "through the tier")


def _read(stage: Stage, pair: PoolPair, names: list[str], recency: int) -> None:
    client = stage.cluster.client
    for access in range(recency + 1):
        before = tiers.tier_counters(stage.cluster)
        for name in names:
            client.read(pair.base, name)
        _judge(stage, pair, names, before, f"read {access + 1}", promotes=access == recency)


def _write(stage: Stage, pair: PoolPair, names: list[str], recency: int) -> dict[str, bytes]:
    written: dict[str, bytes] = {}
    for access in range(recency + 1):
        before = tiers.tier_counters(stage.cluster)
        for name, data in zip(names, contents(stage, len(names)).values(), strict=True):
            stage.cluster.client.write_full(pair.base, name, data)
            written[name] = data
        _judge(stage, pair, names, before, f"write {access + 1}", promotes=access == recency)
    return written


def _judge(
    stage: Stage, pair: PoolPair, names: list[str], before: dict[str, float], what: str, *, promotes: bool
) -> None:
    """After one access to each: promoted and there, or served past the cache and not there."""
    there = wait_cached(stage.cluster, pair, names if promotes else [])
    here = sorted(set(names) & set(there))
    wished = sorted(names) if promotes else []
    stage.recorder.observe(f"objects in the cache after {what}", got=here, wanted=wished, of=len(names))
    done = counted(stage, before, what)
    wanted = len(names) if promotes else 0
    stage.recorder.observe(f"promotions by {what}", got=done["tier_promote"], wanted=wanted)
    proxied = done["tier_proxy_read"] + done["tier_proxy_write"]
    if not promotes:
        stage.recorder.witness(f"operations served past the cache by {what}", got=proxied, least=len(names))


def whiteout(stage: Stage) -> None:
    """Overwrite and remove cached objects. The base shows both once the cache is flushed."""
    cluster = stage.cluster
    objects = contents(stage, OBJECTS[stage.tier] // 4)
    with tiers.tier(cluster, POOL, fill=objects) as pair:
        client = cluster.client
        here = promoted(cluster, pair, objects)
        stage.recorder.witness("objects in the cache before any is changed", got=here, least=len(objects))
        before = tiers.tier_counters(cluster)
        gone, kept = sorted(objects)[::2], sorted(objects)[1::2]
        for name in gone:
            client.remove(pair.base, name)
        changed = dict(zip(kept, contents(stage, len(kept)).values(), strict=True))
        for name, data in changed.items():
            client.write_full(pair.base, name, data)
        done = counted(stage, before, "removal and overwriting")
        stage.recorder.observe("whiteouts", got=done["tier_whiteout"], wanted=len(gone))
        stage.recorder.observe("objects that became dirty", got=done["tier_dirty"], wanted=len(objects))
        left = _found(stage, pair, gone)
        stage.recorder.observe("removed objects that are found", got=left, wanted=[], of=len(gone))
        observe_contents(stage, pair.base, changed, "through the tier")
        tiers.set_mode(cluster, pair, "proxy")
        tiers.drain(cluster, pair)
        tiers.remove_overlay(cluster, pair)
        left = _found(stage, pair, gone)
        stage.recorder.observe("removed objects that the base has", got=left, wanted=[], of=len(gone))
        observe_contents(stage, pair.base, changed, "from the base")


def promoted(cluster: Cluster, pair: PoolPair, names: Iterable[str]) -> int:
    """Read objects until all are in the cache, or for a while; how many are. Ceph may pass a promotion over."""
    wanted = set(names)
    deadline = Deadline.after(SETTLE_S * cluster.patience)
    while missing := sorted(wanted - set(cached(cluster, pair))):
        if deadline.passed():
            break
        for name in missing:
            cluster.client.read(pair.base, name)
        deadline.pause(0.5)
    return len(wanted) - len(missing)


def _found(stage: Stage, pair: PoolPair, names: list[str]) -> list[str]:
    there = []
    for name in names:
        try:
            stage.cluster.client.digest(pair.base, name)
            there.append(name)
        except RadosError as error:
            if error.errno != _ABSENT:
                raise
    return there


SCENARIOS = (
    scenario_on_paper_layout(
        name="cachetier.layout",
        goal="Pools stay below their root: the base on slow disks, the cache on fast ones.",
        method="Makes the 2015 paper's two roots, a rule for each and a tier; compares every PG's OSDs with them.",
        run=layout,
    ),
    *(
        scenario_on_paper_layout(
            name=f"cachetier.promotion[recency={recency}]",
            goal=f"An object is promoted by access {recency + 1}, not before; until then it is served past the cache.",
            method="Reads and writes objects of the base one by one; compares counters and the cache's objects.",
            run=partial(promotion, recency=recency),
        )
        for recency in (0, 1)
    ),
    scenario_on_paper_layout(
        name="cachetier.whiteout",
        goal="Removals and overwrites in the cache reach the base when it is flushed.",
        method="Removes and overwrites cached objects, counts whiteouts and dirty objects, drains, reads the base.",
        run=whiteout,
    ),
)
