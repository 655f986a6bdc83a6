"""The kernel's NVMe-over-TCP initiator of a node, with multipath: one device over every gateway it is connected to."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from cephlab.lab.base import clock
from cephlab.lab.base.errors import LabBroken
from cephlab.lab.blockstack import initiator_program
from cephlab.lab.blockstack.nvmeof import PORT, Gateway, Volume, host_nqn
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.providers.host import Host

_PROGRAM = Path(initiator_program.__file__)
_ANSWER_S = 60.0
_LOST_S = 600
"""How long an initiator goes on looking for a gateway that is gone."""


@dataclass(frozen=True)
class Connecting:
    """How a connection is held, in seconds. keep_alive_s: without an answer for so long it is given up.

    digests: whether every header and every piece of data has a checksum on the wire.
    """

    keep_alive_s: int = 5
    reconnect_s: int = 2
    digests: bool = True

    @property
    def noticed_s(self) -> float:
        """How long it takes at most to notice a dead gateway: a question is sent every half of keep_alive_s."""
        return 1.5 * self.keep_alive_s


@dataclass(frozen=True)
class SeenPath:
    """A way to a volume. state: of the connection, as `live`; controller: its number; ana: an `AnaState`, or empty."""

    address: str
    state: str
    controller: int
    ana: str


@dataclass(frozen=True)
class Initiator:
    """One node as a host of NVMe. known_as: the name it asks by; its own unless another is given."""

    cluster: Cluster
    node: str
    connecting: Connecting = Connecting()
    known_as: str = ""

    @property
    def host(self) -> Host:
        return self.cluster.hosts[self.node]

    @property
    def nqn(self) -> str:
        return self.known_as or host_nqn(self.node)

    def connect(self, volume: Volume, gateways: Iterable[Gateway]) -> PurePosixPath:
        """Connect to each gateway; returns the one device. LabBroken with the kernel's words where one refuses."""
        for gateway in gateways:
            if refused := self.refused(volume, gateway):
                raise LabBroken(f"{gateway.name} refuses {self.node}", refused)
        device = clock.wait(
            lambda: self.look(volume)[0],
            bool,
            what=f"the device of {volume.image} on {self.node}",
            timeout_s=_ANSWER_S * self.cluster.patience,
        )
        return PurePosixPath(device)

    def refused(self, volume: Volume, gateway: Gateway) -> str:
        """Connect to a gateway: the kernel's words where that fails, else nothing."""
        self.host.run(["modprobe", "nvme-tcp"])
        options: dict[str, Any] = {
            "nqn": volume.nqn,
            "transport": "tcp",
            "traddr": gateway.address,
            "trsvcid": PORT,
            "hostnqn": self.nqn,
            "hostid": self.nqn.rpartition(":")[2],
            "nr_io_queues": 1,
            "keep_alive_tmo": self.connecting.keep_alive_s,
            "reconnect_delay": self.connecting.reconnect_s,
            "ctrl_loss_tmo": _LOST_S,
        }
        if self.connecting.digests:
            options |= {"hdr_digest": True, "data_digest": True}
        return str(self._ask("connect", options=options)["refused"])

    def look(self, volume: Volume) -> tuple[str, tuple[SeenPath, ...]]:
        """(the device's path, empty while there is none; every way to it)."""
        seen = self._ask("look", nqn=volume.nqn)
        return str(seen["device"]), tuple(SeenPath(**path) for path in seen["paths"])

    def disconnect(self, volume: Volume) -> None:
        self._ask("disconnect", nqn=volume.nqn)

    def _ask(self, do: str, **request: Any) -> dict[str, Any]:
        argv = ["python3", "-c", _PROGRAM.read_text()]
        stdin = json.dumps({"do": do, **request}).encode()
        done = self.host.run(argv, stdin=stdin, timeout_s=_ANSWER_S * self.cluster.patience)
        return dict(json.loads(done.stdout))
