"""The cluster for a measurement: OSDs of one architecture, and everything else on separate nodes."""

import platform
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import DEFAULT_DISK_BYTES, Capability, ClusterSpec, Disk, DiskClass, Node, Osd
from cephlab.lab.spec.layout import DEFAULT_SETUP, CephSetup

Say = Callable[[str], None]
UNASKED = frozenset({Capability.THIS_MACHINE})
"""Capabilities that a provider must have for `auto` to choose it for a measurement."""

MACHINE, ELSEWHERE = "machine", "elsewhere"
"""Condition of a demand that was measured on hosts other than this machine."""

CLIENT = "client"
CONTROL = "control"
GATEWAY = "gateway"
MEMORY_DISK_BYTES = 2 << 30
"""Least size of a disk in memory: BlueStore always writes to free space, so in time an OSD uses its whole disk."""

LIKE_A_CLUSTER = {
    # Otherwise BlueStore treats a file as a rotating disk and writes small writes twice.
    "bluestore_debug_enforce_settings": "ssd",
    # The lab's 64 MiB would evict metadata that a real OSD holds.
    "bluestore_cache_size": str(512 << 20),
    "osd_op_num_shards": "2",
    "ms_async_op_threads": "3",
    # Scrubs start at any time and are not part of an operation.
    "osd_scrub_min_interval": "86400",
    "osd_scrub_max_interval": "604800",
    "osd_scrub_load_threshold": "0",
}
"""Options in which a small lab would differ from a real cluster."""


@dataclass(frozen=True)
class MeasuringLayout:
    """How many daemons and clients. in_memory: disks in memory, so that the CPU is the limit, as in a cluster with
    fast devices; held_bytes: bytes that each disk must hold.
    """

    osds: int = 3
    clients: int = 1
    gateway: bool = False
    device_class: DiskClass = DiskClass.SSD
    in_memory: bool = False
    held_bytes: int = 0


THREE_OSDS = MeasuringLayout()


def measuring_spec(arch: Arch, layout: MeasuringLayout = THREE_OSDS, setup: CephSetup = DEFAULT_SETUP) -> ClusterSpec:
    """One node for each OSD; monitor and manager on a native node, clients and gateway on separate nodes."""
    nodes = [Node(CONTROL, host_arch(), mon=True, mgr=True)]
    nodes += [Node(client_name(number), host_arch()) for number in range(layout.clients)]
    nodes += [Node(GATEWAY, host_arch())] if layout.gateway else []
    size = max(MEMORY_DISK_BYTES if layout.in_memory else DEFAULT_DISK_BYTES, 2 * layout.held_bytes)
    for number in range(layout.osds):
        disk = Disk(f"n{number}-block", size, layout.device_class, in_memory=layout.in_memory)
        nodes.append(Node(f"n{number}", arch, (disk,), (Osd(disk.name),)))
    own = dict(LIKE_A_CLUSTER)
    own["bluestore_debug_enforce_settings"] = "hdd" if layout.device_class is DiskClass.HDD else "ssd"
    return replace(setup, options={**own, **setup.options}).cluster(nodes)


def client_name(number: int = 0) -> str:
    """Name of the node of one client."""
    return CLIENT if number == 0 else f"{CLIENT}{number}"


def machine(cpuinfo: Path = Path("/proc/cpuinfo")) -> dict[str, str]:
    """CPU, cores and kernel of this machine, for a demand's conditions."""
    return {**machine_in(cpuinfo.read_text()), "kernel": platform.release()}


def machine_in(cpuinfo: str) -> dict[str, str]:
    """CPU and cores of the machine with this /proc/cpuinfo."""
    model = [line.partition(":")[2].strip() for line in cpuinfo.splitlines() if line.startswith("model name")]
    return {"cpu": model[0] if model else platform.machine(), "cores": str(len(model) or 1)}
