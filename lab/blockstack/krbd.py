"""RBD images as block devices of a host's own kernel."""

from __future__ import annotations

from pathlib import PurePosixPath

from cephlab.lab.cluster.cluster import Cluster

MAP_OPTIONS = "noudev,ms_mode=prefer-crc"
"""noudev: without udev, `rbd` would wait for it for a minute. ms_mode: the lab's monitors speak version 2 only."""

FEATURES = ("--image-feature", "layering")
"""Options of `rbd create` for an image that every kernel can map."""


def map_image(cluster: Cluster, node: str, pool: str, image: str) -> PurePosixPath:
    """Map an image to a device of the node; CephTrouble where the kernel refuses."""
    cluster.hosts[node].run(["modprobe", "rbd"])
    return PurePosixPath(cluster.tool(node, "rbd", "map", "-o", MAP_OPTIONS, f"{pool}/{image}").strip())


def unmap_image(cluster: Cluster, node: str, device: PurePosixPath) -> None:
    """Unmap a device that no program has open."""
    cluster.tool(node, "rbd", "unmap", "-o", "noudev", str(device))
