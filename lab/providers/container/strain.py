"""Slows the networks and disks of running containers, and limits their memory, with kernel features of the host."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cephlab.lab.base import process
from cephlab.lab.base.errors import LabBroken
from cephlab.lab.providers.blockdevices import BlockDevices
from cephlab.lab.providers.container.engine import Engine
from cephlab.lab.providers.container.host import ContainerHost
from cephlab.lab.providers.packets import obstacle
from cephlab.lab.spec.clusterspec import Capability, DiskLimits

_INTERFACE = "eth0"
_BUCKET = "tbf"
_QUEUE = ("burst", "32kbit", "limit", "1mb")
"""32 kbit hold a frame of 1500 bytes; a queue of 1 MB holds the data that a TCP connection sends ahead."""
_GROUPS = Path("/sys/fs/cgroup")
_UNLIMITED = 0  # version 1: no ceiling
_CEILINGS = {"read_iops": "riops", "write_iops": "wiops", "read_bytes_s": "rbps", "write_bytes_s": "wbps"}
_FILES_V1 = {
    "read_iops": "blkio.throttle.read_iops_device",
    "write_iops": "blkio.throttle.write_iops_device",
    "read_bytes_s": "blkio.throttle.read_bps_device",
    "write_bytes_s": "blkio.throttle.write_bps_device",
}


def capabilities(engine: Engine) -> frozenset[Capability]:
    """Which limits this engine's containers can get while they run. All need root on the engine's machine."""
    if not engine.local or engine.rootless or obstacle(("iptables", "nsenter")) is not None:
        return frozenset()
    able = {Capability.CUT_LINKS, Capability.SLOW_DISK, Capability.SQUEEZE_MEMORY}
    if shutil.which("tc"):
        able.add(Capability.SLOW_NETWORK)
    return frozenset(able)


def slow_network(host: ContainerHost, bytes_s: int | None) -> None:
    """Put a token bucket on the container's interface; None removes it, if there is one."""
    if bytes_s is None:
        if f" {_BUCKET} " in _tc(host, "qdisc", "show", "dev", _INTERFACE):
            _tc(host, "qdisc", "del", "dev", _INTERFACE, "root")
        return
    _tc(host, "qdisc", "replace", "dev", _INTERFACE, "root", _BUCKET, "rate", f"{bytes_s * 8}bit", *_QUEUE)


def held_packets(host: ContainerHost) -> int:
    """How many packets were delayed: the `overlimits` of the token bucket."""
    words = _tc(host, "-s", "qdisc", "show", "dev", _INTERFACE).replace(",", " ").split()
    return int(words[words.index("overlimits") + 1]) if "overlimits" in words else 0


def _tc(host: ContainerHost, *arguments: str) -> str:
    return process.run(("nsenter", "--net", "--target", str(host.first_process()), "--", "tc", *arguments)).stdout


def slow_disks(host: ContainerHost, limits: DiskLimits | None) -> None:
    """Limit the block device below the container's volumes; None restores the limits of the spec."""
    device = BlockDevices().below(host.engine.root_directory)
    numbers = (BlockDevices().sys / "class/block" / device.name / "dev").read_text().strip()
    own = [disk.limits for disk in host.disks.values() if disk.limits.any() and disk.name not in host.devices]
    wanted = limits or (own[0] if own else DiskLimits())
    group = Group.of(host.first_process(), "blkio")
    for field, name in _CEILINGS.items():
        rate = getattr(wanted, field)
        if group.unified:
            group.write("io.max", f"{numbers} {name}={'max' if rate is None else rate}")
        else:
            group.write(_FILES_V1[field], f"{numbers} {_UNLIMITED if rate is None else rate}")


def memory_used(host: ContainerHost) -> int:
    """Anonymous memory of the container, which the kernel cannot reclaim without swap."""
    group = Group.of(host.first_process(), "memory")
    used = group.fields("memory.stat")
    return used["anon"] if group.unified else used["total_rss"]


def squeeze_memory(host: ContainerHost, limit_bytes: int | None) -> None:
    """Limit the container's memory, with no swap beyond it; None restores the limit of the spec."""
    limit = limit_bytes or host.node.memory_bytes
    group = Group.of(host.first_process(), "memory")
    if group.unified:
        group.write("memory.swap.max", "max" if limit is None else "0")
        group.write("memory.max", "max" if limit is None else str(limit))
        return
    # The limit on memory with swap may never be below the limit on memory alone, so the order of writing matters.
    files = ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"]
    wider = limit is None or limit > int(group.read(files[0]))
    for name in reversed(files) if wider else files:
        group.write(name, str(-1 if limit is None else limit))


@dataclass(frozen=True)
class Group:
    """A container's control group as a directory. unified: version 2 of cgroups."""

    directory: Path
    unified: bool

    @staticmethod
    def of(pid: int, controller: str, groups: Path = _GROUPS, proc: Path = Path("/proc")) -> Group:
        """A process's group for a controller; LabBroken when it has none."""
        unified = ""
        for line in (proc / str(pid) / "cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controller in controllers.split(","):
                return Group(groups / controller / path.lstrip("/"), unified=False)
            if not controllers:
                unified = path
        if (groups / "cgroup.controllers").exists():
            return Group(groups / unified.lstrip("/"), unified=True)
        raise LabBroken(f"process {pid} is in no control group for {controller}")

    def read(self, name: str) -> str:
        try:
            return (self.directory / name).read_text()
        except OSError as error:
            raise LabBroken(f"{self.directory / name} cannot be read", str(error)) from error

    def write(self, name: str, text: str) -> None:
        try:
            (self.directory / name).write_text(text)
        except OSError as error:
            raise LabBroken(f"{self.directory / name} does not accept {text!r}", str(error)) from error

    def fields(self, name: str) -> Mapping[str, int]:
        """A file of lines `name number`."""
        return {key: int(value) for key, value in (line.split() for line in self.read(name).splitlines())}
