"""The kernel's NVMe-over-TCP initiator on a node, with multipath: one device over all connected gateways."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from cephlab.lab.base import clock
from cephlab.lab.base.errors import LabBroken
from cephlab.lab.blockstack import initiator_program
from cephlab.lab.blockstack.nvmeof import Namespace, Portal, Volume, host_nqn
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.providers.host import Host

_PROGRAM = Path(initiator_program.__file__)
_ANSWER_S = 60.0
_MODULE = PurePosixPath("/sys/module/nvme_tcp")
_LOST_S = 600
"""How long an initiator tries to reconnect to a gateway that is gone."""


@dataclass(frozen=True)
class Connecting:
    """Settings of a connection, in seconds. keep_alive_s: it is given up after so long without an answer.

    digests: whether headers and data have a checksum on the wire; tls: whether it is encrypted, with the key that the
    node has for the volume; queues: number of I/O queues, each with its own TCP connection. The kernel makes no more
    queues than it has CPUs.
    """

    keep_alive_s: int = 5
    reconnect_s: int = 2
    digests: bool = True
    tls: bool = False
    queues: int = 1

    @property
    def noticed_s(self) -> float:
        """The longest time to notice a dead gateway: it sends a keep-alive every half of keep_alive_s."""
        return 1.5 * self.keep_alive_s


@dataclass(frozen=True)
class SeenPath:
    """A path to a volume. state: of the connection, e.g. `live`; controller: its ID; ana: an `AnaState`, or empty.

    queues: number of its I/O queues.
    """

    address: str
    state: str
    controller: int
    ana: str
    queues: int

    def __str__(self) -> str:
        return f"{self.address}: {self.state}"


@dataclass(frozen=True)
class Initiator:
    """One node as an NVMe host. known_as: the host NQN that it uses; empty for its own.

    secret: proves that name to a gateway that asks for it.
    """

    cluster: Cluster
    node: str
    connecting: Connecting = Connecting()
    known_as: str = ""
    secret: str = field(default="", repr=False)

    @property
    def host(self) -> Host:
        return self.cluster.hosts[self.node]

    @property
    def nqn(self) -> str:
        return self.known_as or host_nqn(self.node)

    def connect(self, volume: Volume, portals: Iterable[Portal]) -> PurePosixPath:
        """Connect to each portal; returns the one device. LabBroken with the kernel's message if one refuses."""
        for portal in portals:
            if refused := self.refused(volume, portal):
                raise LabBroken(f"{portal.name} refuses {self.node}", refused)
        device = clock.wait(
            lambda: self.look(volume)[0],
            bool,
            what=f"the device of {volume.image} on {self.node}",
            timeout_s=_ANSWER_S * self.cluster.patience,
        )
        return PurePosixPath(device)

    def refused(self, volume: Volume, portal: Portal) -> str:
        """Connect to a portal; returns the kernel's message if that fails, else an empty text."""
        options: dict[str, Any] = {
            "nqn": volume.nqn,
            **self._asking(portal),
            "nr_io_queues": self.connecting.queues,
            "keep_alive_tmo": self.connecting.keep_alive_s,
            "reconnect_delay": self.connecting.reconnect_s,
            "ctrl_loss_tmo": _LOST_S,
        }
        if self.connecting.digests:
            options |= {"hdr_digest": True, "data_digest": True}
        if self.connecting.tls:
            options["tls"] = True
        if self.secret:
            options["dhchap_secret"] = self.secret
        return str(self._ask("connect", options=options)["refused"])

    def discovered(self, portal: Portal) -> list[list[str]]:
        """NQN and address of each subsystem that a portal's discovery returns to this host. LabBroken if refused."""
        answer = self._ask("discover", options=self._asking(portal))
        if answer["refused"]:
            raise LabBroken(f"{portal.name} refuses discovery to {self.node}", str(answer["refused"]))
        return list(answer["told"])

    def _asking(self, portal: Portal) -> dict[str, Any]:
        """The options for the address of a portal and the identity of this host."""
        if not self.host.exists(_MODULE):
            self.host.run(["modprobe", _MODULE.name])
        where = {"transport": "tcp", "traddr": portal.address, "trsvcid": portal.port}
        return {**where, "hostnqn": self.nqn, "hostid": self.nqn.rpartition(":")[2]}

    def look(self, volume: Volume) -> tuple[str, tuple[SeenPath, ...]]:
        """(path of the device, empty while there is none; every NVMe path to it)."""
        answer = self._ask("look", nqn=volume.nqn)
        return str(answer["device"]), tuple(SeenPath(**path) for path in answer["paths"])

    def size_bytes(self, volume: Volume, namespace: Namespace) -> int:
        """Size of a namespace's device; 0 while there is none."""
        return int(self._namespaces(volume).get(str(namespace.number), {"size_bytes": 0})["size_bytes"])

    def device(self, volume: Volume, namespace: Namespace) -> PurePosixPath:
        """The device of a namespace, which must exist."""
        return PurePosixPath(self._namespaces(volume)[str(namespace.number)]["device"])

    def devices(self, volume: Volume, namespaces: Sequence[Namespace]) -> list[PurePosixPath]:
        """The device of each namespace; waits until all exist."""
        numbers = [str(namespace.number) for namespace in namespaces]
        devices = clock.wait(
            lambda: self._namespaces(volume),
            lambda devices: set(numbers) <= devices.keys(),
            what=f"{len(numbers)} devices on {self.node}",
            timeout_s=_ANSWER_S * self.cluster.patience,
        )
        return [PurePosixPath(devices[number]["device"]) for number in numbers]

    def _namespaces(self, volume: Volume) -> dict[str, Any]:
        return dict(self._ask("look", nqn=volume.nqn)["namespaces"])

    def disconnect(self, volume: Volume) -> None:
        self._ask("disconnect", nqn=volume.nqn)

    def _ask(self, do: str, **request: Any) -> dict[str, Any]:
        timeout_s = _ANSWER_S * self.cluster.patience
        return self.cluster.programs.ask(self.host, _PROGRAM, {"do": do, **request}, timeout_s=timeout_s)
