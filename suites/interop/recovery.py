"""OSDs that restart, or leave and come back, recover the same data from the other architecture."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from cephlab.lab.base.errors import try_all
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.pools import EC_2_1, REPLICATED, PoolKind
from cephlab.lab.history.history import Recorder
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.suites.expected import DEAD_COUNT, OSD_STOPPED
from cephlab.suites.interop.matrix import arch_of, led_by_one, operations
from cephlab.suites.interop.mirror import Mirror
from cephlab.suites.interop.scrub import filled, observe_copies

PAIRS = PoolKind("pairs", 2)
"""Two copies on three hosts: every PG has an OSD that does not hold it, so a lost copy can be restored elsewhere."""

OBJECTS = 24
OBJECT_BYTES = 100_000  # no multiple of a stripe or a block
CHANGED = 8  # objects that change while an OSD is away
RESTART_PGS = 4
BACKFILL_PGS = 16  # enough that some move from each architecture to the other
SHORT_LOGS = (("osd_min_pg_log_entries", "2"), ("osd_max_pg_log_entries", "4"), ("osd_pg_log_trim_min", "1"))
"""A new store is filled by backfill only if the log does not reach back to the PG's beginning; otherwise log recovery
fills it. With Ceph's default lengths that needs hundreds of writes to each PG."""
WRITES = 6
"""Of each object: more than such a log keeps."""

EXPECTED = {**OSD_STOPPED, **DEAD_COUNT}


def restart(stage: Stage, on: Arch, kind: PoolKind) -> None:
    """Write while an OSD is down. When it is back, read what it recovered from that OSD."""
    cluster = stage.cluster
    osd = cluster.osd_ids(on)[0]
    victim = f"osd.{osd}"
    with pools.pool(cluster, "restarted", kind, pg_num=RESTART_PGS) as pool:
        mirror = filled(stage, pool, OBJECTS, OBJECT_BYTES)
        cluster.stop(victim)
        try:
            cluster.wait(lambda status: not status.all_up, what=f"{victim} down")
            change(stage, mirror)
            before = recovered(cluster, pool)
        finally:
            cluster.start(victim)
        cluster.wait(lambda status: status.all_up, what=f"{victim} up")
        pools.wait_clean(cluster)
        # The OSD lacks every changed object and every new one, and nothing else.
        count = recovered(cluster, pool) - before
        stage.recorder.witness(f"objects recovered to {victim}", got=count, least=2 * CHANGED)
        with led_by_one(cluster, osd, (pool,)):
            before = operations(cluster)[osd]
            mirror.verify(cluster.client_for(on.other), stage.recorder, f"read from {victim} after it recovered")
            led = operations(cluster)[osd] - before
        stage.recorder.witness(f"operations that {victim} led after it recovered", got=led, least=len(mirror.objects))
        observe_copies(stage, pool, f"after {victim} recovered", least=RESTART_PGS)


def backfill(stage: Stage, out: Arch) -> None:
    """Take an OSD out and in again. Its PGs move to other OSDs and back, and further PGs move with them."""
    cluster = stage.cluster
    leaving = cluster.osd_ids(out)[0]
    with short_logs(cluster), pools.pool(cluster, "moved", PAIRS, pg_num=BACKFILL_PGS) as pool:
        mirror = filled(stage, pool, OBJECTS, OBJECT_BYTES)
        for number in range(OBJECTS * (WRITES - 1)):
            mirror.write(f"o{number % OBJECTS}", stage.rng.randbytes(1), number)
        pools.wait_clean(cluster)
        cluster.settle()
        note_cut_logs(stage.recorder, cluster.client.mon("pg ls-by-pool", poolstr=pool)["pg_stats"])
        home = acting(cluster, pool)
        try:
            cluster.client.mon("osd out", ids=[str(leaving)])
            pools.wait_placed(cluster, pool)
            away = acting(cluster, pool)
            holders = {osd for osds in away.values() for osd in osds}
            stage.recorder.observe(f"osd.{leaving} holds PGs while it is out", got=leaving in holders, wanted=False)
            mirror.verify(cluster.client, stage.recorder, f"while osd.{leaving} is out")
            change(stage, mirror)
        finally:
            cluster.client.mon("osd in", ids=[str(leaving)])
        pools.wait_placed(cluster, pool)
        stage.recorder.observe(
            f"the placement is as before once osd.{leaving} is in again", got=acting(cluster, pool) == home, wanted=True
        )
        moves = moved(cluster, home, away) + moved(cluster, away, home)
        for source, target in ways(cluster, out):
            count = moves[(source, target)]
            stage.recorder.witness(f"PGs backfilled from {source} to {target}", got=count, least=1)
        for reader in Arch:
            mirror.verify(cluster.client_for(reader), stage.recorder, f"read by {reader} after the return")
        observe_copies(stage, pool, "after the return", least=BACKFILL_PGS)


