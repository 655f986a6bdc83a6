"""Used disks are refused by name, and a wipe is believed only when every byte was read back."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from cephlab.lab.base import process
from cephlab.lab.base.errors import CommandFailed, LabBroken
from cephlab.lab.base.process import Result
from cephlab.lab.ceph.disks import DiskInUse, label_of, parse_label, refuse_used, require_zero, wipe
from cephlab.lab.providers.host import Host

SHOWN = """inferring bluefs devices from bluestore path
{
    "/dev/used": {
        "osd_uuid": "0a1b",
        "size": 1048576,
        "btime": "2024-01-01T00:00:00.000000+0000",
        "description": "main",
        "ceph_fsid": "5f0c",
        "whoami": "7"
    }
}
"""
DB = '{"/dev/db": {"osd_uuid": "0a1b", "size": 1, "btime": "", "description": "bluefs db"}}'
SIZE = 1 << 20


@dataclass
class DiskHost:
    """Disks are files of this machine; Ceph's tool says what it is told to."""

    folder: Path
    shown: str = SHOWN
    name: str = "n7"
    asked: list[Sequence[str]] = field(default_factory=list)

    def disk(self, name: str) -> PurePosixPath:
        return PurePosixPath(self.folder / name)

    def run(self, argv: Sequence[str], *, check: bool = True, **_options: Any) -> Result:
        self.asked.append(argv)
        if argv[0] == "ceph-bluestore-tool":
            return Result(tuple(argv), 0, self.shown.encode(), b"")
        return process.run(argv, check=check)


@pytest.fixture
def host(tmp_path: Path) -> DiskHost:
    (tmp_path / "used").write_bytes(b"bluestore block device\n0a1b\n" + bytes(SIZE - 28))
    (tmp_path / "blank").write_bytes(bytes(SIZE))
    (tmp_path / "other").write_bytes(b"\0" * 1024 + b"xfs" + bytes(SIZE - 1027))
    return DiskHost(tmp_path)


def seen(host: DiskHost) -> Host:
    return host  # type: ignore[return-value]


def test_a_used_disk_is_refused_with_its_owner(host: DiskHost) -> None:
    with pytest.raises(DiskInUse) as caught:
        refuse_used(seen(host), ["blank", "used"])
    assert caught.value.what == "disk used in n7 contains data: main of osd.7 of cluster 5f0c, OSD uuid 0a1b"


def test_a_blank_disk_is_taken_and_ceph_is_not_asked(host: DiskHost) -> None:
    refuse_used(seen(host), ["blank"])
    assert label_of(seen(host), "blank") is None
    assert not [argv for argv in host.asked if argv[0] == "ceph-bluestore-tool"]


def test_data_that_is_no_osds_is_refused_too(host: DiskHost) -> None:
    with pytest.raises(DiskInUse, match="data that is no OSD's"):
        refuse_used(seen(host), ["other"])


def test_a_db_device_names_only_its_osds_uuid() -> None:
    assert str(parse_label(DB)) == "bluefs db of an OSD, OSD uuid 0a1b"


@pytest.mark.slow
def test_a_wipe_reads_all_of_it_back(host: DiskHost) -> None:
    assert wipe(seen(host), "used") == SIZE
    assert (host.folder / "used").read_bytes() == bytes(SIZE)
    assert ["cmp", f"--bytes={SIZE}"] == list(host.asked[-1][:2])


@pytest.mark.parametrize("offset", [0, SIZE // 2, SIZE - 1])
def test_a_byte_that_was_left_is_found_wherever_it_is(host: DiskHost, offset: int) -> None:
    with (host.folder / "blank").open("r+b") as disk:
        disk.seek(offset)
        disk.write(b"x")
    with pytest.raises(LabBroken, match="disk blank in n7 is not empty") as caught:
        require_zero(seen(host), "blank", SIZE)
    assert f"byte {offset + 1}," in caught.value.detail


def test_a_disk_that_is_shorter_than_it_was_is_no_wiped_disk(host: DiskHost) -> None:
    with pytest.raises(LabBroken, match="is not empty"):
        require_zero(seen(host), "blank", SIZE + 1)


def test_a_disk_that_cannot_be_read_is_trouble(host: DiskHost) -> None:
    with pytest.raises(CommandFailed):
        refuse_used(seen(host), ["absent"])
