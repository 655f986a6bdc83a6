"""Objects, attributes, omap, snapshots and every kind of partial write across architectures."""

from functools import partial
from itertools import product
from random import Random

from cephlab.lab.cluster import pools
from cephlab.lab.cluster.pools import EC_2_1, REPLICATED, PoolKind
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.spec.arch import Arch
from cephlab.suites.interop.matrix import counted_operations, observe_client, observe_primaries
from cephlab.suites.interop.mirror import Mirror

SIZES = {
    "empty": 0,
    "byte": 1,
    "under-block": 4095,  # one byte under BlueStore's allocation unit and an EC chunk
    "over-stripe": 8193,  # one byte over a stripe of two 4 KiB chunks
    "large": (4 << 20) + 1,  # over the default object size of RBD and CephFS, and over the deferred-write limits
}
FULL_STEPS = 80  # random steps of the full tier: enough that every kind of step meets every other kind
FULL_OBJECTS = 6  # few, so that steps meet on the same object
FULL_REACH = 256 << 10  # steps of the full tier stay below this offset, so that they overlap
PG_NUM = 4  # one PG would leave OSDs idle; more would only cost peering


def run(stage: Stage, client: Arch, primary: Arch, kind: PoolKind, tier: Tier) -> None:
    """Write from one architecture with the primaries on a chosen one. Read from both, the other one first.

    tier: the scenario's own; a run of the full tier includes the quick scenarios.
    """
    cluster = stage.cluster
    with pools.pool(cluster, "objects", kind, pg_num=PG_NUM) as pool, pools.primary_on(cluster, primary, pool):
        observe_client(stage, client)
        observe_primaries(stage, pool, primary)
        mirror = Mirror(cluster.client_for(client), pool)
        with counted_operations(stage, primary):
            if tier is Tier.FULL:
                random_steps(mirror, stage.rng, kind)
            else:
                fixed_steps(mirror, stage.rng, kind)
            for reader in (client.other, client):
                mirror.verify(cluster.client_for(reader), stage.recorder, f"read by {reader}")
        mirror.drop_snaps()


def fixed_steps(mirror: Mirror, rng: Random, kind: PoolKind) -> None:
    """Write every size, and make every kind of write before and after a snapshot."""
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


def random_steps(mirror: Mirror, rng: Random, kind: PoolKind) -> None:
    """Take random steps of every kind, on few objects so that the steps meet."""
    names = [f"o{n}" for n in range(FULL_OBJECTS)]
    for name in names:
        mirror.full(name, rng.randbytes(rng.randrange(FULL_REACH)))
    for step in range(FULL_STEPS):
        random_step(mirror, rng, kind, rng.choice(names), step)


def random_step(mirror: Mirror, rng: Random, kind: PoolKind, name: str, step: int) -> None:
    steps = {
        "full": lambda: mirror.full(name, rng.randbytes(rng.randrange(FULL_REACH))),
        "write": lambda: mirror.write(name, rng.randbytes(rng.randrange(1, 20_000)), rng.randrange(FULL_REACH)),
        "append": lambda: mirror.append(name, rng.randbytes(rng.randrange(1, 20_000))),
        "truncate": lambda: mirror.truncate(name, rng.randrange(FULL_REACH)),
        "xattr": lambda: mirror.xattr(name, f"x{rng.randrange(4)}", rng.randbytes(rng.randrange(1, 500))),
        "snap": lambda: mirror.snap(f"s{step}") if len(mirror.snaps) < 4 else None,
        "rollback": lambda: mirror.rollback(name, rng.choice(sorted(mirror.snaps))) if mirror.snaps else None,
    }
    if not kind.erasure:
        steps["omap"] = lambda: mirror.omap(name, {f"k{rng.randrange(30)}": rng.randbytes(rng.randrange(200))})
    steps[rng.choice(sorted(steps))]()


def scenario(tier: Tier, client: Arch, primary: Arch, kind: PoolKind) -> Scenario:
    walk = "random seeded writes" if tier is Tier.FULL else "each size and kind of write"
    return Scenario(
        name=f"interop.objects{'-walk' if tier is Tier.FULL else ''}"
        f"[client={client},primary={primary},pool={kind.name}]",
        goal="One architecture reads back bit for bit what the other writes, with snapshots and attributes.",
        method=f"A {client} client makes {walk} in a {kind.name} pool led by {primary}; both architectures read it.",
        run=partial(run, client=client, primary=primary, kind=kind, tier=tier),
        check="witnessed",
        tier=tier,
    )


SCENARIOS: tuple[Scenario, ...] = tuple(
    scenario(tier, client, primary, kind)
    for tier, client, primary, kind in product(Tier, Arch, Arch, (REPLICATED, EC_2_1))
)
