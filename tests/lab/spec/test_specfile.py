"""A spec file is refused with its name, the key that does not fit, and a remedy that is one for a file."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from cephlab.lab.base.errors import SpecError
from cephlab.lab.spec.clusterspec import (
    DEFAULT_RELEASE,
    MIN_DISK_BYTES,
    UNKNOWN_RELEASE,
    ClusterSpec,
    Disk,
    DiskLimits,
    Node,
    Osd,
)
from cephlab.lab.spec.specfile import load_spec

DISK = '[[nodes.disks]]\nname = "d0"\n'
OSD = '[[nodes.osds]]\nblock = "d0"\n'


def node(name: str = "n0", roles: str = "mon = true\nmgr = true\n") -> str:
    return f'[[nodes]]\nname = "{name}"\narch = "x86_64"\n{roles}'


def written(folder: Path, text: str) -> Path:
    path = folder / "cluster.toml"
    path.write_text(text)
    return path


def refused(folder: Path, text: str) -> SpecError:
    with pytest.raises(SpecError) as error:
        load_spec(written(folder, text))
    return error.value


@pytest.mark.parametrize(
    ("text", "key", "hint"),
    [
        ("nodes = []\n", "nodes", "[[nodes]]"),
        (node("../n0"), "nodes.0.name", "another name"),
        (node() + node("n0", ""), "nodes.1.name", "another name"),
        (node() + '[[nodes.disks]]\nname = "a/b"\n', "nodes.0.disks.0.name", "another name"),
        (node() + DISK + DISK, "nodes.0.disks.1.name", "another name"),
        (node() + DISK + "size_bytes = 0\n", "nodes.0.disks.0.size_bytes", "leave it out"),
        (node() + DISK + f"size_bytes = {MIN_DISK_BYTES - 1}\n", "nodes.0.disks.0.size_bytes", "leave it out"),
        (node("n0", "mgr = true\n"), "nodes.*.mon", "`mon = true`"),
        (node("n0", "mon = true\n"), "nodes.*.mgr", "`mgr = true`"),
        (node() + OSD, "nodes.0.osds.0.block", "add the disk to the node"),
        (node() + DISK + OSD + 'db = "d1"\n', "nodes.0.osds.0.db", "add the disk to the node"),
        (node() + DISK + OSD + 'wal = "d0"\n', "nodes.0.osds.0.wal", "another name"),
        (
            '[options]\nosd_pool_default_size = "2"\n' + node() + DISK + OSD,
            "options.osd_pool_default_size",
            "ask for more nodes",
        ),
        (node("n0", "memory = 3\n"), "nodes.0.memory", "docs/reference/files.md"),
    ],
)
def test_what_does_not_fit_is_named_by_file_and_key(tmp_path: Path, text: str, key: str, hint: str) -> None:
    error = refused(tmp_path, text)
    assert str(tmp_path / "cluster.toml") in error.what
    assert error.detail.startswith(f"{key}: ")
    assert hint in error.hint
    assert "--" not in str(error), "--spec refuses other options beside it"


def test_a_disk_of_the_least_size_is_taken(tmp_path: Path) -> None:
    spec = load_spec(written(tmp_path, node() + DISK + f"size_bytes = {MIN_DISK_BYTES}\n" + OSD))
    assert spec.nodes[0].disks[0].size_bytes == MIN_DISK_BYTES
    assert spec.release == DEFAULT_RELEASE


def test_a_pulled_image_says_its_release_itself(tmp_path: Path) -> None:
    image = 'image = "some/ceph:1"\n'
    assert load_spec(written(tmp_path, image + node() + DISK + OSD)).release == UNKNOWN_RELEASE
    error = refused(tmp_path, 'release = "reef"\n' + image + node())
    assert "release and image cannot be given together" in error.what
    assert "release: got 'reef'; image: got 'some/ceph:1'" in error.detail


def test_what_is_no_text_is_no_toml(tmp_path: Path) -> None:
    path = tmp_path / "cluster.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(SpecError, match=r"cluster\.toml cannot be read") as error:
        load_spec(path)
    assert error.value.detail == "it is not text: byte 0xff at position 0 is not UTF-8"


def test_a_file_that_is_no_text_has_no_line_to_mend(tmp_path: Path) -> None:
    (tmp_path / "cluster.toml").write_bytes(b"\x7fELF\xff")
    with pytest.raises(SpecError, match=r"cluster\.toml cannot be read") as error:
        load_spec(tmp_path / "cluster.toml")
    assert "it is not text" in error.value.detail
    assert "line" not in error.value.hint


def test_a_table_in_place_of_a_list_of_tables_is_told_as_toml_writes_it(tmp_path: Path) -> None:
    error = refused(tmp_path, '[nodes.n0]\narch = "x86_64"\n')
    assert error.detail == "nodes: got a table, wanted: a list of tables, each under [[nodes]]"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("nodes = [[]]\n", "nodes.0: got a list, wanted: a table"),
        ("release = { a = 1 }\n" + node(), "release: got a table, wanted: text"),
        (node("n0", "mon = []\n"), "nodes.0.mon: got a list, wanted: true or false"),
    ],
)
def test_a_list_or_table_in_place_of_a_value_is_told_as_what_it_is(tmp_path: Path, text: str, line: str) -> None:
    assert line in refused(tmp_path, text).detail.splitlines()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (node() + DISK + "size_byte = 1\n", "nodes.0.disks.0.size_byte: unknown key; did you mean size_bytes?"),
        (node("n0", "memory = 3\n"), "nodes.0.memory: unknown key; did you mean memory_bytes?"),
        (
            node() + DISK + "limits = { write_iop = 1 }\n",
            "nodes.0.disks.0.limits.write_iop: unknown key; did you mean write_iops?",
        ),
        ("relase = 'reef'\n" + node(), "relase: unknown key; did you mean release?"),
        ("noodles = 3\n" + node("n0", "noodles = 3\n"), "noodles: unknown key; did you mean nodes?"),
        (
            node() + DISK + "limits = { colour = 1 }\n",
            "nodes.0.disks.0.limits.colour: unknown key; known: read_bytes_s, read_iops, write_bytes_s, write_iops",
        ),
    ],
)
def test_an_unknown_key_is_told_with_the_nearest_of_its_table(tmp_path: Path, text: str, line: str) -> None:
    assert line in refused(tmp_path, text).detail.splitlines()


def test_the_page_that_the_hint_names_shows_every_key_of_a_spec_that_fits(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs/reference/files.md").read_text()
    example = page.partition("## Cluster spec")[2].partition("```toml\n")[2].partition("```")[0]
    assert load_spec(written(tmp_path, example)).osd_count == 1
    keys = {field.name for table in (ClusterSpec, Node, Disk, DiskLimits, Osd) for field in fields(table)}
    assert [key for key in sorted(keys) if not re.search(rf"\b{key}\b", example)] == []
