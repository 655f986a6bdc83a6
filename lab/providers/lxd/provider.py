"""Providers `lxd` and `lxd-vm`: each node is an LXD instance with its own address, on one machine or on several."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from cephlab.lab.base.errors import Unavailable
from cephlab.lab.base.home import Home
from cephlab.lab.base.progress import Progress
from cephlab.lab.base.runs import Run, RunId
from cephlab.lab.images.image import Image
from cephlab.lab.providers.base import Images
from cephlab.lab.providers.engine.provider import EngineProvider
from cephlab.lab.providers.lxd import imported, names, networks, nodes
from cephlab.lab.providers.lxd.containers import Containers
from cephlab.lab.providers.lxd.kind import InstanceKind, Supply
from cephlab.lab.providers.lxd.lab import LxdLab
from cephlab.lab.providers.lxd.removal import InstanceRemoval, runs_present
from cephlab.lab.providers.lxd.server import Server, address_of, connect, find_servers
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import Capability, ClusterSpec


class LxdProvider(EngineProvider[list[Server], LxdLab]):
    """Nodes as instances of one kind. Needs LXD 5.0 or later, and what the kind needs."""

    def __init__(self, kind: InstanceKind | None = None, find: Callable[[], list[Server]] = find_servers) -> None:
        super().__init__(find, "LXD")
        self._kind = kind or Containers()
        self.name, self.cost, self.usual = self._kind.name, self._kind.cost, self._kind.usual

    def capabilities_of(self, engine: list[Server]) -> frozenset[Capability]:
        return self._kind.capabilities(engine)

    def obstacle(self, engine: list[Server], spec: ClusterSpec | None) -> Unavailable | None:
        reason = self._kind.obstacle(engine)
        if reason is None and spec is not None:
            self._kind.refuse(engine, spec)
        return reason

    def raise_nodes(
        self, engine: list[Server], spec: ClusterSpec, images: Images, run: Run, progress: Progress
    ) -> LxdLab:
        self._kind.refuse(engine, spec)
        supply = self._kind.supply(engine, spec, images, run.home, progress)
        for server in engine:
            nodes.make_project(server, run.id, names.labels(run.id, run.home))
        lab = LxdLab(self._kind, engine, run, networks.make_network(engine, run.id, run.home), supply)
        lab.add_nodes(spec.nodes)
        return lab

    def attach(self, run: Run, state: Mapping[str, Any]) -> LxdLab:
        servers = [connect(address_of(str(url))) for url in state["servers"]]
        fingerprints = {(str(url), Arch(arch)): str(image) for url, arch, image in state["images"]}
        emulated = frozenset(Arch(arch) for arch in state["emulated"])
        lab = LxdLab(self._kind, servers, run, str(state["subnet"]), Supply(fingerprints, emulated))
        lab.restore(state)
        return lab

    def removal(self, engine: list[Server], home: Home, run_id: str) -> InstanceRemoval:
        return InstanceRemoval(engine, home, run_id)

    def runs_in(self, engine: list[Server], home: Home) -> frozenset[RunId]:
        return runs_present(engine, home)

    def forget_in(self, engine: list[Server], image: Image) -> list[str]:
        return [line for server in engine for line in imported.forget(server, image, self._kind.type)]

    def others_in(self, engine: list[Server], keys: Collection[str]) -> list[str]:
        return [line for server in engine for line in imported.others(server, keys, self._kind.type)]

    def hang_up(self, engine: list[Server]) -> None:
        for server in engine:
            server.close()