@contextmanager
def short_logs(cluster: Cluster) -> Iterator[None]:
    """Inside the block PGs keep only their latest writes in their logs. ceph.conf has one of the options and wins over
    the monitors, so each OSD is told.
    """
    osds = [f"osd.{osd}" for osd in cluster.osd_ids()]
    try:
        for osd in osds:
            for key, value in SHORT_LOGS:
                cluster.client.tell(osd, "config set", var=key, val=[value])
        yield
    finally:
        try_all(partial(cluster.client.tell, osd, "config unset", var=key) for osd in osds for key, _ in SHORT_LOGS)


def note_cut_logs(recorder: Recorder, pgs: Sequence[Mapping[str, Any]]) -> None:
    """Observe that a backfill must fill every new store of a PG with objects. pgs: as `pg ls-by-pool` reports them."""
    holding = [pg for pg in pgs if pg["stat_sum"]["num_objects"]]
    whole = sorted(pg["pgid"] for pg in holding if pg["log_start"] == "0'0")
    recorder.observe("PGs whose log could replace a backfill", got=whole, wanted=[], of=len(holding))


def change(stage: Stage, mirror: Mirror) -> None:
    """Write new objects, and overwrite parts of old ones."""
    for number in range(CHANGED):
        mirror.full(f"new{number}", stage.rng.randbytes(OBJECT_BYTES))
        mirror.write(f"o{number}", stage.rng.randbytes(5000), stage.rng.randrange(OBJECT_BYTES))


def recovered(cluster: Cluster, pool: str) -> int:
    """Objects that Ceph recovered in a pool since the pool was made, by its own count."""
    cluster.settle()  # so that the statistics are current
    pgs = cluster.client.mon("pg ls-by-pool", poolstr=pool)["pg_stats"]
    return sum(int(entry["stat_sum"]["num_objects_recovered"]) for entry in pgs)


def acting(cluster: Cluster, pool: str) -> dict[str, tuple[int, ...]]:
    return {pg.pgid: pg.acting for pg in pools.pgs_of(cluster, pool)}


def moved(
    cluster: Cluster, before: dict[str, tuple[int, ...]], after: dict[str, tuple[int, ...]]
) -> Counter[tuple[Arch, Arch]]:
    """(architecture that had a copy, architecture that got one) -> number of PGs."""
    counts: Counter[tuple[Arch, Arch]] = Counter()
    for pgid, old in before.items():
        kept, new = set(old) & set(after[pgid]), set(after[pgid]) - set(old)
        counts.update((arch_of(cluster, source), arch_of(cluster, target)) for source in kept for target in new)
    return counts


def ways(cluster: Cluster, out: Arch) -> list[tuple[Arch, Arch]]:
    """The directions in which PGs of two copies move when one OSD of `out` leaves and comes back."""
    back = [(out.other, out)]
    return [*back, (out, out.other)] if len(cluster.osd_ids(out)) > 1 else back


SCENARIOS: tuple[Scenario, ...] = (
    *(
        Scenario(
            name=f"interop.recovery-restart[on={arch},pool={kind.name}]",
            goal=f"An OSD of {arch} that was down recovers what it missed bit for bit from the others.",
            method=f"Stops it, writes to the pool {kind.name}, starts it, reads with it as sole primary, deep-scrubs.",
            run=partial(restart, on=arch, kind=kind),
            check="witnessed",
            tier=Tier.FULL if kind.erasure else Tier.QUICK,
            expects=EXPECTED,
        )
        for arch in Arch
        for kind in (REPLICATED, EC_2_1)
    ),
    *(
        Scenario(
            name=f"interop.recovery-backfill[out={arch}]",
            goal=f"PGs move off an OSD of {arch} and back, across architectures, with every object intact.",
            method="Cuts the PGs' logs short, takes the OSD out, compares hashes, writes, takes it in again, compares "
            "hashes, deep-scrubs.",
            run=partial(backfill, out=arch),
            check="witnessed",
            tier=Tier.QUICK if arch is host_arch() else Tier.FULL,
            expects=EXPECTED,
        )
        for arch in Arch
    ),
)
