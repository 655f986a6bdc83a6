"""Provider `container`: each node is a container of Docker or Podman with its own address."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from cephlab.lab.base.errors import Unavailable
from cephlab.lab.base.home import Home
from cephlab.lab.base.progress import Progress
from cephlab.lab.base.runs import Run, RunId
from cephlab.lab.images.image import Image
from cephlab.lab.providers import binfmt
from cephlab.lab.providers.base import Images
from cephlab.lab.providers.blockdevices import BlockDevices
from cephlab.lab.providers.container import imported, limits, nodes, strain
from cephlab.lab.providers.container.engine import Engine, connect, find_engine
from cephlab.lab.providers.container.lab import ContainerLab
from cephlab.lab.providers.container.removal import ContainerRemoval, runs_present
from cephlab.lab.providers.engine.provider import EngineProvider, EngineRemoval, exporter
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import Capability, ClusterSpec

_ALWAYS = frozenset(
    {
        Capability.PARTITION,
        Capability.OWN_NETWORK,
        Capability.MOVE_DISK,
        Capability.TAKE_OVER,
        Capability.PULLED_IMAGE,
        Capability.SECOND_IMAGE,
    }
)


class ContainerProvider(EngineProvider[Engine, ContainerLab]):
    """Nodes as containers. Needs an engine; nodes of another architecture also need qemu-user and binfmt_misc."""

    name = "container"
    cost = 2
    usual = _ALWAYS | {Capability.CPU_LIMIT, Capability.MEMORY_LIMIT, Capability.DISK_LIMIT}

    def __init__(self, find: Callable[[], Engine] = find_engine) -> None:
        super().__init__(find, "the engine")

    def capabilities_of(self, engine: Engine) -> frozenset[Capability]:
        able = set(_ALWAYS) | strain.capabilities(engine)
        if engine.limits_machines and (engine.info.get("CpuCfsQuota") or engine.info.get("CPUCfsQuota")):
            able.add(Capability.CPU_LIMIT)
        if engine.limits_machines and engine.info.get("MemoryLimit"):
            able.add(Capability.MEMORY_LIMIT)
        if engine.local:
            able.add(Capability.THIS_MACHINE)
        if engine.local and not engine.rootless and BlockDevices().limits(engine.root_directory):
            able.add(Capability.DISK_LIMIT)
        foreign = [arch for arch in Arch if arch is not engine.arch]
        if not engine.local or any(binfmt.obstacle(arch) is None for arch in foreign):
            able.add(Capability.FOREIGN_ARCH)
        return frozenset(able)

    def obstacle(self, engine: Engine, spec: ClusterSpec | None) -> Unavailable | None:
        for arch in spec.archs if spec else ():
            reason = binfmt.obstacle(arch) if arch is not engine.arch and engine.local else None
            if reason is not None:
                return reason
        for node in spec.nodes if spec else ():
            if limits.wants_loops(node.disks):
                reason = limits.loop_obstacle(node.disks, BlockDevices(), local=engine.local)
                if reason is not None:
                    return reason
        return None

    def raise_nodes(
        self, engine: Engine, spec: ClusterSpec, images: Images, run: Run, progress: Progress
    ) -> ContainerLab:
        reason = self.obstacle(engine, spec)
        if reason is not None:
            raise reason
        for arch in spec.archs:
            if arch is not engine.arch and engine.local:
                binfmt.ensure(arch, progress)
        export = exporter(run.home, "oci", progress)
        loaded = {arch: imported.ensure(engine, images[arch], export, progress) for arch in spec.archs}
        lab = ContainerLab(engine, run, nodes.make_network(engine, run.id, run.home), loaded)
        lab.add_nodes(spec.nodes)
        return lab

    def attach(self, run: Run, state: Mapping[str, Any]) -> ContainerLab:
        lab = ContainerLab(connect(str(state["engine"])), run, str(state["subnet"]), imported.from_state(state))
        lab.restore(state)
        return lab

    def removal(self, engine: Engine, home: Home, run_id: str) -> ContainerRemoval:
        return ContainerRemoval(engine, home, run_id)

    def may_hold(self, engine: Engine, removal: EngineRemoval) -> bool:
        with engine.asked():
            return removal.present()

    def runs_in(self, engine: Engine, home: Home) -> frozenset[RunId]:
        with engine.asked():
            return runs_present(engine, home)

    def forget_in(self, engine: Engine, image: Image) -> list[str]:
        return imported.forget(engine, image)

    def others_in(self, engine: Engine, keys: Collection[str]) -> list[str]:
        with engine.asked():
            return imported.others(engine, keys)

    def hang_up(self, engine: Engine) -> None:
        engine.close()
