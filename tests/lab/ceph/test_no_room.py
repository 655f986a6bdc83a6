"""A daemon that dies where the disk is full is the lab's trouble; else it is Ceph's."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, ClassVar, cast

import pytest

from cephlab.lab.base.errors import CommandFailed, DaemonDied, DiskFull, LabBroken
from cephlab.lab.base.process import Result
from cephlab.lab.ceph.daemon import FULL_BYTES, Daemon, Wanted
from cephlab.lab.providers.host import Host

ROOMY, LEFT = 1 << 40, 5 << 20


@dataclass
class Node:
    """A node with the file systems that df shows. asked: the paths that df was given."""

    rooms: Mapping[str, object]
    name: str = "n0"
    asked: list[str] = field(default_factory=list)
    directory: ClassVar = PurePosixPath("/run/n0")

    def disk(self, name: str) -> PurePosixPath:
        return PurePosixPath(f"/disks/{name}")

    def exists(self, _path: object) -> bool:
        return False

    def run(self, argv: list[str], *, timeout_s: float) -> Result:
        if argv[0] == "find":
            return Result(tuple(argv), 0, b"", b"")
        assert argv[:3] == ["df", "-B1", "--output=avail,target"]
        self.asked = argv[3:]
        if not self.rooms:
            raise CommandFailed(argv, 1, "", "df: no such file", self.name)
        rows = "".join(f"{free} {at}\n" for at, free in self.rooms.items())
        return Result(tuple(argv), 0, f"Avail Mounted on\n{rows}".encode(), b"")


def osd(node: Node) -> Daemon:
    return Daemon("osd.0", cast("Host", node), ("ceph-osd",), wanted=Wanted.RUNNING, disks=("block", "db"))


@pytest.mark.parametrize("rooms", [{"/": LEFT, "/data": ROOMY}, {"/": ROOMY, "/my data": 0}])
def test_a_daemon_that_dies_without_room_is_trouble_of_the_lab(rooms: dict[str, int]) -> None:
    with pytest.raises(
        DiskFull, match=r"osd\.0 on n0 died for an unknown reason, and the disk below it is full"
    ) as end:
        osd(Node(rooms)).check()
    at, free = min(rooms.items(), key=lambda room: room[1])
    assert end.value.exit_code == LabBroken.exit_code == 3
    assert end.value.detail.startswith(f"{at} has {free >> 20} MiB left\ncommand: ceph-osd")
    assert "CEPHLAB_HOME" in end.value.hint


@pytest.mark.parametrize("rooms", [{"/": ROOMY}, {"/": FULL_BYTES, "/dev": 0}, {}, {"/": "-"}], ids=str)
def test_a_daemon_that_dies_with_room_or_where_it_is_not_known_is_trouble_of_ceph(rooms: dict[str, Any]) -> None:
    with pytest.raises(DaemonDied) as end:
        osd(Node(rooms)).check()
    assert end.value.exit_code == 1


def test_its_own_folder_and_all_its_disks_are_looked_at() -> None:
    node = Node({"/": ROOMY})
    with pytest.raises(DaemonDied):
        osd(node).check()
    assert node.asked == ["/run/n0", "/disks/block", "/disks/db"]
