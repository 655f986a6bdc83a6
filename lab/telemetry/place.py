"""The cluster that a measurement is made on: OSDs of one architecture, and everything else on nodes of its own."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from lab.arch import Arch, host_arch
from lab.cluster import Cluster, raise_cluster
from lab.images.store import ImageStore
from lab.providers.base import Images, Provider
from lab.pulled import identified
from lab.runs import Runs
from lab.spec import DEFAULT_DISK_BYTES, DEFAULT_RELEASE, ClusterSpec, Disk, DiskClass, Node, Osd

Say = Callable[[str], None]
UNASKED = ("local", "container")
"""Providers that `auto` may take to measure on: their hosts' processes are this machine's own."""

MACHINE, ELSEWHERE = "machine", "elsewhere"
"""Condition of a demand that was measured on hosts which are not this machine's."""

CLIENT = "client"
CONTROL = "control"
GATEWAY = "gateway"
MEMORY_DISK_BYTES = 2 << 30
"""BlueStore writes to fresh places and so touches all of a disk in time: this is what each OSD takes at most."""

_HEALTHY_S = 120.0

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


def measuring_spec(
    arch: Arch,
    *,
    osds: int = 3,
    clients: int = 1,
    release: str = DEFAULT_RELEASE,
    image: str | None = None,
    options: Mapping[str, str] | None = None,
    device_class: DiskClass = DiskClass.SSD,
    in_memory: bool = False,
    gateway: bool = False,
    held_bytes: int = 0,
) -> ClusterSpec:
    """OSDs on a node each; monitor and manager on a native node, clients and gateway on others that have nothing else.

    in_memory: disks that answer at once, so that the CPU is what limits, as in a cluster with fast devices; held_bytes:
    what each must hold.
    """
    control = Node(CONTROL, host_arch(), mon=True, mgr=True)
    nodes = [Node(client_name(number), host_arch()) for number in range(clients)]
    nodes += [Node(GATEWAY, host_arch())] if gateway else []
    for number in range(osds):
        size = max(MEMORY_DISK_BYTES if in_memory else DEFAULT_DISK_BYTES, 2 * held_bytes)
        disk = Disk(f"n{number}-block", size, device_class, in_memory=in_memory)
        nodes.append(Node(f"n{number}", arch, (disk,), (Osd(disk.name),)))
    own = dict(LIKE_A_CLUSTER)
    own["bluestore_debug_enforce_settings"] = "hdd" if device_class is DiskClass.HDD else "ssd"
    return ClusterSpec((control, *nodes), release=release, image=image, options={**own, **(options or {})})


def client_name(number: int = 0) -> str:
    """Name of the node of one client."""
    return CLIENT if number == 0 else f"{CLIENT}{number}"


def images_for(spec: ClusterSpec, store: ImageStore, say: Say) -> Images:
    """The images of a spec: those of the cache, built where they are missing, or the one that the spec names."""
    if spec.image is not None:
        return {arch: store.pulled(spec.release, arch, spec.image) for arch in spec.archs}
    return {arch: store.get(spec.release, arch, progress=say) for arch in spec.archs}


def identity(cluster: Cluster, images: Images, arch: Arch) -> str:
    """What demands measured on this cluster are filed under; its spec names the release of a pulled image after that.

    A reference may name another image tomorrow, and a baseline is one image's.
    """
    return identified(cluster, images)[arch].identity


@contextmanager
def standing(provider: Provider, spec: ClusterSpec, images: Images, runs: Runs, say: Say) -> Iterator[Cluster]:
    """A healthy cluster for the length of a block; nothing of it is left afterwards."""
    run = runs.create(provider.name)
    try:
        with raise_cluster(provider, spec, images, run, progress=say) as cluster:
            cluster.wait_healthy(_HEALTHY_S)
            yield cluster
    finally:
        runs.forget(run)


def machine(cpuinfo: Path = Path("/proc/cpuinfo")) -> dict[str, str]:
    """What a demand should say of this machine."""
    return {**machine_in(cpuinfo.read_text()), "kernel": platform.release()}


def machine_in(cpuinfo: str) -> dict[str, str]:
    """The same of the machine whose /proc/cpuinfo that is."""
    model = [line.partition(":")[2].strip() for line in cpuinfo.splitlines() if line.startswith("model name")]
    return {"cpu": model[0] if model else platform.machine(), "cores": str(len(model) or 1)}
