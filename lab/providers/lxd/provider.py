"""Provider `lxd`: every node is an LXD instance with its own address, on one machine or on several."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from lab.arch import Arch
from lab.errors import CleanupFailed, LabError, SpecError, Unavailable
from lab.home import Home
from lab.images.image import Image
from lab.providers.base import Images, Progress, untold
from lab.providers.lxd import imported, names, networks, nodes
from lab.providers.lxd.containers import Containers
from lab.providers.lxd.kind import Kind, Supply
from lab.providers.lxd.lab import LxdLab
from lab.providers.lxd.removal import Removal, runs_present
from lab.providers.lxd.server import Server, address_of, as_unavailable, connect, find_servers
from lab.runs import Run
from lab.spec import Capability, ClusterSpec


class LxdProvider:
    """Nodes as instances of one kind. Needs LXD 5.0 or later, and what the kind needs."""

    def __init__(self, kind: Kind | None = None, find: Callable[[], list[Server]] = find_servers) -> None:
        self._kind = kind or Containers()
        self._find = find

    @property
    def name(self) -> str:
        return self._kind.name

    @property
    def cost(self) -> int:
        return self._kind.cost

    def capabilities(self) -> frozenset[Capability]:
        """What the LXD here can do; what it usually can, where there is none (see `unavailable`)."""
        try:
            servers = self._find()
        except Unavailable:
            return self._kind.usual()
        try:
            return self._kind.capabilities(servers)
        finally:
            _close(servers)

    def unavailable(self, spec: ClusterSpec | None = None) -> Unavailable | None:
        try:
            servers = self._find()
        except Unavailable as absent:
            return absent
        try:
            reason = self._kind.obstacle(servers)
            if reason is None and spec is not None:
                self._kind.refuse(servers, spec)
        except LabError as error:
            return as_unavailable(error)
        finally:
            _close(servers)
        return reason

    @contextmanager
    def launch(self, spec: ClusterSpec, images: Images, run: Run, *, progress: Progress = untold) -> Iterator[LxdLab]:
        servers = self._find()
        home = names.home_of(run)
        try:
            _refuse_taken(servers, home, run)
        except BaseException:
            # What is there is another run's: it stays.
            _close(servers)
            raise
        try:
            yield self._raise(servers, spec, images, run, progress)
        except BaseException as error:
            if not run.kept:
                _close_after(error, servers, home, run)
            raise
        if not run.kept:
            _remove(servers, home, run)

    def _raise(self, servers: list[Server], spec: ClusterSpec, images: Images, run: Run, progress: Progress) -> LxdLab:
        self._kind.refuse(servers, spec)
        home = names.home_of(run)
        supply = self._kind.supply(servers, spec, images, home, progress)
        for server in servers:
            nodes.make_project(server, run.id, names.labels(run.id, home))
        subnet = networks.make_network(servers, run.id, home)
        lab = LxdLab(self._kind, servers, run, subnet, supply)
        lab.add_nodes(spec.nodes)
        return lab

    def attach(self, run: Run, state: Mapping[str, Any]) -> LxdLab:
        servers = [connect(address_of(str(url))) for url in state["servers"]]
        fingerprints = {(str(url), Arch(arch)): str(image) for url, arch, image in state["images"]}
        emulated = frozenset(Arch(arch) for arch in state["emulated"])
        lab = LxdLab(self._kind, servers, run, str(state["subnet"]), Supply(fingerprints, emulated))
        lab.restore(state)
        return lab

    def leftovers(self, home: Home) -> frozenset[str]:
        try:
            servers = self._find()
        except Unavailable:
            return frozenset()
        try:
            return runs_present(servers, home)
        finally:
            _close(servers)

    def forget_image(self, image: Image) -> list[str]:
        return self._on_each(lambda server: imported.forget(server, image, self._kind.type))

    def other_images(self, keys: Collection[str]) -> list[str]:
        return self._on_each(lambda server: imported.others(server, keys, self._kind.type))

    def _on_each(self, work: Callable[[Server], list[str]]) -> list[str]:
        """Nothing where no LXD answers."""
        try:
            servers = self._find()
        except Unavailable:
            return []
        try:
            return [line for server in servers for line in work(server)]
        finally:
            _close(servers)

    def prune(self, home: Home, run_id: str) -> list[str]:
        """By labels alone. Where no LXD answers, Unavailable if the run is known to be in one, else nothing."""
        try:
            servers = self._find()
        except Unavailable:
            if Run(run_id, home.runs / run_id).owner().get("provider") == self.name:
                raise
            return []
        try:
            removal = Removal(servers, home, run_id).everything()
        finally:
            _close(servers)
        if removal.errors:
            raise CleanupFailed(removal.errors)
        return removal.removed


def _close(servers: Sequence[Server]) -> None:
    for server in servers:
        server.close()


def _refuse_taken(servers: Sequence[Server], home: Home, run: Run) -> None:
    if Removal(servers, home, run.id).present():
        raise SpecError(
            f"LXD has things of a cluster called {run.id!r} already",
            f"labels: {names.labels(run.id, home)}",
            f"choose another --name, or remove it: cephlab prune (or cephlab down {run.id})",
        )


def _remove(servers: Sequence[Server], home: Home, run: Run) -> None:
    removal = Removal(servers, home, run.id).everything()
    _close(servers)
    if removal.errors:
        raise CleanupFailed(removal.errors)


def _close_after(error: BaseException, servers: Sequence[Server], home: Home, run: Run) -> None:
    """Clean up while an error is on its way; what goes wrong here is told with it, not instead of it."""
    try:
        _remove(servers, home, run)
    except LabError as also:
        error.add_note(f"and cleaning up: {also}")
