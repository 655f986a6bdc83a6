"""Objects, attributes, omap, snapshots and every kind of partial write across architectures."""

import json
from functools import partial
from itertools import product
from random import Random

from cephlab.lab.base import clock
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.pools import EC_2_1, REPLICATED, PoolKind
from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.spec.arch import Arch
from cephlab.suites.interop.matrix import counted_operations, observe_client, observe_primaries
from cephlab.suites.interop.mirror import Mirror

SIZES = {
    "empty": 0,
    "byte": 1,
    "under-block": 4095,  # one byte less than BlueStore's allocation unit and an EC chunk
    "over-stripe": 8193,  # one byte more than a stripe of two 4 KiB chunks
    "large": (4 << 20) + 1,  # more than the default object size of RBD and CephFS, and than the deferred-write limits
}
PG_NUM = 4  # one PG would leave OSDs idle; more than 4 would only add peering
TRIM_S = 20.0
"""Time for OSDs to remove the clones of dropped snapshots, before patience. Idle ones need about a second."""


def run(stage: Stage, client: Arch, primary: Arch, kind: PoolKind) -> None:
    """Write from a client of one architecture with primaries on a chosen one. Read from the other client, then this."""
    cluster = stage.cluster
    with pools.pool(cluster, "objects", kind, pg_num=PG_NUM) as pool, pools.primary_on(cluster, primary, pool):
        observe_client(stage, client)
        observe_primaries(stage, pool, primary)
        mirror = Mirror(cluster.client_for(client), pool)
        with counted_operations(stage, primary):
            fixed_steps(mirror, stage.rng, kind)
            for reader in (client.other, client):
                mirror.verify(cluster.client_for(reader), stage.recorder, f"read by {reader}")
        if trims(client, primary, kind):
            stage.recorder.witness("clones of objects for a snapshot", got=clones(cluster, pool), least=1)
        mirror.drop_snaps()
        if trims(client, primary, kind):
            observe_trimmed(stage, pool)


def trims(client: Arch, primary: Arch, kind: PoolKind) -> bool:
    """Whether a scenario looks at trimming. Trimming is up to the primary, so one for each architecture is enough."""
    return client is not primary and not kind.erasure


def clones(cluster: Cluster, pool: str) -> int:
    """The old versions of objects that a pool's primaries hold for its snapshots."""
    answers = [
        cluster.client.command(f"pg:{pgid}", "query", pgid=pgid, format="json")
        for pgid in pools.primaries(cluster, pool)
    ]
    return sum(int(json.loads(answer)["info"]["stats"]["stat_sum"]["num_object_clones"]) for answer in answers)


def observe_trimmed(stage: Stage, pool: str) -> None:
    """Wait until the clones are gone: nothing lists them without a snapshot, but they take space."""
    kept = clock.wait(
        lambda: clones(stage.cluster, pool),
        lambda count: count == 0,
        what="the removal of the clones of dropped snapshots",
        timeout_s=TRIM_S * stage.cluster.patience,
        interval_s=0.2,
    )
    stage.recorder.observe("clones of objects after all snapshots are dropped", got=kept, wanted=0)


def fixed_steps(mirror: Mirror, rng: Random, kind: PoolKind) -> None:
    """Write every size, and do every kind of write before and after a snapshot."""
    for name, size in SIZES.items():
        mirror.full(name, rng.randbytes(size))
        mirror.xattr(name, "note", rng.randbytes(100))
    if not kind.erasure:
        mirror.omap("byte", {f"key-{n}": rng.randbytes(50) for n in range(20)})
    mirror.snap("before")
    mirror.write("under-block", rng.randbytes(10), 4090)  # across the end of a block
    mirror.write("over-stripe", rng.randbytes(4096), 2048)  # across two chunks of a stripe
    mirror.write("large", rng.randbytes(70_000), 1 << 20)
    mirror.write("gap", rng.randbytes(100), 12_000)
    mirror.append("byte", rng.randbytes(5000))
    mirror.append("empty", rng.randbytes(1))
    mirror.truncate("over-stripe", 5000)
    mirror.truncate("gap", 20_000)
    mirror.xattr("large", "note", rng.randbytes(2000))
    if not kind.erasure:
        mirror.omap("byte", {"key-3": rng.randbytes(50), "late": b""})
    mirror.rollback("under-block", "before")


def scenario(client: Arch, primary: Arch, kind: PoolKind) -> Scenario:
    return Scenario(
        name=f"interop.objects[client={client},primary={primary},pool={kind.name}]",
        goal="One architecture reads back bit for bit what the other writes, with snapshots and attributes.",
        method=f"Does each size and kind of write from a client on {client} in the pool {kind.name} led by {primary}; "
        "reads everything from both architectures.",
        run=partial(run, client=client, primary=primary, kind=kind),
        check="witnessed",
        sees=("clones of objects after .*",) if trims(client, primary, kind) else (),
    )


SCENARIOS: tuple[Scenario, ...] = tuple(
    scenario(client, primary, kind) for client, primary, kind in product(Arch, Arch, (REPLICATED, EC_2_1))
)
