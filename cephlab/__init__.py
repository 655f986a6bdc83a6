"""Raise real Ceph clusters of mixed architecture, test them, and judge them by limits that scale.

What a project that tests against them needs of the lab is importable from here; each name comes from its module when
it is first used, so that `import cephlab` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cephlab.fixtures.clusters import S3, CephCluster, Clusters
    from cephlab.lab.base.errors import CephTrouble, LabBroken, LabError, SpecError, Unavailable
    from cephlab.lab.base.home import default_home
    from cephlab.lab.cluster.cluster import Cluster
    from cephlab.lab.cluster.raising import ClusterRequest, raise_for
    from cephlab.lab.images.store import ImageStore
    from cephlab.lab.providers.select import choose
    from cephlab.lab.spec.arch import Arch
    from cephlab.lab.spec.clusterspec import ClusterSpec, Disk, DiskClass, DiskLimits, Node, Osd
    from cephlab.lab.spec.layout import CephSetup, Daemons, build_spec

__all__ = [
    "Arch",
    "CephCluster",
    "CephSetup",
    "CephTrouble",
    "Cluster",
    "ClusterRequest",
    "ClusterSpec",
    "Clusters",
    "Daemons",
    "Disk",
    "DiskClass",
    "DiskLimits",
    "ImageStore",
    "LabBroken",
    "LabError",
    "Node",
    "Osd",
    "S3",
    "SpecError",
    "Unavailable",
    "build_spec",
    "choose",
    "default_home",
    "raise_for",
]

_HOMES = {
    "fixtures.clusters": ("CephCluster", "Clusters", "S3"),
    "lab.base.errors": ("CephTrouble", "LabBroken", "LabError", "SpecError", "Unavailable"),
    "lab.base.home": ("default_home",),
    "lab.cluster.cluster": ("Cluster",),
    "lab.cluster.raising": ("ClusterRequest", "raise_for"),
    "lab.images.store": ("ImageStore",),
    "lab.providers.select": ("choose",),
    "lab.spec.arch": ("Arch",),
    "lab.spec.clusterspec": ("ClusterSpec", "Disk", "DiskClass", "DiskLimits", "Node", "Osd"),
    "lab.spec.layout": ("CephSetup", "Daemons", "build_spec"),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"cephlab.{module}"), name)
    raise AttributeError(f"module 'cephlab' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
