"""Parity in a live cluster: read from an OSD's store, compared with the other architecture's encoder, used to read."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations
from random import Random

from cephlab.lab.base import clock
from cephlab.lab.base.errors import LabBroken
from cephlab.lab.ceph.client import RadosError
from cephlab.lab.ceph.objectstore import ObjectStore
from cephlab.lab.ceph.pgs import NO_OSD, Pg
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.pools import PoolKind
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import MIB
from cephlab.suites.expected import DEAD_COUNT
from cephlab.suites.interop.erasure import ErasureCode, bit_matrix, clay, encode, plain, shec
from cephlab.suites.interop.matrix import observe_primaries
from cephlab.suites.interop.mirror import Mirror, difference
from cephlab.suites.interop.sides import ArchSide, sides

BIG_BYTES = 8 * MIB  # more than a thousand stripes in one primary's process
PIECE_BYTES = 2 * MIB  # size of one write
PATCHES = 4  # partial overwrites: the primary reads a stripe, changes it, and encodes it again
PATCH_BYTES = 20_000
PG_NUM = 16  # enough that some PG has its shards where the scenario wants them, since all six orders are equally likely
LEAD_S = 60.0

EXPECTED = {
    **DEAD_COUNT,
    r"log_channel\(cluster\) log \[WRN\] : Health check (failed|update): .*\((OSD_DOWN|OSD_HOST_DOWN|PG_[A-Z]+)\)": (
        "The scenario stops OSDs, one after the other."
    ),
}
QUICK = (
    plain("jerasure", "reed_sol_van", 2, 1),
    replace(plain("isa", "reed_sol_van", 2, 1), stripe_unit=12288),  # no power of two
)
FULL = (
    replace(shec(2, 1, 1), stripe_unit=12288),
    clay(2, 1, 2),
    bit_matrix("cauchy_orig", 2, 1, w=8),
    bit_matrix("cauchy_good", 2, 1, w=8),
    plain("isa", "cauchy", 2, 1),
    replace(plain("jerasure", "reed_sol_van", 2, 1), stripe_unit=65536),
    replace(shec(2, 1, 1), stripe_unit=65536),
    replace(clay(2, 1, 2), stripe_unit=65536),
)


@dataclass(frozen=True)
class Spot:
    """Where objects must be. parity, data: the OSDs to stop; pgids: pool -> PGs with parity and a data shard there."""

    parity: int
    data: int
    pgids: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Written:
    """What was written through a primary of an architecture. names: in the mirror, in the order of their checks."""

    code: ErasureCode
    led_by: Arch
    mirror: Mirror
    names: tuple[str, ...]


def run(stage: Stage, codes: Sequence[ErasureCode]) -> None:
    """Write through primaries of both architectures; check the store that holds parity; read without a data shard."""
    cluster = stage.cluster
    with ExitStack() as stack, sides(cluster, "parity") as between:
        for code in codes:
            stack.enter_context(pools.pool(cluster, pool_of(code), kind_of(code), pg_num=PG_NUM))
        placed = {pool_of(code): pools.pgs_of(cluster, pool_of(code)) for code in codes}
        spot = choose(placed, codes[0].k, order_of(cluster))
        mirrors = {pool: Mirror(cluster.client, pool) for pool in placed}
        written = [written_object for primary in Arch for written_object in fill(stage, codes, primary, spot, mirrors)]
        with stopped(cluster, spot.parity):
            for written_object in written:
                compare_parity(stage, written_object, spot, between[written_object.led_by.other])
        read_without(stage, codes, spot, mirrors)


def pool_of(code: ErasureCode) -> str:
    """A pool's name: the code without the separators of a profile."""
    return f"parity-{code.plugin}-{code.more.get('technique', 'own')}-{code.stripe_unit}"


def kind_of(code: ErasureCode) -> PoolKind:
    more = (*((key, str(value)) for key, value in code.more.items()), ("stripe_unit", str(code.stripe_unit)))
    return PoolKind(pool_of(code), len(code.chunks), k=code.k, m=code.m, plugin=code.plugin, more=more)


