"""Deep-scrub over copies of both architectures: it reports nothing on good copies, and finds and repairs damage."""

from collections.abc import Sequence
from functools import partial

from cephlab.lab.ceph.objectstore import ObjectStore
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.pools import EC_2_1, REPLICATED, PoolKind
from cephlab.lab.faults.copies import NEEDLE_BYTES, flip_bit
from cephlab.lab.faults.scrub import blamed, deep_scrub, deep_scrub_all, rados_json, request_scrub
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.suites.expected import DEAD_COUNT, OSD_STOPPED
from cephlab.suites.interop.matrix import led_by_one
from cephlab.suites.interop.mirror import Mirror

PG_NUM = 4
OBJECTS = 8  # two per PG on average
OBJECT_BYTES = 256 << 10  # its blobs of 64 KiB are written in place at once, not through the deferred-write log
CHUNK_BYTES = 4096  # stripe unit of an erasure-coded pool (osd_pool_erasure_code_stripe_unit)

EXPECTED = {
    r"log_channel\(cluster\) log \[ERR\] : [0-9a-f.]+(s\d+)?>? (shard|repair|deep-scrub|soid|full-object)": (
        "The scrub names the copy that the scenario damaged."
    ),
    r"_verify_csum bad .* checksum": "BlueStore finds the block that the scenario damaged.",
    r"log_channel\(cluster\) log \[ERR\] : Health check (failed|update): .*\((PG_DAMAGED|OSD_SCRUB_ERRORS)\)": (
        "Health reports the damage until repair removes it."
    ),
    **DEAD_COUNT,
    **OSD_STOPPED,
    r"log_channel\(cluster\) log \[ERR\] : Error -5 reading object": "The damaged shard cannot be read.",
}


def clean(stage: Stage, kind: PoolKind) -> None:
    """Deep-scrub every PG of a pool with objects in it."""
    cluster = stage.cluster
    with pools.pool(cluster, "scrubbed", kind, pg_num=PG_NUM) as pool:
        mirror = filled(stage, pool)
        if not kind.erasure:
            mirror.omap("o0", {f"k{n}": stage.rng.randbytes(50) for n in range(20)})
        observe_copies(stage, pool, "in an undamaged pool", least=PG_NUM)
        stage.recorder.observe("health", got=cluster.status().has("OSD_SCRUB_ERRORS"), wanted=False)


def bitrot(stage: Stage, on: Arch, kind: PoolKind) -> None:
    """Flip a bit on the disk below one copy: BlueStore's own checksum must detect it."""
    cluster = stage.cluster
    with pools.pool(cluster, "rotten", kind, pg_num=1) as pool:
        mirror = filled(stage, pool)
        victim = cluster.osd_ids(on)[0]
        daemon = cluster.daemon(f"osd.{victim}")
        content = bytes(mirror.objects["o0"].data)
        # A copy in the OSD's cache would hide the damage on the disk.
        cluster.client.command(f"osd.{victim}", "flush_store_cache")
        flip_bit(daemon.host, daemon.disks[0], stored_forms(content, kind), patience=cluster.patience)
        expect_repair(stage, mirror, victim, ["read_error"])


def stale(stage: Stage, on: Arch) -> None:
    """Change one copy and its checksum below a stopped OSD: only a comparison of copies can detect it."""
    cluster = stage.cluster
    with pools.pool(cluster, "stale", pg_num=1) as pool:
        mirror = filled(stage, pool)
        pgid = str(pools.locate(cluster, pool, "o0")["pgid"])
        victim = cluster.osd_ids(on)[0]
        name = f"osd.{victim}"
        cluster.stop(name)
        try:
            store = ObjectStore(cluster.daemon(name), cluster.patience)
            changed = flipped(mirror.objects["o0"].data, stage.rng.randrange(OBJECT_BYTES))
            store.set_bytes(pgid, "o0", changed)
        finally:
            cluster.start(name)
        pools.wait_clean(cluster)
        expect_repair(stage, mirror, victim, ["data_digest_mismatch_info"])


