"""The kinds of daemons that the lab can run. Each has a file, and is listed here."""

from collections.abc import Iterator

from cephlab.lab.base.errors import SpecError
from cephlab.lab.services.exporter import EXPORTER
from cephlab.lab.services.mds import MDS
from cephlab.lab.services.mgr import MGR
from cephlab.lab.services.mon import MON
from cephlab.lab.services.osd import OSD
from cephlab.lab.services.rgw import RGW
from cephlab.lab.services.service import Service
from cephlab.lab.spec.clusterspec import ClusterSpec, Node

SERVICES: dict[str, Service] = {service.kind: service for service in (MON, MGR, OSD, RGW, MDS, EXPORTER)}
"""Kind -> service, in the order in which a cluster starts them."""

CORE = ("mon", "mgr", "osd")
"""Every cluster has these. A spec has keys of its own for them, and bring-up its own steps."""


def service_of(daemon: str) -> Service:
    """The service of a daemon's name, as in `rgw.n0`."""
    return SERVICES[daemon.partition(".")[0]]


def daemons_on(node: Node) -> Iterator[str]:
    """Names of the daemons of a node's services beyond the core: `rgw.n0` for `rgw`, `rgw.n0.b` for `rgw.b`."""
    for text in node.services:
        kind, _, more = text.partition(".")
        yield f"{kind}.{node.name}.{more}" if more else f"{kind}.{node.name}"


def role_sets(spec: ClusterSpec, asked: tuple[str, ...] = ("ceph",)) -> tuple[str, ...]:
    """The role sets that the images of a spec need, and those that are asked for."""
    needed = [service_of(daemon).role_set for node in spec.nodes for daemon in daemons_on(node)]
    return tuple(dict.fromkeys((*asked, *needed)))


def refuse_unknown(spec: ClusterSpec) -> None:
    """SpecError for an unknown service, and for `mon`, `mgr` or `osd`, which have keys of their own."""
    known = [kind for kind in SERVICES if kind not in CORE]
    for number, node in enumerate(spec.nodes):
        for text in node.services:
            if text.partition(".")[0] not in known:
                raise SpecError(
                    f"node {node.name}: there is no service {text!r}",
                    f"nodes.{number}.services: got {text!r}, wanted: {', '.join(known)}",
                    "monitors, managers and OSDs are `mon`, `mgr` and `osds` of a node",
                )
