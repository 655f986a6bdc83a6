"""Lists the kinds of daemons that the lab can run. Each kind has its own file."""

from collections.abc import Iterator

from cephlab.lab.base.errors import SpecError
from cephlab.lab.ceph.client import RadosClient
from cephlab.lab.services.exporter import EXPORTER
from cephlab.lab.services.haproxy import HAPROXY
from cephlab.lab.services.mds import MDS
from cephlab.lab.services.mgr import MGR
from cephlab.lab.services.mon import MON
from cephlab.lab.services.osd import OSD
from cephlab.lab.services.prometheus import PROMETHEUS
from cephlab.lab.services.rgw import RGW
from cephlab.lab.services.service import Metadata, Service
from cephlab.lab.spec.clusterspec import ClusterSpec, Node

SERVICES: dict[str, Service] = {
    service.kind: service for service in (MON, MGR, OSD, RGW, MDS, EXPORTER, HAPROXY, PROMETHEUS)
}
"""Kind -> service, in the order in which a cluster starts them."""

CORE = ("mon", "mgr", "osd")
"""Every cluster has these. They have separate keys in a spec and separate steps in bring-up."""


def service_of(daemon: str) -> Service:
    """The service of a daemon, from its name, e.g. `rgw.n0`."""
    return SERVICES[daemon.partition(".")[0]]


def reported(client: RadosClient) -> dict[str, Metadata]:
    """Ceph's metadata of each monitor, manager and OSD, by the daemon's name."""
    keys = {"osd": "id"}
    return {
        f"{kind}.{entry[keys.get(kind, 'name')]}": entry for kind in CORE for entry in client.mon(f"{kind} metadata")
    }


def daemons_on(node: Node) -> Iterator[str]:
    """Names of the daemons of a node's services beyond the core: `rgw.n0` for `rgw`, `rgw.n0.b` for `rgw.b`."""
    for text in node.services:
        kind, _, more = text.partition(".")
        yield f"{kind}.{node.name}.{more}" if more else f"{kind}.{node.name}"


def role_sets(spec: ClusterSpec, asked: tuple[str, ...] = ("ceph",)) -> tuple[str, ...]:
    """The role sets that the images of a spec need, together with those in `asked`."""
    needed = [service_of(daemon).role_set for node in spec.nodes for daemon in daemons_on(node)]
    return tuple(dict.fromkeys((*asked, *needed)))


def refuse_unknown(spec: ClusterSpec) -> None:
    """SpecError for an unknown service, and for `mon`, `mgr` or `osd`, which have separate keys."""
    known = [kind for kind in SERVICES if kind not in CORE]
    for number, node in enumerate(spec.nodes):
        for text in node.services:
            kind, _, more = text.partition(".")
            if kind in known and SERVICES[kind].port:
                SERVICES[kind].listens(f"{node.name}.{more}" if more else node.name)
                _refuse_alone(spec, f"nodes.{number}.services", SERVICES[kind])
            if kind not in known:
                raise SpecError(
                    f"node {node.name}: there is no service {text!r}",
                    f"nodes.{number}.services: got {text!r}, wanted: {', '.join(known)}",
                    "for monitors, managers and OSDs use the node's keys `mon`, `mgr` and `osds`",
                )


def _refuse_alone(spec: ClusterSpec, key: str, service: Service) -> None:
    """SpecError for a service if no node has the kind of daemon that it follows."""
    kinds = {daemon.partition(".")[0] for node in spec.nodes for daemon in daemons_on(node)}
    if service.follows and service.follows not in kinds:
        raise SpecError(
            f"service {service.kind} needs service {service.follows}",
            f"{key}: got {service.kind}, but no node has {service.follows}",
            f"give a node the service {service.follows}",
        )
