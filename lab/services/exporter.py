"""The node exporter of Prometheus."""

from collections.abc import Sequence

from cephlab.lab.ceph.client import RadosClient
from cephlab.lab.providers.host import Host
from cephlab.lab.services.service import Metadata, Service, silent_http

COLLECTORS = ("cpu", "hwmon", "loadavg", "meminfo", "netdev", "rapl", "stat", "thermal_zone")
"""What it collects. Its default set takes several times the CPU, and nobody uses the rest."""


class NodeExporter(Service):
    """It reads /proc of its machine and is not a Ceph client."""

    def argv(self, host: Host, ident: str) -> tuple[str, ...]:
        collectors = [f"--collector.{name}" for name in COLLECTORS]
        return (
            self.program,
            "--log.level=error",
            "--collector.disable-defaults",
            *collectors,
            f"--web.listen-address={host.address}:{self.listens(ident)}",
        )

    def missing(self, client: RadosClient, host: Host, ident: str) -> str:
        return silent_http(f"exporter.{ident}", client.host, f"{host.address}:{self.listens(ident)}")

    def metadata(self, client: RadosClient) -> Sequence[Metadata]:
        return ()


EXPORTER = NodeExporter("exporter", program="prometheus-node-exporter", port=9100)  # its own default
