"""The least that a change of maps has to move: by hand for small placements, and its parsing of osdmaptool's words."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cephlab.suites.migration.movement import (
    Movement,
    PlacedPg,
    held_bytes,
    least_movement,
    moved_bytes,
    named,
    parse_mappings,
)

DUMP = """osdmaptool: osdmap file 'osdmap'
pool 2 pg_num 4
2.0\t[0,2,1]\t0
2.1\t[2,2147483647,0]\t2
2.a\t[]\t-1
 osd.0 count 2
"""


def pg(stores: str, size: int = 90, shards: int = 0, pgid: str = "2.0") -> PlacedPg:
    return PlacedPg(pgid, tuple("" if store == "-" else store for store in stores), size, shards)


@pytest.mark.parametrize(
    ("before", "after", "least", "copies"),
    [
        (pg("abc"), pg("abc"), 0, 0),
        (pg("abc"), pg("cab"), 0, 0),  # whole copies: order means nothing
        (pg("abc"), pg("abd"), 90, 1),
        (pg("ab"), pg("cd"), 180, 2),
        (pg("ab"), pg("a"), 0, 0),
        (pg("a-"), pg("ab"), 90, 1),
        (pg("abc", shards=2), pg("abd", shards=2), 45, 1),
        (pg("abc", shards=2), pg("bac", shards=2), 90, 2),  # shards differ: a change of places moves both
        (pg("abc", shards=2), pg("ab-", shards=2), 0, 0),
        (pg("abc", size=30), pg("abd", size=90), 90, 1),  # what is there now has to be moved
    ],
)
def test_the_least_that_has_to_move(before: PlacedPg, after: PlacedPg, least: float, copies: int) -> None:
    # Of shards Ceph counts the object that they are rebuilt from, once.
    counted = after.size_bytes if after.shards and copies else least
    assert least_movement([before], [after]) == Movement(least, copies, counted)


def test_pgs_add_up_and_new_ones_do_not_count() -> None:
    before = [pg("ab", pgid="2.0"), pg("bc", pgid="2.1")]
    after = [pg("ad", pgid="2.0"), pg("bd", pgid="2.1", size=10), pg("ad", pgid="2.2")]
    assert least_movement(before, after) == Movement(100, 2, 100)


def test_osdmaptools_words_are_read() -> None:
    mapped = parse_mappings(DUMP)
    assert mapped == {"2.0": (0, 2, 1), "2.1": (2, -1, 0), "2.a": ()}
    assert named(mapped["2.1"], {0: "u0", 2: "u2"}) == ("u2", "", "u0")


def test_a_store_holds_whole_copies_or_shards_of_what_it_serves() -> None:
    pgs = [pg("ab"), pg("bc", size=30), pg("cab", shards=2)]
    assert held_bytes(pgs, {"a"}) == 90 + 45
    assert held_bytes(pgs, {"a", "b"}) == 2 * 90 + 30 + 2 * 45
    assert held_bytes(pgs, {"gone"}) == 0


def test_what_moved_is_told_from_what_ceph_counted() -> None:
    copied = [least_movement([pg("abc")], [pg("abd")])] * 2
    assert moved_bytes(180, copied, 0) == 180
    assert moved_bytes(270, copied, 0) == 270  # one copy more than had to be
    assert moved_bytes(180, [least_movement([pg("abc")], [pg("cab")])], 0) == 180  # nothing had to move
    rebuilt = [least_movement([pg("abc", shards=2)], [pg("abd", shards=2)])] * 2
    assert moved_bytes(180, rebuilt, 2) == 90
    assert moved_bytes(90, [least_movement([pg("abc", shards=2)], [pg("abc", shards=2)])], 2) == 45


laws = settings(deadline=None, max_examples=60)
STORES = st.lists(st.sampled_from("abcdef"), min_size=3, max_size=3, unique=True).map("".join)
WAYS = st.lists(st.tuples(st.tuples(STORES, STORES, STORES), st.integers(0, 1000)), max_size=4)
Ways = list[tuple[tuple[str, str, str], int]]
SHARDS = st.sampled_from([0, 2])


def placed(ways: Ways, at: int, shards: int) -> list[PlacedPg]:
    """PGs at the start, at the stop or at the end of their ways. ways: the stores of each, and its size."""
    return [pg(stores[at], size, shards, f"2.{number}") for number, (stores, size) in enumerate(ways)]


@pytest.mark.slow
@given(WAYS, SHARDS)
@laws
def test_a_way_with_a_stop_moves_no_less_than_the_direct_one(ways: Ways, shards: int) -> None:
    """And what stays moves nothing; one copy or shard is moved for each that is new."""
    first, stop, last = (placed(ways, at, shards) for at in range(3))
    direct, legs = least_movement(first, last), [least_movement(first, stop), least_movement(stop, last)]
    assert direct.copies <= sum(leg.copies for leg in legs)
    assert direct.least_bytes <= sum(leg.least_bytes for leg in legs)
    assert least_movement(first, first) == Movement(0, 0, 0)
    assert (direct.least_bytes == direct.counted_bytes) or shards
    for leg in (direct, *legs):
        assert leg.counted_bytes <= max(1, shards) * leg.least_bytes <= 3 * leg.counted_bytes


@pytest.mark.slow
@given(st.lists(WAYS, min_size=1, max_size=3), SHARDS, st.floats(1.0, 3.0))
@laws
def test_what_ceph_counts_for_the_least_movement_is_the_least_movement(
    legs: list[Ways], shards: int, more: float
) -> None:
    """And more by any factor is more by that factor."""
    moved = [least_movement(placed(ways, 0, shards), placed(ways, 1, shards)) for ways in legs]
    counted = sum(leg.counted_bytes for leg in moved)
    least = sum(leg.least_bytes for leg in moved)
    assert moved_bytes(int(counted), moved, shards) == pytest.approx(least)
    assert moved_bytes(int(more * counted), moved, shards) == pytest.approx(more * least, abs=2)


@pytest.mark.slow
@given(WAYS, SHARDS)
@laws
def test_all_stores_together_hold_every_copy_or_shard(ways: Ways, shards: int) -> None:
    pgs = placed(ways, 0, shards)
    of_each = [held_bytes(pgs, {store}) for store in "abcdef"]
    assert sum(of_each) == pytest.approx(held_bytes(pgs, set("abcdef")))
    assert sum(of_each) == pytest.approx(sum(3 * size / max(1, shards) for _, size in ways))
