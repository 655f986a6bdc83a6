"""HAProxy, which distributes the requests of S3 clients over all gateways of a cluster."""

import csv
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.redaction import remember
from cephlab.lab.ceph.offline import run_tool
from cephlab.lab.providers.host import Host
from cephlab.lab.services.certificate import self_signed
from cephlab.lab.services.rgw import CERTIFICATE, RGW, TLS_ABOVE
from cephlab.lab.services.service import HttpService

TEMPLATE = "haproxy.cfg.j2"
BACKEND = "gateways"
_PEM = "both.pem"
_CONFIG = "haproxy.cfg"
_CHECK_S = 60.0
_LOOKS = re.compile(r"^\s*default-server check inter (\d+)s fall (\d+) rise \d+$", re.MULTILINE)
_ASK = (
    "import socket, sys\n"
    "s = socket.socket(socket.AF_UNIX)\n"
    "s.settimeout(10)\n"
    "s.connect(sys.argv[1])\n"
    "s.sendall(b'show stat\\n')\n"
    "sys.stdout.write(''.join(iter(lambda: s.recv(65536).decode(), '')))\n"
)


class Haproxy(HttpService):
    """A load balancer in front of every gateway."""

    def configure(self, host: Host, ident: str, peers: Mapping[str, Host]) -> None:
        """Write its certificate and its configuration, and check them with `haproxy -c`.

        Raises CephTrouble, with the output of HAProxy, if HAProxy rejects them.
        """
        data = self.data(host, ident)
        if not host.exists(data / CERTIFICATE):
            public, secret = self_signed(host.address)
            remember(secret.decode())
            host.push(public + secret, data / _PEM, mode=0o600)
            host.push(public, data / CERTIFICATE)
        host.push(self.render(host, ident, peers), data / _CONFIG)
        run_tool(host, [self.kind, "-c", "-f", str(data / _CONFIG)], timeout_s=_CHECK_S)

    def render(self, host: Host, ident: str, peers: Mapping[str, Host]) -> bytes:
        """Its configuration file."""
        gateways = [
            (name, f"{peer.address}:{RGW.listens(name.partition('.')[2])}")
            for name, peer in sorted(peers.items())
            if name.partition(".")[0] == RGW.kind
        ]
        port = self.listens(ident)
        text: str = _template().render(
            socket=self.socket(host, ident),
            address=host.address,
            port=port,
            tls_port=port + TLS_ABOVE,
            pem=self.data(host, ident) / _PEM,
            gateways=gateways,
        )
        return text.encode()

    def written(self, host: Host, ident: str) -> str:
        """The configuration that it was started with."""
        return host.read(self.data(host, ident) / _CONFIG).decode()

    def socket(self, host: Host, ident: str) -> PurePosixPath:
        """The socket for its statistics."""
        return host.directory / "run" / f"{self.kind}.{ident}"

    def argv(self, host: Host, ident: str) -> tuple[str, ...]:
        return (self.kind, "-db", "-f", str(self.data(host, ident) / _CONFIG))


HAPROXY = Haproxy("haproxy", program="haproxy", role_set="balancer", port=8480, follows=RGW.kind)


@dataclass(frozen=True)
class Served:
    """A balancer's statistics of one gateway. status: UP, DOWN, or HAProxy's word for a state in between.

    sessions: requests sent to it so far; errors: missing answers and failed connections; moved: requests for it that
    were sent to another gateway.
    """

    gateway: str
    status: str
    sessions: int
    errors: int
    moved: int


def served(host: Host, ident: str) -> list[Served]:
    """The statistics that the balancer on a host has of each gateway behind it."""
    return parse_stat(host.run(["python3", "-c", _ASK, str(HAPROXY.socket(host, ident))]).stdout)


def notices_s(host: Host, ident: str) -> float:
    """Seconds in which the balancer on a host notices a gateway that does not answer, from its configuration.

    A health check waits for `inter` at most, and the next one starts `inter` later (HAProxy's configuration manual,
    `timeout check` and `inter`). `fall` checks must fail, and the first may start only after `inter`. LabBroken if the
    configuration has no health checks.
    """
    match = _LOOKS.search(HAPROXY.written(host, ident))
    if match is None:
        raise LabBroken(f"haproxy.{ident} has no health checks", "no `default-server check` with inter and fall")
    inter_s, fall = map(int, match.groups())
    return float((1 + 2 * fall) * inter_s)


def parse_stat(text: str) -> list[Served]:
    """Read what `show stat` prints: CSV (HAProxy's management guide, 9.1)."""
    rows = csv.DictReader(io.StringIO(text.removeprefix("# ")))
    return [
        Served(
            row["svname"],
            row["status"],
            int(row["stot"]),
            int(row["econ"] or 0) + int(row["eresp"] or 0),
            int(row["wredis"] or 0),
        )
        for row in rows
        if row["pxname"] == BACKEND and row["svname"] != "BACKEND"
    ]


def _template() -> Any:
    """The jinja2 template. jinja2 is imported here, because most commands make no balancer."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("cephlab.lab.services", ""),
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        keep_trailing_newline=True,
    )
    return environment.get_template(TEMPLATE)
