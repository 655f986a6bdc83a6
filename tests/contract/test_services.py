"""Services on a real cluster: each starts with it, serves, dies and is missed, joins and leaves."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from cephlab.lab.base.home import Home
from cephlab.lab.cluster.own import OwnCluster, add_service, load_cluster, remove_service
from cephlab.lab.cluster.raising import ClusterRequest, raise_for, refuse_unfit
from cephlab.lab.faults import inflict
from cephlab.lab.faults.daemons import KillDaemon
from cephlab.lab.faults.fault import layout_of
from cephlab.lab.history.history import History, data_of
from cephlab.lab.images.store import ImageStore
from cephlab.lab.providers.local import LocalProvider
from cephlab.lab.services import CORE, SERVICES, service_of
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.layout import build_spec

pytestmark = pytest.mark.real

OTHERS = [kind for kind, service in SERVICES.items() if kind not in CORE and service.role_set == "ceph"]
"""Those of the image that every test has; the suite `object` raises the balancer."""


@pytest.fixture(scope="module")
def cluster(home: Home) -> Iterator[OwnCluster]:
    """Every service beyond the core, on a native node, and all but the exporter on an emulated one too."""
    other = next(arch for arch in Arch if arch is not host_arch())
    spec = build_spec([(host_arch(), 2), (other, 1)])
    native, second, foreign = spec.nodes
    spread = (replace(native, services=tuple(OTHERS)), second, replace(foreign, services=("rgw", "mds")))
    spec = replace(spec, nodes=spread)
    provider, images = LocalProvider(), ImageStore(home)
    reason = provider.unavailable(spec)
    if reason is not None:
        pytest.skip(str(reason))
    refuse_unfit(spec, home, images)
    with raise_for(ClusterRequest(spec, provider, home, images), healthy_s=240) as cluster:
        yield cluster


@pytest.mark.parametrize("kind", OTHERS)
def test_a_service_of_the_spec_serves(cluster: OwnCluster, kind: str) -> None:
    daemon = cluster.daemon(f"{kind}.n0")
    assert daemon.alive()
    assert service_of(daemon.name).missing(cluster.client, daemon.host, daemon.id) == ""


@pytest.mark.parametrize("kind", [kind for kind in OTHERS if SERVICES[kind].caps])
def test_ceph_knows_the_daemons_of_both_architectures(cluster: OwnCluster, kind: str) -> None:
    known = {str(entry["name"]): entry for entry in SERVICES[kind].metadata(cluster.client)}
    daemons = {daemon.id: daemon for daemon in cluster.daemons.values() if daemon.kind == kind}
    assert set(known) == set(daemons)
    assert {known[ident]["arch"] for ident in known} == {daemon.host.arch.value for daemon in daemons.values()}


def test_a_service_that_dies_is_missed(cluster: OwnCluster) -> None:
    history = History()
    with inflict(KillDaemon("mds.n0"), cluster, history.recorder("services.demo")):
        assert not cluster.daemon("mds.n0").alive()
        assert SERVICES["mds"].missing(cluster.client, cluster.host_of("mds.n0"), "n0") != ""
    cluster.wait_healthy()
    assert layout_of(cluster).daemons("mds") == ["mds.n0", "mds.n2"]
    [witness] = data_of(history.recorder("services.demo").events(), "witness")
    assert witness["got"] >= witness["least"] == 1


def test_a_service_joins_and_leaves(cluster: OwnCluster) -> None:
    daemon = add_service(cluster, "n1", "rgw")
    cluster.wait_healthy()
    assert load_cluster(LocalProvider(), cluster.run).daemon("rgw.n1").alive()
    remove_service(cluster, daemon.name)
    assert "rgw.n1" not in cluster.daemons
    assert cluster.spec.nodes[1].services == ()
    entities = json.dumps(cluster.client.mon("auth ls"))
    assert "client.rgw.n0" in entities
    assert "client.rgw.n1" not in entities
    assert "rgw.n1" not in cluster.hosts["n1"].read(cluster.hosts["n1"].directory / "ceph.conf").decode()
