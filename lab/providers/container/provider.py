"""Provider `container`: every node is a container with its own address, on Docker or Podman."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab.arch import Arch
from lab.errors import CleanupFailed, LabError, SpecError, Unavailable
from lab.home import Home
from lab.images.image import Image
from lab.providers import binfmt
from lab.providers.base import Images, Progress, untold
from lab.providers.blockdevices import BlockDevices
from lab.providers.container import imported, limits, names, networks, strain
from lab.providers.container.engine import Engine, as_unavailable, connect, find_engine
from lab.providers.container.lab import ContainerLab
from lab.providers.container.removal import Removal, runs_present
from lab.runs import Run
from lab.spec import Capability, ClusterSpec

_ALWAYS = frozenset(
    {
        Capability.PARTITION,
        Capability.OWN_NETWORK,
        Capability.MOVE_DISK,
        Capability.TAKE_OVER,
        Capability.PULLED_IMAGE,
    }
)


class ContainerProvider:
    """Nodes as containers. Needs an engine; for nodes of another architecture also qemu-user and binfmt_misc."""

    name = "container"
    cost = 2

    def __init__(self, find: Callable[[], Engine] = find_engine, export: imported.Exporter | None = None) -> None:
        self._find = find
        self._export = export

    def capabilities(self) -> frozenset[Capability]:
        """What the engine here can do; what an engine usually can, where there is none (see `unavailable`)."""
        try:
            engine = self._find()
        except Unavailable:
            return frozenset(_ALWAYS | {Capability.CPU_LIMIT, Capability.MEMORY_LIMIT, Capability.DISK_LIMIT})
        try:
            return _capabilities(engine)
        finally:
            engine.close()

    def unavailable(self, spec: ClusterSpec | None = None) -> Unavailable | None:
        try:
            engine = self._find()
        except Unavailable as reason:
            return reason
        try:
            return None if spec is None else _obstacle(engine, spec)
        except LabError as error:
            return as_unavailable(error)
        finally:
            engine.close()

    @contextmanager
    def launch(
        self, spec: ClusterSpec, images: Images, run: Run, *, progress: Progress = untold
    ) -> Iterator[ContainerLab]:
        engine = self._find()
        home = names.home_of(run)
        try:
            _refuse_taken(engine, home, run)
        except BaseException:
            # What is there is another run's: it stays.
            engine.close()
            raise
        try:
            yield self._raise(engine, spec, images, run, progress)
        except BaseException as error:
            if not run.kept:
                _close_after(error, engine, home, run)
            raise
        if not run.kept:
            _remove(engine, home, run)

    def _raise(self, engine: Engine, spec: ClusterSpec, images: Images, run: Run, progress: Progress) -> ContainerLab:
        reason = _obstacle(engine, spec)
        if reason is not None:
            raise reason
        for arch in spec.archs:
            if arch is not engine.arch and engine.local:
                binfmt.ensure(arch, progress)
        export = self._export or _exporter(names.home_of(run))
        tags = {arch: imported.ensure(engine, images[arch], export) for arch in spec.archs}
        lab = ContainerLab(engine, run, networks.make_network(engine, run.id, names.home_of(run)), tags)
        lab.add_nodes(spec.nodes)
        return lab

    def attach(self, run: Run, state: Mapping[str, Any]) -> ContainerLab:
        images = {Arch(arch): str(image) for arch, image in state["images"].items()}
        lab = ContainerLab(connect(str(state["engine"])), run, str(state["subnet"]), images)
        lab.restore(state)
        return lab

    def leftovers(self, home: Home) -> frozenset[str]:
        try:
            engine = self._find()
        except Unavailable:
            return frozenset()
        try:
            return runs_present(engine, home)
        finally:
            engine.close()

    def forget_image(self, image: Image) -> list[str]:
        return self._with_engine(lambda engine: imported.forget(engine, image))

    def other_images(self, keys: Collection[str]) -> list[str]:
        return self._with_engine(lambda engine: imported.others(engine, keys))

    def _with_engine(self, work: Callable[[Engine], list[str]]) -> list[str]:
        """Nothing where no engine answers."""
        try:
            engine = self._find()
        except Unavailable:
            return []
        try:
            return work(engine)
        finally:
            engine.close()

    def prune(self, home: Home, run_id: str) -> list[str]:
        """By labels alone. Where no engine answers, Unavailable if the run is known to be in one, else nothing."""
        try:
            engine = self._find()
        except Unavailable:
            if Run(run_id, home.runs / run_id).owner().get("provider") == self.name:
                raise
            return []
        try:
            removal = Removal(engine, home, run_id).everything()
        finally:
            engine.close()
        if removal.errors:
            raise CleanupFailed(removal.errors)
        return removal.removed


def _exporter(home: Home) -> imported.Exporter:
    def export(image: Image) -> Path:
        # Building images takes modules that a lab of cached ones never needs.
        from lab.images.store import ImageStore

        return ImageStore(home).export(image, "oci")

    return export


def _refuse_taken(engine: Engine, home: Home, run: Run) -> None:
    if Removal(engine, home, run.id).present():
        raise SpecError(
            f"the engine has things of a cluster called {run.id!r} already",
            f"labels: {names.labels(run.id, home)}",
            f"choose another --name, or remove it: cephlab prune (or cephlab down {run.id})",
        )


def _remove(engine: Engine, home: Home, run: Run) -> None:
    removal = Removal(engine, home, run.id).everything()
    engine.close()
    if removal.errors:
        raise CleanupFailed(removal.errors)


def _close_after(error: BaseException, engine: Engine, home: Home, run: Run) -> None:
    """Clean up while an error is on its way; what goes wrong here is told with it, not instead of it."""
    try:
        _remove(engine, home, run)
    except LabError as also:
        error.add_note(f"and cleaning up: {also}")


def _capabilities(engine: Engine) -> frozenset[Capability]:
    found = set(_ALWAYS)
    if engine.limits_machines and (engine.info.get("CpuCfsQuota") or engine.info.get("CPUCfsQuota")):
        found.add(Capability.CPU_LIMIT)
    if engine.limits_machines and engine.info.get("MemoryLimit"):
        found.add(Capability.MEMORY_LIMIT)
    if engine.local and not engine.rootless:
        try:
            BlockDevices().below(engine.root_directory)
            found.add(Capability.DISK_LIMIT)
        except Unavailable:
            found.discard(Capability.DISK_LIMIT)
    found |= strain.capabilities(engine)
    foreign = [arch for arch in Arch if arch is not engine.arch]
    if not engine.local or any(binfmt.obstacle(arch) is None for arch in foreign):
        found.add(Capability.FOREIGN_ARCH)
    return frozenset(found)


def _obstacle(engine: Engine, spec: ClusterSpec) -> Unavailable | None:
    for arch in spec.archs:
        reason = binfmt.obstacle(arch) if arch is not engine.arch and engine.local else None
        if reason is not None:
            return reason
    for node in spec.nodes:
        if limits.wants_loops(node.disks):
            reason = limits.loop_obstacle(node.disks, BlockDevices(), local=engine.local)
            if reason is not None:
                return reason
    return None
