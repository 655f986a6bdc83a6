"""The cluster that a measurement is made on: OSDs of one architecture, and everything else on nodes of its own."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import DEFAULT_DISK_BYTES, Capability, ClusterSpec, Disk, DiskClass, Node, Osd
from cephlab.lab.spec.layout import DEFAULT_SETUP, CephSetup

Say = Callable[[str], None]
UNASKED = frozenset({Capability.THIS_MACHINE})
"""What a provider needs for `auto` to measure on it."""

MACHINE, ELSEWHERE = "machine", "elsewhere"
"""Condition of a demand that was measured on hosts which are not this machine's."""

CLIENT = "client"
CONTROL = "control"
GATEWAY = "gateway"
MEMORY_DISK_BYTES = 2 << 30
"""BlueStore writes to fresh places and so touches all of a disk in time: this is what each OSD takes at most."""

HEALTHY_S = 120.0

LIKE_A_CLUSTER = {
    # Otherwise BlueStore takes a file for a rotating disk and writes small writes twice.
    "bluestore_debug_enforce_settings": "ssd",
    # The lab's 64 MiB would evict metadata that a real OSD holds.
    "bluestore_cache_size": str(512 << 20),
    "osd_op_num_shards": "2",
    "ms_async_op_threads": "3",
    # Scrubs come when they like, and are no part of an operation.
    "osd_scrub_min_interval": "86400",
    "osd_scrub_max_interval": "604800",
    "osd_scrub_load_threshold": "0",
}
"""Options in which a small lab would differ from a cluster whose costs are wanted."""


@dataclass(frozen=True)
class MeasuringLayout:
    """How much of each there is. in_memory: disks that answer at once, so that the CPU is what limits, as in a cluster
    with fast devices; held_bytes: what each must hold.
    """

    osds: int = 3
    clients: int = 1
    gateway: bool = False
    device_class: DiskClass = DiskClass.SSD
    in_memory: bool = False
    held_bytes: int = 0


THREE_OSDS = MeasuringLayout()


def measuring_spec(arch: Arch, layout: MeasuringLayout = THREE_OSDS, setup: CephSetup = DEFAULT_SETUP) -> ClusterSpec:
    """OSDs on a node each; monitor and manager on a native node, clients and gateway on nodes of their own."""
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
    """What a demand should say of this machine."""
    return {**machine_in(cpuinfo.read_text()), "kernel": platform.release()}


def machine_in(cpuinfo: str) -> dict[str, str]:
    """The same of the machine whose /proc/cpuinfo that is."""
    model = [line.partition(":")[2].strip() for line in cpuinfo.splitlines() if line.startswith("model name")]
    return {"cpu": model[0] if model else platform.machine(), "cores": str(len(model) or 1)}
