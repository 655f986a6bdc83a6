"""An OSD on a slow disk: dm-delay between its store and the device. Needs a host with its own kernel."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath

from cephlab.lab.blockstack.mapper import Mapper
from cephlab.lab.ceph.daemon import Daemon
from cephlab.lab.cluster.cluster import Cluster


@dataclass(frozen=True)
class DelayedDisk:
    """The mapped device between an OSD's store and its disk. delay_ms: for each request while it is slow."""

    mapper: Mapper
    name: str
    disk: PurePosixPath
    delay_ms: int

    def impose(self, *, slow: bool = True) -> None:
        """Make the disk slow under the running OSD, or fast again, so that filling it does not take long."""
        self.mapper.with_delay(self.name, self.disk, self.delay_ms if slow else 0)


@contextmanager
def slow_disk(cluster: Cluster, osd: int, delay_ms: int) -> Iterator[DelayedDisk]:
    """During a block, put an OSD's store on a device that can be slowed down. It starts fast."""
    daemon = cluster.daemon(f"osd.{osd}")
    mapper, disk = Mapper(daemon.host), daemon.host.disk(daemon.disks[0])
    slow = DelayedDisk(mapper, f"slow-osd{osd}", disk, delay_ms)
    mapper.load_modules()
    # A running OSD has its device open exclusively, so nothing can be put in between.
    _stop(cluster, daemon)
    try:
        device = mapper.create(slow.name, mapper.whole(disk))
        try:
            _start_on(cluster, daemon, device)
            yield slow
        finally:
            _stop(cluster, daemon)
            mapper.remove(slow.name)
    finally:
        _start_on(cluster, daemon, disk)


def _stop(cluster: Cluster, daemon: Daemon) -> None:
    if daemon.alive():
        cluster.stop(daemon.name)


def _start_on(cluster: Cluster, daemon: Daemon, device: PurePosixPath) -> None:
    put_store_on(daemon, device)
    cluster.start(daemon.name)
    cluster.wait(lambda status: status.all_up, what=f"{daemon.name} up again")


def put_store_on(osd: Daemon, device: PurePosixPath) -> None:
    """Make a stopped OSD use another device for its store from now on."""
    osd.host.run(["ln", "-sfn", str(device), str(osd.host.directory / osd.name / "block")])
