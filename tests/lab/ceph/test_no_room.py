"""A daemon or tool that ends where the disk is full is the lab's trouble; else it is Ceph's."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, ClassVar, cast

import pytest

from cephlab.lab.base.errors import CephTrouble, CommandFailed, DaemonDied, DiskFull, LabBroken, LabError
from cephlab.lab.base.process import Result
from cephlab.lab.ceph.daemon import Daemon, Wanted
from cephlab.lab.ceph.offline import FULL_BYTES, run_tool
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

    def up(self) -> bool:
        return True

    def run(self, argv: list[str], *, timeout_s: float, **_: object) -> Result:
        if argv[0] == "find":
            return Result(tuple(argv), 0, b"", b"")
        if argv[0] == "ceph-osd":
            raise CommandFailed(argv, 250, "", "(28) No space left on device", self.name)
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


@pytest.mark.parametrize(("free_bytes", "kind"), [(LEFT, DiskFull), (ROOMY, CephTrouble)], ids=["full", "roomy"])
def test_a_tool_that_fails_without_room_is_trouble_of_the_lab(free_bytes: int, kind: type[LabError]) -> None:
    with pytest.raises(LabError, match="ceph-osd ended with status 250 on n0") as end:
        run_tool(cast("Host", Node({"/data": free_bytes})), ["ceph-osd", "--mkfs"], timeout_s=1)
    assert type(end.value) is kind
    assert ("/data has 5 MiB left" in end.value.detail) == (kind is DiskFull)
    assert "No space left on device" in end.value.detail
