"""Describes a service: one kind of daemon, with everything that the lab must know to run it on a host."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from string import ascii_lowercase
from typing import Any

from cephlab.lab.base.errors import SpecError
from cephlab.lab.ceph import conf
from cephlab.lab.ceph.client import RadosClient
from cephlab.lab.ceph.keyring import Entity, new_key
from cephlab.lab.providers.host import Host

Metadata = Mapping[str, Any]
"""Ceph's metadata of a daemon: {name, hostname, addr or addrs, arch, ...}."""

LETTERS = ascii_lowercase
"""Daemons of one kind on a node: `rgw` is the first, `rgw.b` the second."""

_ASK_S = 30.0


@dataclass(frozen=True)
class Service:
    """A kind of daemon. Each kind has a file with a subclass, which overrides what differs.

    kind: the first part of the daemons' names, as Ceph spells it. program: `ceph-KIND` unless given. role_set: role set
    of images that have the program. caps: capabilities of its cephx entity; a service without caps is not a Ceph client
    and has no entity. port: port of the first daemon of the kind on a node; `KIND.b` gets the next port, and so on; 0:
    no port. follows: the kind of daemons that its configuration lists; empty if none.
    """

    kind: str
    program: str = ""
    role_set: str = "ceph"
    caps: Mapping[str, str] = field(default_factory=dict)
    port: int = 0
    follows: str = ""

    def entity(self, ident: str) -> str:
        """Name of the cephx entity of a daemon."""
        return f"{self.kind}.{ident}"

    def new_entity(self, ident: str, sample: str) -> Entity:
        """The entity of a daemon, with a fresh key. sample: see `new_key`."""
        return Entity(self.entity(ident), new_key(sample), self.caps)

    def data(self, host: Host, ident: str) -> PurePosixPath:
        """A daemon's own directory."""
        return host.directory / f"{self.kind}.{ident}"

    def listens(self, ident: str) -> int:
        """The port of a daemon, from the letter after its node's name; SpecError if there is something else."""
        return self.port + LETTERS.index(letter_of(ident)) if self.port else 0

    def configure(self, host: Host, ident: str, peers: Mapping[str, Host]) -> None:
        """Write its own files to its host. peers: every daemon beyond the core, and every manager -> its host."""

    def section(self, host: Host, ident: str) -> Mapping[str, str]:
        """Its own section of its host's ceph.conf."""
        return {}

    def argv(self, host: Host, ident: str) -> tuple[str, ...]:
        """The command that starts a daemon in the foreground."""
        return (self.program or f"ceph-{self.kind}", "-f", "-i", ident, "-c", str(conf.conf_path(host)))

    def env(self, host: Host) -> Mapping[str, str]:
        """Environment of its programs. Copies the files that it names to the host."""
        return {}

    def preload(self, host: Host) -> tuple[PurePosixPath, ...]:
        """Libraries that its programs need preloaded on a host."""
        return ()

    def tell_managers(self, client: RadosClient) -> None:
        """Set options of manager modules. Called before the managers start, because a change restarts the web server.

        If the server is just starting, the module fails for good (ceph 18.2.7, `config_notify` of prometheus).
        """

    def prepare(self, client: RadosClient) -> None:
        """Make what the cluster needs before a daemon of the kind starts. May be called several times."""

    def missing(self, client: RadosClient, host: Host, ident: str) -> str:
        """Why a running daemon does not serve yet, in words; empty if it serves."""
        return ""

    def lost(self, client: RadosClient, ident: str) -> bool | None:
        """Whether the cluster has noticed that a daemon is gone; None if it does not track the kind."""
        return None

    def metadata(self, client: RadosClient) -> Sequence[Metadata]:
        """Metadata of every daemon of the kind that the cluster knows."""
        return list(client.mon(f"{self.kind} metadata"))


@dataclass(frozen=True)
class HttpService(Service):
    """A kind of daemon that is not Ceph's: it serves HTTP, and the cluster does not know it.

    ready: path that it answers once it serves.
    """

    ready: str = ""

    def missing(self, client: RadosClient, host: Host, ident: str) -> str:
        return silent_http(f"{self.kind}.{ident}", client.host, f"{host.address}:{self.listens(ident)}", self.ready)

    def metadata(self, client: RadosClient) -> Sequence[Metadata]:
        return ()


def letter_of(ident: str) -> str:
    """`b` for `n0.b`, `a` for `n0`; SpecError for `n0.second`, which determines no port."""
    letter = ident.partition(".")[2] or LETTERS[0]
    if letter not in LETTERS or len(letter) > 1:
        raise SpecError(
            f"{ident} must end in one letter, which determines its port",
            f"got {letter!r}, wanted: one of {LETTERS[1]} to {LETTERS[-1]}",
            "write KIND:2 for two daemons of a kind",
        )
    return letter


def silent_http(daemon: str, asker: Host, address: str, path: str = "") -> str:
    """For `Service.missing`: empty if ADDRESS:PORT answers HTTP with any status below 500.

    asker: the host that sends the request. Use the lab's client, because Python takes a second to start on an emulated
    host.
    """
    ask = (
        "import urllib.error as e, urllib.request as u\n"
        f"try: u.urlopen('http://{address}{path}', timeout=5).read()\n"
        "except e.HTTPError as error: assert error.code < 500\n"
    )
    answers = asker.run(["python3", "-c", ask], timeout_s=_ASK_S, check=False).code == 0
    return "" if answers else f"{daemon} does not answer HTTP"
