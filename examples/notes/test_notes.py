"""Tests of the notes on a real Ceph: two x86_64 nodes and an aarch64 one, shared by all of these tests."""

from urllib.error import HTTPError

import pytest
from notes import Notes

from cephlab import CephCluster

pytestmark = pytest.mark.ceph(nodes="x86_64:2,aarch64:1")


def test_a_note_is_read_as_it_was_written(ceph_cluster: CephCluster) -> None:
    s3 = ceph_cluster.s3
    notes = Notes(s3.endpoint, s3.access_key, s3.secret_key)
    notes.write("shopping", "bread, käse")
    assert notes.read("shopping") == "bread, käse"
    with pytest.raises(HTTPError, match="404"):
        notes.read("never-written")


def test_an_object_is_read_while_the_other_architecture_is_down(ceph_cluster: CephCluster) -> None:
    ceph_cluster.ceph("osd", "pool", "create", "safe", "8")
    ceph_cluster.ceph("osd", "pool", "application", "enable", "safe", "notes")
    ceph_cluster.run("rados", "-p", "safe", "put", "object", "-", stdin=b"kept three times")
    [foreign] = [osd["id"] for osd in ceph_cluster.ceph("osd", "metadata") if osd["arch"] == "aarch64"]
    ceph_cluster.cluster.kill(f"osd.{foreign}")
    assert ceph_cluster.run("rados", "-p", "safe", "get", "object", "-") == "kept three times"
    ceph_cluster.cluster.start(f"osd.{foreign}")
    ceph_cluster.cluster.wait_healthy()


def test_any_client_of_this_machine_finds_the_cluster(ceph_cluster: CephCluster) -> None:
    fsid = ceph_cluster.ceph("status")["fsid"]
    assert f"fsid = {fsid}" in ceph_cluster.conf.read_text()
    assert "[client.admin]" in ceph_cluster.keyring.read_text()
