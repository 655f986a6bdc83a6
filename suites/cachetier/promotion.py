"""Which accesses promote an object into a cache, checked by the tier's counters and the cache's objects."""

import errno
from collections.abc import Callable, Iterable
from functools import partial

from cephlab.lab.base.clock import Deadline
from cephlab.lab.ceph.client import RadosError
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.scenario.scenario import Stage
from cephlab.suites.cachetier import stand, tiers
from cephlab.suites.cachetier.tiers import PoolPair, TierSettings


def layout(stage: Stage) -> None:
    """Observe that each of two roots has one class of disks, and that each pool stays below its root."""
    cluster, observe = stage.cluster, stage.recorder.observe
    with tiers.tier(cluster, stand.POOL) as pair:
        fast = set(tiers.fast_osds(cluster))
        slow = set(cluster.osd_ids()) - fast
        entries = {entry["id"]: entry for entry in cluster.client.mon("osd df")["nodes"]}
        for name, root, osds in ((pair.base, tiers.SLOW_ROOT, slow), (pair.cache, tiers.FAST_ROOT, fast)):
            classes = {entries[osd]["device_class"] for osd in osds}
            observe(f"device classes below {root}", got=len(classes), wanted=1)
            acting = tiers.acting(cluster, name)
            observe(
                f"OSDs that serve {name} but are not below {root}", got=sorted(acting - osds), wanted=[], of=len(acting)
            )
            stage.recorder.witness(f"OSDs that serve {name}", got=len(acting), least=2)
        entries = pools.by_name(cluster)
        base, cache = entries[pair.base], entries[pair.cache]
        observe("cache mode", got=cache["cache_mode"], wanted="writeback")
        observe("read tier of the base", got=base["read_tier"], wanted=cache["pool"])
        observe("write tier of the base", got=base["write_tier"], wanted=cache["pool"])


def promotion(stage: Stage, recency: int) -> None:
    """Read some objects and write others; each is promoted by the access that the recency setting requires."""
    client = stage.cluster.client
    objects = stand.contents(stage, stand.OBJECTS[stage.tier])
    settings = TierSettings(read_recency=recency, write_recency=recency)
    with tiers.tier(stage.cluster, stand.POOL, settings, fill=objects) as pair:
        there = stand.cached(stage.cluster, pair)
        stage.recorder.observe("objects in the cache at the start", got=there, wanted=[], of=len(objects))
        half = len(objects) // 2
        names = sorted(objects)

        def overwrite(name: str) -> None:
            objects[name] = stage.rng.randbytes(stand.OBJECT_BYTES)
            client.write_full(pair.base, name, objects[name])

        _access(stage, pair, recency, "read", names[:half], lambda name: client.read(pair.base, name))
        _access(stage, pair, recency, "write", names[half:], overwrite)
        stand.observe_contents(stage, pair.base, objects, "through the tier")


def _access(
    stage: Stage, pair: PoolPair, recency: int, kind: str, names: list[str], access: Callable[[str], object]
) -> None:
    """Access all objects until they are promoted; until then, accesses are proxied and the cache stays empty."""
    cluster, recorder = stage.cluster, stage.recorder
    for number in range(recency + 1):
        what, promoted = f"{kind} {number + 1}", names if number == recency else []
        before = tiers.tier_counters(cluster)
        for name in names:
            access(name)
        there = set(names) & set(stand.wait_cached(cluster, pair, promoted))
        recorder.observe(f"objects in the cache after {what}", got=sorted(there), wanted=promoted, of=len(names))
        counts = stand.counted(stage, before, what)
        recorder.observe(f"promotions by {what}", got=counts["tier_promote"], wanted=len(promoted))
        proxied = counts["tier_proxy_read"] + counts["tier_proxy_write"]
        if not promoted:
            recorder.witness(f"operations proxied to the base by {what}", got=proxied, least=len(names))


def whiteout(stage: Stage) -> None:
    """Overwrite and remove cached objects, and observe that the base has both changes once the cache is flushed."""
    cluster, recorder = stage.cluster, stage.recorder
    objects = stand.contents(stage, stand.OBJECTS[stage.tier] // 4)
    with tiers.tier(cluster, stand.POOL, fill=objects) as pair:
        client = cluster.client
        promoted = promote(cluster, pair, objects)
        recorder.witness("objects in the cache before the changes", got=promoted, least=len(objects))
        before = tiers.tier_counters(cluster)
        removed, overwritten = sorted(objects)[::2], sorted(objects)[1::2]
        for name in removed:
            client.remove(pair.base, name)
        changed = dict(zip(overwritten, stand.contents(stage, len(overwritten)).values(), strict=True))
        for name, data in changed.items():
            client.write_full(pair.base, name, data)
        counts = stand.counted(stage, before, "removal and overwriting")
        recorder.observe("whiteouts", got=counts["tier_whiteout"], wanted=len(removed))
        recorder.observe("objects that became dirty", got=counts["tier_dirty"], wanted=len(objects))
        left = _existing(stage, pair, removed)
        recorder.observe("removed objects that can still be read", got=left, wanted=[], of=len(removed))
        stand.observe_contents(stage, pair.base, changed, "through the tier")
        tiers.set_mode(cluster, pair, "proxy")
        tiers.drain(cluster, pair)
        tiers.remove_overlay(cluster, pair)
        left = _existing(stage, pair, removed)
        recorder.observe("removed objects that the base still has", got=left, wanted=[], of=len(removed))
        stand.observe_contents(stage, pair.base, changed, "from the base")


def promote(cluster: Cluster, pair: PoolPair, names: Iterable[str]) -> int:
    """Read objects until all are cached or time is up, because Ceph may skip promotions; returns how many are."""
    wanted = set(names)
    deadline = Deadline.after(stand.SETTLE_S * cluster.patience)
    while (missing := sorted(wanted - set(stand.cached(cluster, pair)))) and not deadline.passed():
        for name in missing:
            cluster.client.read(pair.base, name)
        deadline.pause(0.5)
    return len(wanted) - len(missing)


def _existing(stage: Stage, pair: PoolPair, names: list[str]) -> list[str]:
    existing = []
    for name in names:
        try:
            stage.cluster.client.digest(pair.base, name)
            existing.append(name)
        except RadosError as error:
            if error.errno != errno.ENOENT:
                raise
    return existing


SCENARIOS = (
    stand.scenario_on_paper_layout(
        name="cachetier.layout",
        goal="Pools stay below their CRUSH root: the base on slow disks, the cache on fast disks.",
        method="Makes the two roots of the 2015 paper, a rule for each, and a tier; compares the OSDs of every PG.",
        run=layout,
    ),
    *(
        stand.scenario_on_paper_layout(
            name=f"cachetier.promotion[recency={recency}]",
            goal=f"Access {recency + 1} promotes an object, and no access before; until then accesses go to the base.",
            method="Reads and writes objects of the base one by one; checks counters and the cache's objects.",
            run=partial(promotion, recency=recency),
        )
        for recency in (0, 1)
    ),
    stand.scenario_on_paper_layout(
        name="cachetier.whiteout",
        goal="Removals and overwrites in the cache reach the base when it is flushed.",
        method="Removes and overwrites cached objects, counts whiteouts and dirty objects, drains, reads the base.",
        run=whiteout,
    ),
)
