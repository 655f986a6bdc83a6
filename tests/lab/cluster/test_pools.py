"""What is left of pools after a block, with no cluster."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base import clock
from cephlab.lab.ceph.client import CephCommandFailed
from cephlab.lab.ceph.pgs import Pg
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster


class Monitor:
    """Knows pools by name, and refuses to delete one that is a tier."""

    def __init__(self, *names: str, tier: str = "") -> None:
        self.names = list(names)
        self.tier = tier

    def mon(self, prefix: str, **arguments: Any) -> list[str]:
        if prefix == "osd pool ls":
            return list(self.names)
        if prefix == "osd pool delete":
            if arguments["pool"] == self.tier:
                raise CephCommandFailed("mon", {"prefix": prefix}, -16, "pool has tiers")
            self.names.remove(arguments["pool"])
        return []


def cluster_of(monitor: Monitor) -> Cluster:
    return cast("Cluster", SimpleNamespace(client=monitor, clients={}))


def test_pools_that_a_block_has_left_are_gone_and_the_others_stay() -> None:
    monitor = Monitor("mine", tier="hot")
    with pools.none_left(cluster_of(monitor)):
        monitor.names += ["hot", "left", ".mgr"]
    assert monitor.names == ["mine", "hot", ".mgr"]


def test_they_are_gone_after_a_failure_too() -> None:
    monitor = Monitor()
    with pytest.raises(ZeroDivisionError):
        leave_one_and_fail(monitor)
    assert monitor.names == []


def leave_one_and_fail(monitor: Monitor) -> None:
    with pools.none_left(cluster_of(monitor)):
        monitor.names.append("left")
        raise ZeroDivisionError


def test_a_map_is_in_use_once_every_pg_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """An OSD reports a map as its newest before its PGs work with it."""
    monkeypatch.setattr(clock.SYSTEM, "sleep", lambda _: None)
    looks = [(6, 7), (7, 6), (7, 7), (9, 9)]

    def pgs(pgids: list[str]) -> tuple[Pg, ...]:
        return tuple(Pg(pgid, "active", epoch, (0,), 0) for pgid, epoch in zip(pgids, looks.pop(0), strict=True))

    client = SimpleNamespace(
        mon=lambda _prefix: {"epoch": 7, "pools": [{"pool": 1, "pool_name": "p", "pg_num": 2}]}, pgs=pgs
    )
    cluster = SimpleNamespace(client=client, up_osds=lambda: [0], wait_map=lambda _osds: 7, patience=1.0)
    pools.wait_map_in_use(cast("Cluster", cluster), "p")
    assert looks == [(9, 9)]


def test_a_pg_that_waits_for_its_move_is_not_where_crush_puts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A PG at the end of a backfill is clean on its former OSDs. The next look shows it on the new ones."""
    monkeypatch.setattr(clock.SYSTEM, "sleep", lambda _: None)
    monkeypatch.setattr(pools, "wait_clean", lambda _: None)
    states = ["active+clean+remapped", "active+clean+remapped", "peering", "active+clean"]
    left = list(states)
    monkeypatch.setattr(pools, "pgs_of", lambda *_: (Pg("1.0", "active+clean", 9, (1, 2), 1), pg(left.pop(0))))
    pools.wait_placed(cast("Cluster", SimpleNamespace(patience=1.0)), "pool")
    assert left == []


def pg(state: str) -> Pg:
    return Pg("1.1", state, 9, (0, 1), 0)
