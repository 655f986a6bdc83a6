"""Room for data by hand: what is read from a cluster and recorded, and what its OSDs and machines hold of it."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cephlab.lab.ceph.pgs import Pg
from cephlab.lab.cluster import pools
from cephlab.lab.telemetry.demand import Interval
from cephlab.suites.profile import room
from cephlab.suites.profile.measured import Seen
from cephlab.suites.profile.room import Placed, available, evenly, placed, usable
from cephlab.tuning.requirements import Protection
from tests.fake_stage import stage_of
from tests.suites.test_profile_ways import ROOM, cluster_of
from tests.tuning.test_requirements import ALTRA, find

KIB = 1024
OSD_DF = {
    "nodes": [
        {"id": 0, "kb": 1000, "kb_used": 100, "kb_used_data": 40},
        {"id": 1, "kb": 2000, "kb_used": 50, "kb_used_data": 50},
        {"id": 2, "kb": 3000, "kb_used": 70, "kb_used_data": 0},
        {"id": 3, "kb": 4000, "kb_used": 0, "kb_used_data": 0},
        {"id": 9, "kb": 1, "kb_used": 1, "kb_used_data": 0},
    ]
}
"""As Ceph tells it. OSD 9 has no host: it is left over from a machine that was removed."""
DF = {
    "pools": [
        {"name": "other", "stats": {"max_avail": 7e12, "stored": 0}},
        {"name": "wanted", "stats": {"max_avail": 1.9e12, "stored": 0}},
    ]
}


def test_osds_are_as_ceph_counts_them_and_metadata_is_beside_the_data() -> None:
    osds = placed(cluster_of(4, {"osd df": OSD_DF}, []), Counter({0: 2, 2: 1}))
    assert osds == {
        0: Placed("n0", 1000 * KIB, 60 * KIB, 2),
        1: Placed("n1", 2000 * KIB, 0, 0),
        2: Placed("n2", 3000 * KIB, 70 * KIB, 1),
        3: Placed("n3", 4000 * KIB, 0, 0),
    }


def test_what_ceph_has_left_is_that_of_the_pool() -> None:
    assert available(cluster_of(4, {"df": DF}, []), "wanted") == 1.9e12


def test_a_pool_is_made_and_what_it_shows_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two PGs of two copies, on OSDs 0, 1 and 2; OSD 3 has none of them."""
    did: list[str] = []
    cluster = cluster_of(4, {"osd df": OSD_DF, "df": DF}, did)
    cluster.settle = lambda: did.append("settle")

    @contextmanager
    def data_pool(on: object, guard: Protection) -> Iterator[str]:
        assert (on, guard) == (cluster, Protection(2))
        did.append("make")
        yield "wanted"
        did.append("delete")

    def pgs_of(on: object, name: str) -> tuple[Pg, ...]:
        assert (on, name) == (cluster, "wanted")
        return Pg("1.0", "", 1, (0, 1), 0), Pg("1.1", "", 1, (0, 2), 0)

    monkeypatch.setattr(room, "data_pool", data_pool)
    monkeypatch.setattr(pools, "pgs_of", pgs_of)
    stage = stage_of(cluster)
    seen = room.room(stage, find(ALTRA), ROOM)
    assert did == ["make", "settle", "osd df", "df", "delete"]
    osds = [
        Placed("n0", 1000 * KIB, 60 * KIB, 2),
        Placed("n1", 2000 * KIB, 0, 1),
        Placed("n2", 3000 * KIB, 70 * KIB, 1),
        Placed("n3", 4000 * KIB, 0, 0),
    ]
    assert isinstance(seen, Seen)
    assert seen.interval == usable(osds, 2, 0.85, Protection(2))
    assert "the 2 PGs of a pool that was made for it" in seen.sentences[0]
    assert "MAX AVAIL for that pool is 1.9 TB" in seen.sentences[1]
    witness, record = (event for event in stage.recorder.events())
    assert witness.kind == "witness"
    assert (witness.data["got"], witness.data["least"]) == (4, 4)
    assert (record.kind, record.data) == ("placed", {"osds": {str(n): vars(osds[n]) for n in range(4)}, "pgs": 2})


@pytest.mark.parametrize(("copies", "fits"), [(4, True), (5, False)])
def test_a_pool_needs_a_machine_for_each_copy(monkeypatch: pytest.MonkeyPatch, copies: int, fits: bool) -> None:
    @contextmanager
    def data_pool(*_: object) -> Iterator[str]:
        yield "wanted"

    monkeypatch.setattr(room, "data_pool", data_pool)
    monkeypatch.setattr(pools, "pgs_of", lambda *_: (Pg("1.0", "", 1, (0, 1, 2, 3), 0),))
    stage = stage_of(cluster_of(4, {"osd df": OSD_DF, "df": DF}, []))
    wanted = ROOM.model_copy(update={"protection": Protection(copies)})
    seen = room.room(stage, find(ALTRA), wanted)
    said = "replicated:5 on 4 machines: CRUSH's default rule leaves such a pool's PGs undersized"
    assert isinstance(seen, Seen) if fits else seen == said


def osd(host: str, size: float, shards: int, beside: float = 0.0) -> Placed:
    return Placed(host, size, beside, shards)


@pytest.mark.parametrize(
    ("osds", "pgs", "guard", "wanted"),
    [
        # The second is full first: at 400 of its 800 it has 3 of 4 PGs.
        (
            [osd("a", 1000, 2), osd("b", 800, 3), osd("c", 1000, 3)],
            4,
            Protection(2),
            Interval(400 * 4 / 3, 400 * 4 / 3, 700, 3),
        ),
        # Two OSDs of one machine are one place for a copy. What is beside the data takes from the half that is left.
        (
            [osd("a", 1000, 3, beside=100), osd("a", 1000, 1), osd("b", 1600, 4)],
            4,
            Protection(2),
            Interval(400 * 4 / 3, 400 * 4 / 3, 800, 3),
        ),
        # Each object has a shard on every machine, three of them with a third of its data.
        (
            [osd("a", 200, 4), osd("b", 200, 4), osd("c", 200, 4), osd("d", 400, 4)],
            4,
            Protection(k=3, m=1),
            Interval(300, 300, 300, 4),
        ),
        # Without a shard on any OSD nothing fits as it is; an OSD without room has none to give.
        ([osd("a", 100, 0), osd("b", 100, 0, beside=51)], 4, Protection(1), Interval(0, 0, 50, 2)),
    ],
)
def test_an_interval_is_from_the_fullest_osd_to_an_even_placement(
    osds: list[Placed], pgs: int, guard: Protection, wanted: Interval
) -> None:
    assert usable(osds, pgs, 0.5, guard) == wanted


@pytest.mark.parametrize(
    ("rooms", "shards", "fits"), [([5, 20, 5], 3, 5), ([8, 200, 4], 2, 12), ([9, 9, 9, 9], 3, 12), ([7, 2], 1, 9)]
)
def test_the_largest_machines_hold_one_shard_of_each_object(rooms: list[float], shards: int, fits: float) -> None:
    assert evenly(rooms, shards) == fits


def test_other_machines_than_the_profiles_are_not_measured() -> None:
    assert room.room(stage_of(cluster_of(3, {}, [])), find(ALTRA), ROOM) == (
        "the cluster has OSDs on 3 machines, but ampere-altra-4n on 4"
    )
