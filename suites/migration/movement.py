"""How much data a change of the OSD map has to move: the least that CRUSH allows, from the maps before and after."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

_NONE = 2147483647
"""CRUSH_ITEM_NONE: a shard without an OSD."""
_MAPPING = re.compile(r"^([0-9]+\.[0-9a-f]+)\s+\[([0-9,]*)\]\s+(-?[0-9]+)", re.MULTILINE)


@dataclass(frozen=True)
class PlacedPg:
    """One PG at one time. stores: the stores of its shards in order, by OSD uuid, "" where a shard has none.

    shards: 0 where every store holds a whole copy, else how many shards make up the data (k). size_bytes: of the data.
    """

    pgid: str
    stores: tuple[str, ...]
    size_bytes: int = 0
    shards: int = 0


@dataclass(frozen=True)
class Movement:
    """least_bytes: what has to be written to stores that did not have it; copies: how many copies or shards that is.

    counted_bytes: what Ceph adds to `num_bytes_recovered` for it: each copy; of erasure code the whole object, once for
    all of its shards that are rebuilt together (`ECBackend::continue_recovery_op`).
    """

    least_bytes: float
    copies: int
    moved_pgs: int
    counted_bytes: float = 0.0


def least_movement(before: Sequence[PlacedPg], after: Sequence[PlacedPg]) -> Movement:
    """The least that any cluster can move between two placements.

    A whole copy has to be written to each store that is new among a PG's stores. A shard of erasure code is the k-th
    part of the data and differs from its neighbours, so that a store which changes its place has to get another one.
    A store is known by the OSD's uuid, because the number of a removed OSD is given to the next. Sizes: of `after`.
    """
    old = {pg.pgid: pg for pg in before}
    new_copies = {pg.pgid: _new_copies(old[pg.pgid], pg) for pg in after if pg.pgid in old}
    return Movement(
        least_bytes=sum(new_copies[pg.pgid] * pg.size_bytes / max(1, pg.shards) for pg in after if pg.pgid in old),
        copies=sum(new_copies.values()),
        moved_pgs=sum(1 for count in new_copies.values() if count),
        counted_bytes=sum(_counted(pg, new_copies[pg.pgid]) for pg in after if pg.pgid in old),
    )


def moved_bytes(recovered_bytes: int, legs: Sequence[Movement], shards: int) -> float:
    """What was written to stores, from what Ceph counted as recovered over some legs, of a pool with k = `shards`."""
    counted = sum(leg.counted_bytes for leg in legs)
    if not counted:
        return recovered_bytes / max(1, shards)
    return recovered_bytes * sum(leg.least_bytes for leg in legs) / counted


def _counted(pg: PlacedPg, new_copies: int) -> int:
    return pg.size_bytes * (min(1, new_copies) if pg.shards else new_copies)


def _new_copies(before: PlacedPg, after: PlacedPg) -> int:
    if after.shards:
        pairs = zip(before.stores, after.stores, strict=False)
        return sum(1 for old, other in pairs if other and old != other)
    return len(set(after.stores) - set(before.stores) - {""})


def held_bytes(pgs: Sequence[PlacedPg], stores: Set[str]) -> float:
    """What some stores hold, by uuid: a whole copy of each PG that they serve, or a shard of it."""
    return sum(sum(store in stores for store in pg.stores) * pg.size_bytes / max(1, pg.shards) for pg in pgs)


def parse_mappings(dump: str) -> dict[str, tuple[int, ...]]:
    """pgid -> OSDs of its shards, from what `osdmaptool --test-map-pgs-dump` prints; -1 where a shard has none."""
    return {
        pgid: tuple(-1 if int(osd) == _NONE else int(osd) for osd in osds.split(",") if osd)
        for pgid, osds, _ in _MAPPING.findall(dump)
    }


def named(mapping: tuple[int, ...], uuids: Mapping[int, str]) -> tuple[str, ...]:
    """OSD numbers as uuids."""
    return tuple("" if osd < 0 else uuids[osd] for osd in mapping)
