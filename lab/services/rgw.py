"""RADOS gateways, which serve S3 over HTTP and TLS."""

from collections.abc import Mapping, Sequence

from cephlab.lab.base.redaction import remember
from cephlab.lab.ceph import conf
from cephlab.lab.ceph.client import RadosClient
from cephlab.lab.providers.host import Host
from cephlab.lab.services.certificate import self_signed
from cephlab.lab.services.service import Metadata, Service, silent_http

PORT = 7480
"""The gateway's own default (rgw_frontends)."""
TLS_ABOVE = 100
"""The TLS port is this much above the HTTP port."""
NO_DELAY = "tcp_nodelay=1"
"""Without it an answer in two parts waits for the client's delayed acknowledgement, 40 ms on Linux."""
CERTIFICATE, PRIVATE = "certificate.pem", "private.pem"


class Rgw(Service):
    """A gateway. It creates missing pools itself, so pools with other settings must be made before it starts."""

    def entity(self, ident: str) -> str:
        return f"client.rgw.{ident}"

    def configure(self, host: Host, ident: str, peers: Mapping[str, Host]) -> None:
        """Write a certificate for its TLS port. An existing one stays, because clients may trust it."""
        data = self.data(host, ident)
        if not host.exists(data / CERTIFICATE):
            public, secret = self_signed(host.address)
            remember(secret.decode())
            host.push(secret, data / PRIVATE, mode=0o600)
            host.push(public, data / CERTIFICATE)

    def section(self, host: Host, ident: str) -> Mapping[str, str]:
        data, name = self.data(host, ident), f"rgw.{ident}"
        port = self.listens(ident)
        tls = (
            f"ssl_endpoint={host.address}:{port + TLS_ABOVE} "
            f"ssl_certificate={data / CERTIFICATE} ssl_private_key={data / PRIVATE}"
        )
        return {
            "keyring": str(data / "keyring"),
            "admin_socket": str(conf.socket_path(host, name)),
            "log_file": str(host.directory / "log" / f"{name}.log"),
            "rgw_data": str(data),
            "rgw_frontends": f"beast endpoint={host.address}:{port} {tls} {NO_DELAY}",
        }

    def argv(self, host: Host, ident: str) -> tuple[str, ...]:
        return ("radosgw", "-f", "-n", self.entity(ident), "-c", str(conf.conf_path(host)))

    def missing(self, client: RadosClient, host: Host, ident: str) -> str:
        silent = silent_http(f"rgw.{ident}", client.host, f"{host.address}:{self.listens(ident)}")
        if silent:
            return silent
        # It answers as soon as its first thread runs, but reports to the manager only when all 512 threads run, which
        # takes seconds under an emulator. Until then it still grows and is slow.
        known = {entry["name"] for entry in self.metadata(client)}
        return "" if ident in known else f"rgw.{ident} is not in the service map"

    def metadata(self, client: RadosClient) -> Sequence[Metadata]:
        daemons = client.mon("service dump")["services"].get("rgw", {}).get("daemons", {})
        known = [entry for entry in daemons.values() if isinstance(entry, Mapping)]
        return [{**entry["metadata"], "name": entry["metadata"]["id"], "addr": entry["addr"]} for entry in known]


RGW = Rgw("rgw", program="radosgw", caps={"mon": "allow rw", "mgr": "allow rw", "osd": "allow rwx"}, port=PORT)
"""With the capabilities that Ceph's documentation gives for a manual installation of a gateway."""
