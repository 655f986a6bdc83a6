"""What a spec refuses before anything is started."""

import pytest

from cephlab.lab.base.errors import SpecError
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import GIB, ClusterSpec, Disk, Node, Osd
from cephlab.lab.spec.layout import Daemons, build_spec, with_gateways


def spec(node: str = "n0", disk: str = "n0-block0", size: int = 1 << 30, **options: str) -> ClusterSpec:
    made = Node(node, Arch.X86_64, (Disk(disk, size),), (Osd(disk),), mon=True, mgr=True)
    return ClusterSpec((made,), options={key.replace("_", " "): value for key, value in options.items()})


def test_ordinary_names_are_taken() -> None:
    assert spec("rack1_A-2", "nvme0").nodes[0].name == "rack1_A-2"


@pytest.mark.parametrize("name", ["", "/dev/sda", "../n0", "a/b", "a b", "-n0", "n.0", "x" * 61])
def test_a_path_is_no_name(name: str) -> None:
    with pytest.raises(SpecError, match="is not a valid name for a disk"):
        spec(disk=name)
    with pytest.raises(SpecError, match="is not a valid name for a node"):
        spec(node=name)


@pytest.mark.parametrize("size", [0, -5])
def test_a_disk_has_a_size(size: int) -> None:
    with pytest.raises(SpecError, match="has no size"):
        spec(size=size)


def test_replicas_are_counted_however_ceph_spells_the_option() -> None:
    with pytest.raises(SpecError, match="2 replicas need 2 hosts"):
        spec(osd_pool_default_size="2")


def test_a_number_of_replicas_that_python_does_not_read_is_no_traceback() -> None:
    with pytest.raises(SpecError, match=r"9 replicas need 9+ hosts"):
        spec(osd_pool_default_size="9" * 5000)
    assert spec(osd_pool_default_size="\u00b2").osd_count == 1, "an image refuses it"


@pytest.mark.parametrize("disk_bytes", [GIB, 10 * GIB, 100 * GIB])
def test_a_separate_db_holds_rocksdbs_logs_and_its_tables_beside(disk_bytes: int) -> None:
    [node] = build_spec([(Arch.X86_64, 1)], Daemons(disk_bytes=disk_bytes, separate_db=True)).nodes
    db = next(disk for disk in node.disks if disk.name == node.osds[0].db)
    assert db.size_bytes >= max(2 * GIB, disk_bytes // 10)


def test_gateways_take_turns_over_architectures_and_nodes_without_osds_get_none() -> None:
    spec = build_spec([(Arch.X86_64, 2), (Arch.AARCH64, 1)], bare=(Arch.X86_64,))
    services = [[node.services for node in with_gateways(spec, count, balancer=True).nodes] for count in (1, 2, 3, 5)]
    assert services == [
        [("rgw", "haproxy"), (), (), ()],
        [("rgw", "haproxy"), (), ("rgw",), ()],
        [("rgw", "haproxy"), ("rgw",), ("rgw",), ()],
        [("rgw", "rgw.b", "haproxy"), ("rgw",), ("rgw", "rgw.b"), ()],
    ]
