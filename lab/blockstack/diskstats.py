"""Requests and bytes of a host's block devices since it booted, as the kernel counts them (Documentation/iostats)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from pathlib import PurePosixPath

from cephlab.lab.blockstack.mapper import SECTOR_BYTES
from cephlab.lab.providers.host import Host


@dataclass(frozen=True)
class DiskTraffic:
    """Requests and bytes of one device."""

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
    by_layer = {}
    for layer, device in devices.items():
        major, minor = host.run(["stat", "-L", "-c", "%t %T", str(device)]).stdout.split()
        by_layer[layer] = known[int(major, 16), int(minor, 16)]  # stat prints them in hexadecimal
    return by_layer
