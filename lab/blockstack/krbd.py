"""RBD images as block devices of a host's own kernel."""

from __future__ import annotations

from pathlib import PurePosixPath

from cephlab.lab.cluster.cluster import Cluster

MAP_OPTIONS = "noudev,ms_mode=prefer-crc"
"""noudev: `rbd` would wait a minute for a udev that is not there; the lab's monitors speak version 2 alone."""


def create_image(cluster: Cluster, node: str, pool: str, image: str, size_bytes: int) -> None:
    """An image with the features that every kernel knows."""
    size = f"{size_bytes}B"
    features = ("--image-feature", "layering")
    cluster.tool(node, "rbd", "create", *features, "--size", size, f"{pool}/{image}")


def map_image(cluster: Cluster, node: str, pool: str, image: str) -> PurePosixPath:
    """The image as a device of the node; CephTrouble where the kernel refuses."""
    cluster.hosts[node].run(["modprobe", "rbd"])
    return PurePosixPath(cluster.tool(node, "rbd", "map", "-o", MAP_OPTIONS, f"{pool}/{image}").strip())


def unmap_image(cluster: Cluster, node: str, device: PurePosixPath) -> None:
    """Nothing may have it open."""
    cluster.tool(node, "rbd", "unmap", "-o", "noudev", str(device))
