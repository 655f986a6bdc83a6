"""Replicas and their hosts, from made-up PG statistics."""

from cephlab.lab.ceph.pgs import NO_OSD, Pg
from cephlab.suites.interop.standing import shared_hosts

HOSTS = {0: "n0", 1: "n0", 2: "n1", 3: "n1", 4: "n2"}


def pg(pgid: str, *acting: int) -> Pg:
    return Pg(pgid, "active+clean", 1, acting, acting[0])


def test_replicas_on_different_hosts_are_fine() -> None:
    assert shared_hosts([pg("1.0", 0, 2, 4), pg("1.1", 3, 1)], HOSTS) == []


def test_two_replicas_on_one_host_are_named() -> None:
    shared = shared_hosts([pg("1.0", 0, 2, 1), pg("1.1", 4, 0)], HOSTS)
    assert shared == ["PG 1.0 on OSDs [0, 2, 1]: twice on host n0"]


def test_a_missing_shard_is_on_no_host() -> None:
    nowhere = NO_OSD  # it stands twice where two shards of an erasure-coded PG are missing
    assert shared_hosts([pg("2.0", nowhere, 2, nowhere)], HOSTS) == []
