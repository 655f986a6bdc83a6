"""How much memory a lab may count on where a control group of either version allows less than the machine has."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from cephlab.lab.base.errors import SpecError, Unavailable
from cephlab.lab.cluster import preflight
from cephlab.lab.cluster.preflight import Memory, available_on, memory, require_fit, require_guests_fit
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.clusterspec import GIB
from cephlab.lab.spec.layout import build_spec

MIB = 1 << 20


def fake_proc(folder: Path, cgroup: str, mount: str) -> Path:
    proc = folder / "proc"
    proc.mkdir()
    (proc / "cgroup").write_text(cgroup)
    lines = ["23 1 0:5 / / rw - ext4 /dev/vda rw", "31 23 0:28 / /sys/fs/cgroup rw shared:4 - tmpfs tmpfs rw", mount]
    (proc / "mountinfo").write_text("\n".join(lines) + "\n")
    return proc


def version_1(folder: Path, group: str, *, limit: int, used: int, files: int) -> None:
    path = folder / "memory" / group
    path.mkdir(parents=True, exist_ok=True)
    (path / "memory.limit_in_bytes").write_text(f"{limit}\n")
    (path / "memory.usage_in_bytes").write_text(f"{used}\n")
    (path / "memory.stat").write_text(f"cache 7\ninactive_file 1\ntotal_inactive_file {files}\n")


def version_2(folder: Path, group: str, *, limit: int | None, used: int, files: int) -> None:
    path = folder / "unified" / group
    path.mkdir(parents=True, exist_ok=True)
    (path / "memory.max").write_text("max\n" if limit is None else f"{limit}\n")
    (path / "memory.current").write_text(f"{used}\n")
    (path / "memory.stat").write_text(f"anon 5\ninactive_file {files}\n")


def test_a_limit_of_version_1_counts_and_what_the_kernel_can_drop_is_free(tmp_path: Path) -> None:
    version_1(tmp_path, "", limit=9223372036854771712, used=9 * GIB, files=0)
    version_1(tmp_path, "lab", limit=600 * MIB, used=400 * MIB, files=100 * MIB)
    mount = f"35 31 0:32 / {tmp_path}/memory rw - cgroup cgroup rw,memory"
    available = memory(fake_proc(tmp_path, "9:cpu:/\n4:memory:/lab\n0::/\n", mount))
    assert available == Memory(600 * MIB, 300 * MIB, f"{tmp_path}/memory/lab")


def test_the_tightest_of_nested_groups_of_version_2_counts(tmp_path: Path) -> None:
    version_2(tmp_path, "user", limit=500 * MIB, used=450 * MIB, files=0)
    version_2(tmp_path, "user/inner", limit=400 * MIB, used=100 * MIB, files=0)
    version_2(tmp_path, "user/inner/most", limit=None, used=100 * MIB, files=0)
    mount = f"41 31 0:38 / {tmp_path}/unified rw - cgroup2 cgroup2 rw"
    available = memory(fake_proc(tmp_path, "0::/user/inner/most\n", mount))
    assert available == Memory(400 * MIB, 50 * MIB, f"{tmp_path}/unified/user")


@pytest.mark.parametrize("path", ["/docker/abc", "/docker/abc/inside", "/", "/../elsewhere"])
def test_a_mount_that_begins_at_the_containers_own_group_is_understood(tmp_path: Path, path: str) -> None:
    version_1(tmp_path, "", limit=300 * MIB, used=0, files=0)
    mount = f"35 31 0:32 /docker/abc {tmp_path}/memory rw - cgroup cgroup rw,memory"
    assert memory(fake_proc(tmp_path, f"4:memory:{path}\n", mount)).total_bytes == 300 * MIB


def test_a_mount_without_a_source_is_passed_over(tmp_path: Path) -> None:
    """`mount -t tmpfs "" /mnt` makes one: nothing is between its type and its options."""
    version_2(tmp_path, "", limit=300 * MIB, used=0, files=0)
    mounts = f"40 31 0:37 / /mnt rw - tmpfs  rw\n41 31 0:38 / {tmp_path}/unified rw - cgroup2  rw,nsdelegate"
    assert memory(fake_proc(tmp_path, "0::/\n", mounts)).total_bytes == 300 * MIB


def test_without_a_limit_it_is_the_machines(tmp_path: Path) -> None:
    version_2(tmp_path, "", limit=None, used=0, files=0)
    mount = f"41 31 0:38 / {tmp_path}/unified rw - cgroup2 cgroup2 rw"
    available = memory(fake_proc(tmp_path, "0::/\n", mount))
    assert (available.total_bytes, available.where) == (psutil.virtual_memory().total, "")


def test_a_cluster_that_a_group_has_no_memory_for_is_refused_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tight = Memory(GIB, GIB // 2, "/sys/fs/cgroup/small")
    monkeypatch.setattr(preflight, "memory", lambda: tight)
    spec = build_spec([(host_arch(), 3)])
    with pytest.raises(SpecError, match=r"available 0\.5 GiB in the control group /sys/fs/cgroup/small"):
        require_fit(spec, tmp_path)
    monkeypatch.setattr(preflight, "memory", lambda: replace(tight, available_bytes=64 * GIB))
    assert require_fit(spec, tmp_path).osd_memory_target < GIB


def test_what_is_available_elsewhere_is_asked_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "memory", lambda: Memory(8 * GIB, 2 * GIB))
    meminfo = "MemTotal:       16000000 kB\nMemFree:   1 kB\nMemAvailable:    5000000 kB\n"
    answers = {"cat /proc/meminfo": SimpleNamespace(stdout=meminfo)}
    there: Any = SimpleNamespace(run=lambda argv, **_: answers[" ".join(argv)])
    here: Any = SimpleNamespace(files_here=True)
    assert [available_on(there), available_on(here)] == [5000000 << 10, 2 * GIB]


def test_guests_whose_memory_is_given_must_fit_and_others_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "memory", lambda: Memory(8 * GIB, 2 * GIB))
    spec = build_spec([(host_arch(), 3)])
    require_guests_fit(spec)
    first, *others = spec.nodes
    large = replace(spec, nodes=(replace(first, memory_bytes=3 * GIB), *others))
    with pytest.raises(Unavailable, match="3 guests do not fit into this machine's memory") as refused:
        require_guests_fit(large)
    assert "needed 3.0 GiB, available 2.0 GiB" in refused.value.detail
