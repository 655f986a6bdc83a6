"""How people write sizes and settings in a spec file, and that they are read as the numbers they mean."""

import json
from pathlib import Path

import pytest

from cephlab.lab.base.errors import SpecError
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.clusterspec import GIB
from cephlab.lab.spec.specfile import load_spec, spec_from_json, spec_to_json
from cephlab.lab.spec.written import size_bytes, size_text

WRITTEN = f"""
[options]
osd_pool_default_size = 1
mon_allow_pool_size_one = true
mon_osd_full_ratio = 0.9
osd_memory_target = "2147483648"

[[nodes]]
name = "a"
arch = "{host_arch()}"
mon = true
mgr = true
memory_bytes = "4 GiB"
cores = 2

[[nodes.disks]]
name = "d"
size_bytes = "10GiB"
limits = {{ write_bytes_s = "100MiB" }}

[[nodes.osds]]
block = "d"
"""


def test_sizes_have_units_and_settings_may_be_numbers(tmp_path: Path) -> None:
    file = tmp_path / "spec.toml"
    file.write_text(WRITTEN)
    spec = load_spec(file)
    [node] = spec.nodes
    assert (node.memory_bytes, node.cores) == (4 * GIB, 2)
    assert (node.disks[0].size_bytes, node.disks[0].limits.write_bytes_s) == (10 * GIB, 100 << 20)
    assert spec.options == {
        "osd_pool_default_size": "1",
        "mon_allow_pool_size_one": "true",
        "mon_osd_full_ratio": "0.9",
        "osd_memory_target": "2147483648",
    }
    assert spec_from_json(json.loads(json.dumps(spec_to_json(spec)))) == spec


def test_a_table_is_no_setting(tmp_path: Path) -> None:
    file = tmp_path / "spec.toml"
    file.write_text(WRITTEN.replace("mon_osd_full_ratio = 0.9", "mon_osd_full_ratio = [1]"))
    with pytest.raises(SpecError, match=r"options\.mon_osd_full_ratio: text, a number, or true or false"):
        load_spec(file)


@pytest.mark.parametrize(("text", "size"), [("10GiB", 10 * GIB), ("4k", 4096), ("512", 512), ("1.5G", 3 * GIB // 2)])
def test_a_size_is_read(text: str, size: int) -> None:
    assert size_bytes(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "-1GiB", "1 XiB", "ten"])
def test_what_is_no_size_is_none(text: str) -> None:
    assert size_bytes(text) is None


@pytest.mark.parametrize(("size", "text"), [(10 * GIB, "10GiB"), (3 << 29, "1536MiB"), (5, "5"), (0, "0")])
def test_a_size_is_written_by_its_largest_whole_unit(size: int, text: str) -> None:
    assert size_text(size) == text
    assert size_bytes(text) == size
