"""NVMe over TCP in front of RBD: what both gateways of a pair export, and failover between them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Protocol
from uuid import NAMESPACE_URL, uuid5
from zlib import crc32

from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.spec.arch import Arch

PORT = 4420
"""The IANA port of NVMe over TCP."""
FENCED_S = 3600.0
"""How long Ceph refuses a fenced client. A gateway that comes back has a new client."""
CONTROLLERS = ((1, 100), (101, 200))
"""Ranges of controller IDs for the two gateways of a pair. An initiator refuses an ID that it already has."""

_NQN = "nqn.2014-08.org.nvmexpress:uuid:"


class AnaState(StrEnum):
    """The state of a gateway's path to the namespace: Asymmetric Namespace Access of the NVMe base specification."""

    OPTIMIZED = "optimized"
    NON_OPTIMIZED = "non-optimized"
    INACCESSIBLE = "inaccessible"


@dataclass(frozen=True)
class Namespace:
    """An image as a namespace, identical on both gateways. number: namespace ID in the subsystem."""

    pool: str
    image: str
    number: int = field(default=1, kw_only=True)

    @property
    def uuid(self) -> str:
        return str(uuid5(NAMESPACE_URL, f"rbd:{self.pool}/{self.image}"))

    @property
    def nguid(self) -> str:
        return self.uuid.replace("-", "")

    @property
    def shown(self) -> dict[str, Any]:
        """What a gateway needs to export it."""
        return {**asdict(self), "uuid": self.uuid, "nguid": self.nguid}


@dataclass(frozen=True)
class Volume(Namespace):
    """A subsystem, at first with one namespace. hosts: NQNs of the hosts that may connect.

    secrets: NQN -> secret of hosts that must authenticate (DH-HMAC-CHAP). tls: whether gateways accept only TLS.
    """

    hosts: tuple[str, ...] = ()
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    tls: bool = False

    @property
    def serial(self) -> str:
        """The serial number: twenty characters, the length of the field."""
        return self.nguid[:20]

    @property
    def nqn(self) -> str:
        return f"{_NQN}{uuid5(NAMESPACE_URL, f'subsystem:{self.pool}/{self.image}')}"

    @property
    def identity(self) -> dict[str, Any]:
        """What identifies it to initiators."""
        same = {"nqn": self.nqn, "serial": self.serial, "uuid": self.uuid, "nguid": self.nguid}
        return {**same, "hosts": sorted(self.hosts)}


def host_nqn(name: str) -> str:
    """The host NQN of an initiator of the lab."""
    return f"{_NQN}{uuid5(NAMESPACE_URL, f'host:{name}')}"


def secret_of(key: bytes) -> str:
    """A DH-HMAC-CHAP secret in the format of both kernels: not transformed, with its CRC-32 (NVMe base, 8.13.5.8)."""
    return f"DHHC-1:00:{_checked(key)}:"


def tls_key_of(key: bytes) -> str:
    """A TLS pre-shared key in the format of `nvme`: 32 bytes for SHA-256 (NVMe over TCP transport, 3.6.1.5)."""
    return f"NVMeTLSkey-1:01:{_checked(key)}:"


def _checked(key: bytes) -> str:
    return b64encode(key + crc32(key).to_bytes(4, "little")).decode()


class Portal(Protocol):
    """What an initiator connects to."""

    @property
    def name(self) -> str: ...

    @property
    def address(self) -> str: ...

    @property
    def port(self) -> int: ...


class Gateway(Portal, Protocol):
    """An NVMe-over-TCP gateway, with the target of the kernel or of SPDK. name: of its node."""

    @property
    def arch(self) -> Arch: ...

    def serve(self, volume: Volume, state: AnaState) -> None:
        """Open the image and export it from scratch; needed again after each boot of its machine."""
        ...

    def turn(self, state: AnaState) -> None:
        """Change the ANA state of its path. Initiators are notified at once."""
        ...

    def add(self, *namespaces: Namespace) -> None:
        """Open more images and export them in addition."""
        ...

    def grow(self, namespace: Namespace) -> None:
        """Tell initiators the new size of its image."""
        ...

    def remove(self, namespace: Namespace) -> None:
        """Stop exporting a namespace, and close its image."""
        ...

    def clients(self) -> tuple[str, ...]:
        """Addresses of its Ceph clients, as known since `serve`: a dead gateway cannot be asked."""
        ...

    def told(self) -> dict[str, Any]:
        """What it reports that it exports: the keys of `Volume.identity`, group, controllers and state."""
        ...

    def withdraw(self) -> None:
        """Stop exporting everything, and close the images that are open."""
        ...


@dataclass
class Pair:
    """Two gateways in front of one image; one of them serves. fenced: whether Ceph fences the one that failed.

    The other one is inaccessible until then. An initiator that could use it at once would write through it while
    writes of the failed one may still be in flight.
    """

    cluster: Cluster
    volume: Volume
    serving: Gateway
    waiting: Gateway
    fenced: bool = True

    @property
    def gateways(self) -> tuple[Gateway, Gateway]:
        return self.serving, self.waiting

    def serve(self) -> None:
        """Start both gateways."""
        self.serving.serve(self.volume, AnaState.OPTIMIZED)
        self.waiting.serve(self.volume, AnaState.INACCESSIBLE)

    def take_over(self) -> None:
        """Fail over from a gateway that does not answer, after Ceph has started to refuse its writes."""
        if self.fenced:
            fence(self.cluster, self.volume.pool, self.serving.clients())
        self.waiting.turn(AnaState.OPTIMIZED)
        self.serving, self.waiting = self.waiting, self.serving

    def rejoin(self) -> None:
        """Bring the failed gateway back as the waiting one, with a new Ceph client."""
        self.waiting.withdraw()
        self.waiting.serve(self.volume, AnaState.INACCESSIBLE)

    def hand_over(self) -> None:
        """Switch to the waiting gateway while both are alive. Requests in flight end on the old path."""
        self.serving.turn(AnaState.INACCESSIBLE)
        self.waiting.turn(AnaState.OPTIMIZED)
        self.serving, self.waiting = self.waiting, self.serving

    def withdraw(self) -> None:
        """Withdraw both, even if one fails."""
        with ExitStack() as undo:
            for gateway in self.gateways:
                undo.callback(gateway.withdraw)


def fence(cluster: Cluster, pool: str, clients: Sequence[str]) -> None:
    """Have Ceph refuse clients, by their addresses. When this returns every PG of the pool refuses them."""
    for address in clients:
        cluster.client.mon("osd blocklist", blocklistop="add", addr=address, expire=FENCED_S)
    pools.wait_map_in_use(cluster, pool)


def fenced(cluster: Cluster, clients: Sequence[str]) -> list[str]:
    """The clients that Ceph refuses, out of these."""
    refused = set(cluster.client.mon("osd dump")["blocklist"])
    return [address for address in clients if address in refused]