def order_of(cluster: Cluster) -> list[int]:
    """The OSDs, starting with those that are quickest to stop and to inspect."""
    return sorted(cluster.osd_ids(), key=lambda osd: (cluster.host_of(f"osd.{osd}").emulated, osd))


def choose(placed: Mapping[str, Sequence[Pg]], k: int, osds: Sequence[int]) -> Spot:
    """Choose two OSDs such that every pool has PGs with the parity on the one and a data shard on the other."""
    for parity, data in permutations(osds, 2):
        pgids = {
            pool: tuple(pg.pgid for pg in pgs if pg.acting[k] == parity and data in pg.acting[:k])
            for pool, pgs in placed.items()
        }
        if all(pgids.values()):
            return Spot(parity, data, pgids)
    raise LabBroken("no two OSDs hold parity and data of a PG in each pool", ", ".join(placed), "choose another seed")


def fill(
    stage: Stage, codes: Sequence[ErasureCode], primary: Arch, spot: Spot, mirrors: Mapping[str, Mirror]
) -> list[Written]:
    """Write objects with each code, encoded by primaries of one architecture."""
    cluster, written = stage.cluster, []
    with pools.led_by(cluster, primary):
        for code in codes:
            pool = pool_of(code)
            observe_primaries(stage, pool, primary)
            mirror = mirrors[pool]
            big, small = names_in(stage, pool, spot.pgids[pool], 2)
            grow(mirror, big, stage.rng)
            mirror.full(small, stage.rng.randbytes(stage.rng.choice(edge_sizes(code))))
            written.append(Written(code, primary, mirror, (big, small)))
    return written


def names_in(stage: Stage, pool: str, pgids: Sequence[str], count: int) -> list[str]:
    """Random names that map to one of these PGs of a pool."""
    names: list[str] = []
    while len(names) < count:
        name = f"o{stage.rng.randrange(1 << 32):x}"
        if str(pools.locate(stage.cluster, pool, name)["pgid"]) in pgids:
            names.append(name)
    return names


