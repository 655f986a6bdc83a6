"""What a node may use: CPUs and memory from its spec, and disk limits tied to the right block device."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import docker.types

from cephlab.lab.base import process
from cephlab.lab.base.errors import LabError, Unavailable
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
    """CPU and memory limits, as the engine's library names them. No swap beyond the memory."""
    options: dict[str, Any] = {}
    if node.cores is not None:
        options["nano_cpus"] = round(node.cores * 1e9)
    if node.memory_bytes is not None:
        options["mem_limit"] = node.memory_bytes
        options["memswap_limit"] = node.memory_bytes
    return options


def process_options(*, podman_as_root: bool) -> dict[str, Any]:
    """Open files and processes, as the engine's library names them: this machine's where Podman runs as its root.

    Podman raises both for every container, which the kernel refuses a root without CAP_SYS_RESOURCE; other engines
    hand on their own.
    """
    if not podman_as_root:
        return {}
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    processes = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    ceiling = int(_MOST_PROCESSES.read_text())  # Podman takes this for its own where it is less
    processes = ceiling if processes == resource.RLIM_INFINITY else min(processes, ceiling)
    return {
        "ulimits": [
            docker.types.Ulimit(name=name, soft=limit, hard=limit)
            for name, limit in (("nofile", files), ("nproc", processes))
        ]
    }


def system_call_options(*, podman_here: bool) -> dict[str, Any]:
    """A filter of system calls for Podman on this machine: its default one of 4.3, and io_pgetevents with it.

    The default forbids that call, and BlueStore aborts. Docker allows it, and later ones of Podman may; a filter can
    only be a file on the engine's machine.
    """
    return {"security_opt": [f"seccomp={_SYSTEM_CALLS}"]} if podman_here else {}


def disk_options(limits: Mapping[Path, DiskLimits]) -> dict[str, Any]:
    """Ceilings by block device, as the engine's library names them."""
    options: dict[str, Any] = {}
    for device, ceiling in limits.items():
        for field, option in _DISK_OPTIONS.items():
            rate = getattr(ceiling, field)
            if rate is not None:
                options.setdefault(option, []).append({"Path": str(device), "Rate": rate})
    return options


def wants_loops(disks: Iterable[Disk]) -> bool:
    """Whether a node with these disks needs a loop device for each limited one.

    The engine limits a container on a block device. One limited disk may be tied to the device below all
    volumes; with several, each needs a device of its own.
    """
    return len(limited(disks)) > 1


def attach_loop(file: Path, size_bytes: int) -> Path:
    """Make the sparse file and a loop device over it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as sink:
        sink.truncate(size_bytes)
    result = process.run(("losetup", "--find", "--show", str(file)))
    return Path(result.stdout.strip())


def detach_loops(devices: Sequence[Path]) -> list[str]:
    """Free them; returns what could not be, in words."""
    errors = []
    for device in devices:
        try:
            process.run(("losetup", "--detach", str(device)))
        except LabError as error:
            errors.append(str(error))
    return errors


def loop_obstacle(disks: Sequence[Disk], devices: BlockDevices, *, local: bool) -> Unavailable | None:
    """Why several limited disks on a node cannot be served here, or None."""
    needed = len(limited(disks))
    names = ", ".join(disk.name for disk in limited(disks))
    hint = "limit one disk of the node only, or run as root on the engine's machine"
    if not local:
        return Unavailable(f"limits on {names} need loop devices, and the engine is on another machine", hint=hint)
    if os.geteuid() != 0:
        return Unavailable(f"limits on {names} need loop devices, which only root can make", hint=hint)
    if devices.free_loops() < needed:
        return Unavailable(
            f"limits on {names} need {needed} loop devices",
            f"free: {devices.free_loops()}",
            "free some (`losetup -a`, `cephlab prune`), or limit one disk of the node only",
        )
    return None
