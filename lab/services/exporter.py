"""Prometheus's node exporter."""

from collections.abc import Sequence

from cephlab.lab.ceph.client import RadosClient
from cephlab.lab.providers.host import Host
from cephlab.lab.services.service import Metadata, Service, silent_http

PORT = 9100
"""The exporter's own default."""


class NodeExporter(Service):
    """It reads /proc of its machine and is no client of Ceph's."""

    def argv(self, host: Host, ident: str) -> tuple[str, ...]:
        return (self.program, f"--web.listen-address={host.address}:{PORT}")

    def missing(self, client: RadosClient, host: Host, ident: str) -> str:
        return silent_http(f"exporter.{ident}", host, PORT)

    def metadata(self, client: RadosClient) -> Sequence[Metadata]:
        return ()


EXPORTER = NodeExporter("exporter", program="prometheus-node-exporter")
