"""A node's limits as options for the engine: CPUs, memory, and disk limits tied to the right block device."""

import os
import resource
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import docker.types

from cephlab.lab.base import process
from cephlab.lab.base.errors import Unavailable
from cephlab.lab.providers.blockdevices import BlockDevices, limited
from cephlab.lab.spec.clusterspec import Disk, DiskLimits, Node

_DISK_OPTIONS = {
    "read_iops": "device_read_iops",
    "write_iops": "device_write_iops",
    "read_bytes_s": "device_read_bps",
    "write_bytes_s": "device_write_bps",
}
_MOST_PROCESSES = Path("/proc/sys/kernel/pid_max")
_SYSTEM_CALLS = Path(__file__).with_name("seccomp.json")


def machine_options(node: Node) -> dict[str, Any]:
    """CPU and memory limits, in the docker library's names. No swap beyond the memory."""
    options: dict[str, Any] = {}
    if node.cores is not None:
        options["nano_cpus"] = round(node.cores * 1e9)
    if node.memory_bytes is not None:
        options["mem_limit"] = node.memory_bytes
        options["memswap_limit"] = node.memory_bytes
    return options


def process_options(*, podman_as_root: bool) -> dict[str, Any]:
    """Limits on open files and processes, in the docker library's names: this machine's own for Podman as root.

    Podman raises both for each container, which the kernel refuses without CAP_SYS_RESOURCE. Other engines use the
    limits of their own process.
    """
    if not podman_as_root:
        return {}
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    processes = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    ceiling = int(_MOST_PROCESSES.read_text())  # Podman uses this if it is smaller
    processes = ceiling if processes == resource.RLIM_INFINITY else min(processes, ceiling)
    return {
        "ulimits": [
            docker.types.Ulimit(name=name, soft=limit, hard=limit)
            for name, limit in (("nofile", files), ("nproc", processes))
        ]
    }


def system_call_options(*, podman_here: bool) -> dict[str, Any]:
    """A system call filter for Podman on this machine: the default of Podman 4.3, plus io_pgetevents.

    The default forbids that call, so BlueStore aborts. Docker allows it, and later versions of Podman may. The filter
    must be a file on the engine's machine.
    """
    return {"security_opt": [f"seccomp={_SYSTEM_CALLS}"]} if podman_here else {}


def disk_options(limits: Mapping[Path, DiskLimits]) -> dict[str, Any]:
    """Limits by block device, in the docker library's names."""
    options: dict[str, Any] = {}
    for device, ceiling in limits.items():
        for field, option in _DISK_OPTIONS.items():
            rate = getattr(ceiling, field)
            if rate is not None:
                options.setdefault(option, []).append({"Path": str(device), "Rate": rate})
    return options


def wants_loops(disks: Iterable[Disk]) -> bool:
    """Whether each limited disk needs a loop device: limits are per block device, and all volumes share one."""
    return len(limited(disks)) > 1


def attach_loop(file: Path, size_bytes: int) -> Path:
    """Make a sparse file and a loop device on it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as sink:
        sink.truncate(size_bytes)
    result = process.run(("losetup", "--find", "--show", str(file)))
    return Path(result.stdout.strip())


def detach_loop(device: str) -> None:
    """Undo `attach_loop`."""
    process.run(("losetup", "--detach", device))


def loop_obstacle(disks: Sequence[Disk], devices: BlockDevices, *, local: bool) -> Unavailable | None:
    """Why a node cannot have several limited disks here, or None."""
    needed = len(limited(disks))
    names = ", ".join(disk.name for disk in limited(disks))
    hint = "limit only one disk of the node, or run as root on the engine's machine"
    if not local:
        return Unavailable(f"limits on {names} need loop devices, and the engine is on another machine", hint=hint)
    if os.geteuid() != 0:
        return Unavailable(f"limits on {names} need loop devices, which only root can make", hint=hint)
    if devices.free_loops() < needed and not devices.makes_loops():
        return Unavailable(
            f"limits on {names} need {needed} loop devices",
            f"free: {devices.free_loops()}",
            "free some (`losetup -a`, `cephlab prune`), or limit only one disk of the node",
        )
    return None
