"""How a spec's limits become the engine's options, without an engine."""

import json
import os
import resource
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import docker.errors
import pytest
import requests

from cephlab.lab.base.errors import LabBroken, LabError, SpecError, Unavailable
from cephlab.lab.providers.blockdevices import BlockDevices
from cephlab.lab.providers.container import limits, nodes
from cephlab.lab.providers.engine.host import EngineHost
from cephlab.lab.providers.engine.lab import node_from, node_state
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import GIB, MIB, Disk, DiskClass, DiskLimits, Node

FILTER = Path(limits.__file__).with_name("seccomp.json")
FREE = Disk("free")
SLOW = Disk("slow", limits=DiskLimits(write_iops=100))
SLOWER = Disk("slower", limits=DiskLimits(read_bytes_s=MIB))


def test_a_node_without_limits_has_no_options() -> None:
    assert limits.machine_options(Node("n0", Arch.X86_64)) == {}


def test_cores_and_memory_become_options() -> None:
    options = limits.machine_options(Node("n0", Arch.X86_64, cores=0.5, memory_bytes=2 * GIB))
    assert options == {"nano_cpus": 500_000_000, "mem_limit": 2 * GIB, "memswap_limit": 2 * GIB}


def test_podman_as_root_is_given_this_machines_ceilings() -> None:
    assert limits.process_options(podman_as_root=False) == {}
    given = limits.process_options(podman_as_root=True)["ulimits"]
    ceilings = {limit.name: (limit.soft, limit.hard) for limit in given}
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert ceilings["nofile"] == (files, files)
    soft, hard = ceilings["nproc"]
    assert 0 < soft == hard <= int(Path("/proc/sys/kernel/pid_max").read_text())


def test_podman_here_gets_a_filter_of_ours_and_others_keep_their_own() -> None:
    assert limits.system_call_options(podman_here=False) == {}
    (option,) = limits.system_call_options(podman_here=True)["security_opt"]
    assert Path(option.removeprefix("seccomp=")) == FILTER


def test_the_filter_lets_bluestore_wait_and_forbids_what_no_node_needs() -> None:
    described = json.loads(FILTER.read_text())
    assert described["defaultAction"] == "SCMP_ACT_ERRNO"
    asked = [entry for entry in described["syscalls"] if not entry.get("includes")]
    allowed = {name for entry in asked if entry["action"] == "SCMP_ACT_ALLOW" for name in entry["names"]}
    refused = {name for entry in asked if entry["action"] == "SCMP_ACT_ERRNO" for name in entry["names"]}
    assert {"io_setup", "io_submit", "io_getevents", "io_pgetevents", "io_destroy"} <= allowed
    assert {"bpf", "init_module", "kexec_load", "open_by_handle_at", "perf_event_open", "userfaultfd"} <= refused


def test_every_ceiling_of_a_disk_becomes_its_option() -> None:
    ceilings = DiskLimits(read_iops=1, write_iops=2, read_bytes_s=3, write_bytes_s=4)
    assert limits.disk_options({Path("/dev/x"): ceilings}) == {
        "device_read_iops": [{"Path": "/dev/x", "Rate": 1}],
        "device_write_iops": [{"Path": "/dev/x", "Rate": 2}],
        "device_read_bps": [{"Path": "/dev/x", "Rate": 3}],
        "device_write_bps": [{"Path": "/dev/x", "Rate": 4}],
    }


def test_several_devices_share_an_option() -> None:
    options = limits.disk_options(
        {
            Path("/dev/a"): DiskLimits(write_iops=1),
            Path("/dev/b"): DiskLimits(write_iops=2),
            Path("/dev/c"): DiskLimits(),
        }
    )
    assert options == {"device_write_iops": [{"Path": "/dev/a", "Rate": 1}, {"Path": "/dev/b", "Rate": 2}]}


@pytest.mark.parametrize(
    ("disks", "wanted"), [((), False), ((FREE, FREE), False), ((FREE, SLOW), False), ((SLOW, FREE, SLOWER), True)]
)
def test_loop_devices_are_for_several_limited_disks(disks: tuple[Disk, ...], wanted: bool) -> None:
    assert limits.wants_loops(disks) is wanted


def loop_tree(tmp_path: Path, *, used: dict[str, str], free: tuple[str, ...]) -> BlockDevices:
    for name, file in used.items():
        backing = tmp_path / "block" / name / "loop" / "backing_file"
        backing.parent.mkdir(parents=True)
        backing.write_text(file + "\n")
    for name in (*free, "vda"):
        (tmp_path / "block" / name).mkdir(parents=True)
    return BlockDevices(tmp_path)


def test_loop_devices_of_a_volume_are_found_also_when_the_file_is_gone(tmp_path: Path) -> None:
    ours = Path("/volumes/cephlab-a.disks/_data")
    devices = loop_tree(
        tmp_path,
        used={
            "loop0": f"{ours}/d0/block",
            "loop1": "/volumes/cephlab-a.disks2/_data/d0/block",
            "loop2": f"{ours}/d1/block (deleted)",
        },
        free=("loop3", "loop4"),
    )
    assert devices.loops_below(ours) == [Path("/dev/loop0"), Path("/dev/loop2")]
    assert devices.free_loops() == 2