def grow(mirror: Mirror, name: str, rng: Random) -> None:
    """Make an object of many stripes: write, append, overwrite parts, and leave an end that fills no stripe."""
    mirror.full(name, rng.randbytes(PIECE_BYTES))
    for _ in range(BIG_BYTES // PIECE_BYTES - 1):
        mirror.append(name, rng.randbytes(PIECE_BYTES))
    for _ in range(PATCHES):
        mirror.write(name, rng.randbytes(PATCH_BYTES), rng.randrange(BIG_BYTES - PATCH_BYTES))
    mirror.append(name, rng.randbytes(rng.randrange(1, PATCH_BYTES)))


def edge_sizes(code: ErasureCode) -> list[int]:
    """Sizes around the borders of a chunk and of a stripe."""
    unit, stripe = code.stripe_unit, code.stripe_unit * code.k
    return [1, unit - 1, unit, unit + 1, stripe - 1, stripe, stripe + 1, 3 * stripe + unit + 1]


def compare_parity(stage: Stage, written: Written, spot: Spot, encoder: ArchSide) -> None:
    """Observe that the parity in the OSD's store is what the other architecture computes from each object's content."""
    cluster, code = stage.cluster, written.code
    store = ObjectStore(cluster.daemon(f"osd.{spot.parity}"), cluster.patience)
    padded = [whole_stripes(bytes(written.mirror.objects[name].data), code) for name in written.names]
    # Stripes are encoded one by one, so all objects can be joined and encoded together.
    parity, at = encode(encoder, code, b"".join(padded))[code.k], 0
    for name, content in zip(written.names, padded, strict=True):
        pgid = pools.locate(cluster, written.mirror.pool, name)["pgid"]
        size = len(content) // code.k
        stage.recorder.observe(
            f"parity of {code.label} by {written.led_by}, stripe unit {code.stripe_unit}, against {encoder.arch}",
            got=difference(store.get_bytes(f"{pgid}s{code.k}", name), parity[at : at + size]),
            wanted="equal",
            stripes=size // code.stripe_unit,
        )
        at += size


def whole_stripes(content: bytes, code: ErasureCode) -> bytes:
    """Content padded with zeros to a whole stripe."""
    stripe = code.stripe_unit * code.k
    return content + bytes(-len(content) % stripe)


def read_without(stage: Stage, codes: Sequence[ErasureCode], spot: Spot, mirrors: Mapping[str, Mirror]) -> None:
    """Read all through primaries of each architecture while a data shard's OSD is down, so that parity is used."""
    cluster = stage.cluster
    with stopped(cluster, spot.data):
        for reader in Arch:
            with leading(cluster, spot, reader) as there:
                if not there:
                    continue  # no copy of these PGs is left on that architecture
                without = [pg for pg in there if NO_OSD in pg.acting[: codes[0].k]]
                stage.recorder.witness(f"PGs read by {reader} without a data shard", got=len(without), least=len(there))
                for code in codes:
                    when = f"of {code.label}, read with parity on {reader}"
                    readable(stage, mirrors[pool_of(code)], when)


def readable(stage: Stage, mirror: Mirror, when: str) -> None:
    """Observe what is read. Record an unreadable object as an observation, so that the scenario goes on."""
    refused = "none"
    try:
        mirror.verify(stage.cluster.client, stage.recorder, when)
    except RadosError as error:
        refused = error.detail
    stage.recorder.observe(f"refused reads {when}", got=refused, wanted="none")


@contextmanager
def stopped(cluster: Cluster, osd: int) -> Iterator[None]:
    """Inside the block one OSD is stopped and marked down. Afterwards it runs and all PGs are clean."""
    name = f"osd.{osd}"
    cluster.stop(name)
    try:
        cluster.wait(lambda status: not status.all_up, what=f"{name} down")
        yield
    finally:
        cluster.start(name)
    pools.wait_clean(cluster)


@contextmanager
def leading(cluster: Cluster, spot: Spot, reader: Arch) -> Iterator[list[Pg]]:
    """Inside the block OSDs of an architecture lead the PGs that lack an OSD. Yields the PGs, or none if that is
    impossible."""
    up = [osd for osd in cluster.osd_ids(reader) if osd != spot.data]
    others = [osd for osd in cluster.osd_ids() if osd not in up]

    def seen() -> list[Pg]:
        return [pg for name, wanted in spot.pgids.items() for pg in pools.pgs_of(cluster, name) if pg.pgid in wanted]

    def led(pgs: list[Pg]) -> bool:
        lacking = all(NO_OSD in pg.acting and "active" in pg.state for pg in pgs)
        return lacking and {pg.acting_primary for pg in pgs} <= set(up)

    if not up:
        yield []
        return
    with pools.never_primary(cluster, others):
        yield clock.wait(
            seen, led, what=f"{reader} leading without osd.{spot.data}", timeout_s=LEAD_S * cluster.patience
        )


def scenario(tier: Tier, codes: Sequence[ErasureCode]) -> Scenario:
    plugins = ", ".join(sorted({code.plugin for code in codes}))
    return Scenario(
        name=f"interop.parity{'-more' if tier is Tier.FULL else ''}",
        goal="A running OSD of one architecture stores the same parity as the other would, and each architecture reads "
        "whole objects with it.",
        method=f"Writes objects of {BIG_BYTES // MIB} MiB and around the size of a stripe with {plugins}, led by each "
        "architecture; compares the parity in a stopped OSD with the other architecture's encoder; then stops an OSD "
        "with data and reads all.",
        run=partial(run, codes=codes),
        sees=("parity of .*", "PGs read by .* without a data shard"),
        check="witnessed",
        tier=tier,
        expects=EXPECTED,
    )


SCENARIOS: tuple[Scenario, ...] = (scenario(Tier.QUICK, QUICK), scenario(Tier.FULL, FULL))
