"""The balancer: what its configuration lists, what of it is secret, and what its statistics say."""

from pathlib import PurePosixPath
from typing import Any, cast

import pytest

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.process import Result
from cephlab.lab.providers.host import Host
from cephlab.lab.services.haproxy import HAPROXY, Served, notices_s, parse_stat
from cephlab.lab.services.rgw import RGW


class DemoHost:
    """A host that keeps what it is given. modes: file -> mode."""

    name = "n0"
    directory = PurePosixPath("/run/n0")

    def __init__(self, address: str) -> None:
        self.address = address
        self.files: dict[str, bytes] = {}
        self.modes: dict[str, int] = {}
        self.ran: list[list[str]] = []

    def exists(self, path: PurePosixPath) -> bool:
        return str(path) in self.files

    def push(self, content: bytes, path: PurePosixPath, *, mode: int = 0o644) -> None:
        self.files[str(path)], self.modes[str(path)] = content, mode

    def read(self, path: PurePosixPath) -> bytes:
        return self.files[str(path)]

    def run(self, argv: list[str], **_: Any) -> Result:
        self.ran.append(argv)
        return Result(tuple(argv), 0, b"", b"")


FIRST, SECOND = DemoHost("127.1.0.1"), DemoHost("127.1.0.2")
PEERS = {"haproxy.n0": FIRST, "rgw.n1.b": SECOND, "rgw.n0": FIRST, "mds.n0": FIRST}


def host(demo: DemoHost) -> Host:
    return cast("Host", demo)


def test_a_balancer_lists_every_gateway_and_nothing_else() -> None:
    text = HAPROXY.render(host(FIRST), "n0", cast("dict[str, Host]", PEERS)).decode()
    servers = [line.split()[1:] for line in text.splitlines() if line.strip().startswith("server ")]
    assert servers == [["rgw.n0", "127.1.0.1:7480"], ["rgw.n1.b", "127.1.0.2:7481"]]
    assert "bind 127.1.0.1:8480\n" in text
    assert "bind 127.1.0.1:8580 ssl crt /run/n0/haproxy.n0/both.pem" in text


@pytest.mark.parametrize("service", [HAPROXY, RGW], ids=lambda service: service.kind)
def test_a_private_key_is_readable_by_its_owner_alone_and_a_certificate_stays(service: Any) -> None:
    demo = DemoHost("127.1.0.1")
    service.configure(host(demo), "n0", cast("dict[str, Host]", PEERS))
    secret = {path for path, content in demo.files.items() if b"PRIVATE KEY" in content}
    assert len(secret) == 1
    assert {demo.modes[path] for path in secret} == {0o600}
    before = dict(demo.files)
    service.configure(host(demo), "n0", cast("dict[str, Host]", PEERS))
    assert demo.files == before


def test_haproxy_itself_has_to_find_a_configuration_right() -> None:
    demo = DemoHost("127.1.0.1")
    HAPROXY.configure(host(demo), "n0", cast("dict[str, Host]", PEERS))
    assert demo.ran == [["haproxy", "-c", "-f", "/run/n0/haproxy.n0/haproxy.cfg"]]


def test_how_soon_a_gateway_is_missed_follows_from_the_configuration_in_force() -> None:
    demo = DemoHost("127.1.0.1")
    HAPROXY.configure(host(demo), "n0", cast("dict[str, Host]", PEERS))
    # A second until the first look, then two looks that time out, each with a pause as long.
    assert notices_s(host(demo), "n0") == 5.0
    (path,) = (path for path in demo.files if path.endswith("haproxy.cfg"))
    demo.files[path] = demo.files[path].replace(b"inter 1s fall 2", b"inter 3s fall 4")
    assert notices_s(host(demo), "n0") == 27.0
    demo.files[path] = demo.files[path].replace(b" check inter", b" inter")
    with pytest.raises(LabBroken, match=r"haproxy\.n0 has no health checks"):
        notices_s(host(demo), "n0")


def test_statistics_are_read_by_their_columns() -> None:
    text = (
        "# pxname,svname,stot,econ,eresp,wredis,status,\n"
        "s3,FRONTEND,9,,,,OPEN,\n"
        "gateways,rgw.n0,7,1,2,3,UP,\n"
        "gateways,rgw.n2,2,0,0,0,DOWN,\n"
        "gateways,BACKEND,9,1,2,3,UP,\n"
    )
    assert parse_stat(text) == [Served("rgw.n0", "UP", 7, 3, 3), Served("rgw.n2", "DOWN", 2, 0, 0)]