def test_loop_devices_of_others_do_not_stop_a_clean_up(tmp_path: Path) -> None:
    """One may go away while it is looked at, and the name of a file need not be UTF-8."""
    ours = Path("/volumes/cephlab-a.disks/_data")
    devices = loop_tree(tmp_path, used=dict.fromkeys(("loop0", "loop1", "loop2"), f"{ours}/d0/block"), free=())
    (tmp_path / "block/loop0/loop/backing_file").write_bytes(b"/srv/\xff.img\n")
    (tmp_path / "block/loop1/loop/backing_file").unlink()
    (tmp_path / "block/loop1/loop/backing_file").mkdir()  # whose content cannot be read either
    assert devices.loops_below(ours) == [Path("/dev/loop2")]


def mounted(devices: BlockDevices, tmp_path: Path, kind: str) -> BlockDevices:
    """The same devices, with a /dev of that kind."""
    (tmp_path / "mounts").write_text(f"proc /proc proc rw 0 0\nudev {tmp_path} {kind} rw 0 0\n")
    return replace(devices, dev=tmp_path, mounts=tmp_path / "mounts")


def test_loop_devices_that_the_kernel_makes_need_not_be_there(tmp_path: Path) -> None:
    devices = loop_tree(tmp_path, used={}, free=())
    assert not mounted(devices, tmp_path, "devtmpfs").makes_loops()
    (tmp_path / "loop-control").touch()
    assert not mounted(devices, tmp_path, "tmpfs").makes_loops()
    reason = limits.loop_obstacle((SLOW, SLOWER), mounted(devices, tmp_path, "devtmpfs"), local=True)
    assert (reason is None) == (os.geteuid() == 0)


def test_too_few_loop_devices_are_counted(tmp_path: Path) -> None:
    devices = mounted(loop_tree(tmp_path, used={}, free=("loop0",)), tmp_path, "tmpfs")
    reason = limits.loop_obstacle((SLOW, FREE, SLOWER), devices, local=True)
    assert reason is not None
    if os.geteuid() == 0:
        assert "2 loop devices" in reason.what
        assert "free: 1" in reason.detail
    else:
        assert "root" in reason.what


def test_an_engine_elsewhere_has_no_loop_devices_for_us(tmp_path: Path) -> None:
    reason = limits.loop_obstacle((SLOW, SLOWER), loop_tree(tmp_path, used={}, free=("loop0", "loop1")), local=False)
    assert reason is not None
    assert "slow, slower" in reason.what
    assert reason.hint


def device_tree(tmp_path: Path, directory: Path, *, partition: bool) -> BlockDevices:
    number = directory.stat().st_dev
    disk = tmp_path / "devices" / "nvme0n1"
    real = disk / "nvme0n1p2" if partition else disk
    real.mkdir(parents=True)
    if partition:
        (real / "partition").write_text("2\n")
    links = tmp_path / "dev" / "block"
    links.mkdir(parents=True)
    (links / f"{os.major(number)}:{os.minor(number)}").symlink_to(real)
    return BlockDevices(tmp_path)


@pytest.mark.parametrize("partition", [False, True])
def test_the_whole_disk_below_a_folder_is_found(tmp_path: Path, partition: bool) -> None:
    assert device_tree(tmp_path, tmp_path, partition=partition).below(tmp_path) == Path("/dev/nvme0n1")


def test_a_folder_on_no_disk_is_refused_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="block device") as caught:
        BlockDevices(tmp_path).below(tmp_path)
    assert caught.value.hint


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="absent"):
        BlockDevices(tmp_path).below(tmp_path / "absent")


def test_a_node_and_its_disks_survive_being_written_down() -> None:
    disk = Disk("d0", 5 * GIB, DiskClass.NVME, DiskLimits(read_iops=7, write_bytes_s=9))
    node = Node("n0", Arch.AARCH64, (disk,), cores=1.5, memory_bytes=GIB)
    host = cast("EngineHost", SimpleNamespace(node=node, arch=node.arch, address="10.77.0.10", disks={"d0": disk}))
    assert node_from("n0", json.loads(json.dumps(node_state(host)))) == node


@pytest.mark.parametrize(
    ("status", "words", "raised"),
    [
        (409, "Conflict", SpecError),
        (500, "network name cephlab-one already used: network already exists", SpecError),
        (500, "subnet 10.77.1.0/24 is already used on the host or by another config", LabBroken),
    ],
)
def test_only_a_taken_name_is_the_users_mistake(status: int, words: str, raised: type[LabError]) -> None:
    response = requests.Response()
    response.status_code = status
    with pytest.raises(raised, match="network cephlab-one"), nodes.making("network cephlab-one", "one"):
        raise docker.errors.APIError("refused", response=response, explanation=words)
