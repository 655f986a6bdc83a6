"""RBD images for measurements: creates them, writes them twice, and refuses to read them until they are full."""

import errno
import json
from dataclasses import dataclass

from cephlab.lab.base import clock
from cephlab.lab.base.errors import SpecError
from cephlab.lab.ceph.client import RadosError
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.workloads import fio
from cephlab.lab.workloads.fio import FioJob

PASSES = 2
"""The usual number for solid state disks: the second pass finds no unused space."""

_BLOCK_BYTES = 4 << 20
_DEPTH = 4
_SLOWEST_BYTES_S = 2 << 20  # slower than this, preconditioning runs into its deadline
_LEAST_S = 60.0
_WATCHED_S = 90.0
"""Three times the time after which Ceph drops the watch of a dead client (osd_client_watch_timeout)."""


@dataclass(frozen=True)
class BlockImage:
    """An image of a pool."""

    pool: str
    name: str
    size_bytes: int

    @property
    def spec(self) -> str:
        return f"{self.pool}/{self.name}"


def create(cluster: Cluster, node: str, image: BlockImage, *more: str) -> None:
    """Create an empty image of 4 MiB objects. more: options of `rbd create`."""
    cluster.tool(node, "rbd", "create", "--size", f"{image.size_bytes}B", *more, image.spec)


def remove(cluster: Cluster, image: BlockImage) -> None:
    """Remove an image once it has no watchers; NotReached if it still has one after 90 s (times the patience)."""

    def removed() -> bool:
        try:
            cluster.client.rbd_remove(image.pool, image.name)
        except RadosError as error:
            if error.errno != errno.EBUSY:
                raise
            return False
        return True

    timeout_s = _WATCHED_S * cluster.patience
    clock.wait(removed, bool, what=f"{image.spec} free of watchers", timeout_s=timeout_s, interval_s=1.0)


def precondition(cluster: Cluster, node: str, image: BlockImage, *, passes: int = PASSES) -> None:
    """Write the whole image sequentially from a node, `passes` times."""
    timeout_s = max(_LEAST_S, image.size_bytes / _SLOWEST_BYTES_S) * cluster.patience
    for number in range(passes):
        job = FioJob(
            name=f"fill-{image.name}",
            pool=image.pool,
            target=image.name,
            pattern="write",
            block_bytes=_BLOCK_BYTES,
            depth=_DEPTH,
            size_bytes=image.size_bytes,
            seed=number + 1,
            client=cluster.client_name,
        )
        fio.run(cluster.hosts[node], job, timeout_s=timeout_s)


def written_bytes(cluster: Cluster, node: str, image: BlockImage) -> int:
    """How many bytes of an image were ever written, judged by its objects."""
    usage = json.loads(cluster.tool(node, "rbd", "du", "--format", "json", image.spec))
    return int(usage["images"][0]["used_size"])


def require_written(cluster: Cluster, node: str, image: BlockImage) -> None:
    """SpecError unless the whole image was written: reads of the rest would not reach the data of any OSD."""
    written = written_bytes(cluster, node, image)
    if written < image.size_bytes:
        raise SpecError(
            f"reading {image.spec} would measure nothing: it was not written",
            f"written {written} of {image.size_bytes} bytes",
            "write the whole image first (lab.workloads.image.precondition)",
        )
