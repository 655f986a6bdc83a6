"""An OSD's disk behind dm-delay: the order of steps, the tables, and that the disk is given back after an error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, cast

import pytest

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.process import Result
from cephlab.lab.blockstack.slowosd import slow_disk
from cephlab.lab.cluster.cluster import Cluster

SECTORS = 2048
NODE = PurePosixPath("/node")


@dataclass
class FakeHost:
    """Notes what it is asked, as one line each. refused: the start of a command that fails."""

    said: list[str]
    refused: str
    directory: PurePosixPath = NODE

    def disk(self, name: str) -> PurePosixPath:
        return PurePosixPath("/dev") / name

    def run(self, argv: Sequence[str], **_more: Any) -> Result:
        self.said.append(" ".join(argv))
        if self.refused and self.said[-1].startswith(self.refused):
            raise LabBroken("refused")
        return Result(tuple(argv), 0, str(SECTORS).encode() if argv[0] == "blockdev" else b"0 1 linear x", b"")


@dataclass
class FakeCluster:
    """One OSD; it is the daemon too."""

    said: list[str] = field(default_factory=list)
    up: bool = True
    name: str = "osd.3"
    disks: tuple[str, ...] = ("slow",)
    refused: str = ""

    @property
    def host(self) -> FakeHost:
        return FakeHost(self.said, self.refused)

    def daemon(self, _name: str) -> FakeCluster:
        return self

    def alive(self) -> bool:
        return self.up

    def stop(self, name: str) -> None:
        self.said.append(f"stop {name}")
        self.up = False

    def start(self, name: str) -> None:
        self.said.append(f"start {name}")
        self.up = True

    def wait(self, _ready: object, *, what: str) -> None:
        self.said.append(what)


def steps(cluster: FakeCluster) -> list[str]:
    """Without what only asks or prepares."""
    return [line for line in cluster.said if line.split()[0] in {"stop", "start", "ln"} or " --table " in line]


def test_the_osd_is_off_while_its_disk_is_exchanged_and_slow_only_when_it_should_be() -> None:
    cluster = FakeCluster()
    with slow_disk(cast("Cluster", cluster), 3, 10) as disk:
        disk.impose()
        disk.impose(slow=False)
    flags = "--noudevsync --noudevrules --table"
    assert steps(cluster) == [
        "stop osd.3",
        f"dmsetup create slow-osd3 {flags} 0 {SECTORS} linear /dev/slow 0",
        "ln -sfn /dev/mapper/slow-osd3 /node/osd.3/block",
        "start osd.3",
        f"dmsetup load slow-osd3 {flags} 0 {SECTORS} delay /dev/slow 0 10 /dev/slow 0 10 /dev/slow 0 0",
        f"dmsetup load slow-osd3 {flags} 0 {SECTORS} linear /dev/slow 0",
        "stop osd.3",
        "ln -sfn /dev/slow /node/osd.3/block",
        "start osd.3",
    ]


def break_down(cluster: FakeCluster) -> None:
    with slow_disk(cast("Cluster", cluster), 3, 10):
        cluster.up = False
        raise LabBroken("away")


def test_the_osd_starts_again_on_its_disk_when_no_device_can_be_made() -> None:
    cluster = FakeCluster(refused="dmsetup create")
    with pytest.raises(LabBroken, match="refused"):
        break_down(cluster)
    assert steps(cluster)[-2:] == ["ln -sfn /dev/slow /node/osd.3/block", "start osd.3"]
    assert not any(line.startswith("dmsetup remove") for line in cluster.said)


def test_the_disk_is_given_back_when_the_block_breaks_and_the_osd_is_dead() -> None:
    cluster = FakeCluster()
    with pytest.raises(LabBroken, match="away"):
        break_down(cluster)
    assert cluster.said[-3:] == ["ln -sfn /dev/slow /node/osd.3/block", "start osd.3", "osd.3 up again"]
    assert any(line.startswith("dmsetup remove") for line in cluster.said)