def expect_repair(stage: Stage, mirror: Mirror, victim: int, errors: Sequence[str]) -> None:
    """Observe that deep-scrub blames only the victim's copy of o0, and that repair restores it."""
    cluster, recorder, pool = stage.cluster, stage.recorder, mirror.pool
    pgid = str(pools.locate(cluster, pool, "o0")["pgid"])
    deep_scrub(cluster, pool)
    blame = blamed(cluster, pgid)
    recorder.observe("blamed by deep-scrub", got=blame, wanted={"o0": {str(victim): list(errors)}})
    if not blame:
        return
    cluster.wait(lambda status: status.has("OSD_SCRUB_ERRORS"), what="health reporting scrub errors")
    request_scrub(cluster, "repair", [pgid])
    cluster.wait(lambda status: not status.has("OSD_SCRUB_ERRORS") and status.clean, what=f"{pgid} repaired")
    scrubbed = deep_scrub(cluster, pool)
    recorder.observe("blamed after the repair", got=blamed(cluster, pgid), wanted={}, of=len(scrubbed))
    with led_by_one(cluster, victim, (pool,)):  # another OSD would answer from an undamaged copy
        mirror.verify(cluster.client, recorder, f"after osd.{victim}'s copy was repaired")


def observe_copies(stage: Stage, pool: str, when: str, *, least: int) -> None:
    """Deep-scrub a pool and observe that the copies of no PG differ. least: how many PGs it must have."""
    note_copies(stage, pool, deep_scrub(stage.cluster, pool), when, least=least)


def observe_copies_in(stage: Stage, names: Sequence[str], *, least: int) -> None:
    """Do the same for several pools at once. least: how many PGs each must have."""
    for pool, scrubbed in deep_scrub_all(stage.cluster, names).items():
        note_copies(stage, pool, scrubbed, f"in {pool}", least=least)


def note_copies(stage: Stage, pool: str, scrubbed: Sequence[str], when: str, *, least: int) -> None:
    """Observe that scrub found no copies that differ. scrubbed: the pool's PGs."""
    stage.recorder.witness(f"PGs deep-scrubbed {when}", got=len(scrubbed), least=least)
    damaged = rados_json(stage.cluster, "list-inconsistent-pg", pool)
    stage.recorder.observe(f"PGs whose copies differ {when}", got=damaged, wanted=[], of=len(scrubbed))


def filled(stage: Stage, pool: str, objects: int = OBJECTS, object_bytes: int = OBJECT_BYTES) -> Mirror:
    """Write random objects o0, o1, ... into a pool."""
    mirror = Mirror(stage.cluster.client, pool)
    for number in range(objects):
        mirror.full(f"o{number}", stage.rng.randbytes(object_bytes))
    return mirror


def stored_forms(content: bytes, kind: PoolKind) -> list[bytes]:
    """What an object's start can look like on a disk: unchanged or, with EC 2+1, the start of a chunk or the parity."""
    if not kind.erasure:
        return [content[:NEEDLE_BYTES]]
    first, second = content[:NEEDLE_BYTES], content[CHUNK_BYTES : CHUNK_BYTES + NEEDLE_BYTES]
    # With a single parity chunk, Reed-Solomon is plain XOR.
    return [first, second, bytes(a ^ b for a, b in zip(first, second, strict=True))]


def flipped(content: bytes | bytearray, at: int) -> bytes:
    changed = bytearray(content)
    changed[at] ^= 1
    return bytes(changed)


SCENARIOS: tuple[Scenario, ...] = (
    *(
        Scenario(
            name=f"interop.scrub-clean[pool={kind.name}]",
            goal="The copies on both architectures agree: a deep-scrub of every PG finds nothing.",
            method=f"Fills the pool {kind.name}, deep-scrubs all its PGs, and lists inconsistent PGs.",
            run=partial(clean, kind=kind),
            check="witnessed",
        )
        for kind in (REPLICATED, EC_2_1)
    ),
    *(
        Scenario(
            name=f"interop.scrub-bitrot[on={on},pool={kind.name}]",
            goal=f"Deep-scrub finds a flipped bit on a disk of {on} and blames that copy, and repair restores it.",
            method=f"Flips a bit on the block device below the pool {kind.name}, deep-scrubs, repairs, reads all back.",
            run=partial(bitrot, on=on, kind=kind),
            tier=Tier.FULL if kind.erasure else Tier.QUICK,
            expects=EXPECTED,
        )
        for on in Arch
        for kind in (REPLICATED, EC_2_1)
    ),
    *(
        Scenario(
            name=f"interop.scrub-stale[on={on}]",
            goal=f"Deep-scrub finds a copy on {on} that differs but passes its own checksums, and repair restores it.",
            method="Changes bytes with ceph-objectstore-tool below a stopped OSD, deep-scrubs, repairs, reads back.",
            run=partial(stale, on=on),
            # Emulated, the tool and the restart of the OSD take half a minute.
            tier=Tier.QUICK if on is host_arch() else Tier.FULL,
            expects=EXPECTED,
        )
        for on in Arch
    ),
)
