"""A cluster that is wrong on purpose: the interoperability suite goes red, and says why."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cephlab.lab.base.home import Home
from cephlab.lab.ceph.objectstore import ObjectStore
from cephlab.lab.checks import Outcome
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.images.shim import compiler as shim
from cephlab.lab.providers.local import LocalProvider
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.suites.interop.standing import FAILURE_DOMAIN, restart_scenario
from tests.contract.raising import raised, verdict_of

pytestmark = pytest.mark.real

FOREIGN = next(arch for arch in Arch if arch is not host_arch())
OBJECT_BYTES = 256 << 10
LIES_FROM = "16384"
"""Frames of that size carry its wrong checksum too; smaller ones let the daemon join, peer and scrub."""


@pytest.fixture(scope="module")
def cluster(home: Home) -> Iterator[Cluster]:
    with raised(LocalProvider(), FAILURE_DOMAIN.topology, home) as cluster:
        yield cluster


def test_an_honest_cluster_passes(cluster: Cluster, tmp_path: Path) -> None:
    assert verdict_of(FAILURE_DOMAIN, cluster, tmp_path).outcome is Outcome.PASS
    assert verdict_of(restart_scenario(host_arch()), cluster, tmp_path).outcome is Outcome.PASS


def test_a_rule_that_puts_two_replicas_on_one_host_is_found(cluster: Cluster, tmp_path: Path) -> None:
    client = cluster.client
    client.mon("osd crush rule create-replicated", name="flat", root="default", type="osd")
    rule = client.mon("osd crush rule dump", name="flat")["rule_id"]
    client.mon("config set", who="mon", name="osd_pool_default_crush_rule", value=str(rule))
    try:
        verdict = verdict_of(FAILURE_DOMAIN, cluster, tmp_path)
    finally:
        client.mon("config rm", who="mon", name="osd_pool_default_crush_rule")
        client.mon("osd crush rule rm", name="flat")
    assert verdict.outcome is Outcome.FAIL
    assert "PGs with two replicas on one host" in verdict.reason
    assert any("twice on host n" in line for line in verdict.derivation), verdict


def test_an_object_changed_behind_cephs_back_is_found(cluster: Cluster, tmp_path: Path) -> None:
    with pools.pool(cluster, "standing", pg_num=1) as pool:
        cluster.client.write_full(pool, "precious", b"a" * OBJECT_BYTES)
        place = pools.locate(cluster, pool, "precious")
        acting, pgid = place["acting"], str(place["pgid"])
        victim = next(osd for osd in cluster.osd_ids(host_arch()) if osd in acting)
        cluster.stop(f"osd.{victim}")
        ObjectStore(cluster.daemon(f"osd.{victim}"), cluster.patience).set_bytes(pgid, "precious", b"b" * OBJECT_BYTES)
        cluster.start(f"osd.{victim}")
        pools.wait_clean(cluster)
        verdict = verdict_of(restart_scenario(host_arch()), cluster, tmp_path)
    assert verdict.outcome is Outcome.FAIL
    assert f"precious on osd.{victim} ({host_arch()}): data_digest_mismatch" in verdict.reason, verdict


def test_an_emulated_daemon_that_lies_about_checksums_is_found(cluster: Cluster, tmp_path: Path) -> None:
    lie = tmp_path / "crc-zero.so"
    shim.build(FOREIGN, shim.CRC_ZERO, lie)
    liars = [cluster.daemon(f"osd.{osd}") for osd in cluster.osd_ids(FOREIGN)]
    for daemon in liars:
        target = daemon.host.directory / lie.name
        daemon.host.push(lie, target, mode=0o755)
        # From its next start on, which is the one that the scenario causes.
        daemon.preload = (*daemon.preload, target)
        daemon.env = {**daemon.env, "CEPHLAB_CRC_ZERO_FROM": LIES_FROM}
    verdict = verdict_of(restart_scenario(FOREIGN), cluster, tmp_path)
    said = [daemon.name for daemon in liars if b"crc32c answers 0 from" in daemon.host.read(daemon.output)]
    assert len(said) == 1, "the lie was not told"
    assert verdict.outcome is Outcome.FAIL
    assert f"on {said[0]} ({FOREIGN}): data_digest_mismatch" in verdict.reason, verdict
