"""Objects, attributes, omap, snapshots and every kind of partial write across architectures."""

from functools import partial
from itertools import product
from random import Random

from cephlab.lab.cluster import pools
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
        mirror.drop_snaps()


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
    )


SCENARIOS: tuple[Scenario, ...] = tuple(
    scenario(client, primary, kind) for client, primary, kind in product(Arch, Arch, (REPLICATED, EC_2_1))
)
