"""The least data that a change of the OSD map must move, computed from the placements before and after."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from cephlab.lab.ceph.pgs import NO_OSD
from cephlab.suites.interop import placement


@dataclass(frozen=True)
class PlacedPg:
    """The placement of one PG. stores: the OSD uuids of its shards in order, "" for a shard without an OSD.

    size_bytes: of the data; shards: 0 if every store holds a whole copy, else the number of data shards (k).
    """

    pgid: str
    stores: tuple[str, ...]
    size_bytes: int
    shards: int


@dataclass(frozen=True)
class Movement:
    """least_bytes: must be written to stores that lacked the data; copies: the number of copies or shards in them.

    counted_bytes: what Ceph adds to `num_bytes_recovered` for that: each copy, but with an erasure code the whole
    object once for all shards that are rebuilt together (`ECBackend::continue_recovery_op`).
    """

    least_bytes: float
    copies: int
    counted_bytes: float


def least_movement(before: Sequence[PlacedPg], after: Sequence[PlacedPg]) -> Movement:
    """The least that any cluster can move between two placements.

    Each store that is new to a PG needs a whole copy. A shard of an erasure code is 1/k of the data and differs from
    the other shards, so a store that changes its position in the PG needs another shard. Stores are identified by the
    OSD's uuid, because a new OSD gets the number of a removed one. Sizes are those of `after`.
    """
    old = {pg.pgid: pg for pg in before}
    new_copies = [(pg, _new_copies(old[pg.pgid], pg)) for pg in after if pg.pgid in old]
    return Movement(
        least_bytes=sum(copies * pg.size_bytes / max(1, pg.shards) for pg, copies in new_copies),
        copies=sum(copies for _, copies in new_copies),
        counted_bytes=sum(pg.size_bytes * (min(1, copies) if pg.shards else copies) for pg, copies in new_copies),
    )


def moved_bytes(recovered_bytes: int, legs: Sequence[Movement], shards: int) -> float:
    """The bytes written to stores, from the bytes that Ceph counted as recovered in some legs. shards: the pool's k."""
    counted = sum(leg.counted_bytes for leg in legs)
    if not counted:
        return recovered_bytes / max(1, shards)
    return recovered_bytes * sum(leg.least_bytes for leg in legs) / counted


def _new_copies(before: PlacedPg, after: PlacedPg) -> int:
    if after.shards:
        pairs = zip(before.stores, after.stores, strict=False)
        return sum(1 for old, other in pairs if other and old != other)
    return len(set(after.stores) - set(before.stores) - {""})


def held_bytes(pgs: Sequence[PlacedPg], stores: Set[str]) -> float:
    """The bytes that some stores hold: a whole copy or a shard of each PG that they serve. stores: uuids."""
    return sum(sum(store in stores for store in pg.stores) * pg.size_bytes / max(1, pg.shards) for pg in pgs)


def parse_mappings(dump: str) -> dict[str, tuple[int, ...]]:
    """pgid -> OSDs of its shards, from the output of `osdmaptool --test-map-pgs-dump`; -1 for a missing OSD."""
    mappings = placement.parse_mappings(dump)
    return {pgid: tuple(-1 if osd == NO_OSD else osd for osd in osds) for pgid, (osds, _) in mappings.items()}


def named(mapping: tuple[int, ...], uuids: Mapping[int, str]) -> tuple[str, ...]:
    """The uuids of OSDs, "" for -1."""
    return tuple("" if osd < 0 else uuids[osd] for osd in mapping)
