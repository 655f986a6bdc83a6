"""A spec that is written as a file is the same spec when it is read."""

from dataclasses import replace
from pathlib import Path

import pytest

from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import GIB, ClusterSpec, Disk, DiskClass, DiskLimits, Node, Osd
from cephlab.lab.spec.layout import CephSetup, Daemons, build_spec
from cephlab.lab.spec.specfile import load_spec
from cephlab.lab.spec.specwriter import spec_to_toml

MIXED = build_spec(
    [(Arch.X86_64, 2), (Arch.AARCH64, 1)],
    Daemons(mons=3, osds_per_node=2, separate_db=True),
    CephSetup("reef", options={"osd_pool_default_size": "2", "mon_lease": 'a "b" \\ c'}),
)
ODD = Node(
    "odd",
    Arch.AARCH64,
    (
        Disk(
            "slow",
            size_bytes=3 * GIB // 2 + 1,
            device_class=DiskClass.HDD,
            limits=DiskLimits(read_iops=5, write_bytes_s=1 << 20),
        ),
        Disk("quick", in_memory=True),
    ),
    (Osd("slow", db="quick"),),
    mon=True,
    mgr=True,
    cores=1.5,
    memory_bytes=4 * GIB,
    page_bytes=64 << 10,
    services=("rgw", "rgw.b"),
)


@pytest.mark.parametrize(
    "spec",
    [MIXED, ClusterSpec((ODD,)), replace(ClusterSpec((ODD,)), release="unknown", image="example/ceph:1")],
    ids=["mixed", "odd", "pulled"],
)
def test_what_is_written_is_read_again(spec: ClusterSpec, tmp_path: Path) -> None:
    file = tmp_path / "spec.toml"
    file.write_text(spec_to_toml(spec))
    assert load_spec(file) == spec


def test_sizes_are_written_with_units() -> None:
    text = spec_to_toml(MIXED)
    assert 'size_bytes = "10GiB"' in text
    assert "limits" not in text
