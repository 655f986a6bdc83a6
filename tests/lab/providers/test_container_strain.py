"""Where a container's control group is, with either version of them, and a network that is slow no longer."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from cephlab.lab.base import process
from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.process import Result
from cephlab.lab.providers.container.host import ContainerHost
from cephlab.lab.providers.container.strain import Group, slow_network


def proc(tmp_path: Path, text: str) -> Path:
    folder = tmp_path / "proc/42"
    folder.mkdir(parents=True)
    (folder / "cgroup").write_text(text)
    return tmp_path / "proc"


def test_version_1_has_a_tree_for_each_controller(tmp_path: Path) -> None:
    there = proc(tmp_path, "7:blkio:/docker/abc\n4:cpu,memory:/docker/abc\n0::/\n")
    group = Group.of(42, "memory", tmp_path / "groups", there)
    assert group == Group(tmp_path / "groups/memory/docker/abc", unified=False)


def test_version_2_has_one(tmp_path: Path) -> None:
    groups = tmp_path / "groups"
    groups.mkdir()
    (groups / "cgroup.controllers").touch()
    there = proc(tmp_path, "0::/system.slice/docker-abc.scope\n")
    assert Group.of(42, "memory", groups, there) == Group(groups / "system.slice/docker-abc.scope", unified=True)


def test_no_group_is_said(tmp_path: Path) -> None:
    with pytest.raises(LabBroken, match="process 42 is in no control group for memory"):
        Group.of(42, "memory", tmp_path / "groups", proc(tmp_path, "7:blkio:/docker/abc\n0::/\n"))


def test_fields_and_refusals(tmp_path: Path) -> None:
    group = Group(tmp_path, unified=True)
    (tmp_path / "memory.stat").write_text("anon 100\nfile 5\n")
    assert group.fields("memory.stat") == {"anon": 100, "file": 5}
    with pytest.raises(LabBroken, match=r"memory\.max"):
        Group(tmp_path / "gone", unified=True).write("memory.max", "5")


NOTHING = "qdisc noqueue 0: root refcnt 2\n"
BUCKET = "qdisc tbf 8001: root refcnt 2 rate 8Mbit burst 4000b lat 1s\n"


@pytest.mark.parametrize(("shown", "removed"), [(NOTHING, 0), (BUCKET, 1)])
def test_a_limit_is_removed_where_there_is_one(monkeypatch: pytest.MonkeyPatch, shown: str, removed: int) -> None:
    """There is none when the fault could not set it, or after the container was started again."""
    asked: list[str] = []

    def run(argv: Sequence[str]) -> Result:
        asked.append(" ".join(argv).partition(" tc ")[2])
        return Result(tuple(argv), 0, shown.encode() if "show" in argv else b"", b"")

    monkeypatch.setattr(process, "run", run)
    slow_network(cast("ContainerHost", SimpleNamespace(first_process=lambda: 42)), None)
    assert asked.count("qdisc del dev eth0 root") == removed
