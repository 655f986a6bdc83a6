"""A gateway that uses the kernel's NVMe target over krbd, on a node with its own kernel.

It is not a `Service`: the target is not a process that could be started, paused or found dead, only its machine could.
Its images come with the scenarios, after the cluster's daemons.
"""

from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from cephlab.lab.blockstack import nvmet_program
from cephlab.lab.blockstack.nvmeof import PORT, AnaState, Namespace, Volume
from cephlab.lab.ceph import conf
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.providers.host import Host
from cephlab.lab.spec.arch import Arch

_PROGRAM = Path(nvmet_program.__file__)
_ANSWER_S = 60.0
_MODULES = PurePosixPath("/sys/module")


@dataclass
class KernelGateway:
    """The target of one node. controllers: the first and last controller ID that it assigns.

    device: the image's device on its kernel, once it serves.
    """

    cluster: Cluster
    name: str
    controllers: tuple[int, int]
    device: str = ""
    _clients: tuple[str, ...] = ()
    _wanted: dict[str, Any] = field(default_factory=dict)

    @property
    def host(self) -> Host:
        return self.cluster.hosts[self.name]

    @property
    def arch(self) -> Arch:
        return self.host.arch

    @property
    def address(self) -> str:
        return self.host.address

    @property
    def port(self) -> int:
        return PORT

    def serve(self, volume: Volume, state: AnaState) -> None:
        self._load()
        self._wanted = {**asdict(volume), **volume.identity, **self._own(), "state": state}
        mapped = self._ask("serve")
        self.device, self._clients = mapped["device"], (mapped["client"],)

    def turn(self, state: AnaState) -> None:
        self._wanted["state"] = state
        self._ask("turn")

    def add(self, *namespaces: Namespace) -> None:
        added = self._ask("add", *namespaces)
        self._clients = tuple(dict.fromkeys((*self._clients, *added["clients"])))

    def grow(self, namespace: Namespace) -> None:
        self._ask("grow", namespace)

    def remove(self, namespace: Namespace) -> None:
        self._ask("remove", namespace)

    def clients(self) -> tuple[str, ...]:
        return self._clients

    def told(self) -> dict[str, Any]:
        return self._ask("told")

    def withdraw(self) -> None:
        if self._wanted:
            self._ask("withdraw")

    def _load(self) -> None:
        """Load modules and mount configfs, once for each boot."""
        target, modules = PurePosixPath(nvmet_program.TARGET), ("rbd", "nvmet_tcp")
        if not all(self.host.exists(_MODULES / module) for module in modules):
            self.host.run(["modprobe", "-a", *modules])
        if not self.host.exists(target):
            self.host.run(["mount", "-t", "configfs", "configfs", str(target.parent)])

    def _own(self) -> dict[str, Any]:
        mons = [daemon.host.address for daemon in self.cluster.daemons.values() if daemon.kind == "mon"]
        return {
            "address": self.address,
            "port": self.port,
            "controllers": list(self.controllers),
            "monitors": ",".join(f"{address}:{conf.MON_PORT}" for address in mons),
            "user": self.cluster.client_name.removeprefix("client."),
            "keyring": str(self.host.directory / "keyring"),
        }

    def _ask(self, do: str, *namespaces: Namespace) -> dict[str, Any]:
        visible = [namespace.shown for namespace in namespaces]
        request = {"do": do, "wanted": self._wanted, "namespaces": visible}
        return self.cluster.programs.ask(self.host, _PROGRAM, request, timeout_s=_ANSWER_S * self.cluster.patience)
