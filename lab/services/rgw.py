"""RADOS gateways, which speak S3."""

from collections.abc import Mapping, Sequence

from cephlab.lab.ceph import conf
from cephlab.lab.ceph.client import RadosClient
from cephlab.lab.providers.host import Host
from cephlab.lab.services.service import Metadata, Service, silent_http

PORT = 7480
"""The gateway's own default (rgw_frontends)."""


class Rgw(Service):
    """A gateway. It makes missing pools itself, so pools with other settings must be made before it starts."""

    def entity(self, ident: str) -> str:
        return f"client.rgw.{ident}"

    def section(self, host: Host, ident: str) -> Mapping[str, str]:
        data, name = self.data(host, ident), f"rgw.{ident}"
        return {
            "keyring": str(data / "keyring"),
            "admin_socket": str(conf.socket_path(host, name)),
            "log_file": str(host.directory / "log" / f"{name}.log"),
            "rgw_data": str(data),
            "rgw_frontends": f"beast endpoint={host.address}:{PORT}",
        }

    def argv(self, host: Host, ident: str) -> tuple[str, ...]:
        return ("radosgw", "-f", "-n", self.entity(ident), "-c", str(conf.conf_path(host)))

    def missing(self, client: RadosClient, host: Host, ident: str) -> str:
        return silent_http(f"rgw.{ident}", host, PORT)

    def metadata(self, client: RadosClient) -> Sequence[Metadata]:
        daemons = client.mon("service dump")["services"].get("rgw", {}).get("daemons", {})
        known = [entry for entry in daemons.values() if isinstance(entry, Mapping)]
        return [{**entry["metadata"], "name": entry["metadata"]["id"], "addr": entry["addr"]} for entry in known]


RGW = Rgw("rgw", program="radosgw", caps={"mon": "allow rw", "mgr": "allow rw", "osd": "allow rwx"})
"""With the capabilities of Ceph's documentation of a gateway's manual installation."""
