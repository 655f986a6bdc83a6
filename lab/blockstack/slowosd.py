"""An OSD on a disk of a slow class: dm-delay between its store and the device, in a kernel of the host's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath

from cephlab.lab.blockstack import mapper
from cephlab.lab.blockstack.mapper import Mapper
from cephlab.lab.ceph.daemon import Daemon
from cephlab.lab.cluster.cluster import Cluster


@dataclass(frozen=True)
class SlowDisk:
    """The device that an OSD's store is on instead of its disk. milliseconds: of each request, when it is imposed."""

    mapper: Mapper
    name: str
    disk: PurePosixPath
    milliseconds: int

    def impose(self, *, slow: bool = True) -> None:
        """Give the disk its class under the OSD that runs, or take it off: filling need not wait for a slow disk."""
        sectors = self.mapper.sectors(self.disk)
        table = mapper.linear(self.disk, sectors)
        if slow:
            table = mapper.delayed(self.disk, sectors, read_ms=self.milliseconds, write_ms=self.milliseconds)
        self.mapper.swap(self.name, table)


@contextmanager
def slow_disk(cluster: Cluster, osd: int, milliseconds: int) -> Iterator[SlowDisk]:
    """Put an OSD's store behind a device that may be slowed down, for a block; it is not slow at first."""
    daemon = cluster.daemon(f"osd.{osd}")
    host = daemon.host
    made = SlowDisk(Mapper(host), f"slow-osd{osd}", host.disk(daemon.disks[0]), milliseconds)
    made.mapper.load_modules()
    # A store has its device for itself, so that nothing can be put between while the OSD runs.
    _stop(cluster, daemon)
    made.mapper.create(made.name, mapper.linear(made.disk, made.mapper.sectors(made.disk)))
    try:
        _start_on(cluster, daemon, Mapper.path(made.name))
        yield made
    finally:
        _stop(cluster, daemon)
        made.mapper.remove(made.name)
        _start_on(cluster, daemon, made.disk)


def _stop(cluster: Cluster, daemon: Daemon) -> None:
    if daemon.alive():
        cluster.stop(daemon.name)


def _start_on(cluster: Cluster, daemon: Daemon, device: PurePosixPath) -> None:
    daemon.host.run(["ln", "-sfn", str(device), str(daemon.host.directory / daemon.name / "block")])
    cluster.start(daemon.name)
    cluster.wait(lambda status: status.all_up, what=f"{daemon.name} up again")
