"""Identifies a pulled image, which may be any: asks the cluster's nodes for their Ceph, and the engine for its id."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.ceph.offline import run_tool
from cephlab.lab.cluster.own import OwnCluster
from cephlab.lab.images.image import Image, Pulled
from cephlab.lab.providers.base import HoldsPulled, Images
from cephlab.lab.spec.arch import Arch

_VERSION = re.compile(r"ceph version (\S+) \(\w+\) (\w+)")
_LOOK_S = 60.0


def identified(cluster: OwnCluster, images: Images) -> Images:
    """The images with their true release, version and id. The cluster's spec gets that release too.

    Images that the lab built are returned unchanged. LabBroken if architectures differ in the release.
    """
    if cluster.spec.image is None:
        return images
    known = {arch: _identified(cluster, image) for arch, image in images.items()}
    releases = sorted({image.release for image in known.values()})
    if len(releases) > 1:
        versions = "\n".join(f"{arch}: {image.release} {image.ceph_version}" for arch, image in known.items())
        raise LabBroken(f"{cluster.spec.image} is not one release", versions, "choose another --image")
    cluster.spec = replace(cluster.spec, release=releases[0])
    cluster.deployer = replace(cluster.deployer, spec=cluster.spec)
    cluster.save()
    return known


def _identified(cluster: OwnCluster, image: Image) -> Image:
    host = next(host for host in cluster.hosts.values() if host.arch is image.arch)
    # `ceph` would say the same, but it needs a Python interpreter.
    argv = ["ceph-osd", "--version"]
    printed = run_tool(host, argv, timeout_s=_LOOK_S * cluster.patience).stdout
    match = _VERSION.search(printed)
    if match is None:
        raise LabBroken(f"{host.name} does not say which Ceph it has", f"{' '.join(argv)}: {printed.strip()}")
    key, digests = _identity(cluster, image.arch)
    return replace(image, release=match[2], pulled=Pulled(match[1], key, digests))


def described(cluster: OwnCluster) -> dict[str, Any] | None:
    """The pulled image of a running cluster: {reference, ids, digests}; None if the lab built the image."""
    if cluster.spec.image is None:
        return None
    identities = {arch: _identity(cluster, arch) for arch in cluster.spec.archs}
    return {
        "reference": cluster.spec.image,
        "ids": {arch.value: key for arch, (key, _) in identities.items()},
        "digests": sorted({digest for _, digests in identities.values() for digest in digests}),
    }


def _identity(cluster: OwnCluster, arch: Arch) -> tuple[str, tuple[str, ...]]:
    if not isinstance(cluster.lab, HoldsPulled):
        raise LabBroken(f"provider {cluster.provider_name} does not say what a pulled image is")
    return cluster.lab.pulled_image(arch)
