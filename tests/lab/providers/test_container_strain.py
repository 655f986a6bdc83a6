"""Where a container's control group is, with either version of them."""

from pathlib import Path

import pytest

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.providers.container.strain import Group


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
