"""A mixed cluster from an image that the engine pulls by its name, from a registry on the loopback interface."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import docker.errors
import pytest

from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import Runs
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.own import OwnCluster, described, identified
from cephlab.lab.cluster.pools import PoolKind
from cephlab.lab.cluster.raising import raise_cluster
from cephlab.lab.images.image import Image
from cephlab.lab.images.store import ImageStore
from cephlab.lab.providers.base import Images, Provider
from cephlab.lab.providers.container import imported
from cephlab.lab.providers.container.engine import find_engine
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import DEFAULT_RELEASE, UNKNOWN_RELEASE
from tests.contract.conftest import FOREIGN
from tests.contract.registry import registry

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(600),
    pytest.mark.parametrize("provider", ["container"], indirect=True),
]

POOL = "pulled"
TWO_COPIES = PoolKind("two-copies", 2)


@pytest.fixture(scope="module")
def reference(images: Images, home: Home) -> Iterator[str]:
    with closing(find_engine()) as engine:
        if engine.rootless:
            pytest.skip("a rootless engine has a loopback interface of its own and cannot reach a registry on this one")
    store = ImageStore(home)
    with registry([store.export(image, "oci") for image in images.values()], "ceph/ceph") as name:
        yield name
        engine = find_engine()
        try:
            engine.client.images.remove(name)
            for tag in [tag for image in engine.client.images.list() for tag in image.tags]:
                if "cephlab/pulled-" in tag:
                    engine.client.images.remove(tag)
        except docker.errors.ImageNotFound:
            pass
        finally:
            engine.client.close()


@pytest.fixture(scope="module")
def cluster(provider: Provider, reference: str, home: Home) -> Iterator[OwnCluster]:
    spec = Topology(native=1, foreign=1).spec(UNKNOWN_RELEASE, reference)
    store = ImageStore(home)
    runs = Runs(home)
    run = runs.create(provider.name)
    pulled = {arch: store.pulled(spec.release, arch, reference) for arch in spec.archs}
    with raise_cluster(provider, spec, pulled, run) as raised:
        identified(raised, pulled)
        raised.wait_healthy()
        yield raised
    runs.forget(run)


def test_every_node_runs_its_architecture_of_the_image(cluster: OwnCluster) -> None:
    arches = {entry["arch"] for entry in cluster.client.mon("osd metadata")}
    assert arches == {host_arch().value, FOREIGN.value}


def test_the_image_says_what_it_is(cluster: OwnCluster, reference: str) -> None:
    """The registry serves images of the default release, under a name that does not tell."""
    assert cluster.spec.release == DEFAULT_RELEASE
    told = described(cluster)
    assert told is not None
    assert told["reference"] == reference
    assert set(told["ids"]) == {host_arch().value, FOREIGN.value}
    assert all(image_id.startswith("sha256:") for image_id in told["ids"].values())
    assert any("@sha256:" in digest for digest in told["digests"])


def test_its_digest_names_the_same_images(cluster: OwnCluster, reference: str, home: Home) -> None:
    told = described(cluster)
    assert told is not None
    listed = next(digest for digest in told["digests"] if digest.startswith(reference.removesuffix(":test")))
    engine = find_engine()

    def export(image: Image) -> Path:
        raise AssertionError(f"{image.oci_name} is none of ours")

    try:
        for arch in Arch:
            held = imported.ensure(engine, ImageStore(home).pulled(UNKNOWN_RELEASE, arch, listed), export)
            assert held.name == told["ids"][arch.value]
    finally:
        engine.client.close()


def test_ceph_finds_its_own_plugins(cluster: OwnCluster) -> None:
    with pools.pool(cluster, POOL, TWO_COPIES):
        for arch in (host_arch(), FOREIGN):
            with pools.primary_on(cluster, arch, POOL):
                cluster.client_for(arch).call("rbd_create", pool=POOL, image=f"led-by-{arch}", size=1 << 22)
    cluster.client.mon("osd erasure-code-profile set", name="found", profile=["k=2", "m=1", "plugin=jerasure"])
    assert "found" in cluster.client.mon("osd erasure-code-profile ls")
