"""What a cluster says of itself, and what its primary OSDs say of each PG, is read as it is."""

from dataclasses import replace
from typing import Any

import pytest

from cephlab.lab.base.errors import CephTrouble
from cephlab.lab.ceph.pgs import NO_OSD, Pg, Placement, parse_pgs, pgids
from cephlab.lab.ceph.status import HealthCheck, Status, parse_status

OSDMAP = {"epoch": 9, "num_osds": 6, "num_up_osds": 5, "num_in_osds": 4}
TROUBLED: dict[str, Any] = {
    "health": {
        "status": "HEALTH_WARN",
        "checks": {
            "PG_DEGRADED": {"severity": "HEALTH_WARN", "summary": {"message": "Degraded data", "count": 7}},
            "OSD_DOWN": {
                "severity": "HEALTH_WARN",
                "summary": {"message": "1 osds down", "count": 1},
                "muted": True,
            },
        },
    },
    "quorum_names": ["a", "b"],
    "monmap": {"epoch": 1, "num_mons": 3},
    "mgrmap": {"available": True},
    "osdmap": OSDMAP,
    "pgmap": {
        "num_pgs": 33,
        "pgs_by_state": [{"state_name": "peering", "count": 1}, {"state_name": "active+clean", "count": 32}],
        "num_objects": 6,
        "degraded_objects": 7,
        "misplaced_objects": 8,
        "unfound_objects": 9,
        "recovering_bytes_per_sec": 10,
        "bytes_used": 11,
        "bytes_total": 12,
    },
}
READ = Status(
    health="HEALTH_WARN",
    checks=(HealthCheck("OSD_DOWN", "1 osds down", muted=True), HealthCheck("PG_DEGRADED", "Degraded data")),
    quorum=("a", "b"),
    mons=3,
    mgr_available=True,
    osds=6,
    osds_up=5,
    osds_in=4,
    pgs=33,
    pg_states={"peering": 1, "active+clean": 32},
    objects=6,
    degraded_objects=7,
    misplaced_objects=8,
    unfound_objects=9,
    recovering_bytes_s=10,
    used_bytes=11,
    total_bytes=12,
)
BARE = Status("HEALTH_OK", (), (), 0, False, 6, 5, 4, 0, {}, 0, 0, 0, 0, 0, 0, 0)
FINE = replace(BARE, pgs=1, pg_states={"active+clean": 1})


def test_a_status_is_read_once() -> None:
    assert parse_status(TROUBLED) == READ
    assert str(READ) == (
        "HEALTH_WARN (OSD_DOWN: 1 osds down; PG_DEGRADED: Degraded data); quorum 2/3; mgr active; "
        "OSDs 5 up, 4 in of 6; PGs: 32 active+clean, 1 peering"
    )


def test_what_a_status_leaves_out_is_none() -> None:
    assert parse_status({"health": {"status": "HEALTH_OK"}, "osdmap": OSDMAP}) == BARE
    assert str(BARE) == "HEALTH_OK; quorum 0/0; mgr not available; OSDs 5 up, 4 in of 6; PGs: no PGs"


def test_an_older_release_nests_its_osds_and_lists_its_monitors() -> None:
    """One monitor of three is out of the quorum: the number of those in it would hide that."""
    older = {"monmap": {"mons": [{"name": name} for name in "abc"]}, "osdmap": {"osdmap": OSDMAP}}
    assert parse_status({**TROUBLED, **older}) == READ


@pytest.mark.parametrize(
    ("status", "clean"),
    [
        (BARE, False),
        (FINE, True),
        (replace(FINE, pg_states={"active+clean+scrubbing+deep": 1}), True),
        (replace(FINE, pgs=2), False),
        (replace(FINE, pg_states={"active+undersized": 1}), False),
        (replace(FINE, pg_states={"clean+peered": 1}), False),
    ],
)
def test_a_cluster_is_clean_if_every_pg_is_and_there_is_one(status: Status, clean: bool) -> None:
    assert status.clean is clean


def test_health_is_what_the_cluster_says() -> None:
    assert (READ.ok, FINE.ok) == (False, True)
    assert (READ.all_up, replace(READ, osds_up=6).all_up) == (False, True)
    assert (READ.has("OSD_DOWN"), READ.has("OSD_FULL"), FINE.has("OSD_DOWN")) == (True, False, False)


PG = Pg("2.a", "active+clean", 7, (3, NO_OSD), 3)


def test_the_pgs_of_a_pool_are_numbered_as_ceph_does() -> None:
    assert pgids({"pool": 12, "pg_num": "12"}) == [f"12.{digit}" for digit in "0123456789ab"]


def test_what_a_primary_says_of_a_pg_is_read() -> None:
    """A shard that no OSD has is CRUSH_ITEM_NONE."""
    row = {"pgid": "2.a", "state": "active+clean", "epoch": "7", "acting": [3, 2147483647], "acting_primary": "3"}
    assert parse_pgs([row, row]) == (PG, PG)


@pytest.mark.parametrize(
    ("pg", "clean"),
    [
        (PG, True),
        (replace(PG, epoch=8), True),
        (replace(PG, epoch=6), False),
        (replace(PG, state="active+clean+scrubbing"), True),
        (replace(PG, state="active+undersized"), False),
        (replace(PG, state="clean+peered"), False),
    ],
)
def test_a_pg_is_clean_with_the_map_that_was_asked_for(pg: Pg, clean: bool) -> None:
    assert pg.clean_at(7) is clean
    placement = Placement(7, (PG, pg), ())
    assert (placement.clean, placement.unclean) == (clean, () if clean else (pg,))


def test_no_pgs_are_not_clean_nor_are_any_while_an_osd_is_waited_for() -> None:
    assert not Placement(7, (), ()).clean
    assert not Placement(7, (PG,), ("osd.1 has map 6", "osd.2 is down")).clean


def test_the_first_pgs_that_are_not_clean_are_named() -> None:
    late = tuple(replace(PG, pgid=f"2.{digit}", epoch=6) for digit in range(9))
    named = ", ".join(f"2.{digit} active+clean at map 6 on [3, 2147483647]" for digit in range(8))
    assert str(Placement(7, (PG, *late), ())) == f"map 7: 9 of 10 PGs not clean: {named}"
    assert str(Placement(7, late, ("osd.1 has map 6", "osd.2 is down"))) == "map 7: osd.1 has map 6, osd.2 is down"


def test_what_no_wait_clears_ends_a_wait_for_health_unless_it_is_muted() -> None:
    flips = HealthCheck("BLUESTORE_SPURIOUS_READ_ERRORS", "1 OSD(s) have spurious read errors")
    with pytest.raises(CephTrouble, match="spurious read errors"):
        _ = replace(FINE, health="HEALTH_WARN", checks=(flips,)).sound
    assert replace(FINE, checks=(replace(flips, muted=True),)).sound
    assert not replace(FINE, health="HEALTH_WARN", checks=READ.checks).sound
