"""The node exporter of Prometheus."""

from cephlab.lab.providers.host import Host
from cephlab.lab.services.service import HttpService

COLLECTORS = ("cpu", "hwmon", "loadavg", "meminfo", "netdev", "rapl", "stat", "thermal_zone")
"""What it collects. Its default set takes several times the CPU, and nobody uses the rest."""


class NodeExporter(HttpService):
    """It reads /proc of its machine."""

    def argv(self, host: Host, ident: str) -> tuple[str, ...]:
        collectors = [f"--collector.{name}" for name in COLLECTORS]
        return (
            self.program,
            "--log.level=error",
            "--collector.disable-defaults",
            *collectors,
            f"--web.listen-address={host.address}:{self.listens(ident)}",
        )


EXPORTER = NodeExporter("exporter", program="prometheus-node-exporter", port=9100)  # its own default
