"""A real mixed cluster on every provider: what the lab promises about daemons, disks, secrets and addresses."""

import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

import psutil
import pytest

from cephlab.lab.base.errors import DaemonDied, LabError, NotReached
from cephlab.lab.base.home import Home
from cephlab.lab.ceph.daemon import crash_records
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.own import OwnCluster, load_cluster
from cephlab.lab.providers.base import Provider
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.clusterspec import Capability
from tests.contract.raising import raised

pytestmark = pytest.mark.real

POOL = "contract"
NOTICED_S = 2.0
"""`at once`: a wait looks at every daemon at each of its polls, ten times a second."""


@pytest.fixture(scope="module")
def cluster(provider: Provider, home: Home) -> Iterator[OwnCluster]:
    foreign = 1 if Capability.FOREIGN_ARCH in provider.capabilities() else 0
    with raised(provider, Topology(native=3 - foreign, foreign=foreign), home) as cluster:
        pools.create(cluster, POOL)
        yield cluster


def test_every_daemon_runs_as_its_nodes_architecture(cluster: OwnCluster) -> None:
    arches = {f"osd.{osd['id']}": osd["arch"] for osd in cluster.client.mon("osd metadata")}
    wanted = {name: daemon.host.arch.value for name, daemon in cluster.daemons.items() if daemon.kind == "osd"}
    assert arches == wanted


def test_secrets_are_for_the_owner_only(cluster: OwnCluster) -> None:
    keyrings = [
        (host, path)
        for host in cluster.hosts.values()
        for path in (host.directory / "keyring", *(d_path(cluster, name) for name in on(cluster, host.name)))
    ]
    modes = {
        str(path): host.run(["stat", "-c", "%a", str(path)], timeout_s=60 * cluster.patience).stdout.strip()
        for host, path in keyrings
    }
    assert set(modes.values()) == {"600"}, modes


def test_nothing_listens_beyond_the_labs_addresses(cluster: OwnCluster, provider: Provider) -> None:
    if provider.name != "local":
        pytest.skip("the network of the run is its own: nothing outside reaches it")
    pids = {daemon.process.pid for daemon in cluster.daemons.values() if daemon.process is not None}
    listening = [
        connection.laddr.ip
        for pid in pids
        for connection in psutil.Process(pid).net_connections("inet")
        if connection.status == psutil.CONN_LISTEN and connection.laddr
    ]
    addresses = {host.address for host in cluster.hosts.values()}
    assert listening
    assert set(listening) <= addresses


def test_a_dead_daemon_is_noticed_at_once_with_its_last_words(cluster: OwnCluster) -> None:
    victim = cluster.daemon("osd.0")
    assert victim.process is not None
    victim.process.signal(signal.SIGABRT)
    assert victim.process.wait(60)
    began = time.monotonic()
    with pytest.raises(DaemonDied) as caught:
        cluster.wait(lambda _status: False, what="never", timeout_s=60)
    assert time.monotonic() - began < NOTICED_S * cluster.patience
    assert "osd.0" in caught.value.what
    assert "ceph-osd -f -i 0" in caught.value.detail
    assert "Aborted" in caught.value.detail
    assert any(record["entity_name"] == "osd.0" for record in crash_records(victim.host))
    victim.host.remove(victim.host.directory / "crash")
    victim.host.make_directory(victim.host.directory / "crash")
    cluster.start("osd.0")
    pools.wait_clean(cluster)


def test_a_wait_that_is_not_met_names_the_last_state(cluster: OwnCluster) -> None:
    with pytest.raises(NotReached, match="HEALTH_"):
        cluster.wait(lambda _status: False, what="never", timeout_s=0.2)


def test_a_paused_daemon_is_alive_and_resumes(cluster: OwnCluster) -> None:
    cluster.client.write_full(POOL, "paused", b"before")
    cluster.pause("osd.1")
    cluster.check_daemons()
    cluster.resume("osd.1")
    cluster.client.write_full(POOL, "paused", b"after")
    assert cluster.client.read(POOL, "paused") == b"after"


def test_a_command_reaches_the_daemon_that_it_names(cluster: OwnCluster) -> None:
    names = [daemon.name for daemon in cluster.daemons.values() if daemon.kind in ("mon", "mgr", "osd")]
    answered = [cluster.client.tell(name, "config show")["name"] for name in names]
    assert answered == names
    with pytest.raises(LabError, match=r"mds\.n0"):
        cluster.client.tell("mds.n0", "config show")


def test_a_killed_daemon_comes_back_with_its_data(cluster: OwnCluster) -> None:
    cluster.client.write_full(POOL, "killed", b"k" * 70_000)
    wanted = cluster.client.digest(POOL, "killed")
    for osd in cluster.osd_ids():
        cluster.kill(f"osd.{osd}")
        cluster.start(f"osd.{osd}")
        pools.wait_clean(cluster)
    assert cluster.client.digest(POOL, "killed") == wanted


def test_a_manager_that_fails_over_begins_anew(cluster: OwnCluster) -> None:
    """It executes itself, as every Ceph release's does when it is told to stand down."""
    begun = [active_manager(cluster)]
    cluster.client.mon("mgr fail", who="n0")
    begun.append(next_manager(cluster, begun))
    assert cluster.daemon("mgr.n0").alive(), "it is the same process"
    cluster.stop("mgr.n0")
    assert not cluster.daemon("mgr.n0").alive()
    cluster.start("mgr.n0")
    begun.append(next_manager(cluster, begun))
    assert len(set(begun)) == 3


def active_manager(cluster: OwnCluster) -> int:
    """The monitors' number of the active manager: another one each time that it begins."""
    return int(cluster.client.mon("mgr dump")["active_gid"])


def next_manager(cluster: OwnCluster, begun: Sequence[int]) -> int:
    """Wait until a manager serves that began after those."""
    cluster.wait(
        lambda status: status.mgr_available and active_manager(cluster) not in begun, what="the manager active again"
    )
    return active_manager(cluster)


def test_another_process_finds_the_cluster(cluster: OwnCluster, provider: Provider) -> None:
    loaded = load_cluster(provider, cluster.run)
    try:
        assert loaded.status().osds == len(cluster.osd_ids())
        assert {name: daemon.alive() for name, daemon in loaded.daemons.items()} == dict.fromkeys(cluster.daemons, True)
    finally:
        loaded.close_clients()


def test_an_osd_moves_to_a_node_of_the_other_architecture(cluster: OwnCluster) -> None:
    hosts = list(cluster.hosts.values())
    source, target = hosts[0], hosts[-1]
    osd = next(int(name.partition(".")[2]) for name in on(cluster, source.name) if name.startswith("osd."))
    cluster.client.write_full(POOL, "moved", b"m" * 300_000)
    wanted = cluster.client.digest(POOL, "moved")
    for node in (target.name, source.name):
        cluster.stop(f"osd.{osd}")
        moved = cluster.move_osd(osd, node)
        cluster.wait(lambda status: status.all_up, what=f"osd.{osd} up on {node}")
        assert moved.host.name == node
        metadata = next(entry for entry in cluster.client.mon("osd metadata") if entry["id"] == osd)
        assert metadata["arch"] == moved.host.arch.value
    pools.wait_clean(cluster)
    assert cluster.client.digest(POOL, "moved") == wanted


def on(cluster: OwnCluster, node: str) -> list[str]:
    return [name for name, daemon in cluster.daemons.items() if daemon.host.name == node]


def d_path(cluster: OwnCluster, name: str) -> PurePosixPath:
    return cluster.daemon(name).host.directory / name / "keyring"
