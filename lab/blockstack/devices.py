"""Block devices of a host: mapped RBD images, file systems on them, their content and their traffic."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from pathlib import PurePosixPath

from cephlab.lab.blockstack.mapper import SECTOR_BYTES
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.providers.host import Host

_DIGEST_S = 300.0

_MAP_OPTIONS = "noudev,ms_mode=prefer-crc"
"""noudev: `rbd` would wait a minute for udev, which is not there. ms_mode: the lab's monitors only use msgr2."""

KRBD_FEATURES = ("--image-feature", "layering")
"""Options of `rbd create` for an image that every kernel can map."""

LAYERING = 1
"""RBD_FEATURE_LAYERING, the same for librbd."""


def make_xfs(host: Host, device: PurePosixPath) -> None:
    """Make an XFS file system, without a discard: on a fresh image that takes a minute and changes nothing."""
    host.run(["mkfs.xfs", "-q", "-f", "-K", str(device)], timeout_s=120.0)


def mount(host: Host, device: PurePosixPath, folder: PurePosixPath) -> None:
    """Mount it; CommandFailed, with the kernel's reason, if that fails."""
    host.make_directory(folder)
    host.run(["mount", "-t", "xfs", "-o", "noatime", str(device), str(folder)], timeout_s=120.0)


def unmount(host: Host, folder: PurePosixPath) -> None:
    """Unmount it: afterwards everything written to it is on the device."""
    host.run(["umount", str(folder)], timeout_s=120.0)


def digest(host: Host, device: PurePosixPath) -> str:
    """sha256 of a whole device, hex, read from the device and not from the kernel's cache.

    Direct reads of 4 MiB take a third of the time of `sha256sum DEVICE` in a guest, which reads ahead by 128 KiB.
    """
    host.run(["blockdev", "--flushbufs", str(device)])
    read = f"set -o pipefail; dd if={shlex.quote(str(device))} bs=4M iflag=direct status=none | sha256sum"
    return host.run(["bash", "-c", read], timeout_s=_DIGEST_S).stdout.split()[0]


def map_image(cluster: Cluster, node: str, pool: str, image: str) -> PurePosixPath:
    """Map an image to a device of the node; CephTrouble if the kernel refuses."""
    cluster.hosts[node].run(["modprobe", "rbd"])
    return PurePosixPath(cluster.tool(node, "rbd", "map", "-o", _MAP_OPTIONS, f"{pool}/{image}").strip())


def unmap_image(cluster: Cluster, node: str, device: PurePosixPath) -> None:
    """Unmap a device that no program has open."""
    cluster.tool(node, "rbd", "unmap", "-o", "noudev", str(device))


@dataclass(frozen=True)
class DiskTraffic:
    """Requests and bytes of one device, as the kernel counts them (Documentation/iostats)."""

    reads: int
    read_bytes: int
    writes: int
    write_bytes: int

    def since(self, before: DiskTraffic) -> DiskTraffic:
        return DiskTraffic(*(now - then for now, then in zip(astuple(self), astuple(before), strict=True)))


def parse_diskstats(text: str) -> dict[tuple[int, int], DiskTraffic]:
    """(major, minor) -> traffic: lines `MAJOR MINOR NAME READS MERGED SECTORS MS WRITES MERGED SECTORS ...`."""
    by_device = {}
    for words in (line.split() for line in text.splitlines()):
        reads, read_sectors, writes, write_sectors = (int(words[at]) for at in (3, 5, 7, 9))
        traffic = DiskTraffic(reads, read_sectors * SECTOR_BYTES, writes, write_sectors * SECTOR_BYTES)
        by_device[(int(words[0]), int(words[1]))] = traffic
    return by_device


def traffic(host: Host, devices: Mapping[str, PurePosixPath]) -> dict[str, DiskTraffic]:
    """Layer -> its traffic since boot."""
    known = parse_diskstats(host.read(PurePosixPath("/proc/diskstats")).decode())
    numbers = host.run(["stat", "-L", "-c", "%t %T", *map(str, devices.values())]).stdout.splitlines()
    by_layer = {}
    for layer, line in zip(devices, numbers, strict=True):
        major, minor = line.split()
        by_layer[layer] = known[int(major, 16), int(minor, 16)]  # stat prints the numbers in hexadecimal
    return by_layer
