"""What a service is: one kind of daemon, and all that the lab has to know to run it on a host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from cephlab.lab.ceph import conf
from cephlab.lab.ceph.client import RadosClient
from cephlab.lab.ceph.keyring import Entity, new_key
from cephlab.lab.providers.host import Host

Metadata = Mapping[str, Any]
"""What Ceph knows of a daemon: {name, hostname, addr or addrs, arch, ...}."""


@dataclass(frozen=True)
class Service:
    """A kind of daemon. Each kind inherits this in a file of its own, and overrides what differs.

    kind: the first part of its daemons' names, as Ceph spells it. program: what runs, `ceph-KIND` unless given.
    role_set: of the image, which has the program. caps: what its cephx entity may do; a service without any is no
    client of Ceph's and has no entity.
    """

    kind: str
    program: str = ""
    role_set: str = "ceph"
    caps: Mapping[str, str] = field(default_factory=dict)

    def entity(self, ident: str) -> str:
        """Name of a daemon's cephx entity."""
        return f"{self.kind}.{ident}"

    def new_entity(self, ident: str, sample: str) -> Entity:
        """A daemon's identity with a fresh key. sample: see `new_key`."""
        return Entity(self.entity(ident), new_key(sample), self.caps)

    def data(self, host: Host, ident: str) -> PurePosixPath:
        """A daemon's own directory."""
        return host.directory / f"{self.kind}.{ident}"

    def section(self, host: Host, ident: str) -> Mapping[str, str]:
        """Its own section of its host's ceph.conf."""
        return {}

    def argv(self, host: Host, ident: str) -> tuple[str, ...]:
        """The command that starts a daemon in the foreground."""
        return (self.program or f"ceph-{self.kind}", "-f", "-i", ident, "-c", str(conf.conf_path(host)))

    def env(self, host: Host) -> Mapping[str, str]:
        """Variables that its programs need. Files that they name are put onto the host."""
        return {}

    def preload(self, host: Host) -> tuple[PurePosixPath, ...]:
        """Libraries that its programs need preloaded on a host."""
        return ()

    def prepare(self, client: RadosClient) -> None:
        """Make what the cluster needs before the first daemon of the kind starts. May be called again."""

    def missing(self, client: RadosClient, host: Host, ident: str) -> str:
        """Why a running daemon does not serve yet, in words; empty when it serves."""
        return ""

    def lost(self, client: RadosClient, ident: str) -> bool | None:
        """Whether the cluster misses a daemon; None where the cluster does not track the kind."""
        return None

    def metadata(self, client: RadosClient) -> Sequence[Metadata]:
        """Every daemon of the kind that the cluster knows of."""
        entries: Sequence[Metadata] = client.mon(f"{self.kind} metadata")
        return entries


def answers_http(host: Host, port: int, timeout_s: float) -> bool:
    """Whether a port of a host answers HTTP, with whatever status below 500."""
    ask = (
        "import urllib.error as e, urllib.request as u\n"
        f"try: u.urlopen('http://{host.address}:{port}', timeout=5).read()\n"
        "except e.HTTPError as error: assert error.code < 500\n"
    )
    return host.run(["python3", "-c", ask], timeout_s=timeout_s, check=False).code == 0
