"""NVMe over TCP before RBD: what both gateways of a pair show alike, and how one takes over from the other."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Protocol
from uuid import NAMESPACE_URL, uuid5
from zlib import crc32

from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.spec.arch import Arch

PORT = 4420
"""IANA's port of NVMe over TCP."""
FENCED_S = 3600.0
"""How long Ceph refuses a fenced client; a gateway that comes back has a new one."""
CONTROLLERS = ((1, 100), (101, 200))
"""Numbers that each gateway of a pair may give its controllers. An initiator refuses a number that it has already."""

_NQN = "nqn.2014-08.org.nvmexpress:uuid:"


class AnaState(StrEnum):
    """How good a gateway's way to the namespace is: Asymmetric Namespace Access of the NVMe base specification."""

    OPTIMIZED = "optimized"
    NON_OPTIMIZED = "non-optimized"
    INACCESSIBLE = "inaccessible"


@dataclass(frozen=True)
class Namespace:
    """An image as a namespace: all of it is the same on both gateways. number: of the namespace in its subsystem."""

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
        """What a gateway has to show it by."""
        return {**asdict(self), "uuid": self.uuid, "nguid": self.nguid}


@dataclass(frozen=True)
class Volume(Namespace):
    """A subsystem with one namespace to begin with. hosts: NQNs of those that may connect.

    secrets: of those that must prove who they are, by NQN (DH-HMAC-CHAP). tls: whether gateways take nothing but TLS.
    """

    hosts: tuple[str, ...] = ()
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    tls: bool = False

    @property
    def serial(self) -> str:
        """Twenty characters, as many as the field has."""
        return self.nguid[:20]

    @property
    def nqn(self) -> str:
        return f"{_NQN}{uuid5(NAMESPACE_URL, f'subsystem:{self.pool}/{self.image}')}"

    @property
    def identity(self) -> dict[str, Any]:
        """What initiators know it by."""
        alike = {"nqn": self.nqn, "serial": self.serial, "uuid": self.uuid, "nguid": self.nguid}
        return {**alike, "hosts": sorted(self.hosts)}


def host_nqn(name: str) -> str:
    """The name by which an initiator of the lab asks to be let in."""
    return f"{_NQN}{uuid5(NAMESPACE_URL, f'host:{name}')}"


def secret_of(key: bytes) -> str:
    """A secret of DH-HMAC-CHAP as both kernels take it: not transformed, with its CRC-32 (NVMe base, 8.13.5.8)."""
    return f"DHHC-1:00:{_checked(key)}:"


def tls_key_of(key: bytes) -> str:
    """A shared key of TLS as `nvme` takes it, of 32 bytes for SHA-256 (NVMe over TCP transport, 3.6.1.5)."""
    return f"NVMeTLSkey-1:01:{_checked(key)}:"


def _checked(key: bytes) -> str:
    return b64encode(key + crc32(key).to_bytes(4, "little")).decode()


class Portal(Protocol):
    """Where an initiator connects."""

    @property
    def name(self) -> str: ...

    @property
    def address(self) -> str: ...

    @property
    def port(self) -> int: ...


class Gateway(Portal, Protocol):
    """A gateway of NVMe over TCP, whatever it is made of: the kernel's target, or SPDK's. name: of its node."""

    @property
    def arch(self) -> Arch: ...

    def serve(self, volume: Volume, state: AnaState) -> None:
        """Open the image and show it, from nothing; again after each boot of its machine."""
        ...

    def turn(self, state: AnaState) -> None:
        """Change the state of its way. It says so to initiators at once."""
        ...

    def add(self, *namespaces: Namespace) -> None:
        """Open more images and show them beside what initiators have already."""
        ...

    def grow(self, namespace: Namespace) -> None:
        """Tell initiators the size that its image has by now."""
        ...

    def remove(self, namespace: Namespace) -> None:
        """Take one away from initiators, and close its image."""
        ...

    def clients(self) -> tuple[str, ...]:
        """Addresses of the Ceph clients that write for it, as known since `serve`: a dead gateway cannot be asked."""
        ...

    def told(self) -> dict[str, Any]:
        """What it says itself that it shows: the keys of `Volume.identity`, group, controllers and state."""
        ...

    def withdraw(self) -> None:
        """Show nothing any more and close the image, as far as it is there."""
        ...


@dataclass
class Pair:
    """Two gateways before one image, of which one serves. fenced: whether Ceph shuts out the one that failed.

    The other is inaccessible until then. An initiator that could use it at once would write through it while writes
    of the failed one may still be under way.
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
        """Open both."""
        self.serving.serve(self.volume, AnaState.OPTIMIZED)
        self.waiting.serve(self.volume, AnaState.INACCESSIBLE)

    def take_over(self) -> None:
        """Have the waiting one serve in place of one that does not answer, once Ceph refuses that one's writes."""
        if self.fenced:
            fence(self.cluster, self.serving.clients())
        self.waiting.turn(AnaState.OPTIMIZED)
        self.serving, self.waiting = self.waiting, self.serving

    def rejoin(self) -> None:
        """Bring the failed one back as the one that waits, with a new client of Ceph's."""
        self.waiting.withdraw()
        self.waiting.serve(self.volume, AnaState.INACCESSIBLE)

    def hand_over(self) -> None:
        """Have the waiting one serve while both live. What the other has under way ends as it began: on its way."""
        self.serving.turn(AnaState.INACCESSIBLE)
        self.waiting.turn(AnaState.OPTIMIZED)
        self.serving, self.waiting = self.waiting, self.serving

    def withdraw(self) -> None:
        """Withdraw both, also where one of them fails."""
        with ExitStack() as undo:
            for gateway in self.gateways:
                undo.callback(gateway.withdraw)


def fence(cluster: Cluster, clients: Sequence[str]) -> None:
    """Have Ceph refuse clients from now on, by their addresses. On return every OSD refuses them."""
    for address in clients:
        cluster.client.mon("osd blocklist", blocklistop="add", addr=address, expire=FENCED_S)
    cluster.wait_map(cluster.up_osds())


def fenced(cluster: Cluster, clients: Sequence[str]) -> list[str]:
    """Those of the clients that Ceph refuses."""
    refused = set(cluster.client.mon("osd dump")["blocklist"])
    return [address for address in clients if address in refused]
