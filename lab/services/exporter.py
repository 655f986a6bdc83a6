"""Prometheus's exporter of a node's own figures."""

from __future__ import annotations

from collections.abc import Sequence

from cephlab.lab.ceph.client import RadosClient
from cephlab.lab.providers.host import Host
from cephlab.lab.services.service import Metadata, Service, answers_http

PORT = 9100
"""The exporter's own default."""
_ASK_S = 30.0


class Exporter(Service):
    """It is no client of Ceph's: it reads /proc of the machine that it runs on."""

    def argv(self, host: Host, ident: str) -> tuple[str, ...]:
        return (self.program, f"--web.listen-address={host.address}:{PORT}")

    def missing(self, client: RadosClient, host: Host, ident: str) -> str:
        return "" if answers_http(host, PORT, _ASK_S) else f"exporter.{ident} does not answer HTTP"

    def metadata(self, client: RadosClient) -> Sequence[Metadata]:
        return ()


EXPORTER = Exporter("exporter", program="prometheus-node-exporter")
