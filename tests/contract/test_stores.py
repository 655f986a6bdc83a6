"""A real cluster from kept stores: it is healthy, a cluster of its own, and broken stores are not used twice."""

import os
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.home import Home
from cephlab.lab.ceph.client import RadosClient, RadosError
from cephlab.lab.ceph.keyring import render
from cephlab.lab.ceph.logs import read_logs
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.deploy.stores import Shelf
from cephlab.lab.cluster.own import OwnCluster
from cephlab.lab.cluster.pools import PoolKind
from cephlab.lab.cluster.raising import ClusterRequest, Manner, raise_for
from cephlab.lab.images.store import ImageStore
from cephlab.lab.providers.local import LocalProvider
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import Arch

pytestmark = pytest.mark.real

POOL = "stores"
TWICE = PoolKind("twice", 2)


@pytest.fixture
def request_(home: Home) -> ClusterRequest:
    """Of a cluster whose stores no other test shares: nothing else has these options."""
    spec = Topology(native=1, foreign=1).spec("reef")
    spec = replace(spec, options={"mon_max_pg_per_osd": str(300 + os.getpid() % 1000), "debug_mgrc": "4"})
    reason = LocalProvider().unavailable(spec)
    if reason is not None:
        pytest.skip(str(reason))
    return ClusterRequest(spec, LocalProvider(), home, ImageStore(home), manner=Manner(from_stores=True))


def keys(cluster: OwnCluster) -> dict[str, str]:
    return {entry["entity"]: entry["key"] for entry in cluster.client.mon("auth ls")["auth_dump"]}


def test_a_cluster_of_kept_stores_is_healthy_and_its_own(request_: ClusterRequest) -> None:
    with raise_for(request_, healthy_s=240) as first:
        assert first.raised_from == ""
        pools.create(first, POOL, TWICE, pg_num=1)
        with raise_for(request_, healthy_s=240) as second:
            assert "stores of an identical cluster" in second.raised_from
            assert second.deployment.fsid == first.deployment.fsid
            assert not {host.address for host in first.hosts.values()} & {h.address for h in second.hosts.values()}
            before, after = keys(first), keys(second)
            assert before.keys() == after.keys()
            assert [name for name in before if before[name] == after[name]] == []
            with (
                closing(client_with_key_of(first, second)) as stranger,
                pytest.raises(RadosError) as refused,
            ):
                stranger.call("about", connect_s=30)
            assert refused.value.errno in (1, 13)
            # What came later to the first is not in the second, and the second holds data of both architectures.
            assert POOL not in [pool["pool_name"] for pool in second.client.mon("osd dump")["pools"]]
            pools.create(second, POOL, TWICE)
            second.wait_healthy()
            for arch in Arch:
                second.client_for(arch).write_full(POOL, f"by-{arch}", arch.value.encode())
            for arch in Arch:
                assert second.client_for(arch.other).read(POOL, f"by-{arch}") == arch.value.encode()
            no_word_from(second, first)
            ours = second.hosts["n0"].address.encode()
            assert sessions_with_managers(second) != []
            assert [line for line in sessions_with_managers(second) if ours not in line] == []
            assert [entry["arch"] for entry in second.client.mon("osd metadata")] == [
                a.value for a in second.spec.archs
            ]


def no_word_from(stranger: OwnCluster, cluster: OwnCluster) -> None:
    """Nothing that the other sent was taken: it is healthy, and no log tells of a map or an operation of the other."""
    cluster.wait_healthy()
    logs = read_logs(cluster.daemons.values())
    addresses = [host.address.encode() for host in stranger.hosts.values()]
    assert [name for name, text in logs.items() if b"expected crc" in text or b"slow request" in text] == []
    assert [name for name, text in logs.items() if any(address in text for address in addresses)] == []


def sessions_with_managers(cluster: OwnCluster) -> list[bytes]:
    """What the monitor says of each session with a manager that it began."""
    lines = b"".join(read_logs([cluster.daemons["mon.n0"]]).values()).splitlines()
    return [line for line in lines if b"Starting new session with" in line]


def client_with_key_of(owner: OwnCluster, cluster: OwnCluster) -> RadosClient:
    host = cluster.deployer.client_host()
    path = host.directory / "stranger.keyring"
    host.push(render([owner.deployment.admin]), path, mode=0o600)
    return cluster.deployer.client(options={"keyring": str(path)})


def test_stores_that_are_broken_fail_once_and_are_gone(request_: ClusterRequest, home: Home) -> None:
    with raise_for(request_, healthy_s=240) as first:
        name = first.stores
    kept = Shelf(home).find(name)
    assert kept is not None
    disk = Path(kept.folder / "disks" / request_.spec.nodes[0].disks[0].name)
    with disk.open("r+b") as file:
        file.write(bytes(1 << 20))
    with pytest.raises(LabBroken) as trouble, raise_for(request_, healthy_s=240):
        pass
    assert "built from scratch" in trouble.value.hint
    assert Shelf(home).find(name) is None
