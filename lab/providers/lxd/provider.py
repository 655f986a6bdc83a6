"""Provider `lxd`: every node is an LXD instance with its own address, on one machine or on several."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab.arch import Arch
from lab.errors import CleanupFailed, LabError, SpecError, Unavailable
from lab.home import Home
from lab.images.image import Image
from lab.providers import binfmt, packets
from lab.providers.base import Images, Progress, untold
from lab.providers.blockdevices import BlockDevices, limited
from lab.providers.lxd import imported, names, networks, nodes, placement
from lab.providers.lxd.lab import LxdLab
from lab.providers.lxd.placement import Machine
from lab.providers.lxd.removal import Removal, runs_present
from lab.providers.lxd.server import Server, address_of, as_unavailable, connect, find_servers
from lab.runs import Run
from lab.spec import Capability, ClusterSpec

_ALWAYS = frozenset({Capability.OWN_NETWORK, Capability.TAKE_OVER, Capability.CPU_LIMIT, Capability.MEMORY_LIMIT})

_FOLDERS = {"dir", "btrfs", "lvm"}
"""Storage drivers whose volumes lie on a block device that the kernel can limit."""


class LxdProvider:
    """Nodes as LXD containers. Needs LXD 5.0 or later; for a foreign architecture also qemu-user and binfmt_misc."""

    name = "lxd"
    cost = 3

    def __init__(
        self, find: Callable[[], list[Server]] = find_servers, export: imported.Exporter | None = None
    ) -> None:
        self._find = find
        self._export = export

    def capabilities(self) -> frozenset[Capability]:
        """What the LXD here can do; what it usually can, where there is none (see `unavailable`)."""
        try:
            servers = self._find()
        except Unavailable:
            return _ALWAYS | {Capability.MOVE_DISK}
        try:
            return _capabilities(servers)
        finally:
            _close(servers)

    def unavailable(self, spec: ClusterSpec | None = None) -> Unavailable | None:
        try:
            servers = self._find()
        except Unavailable as reason:
            return reason
        try:
            if spec is not None:
                _refuse(servers, spec)
        except LabError as error:
            return as_unavailable(error)
        finally:
            _close(servers)
        return None

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
        _refuse(servers, spec)
        home = names.home_of(run)
        export = self._export or _exporter(home)
        foreign = [arch for arch in spec.archs if not any(server.arch is arch for server in servers)]
        for arch in foreign:
            binfmt.ensure(arch, progress)
        fingerprints = {
            (server.address.url, arch): imported.ensure(server, image, export)
            for server in servers
            for arch, image in images.items()
            if server.arch is arch or (arch in foreign and server.local)
        }
        for server in servers:
            nodes.make_project(server, run.id, names.labels(run.id, home))
        subnet = networks.make_network(servers, run.id, home)
        lab = LxdLab(servers, run, subnet, fingerprints, frozenset(foreign))
        lab.add_nodes(spec.nodes)
        return lab

    def attach(self, run: Run, state: Mapping[str, Any]) -> LxdLab:
        servers = [connect(address_of(str(url))) for url in state["servers"]]
        fingerprints = {(str(url), Arch(arch)): str(image) for url, arch, image in state["images"]}
        emulated = frozenset(Arch(arch) for arch in state["emulated"])
        lab = LxdLab(servers, run, str(state["subnet"]), fingerprints, emulated)
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
        return self._on_each(lambda server: imported.forget(server, image))

    def other_images(self, keys: Collection[str]) -> list[str]:
        return self._on_each(lambda server: imported.others(server, keys))

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


def _exporter(home: Home) -> imported.Exporter:
    def export(image: Image) -> Path:
        # Building images takes modules that a lab of cached ones never needs.
        from lab.images.store import ImageStore

        return ImageStore(home).export(image, "lxd")

    return export


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


def _capabilities(servers: Sequence[Server]) -> frozenset[Capability]:
    found = {*_ALWAYS, Capability.MOVE_DISK}
    if len(servers) == 1:
        if _limits_disks(servers[0]):
            found.add(Capability.DISK_LIMIT)
        if servers[0].sees_processes and packets.obstacle(("iptables", "nsenter")) is None:
            found.add(Capability.CUT_LINKS)
    present = {server.arch for server in servers}
    if len(present) > 1 or any(_emulates(server) - {server.arch} for server in servers):
        found.add(Capability.FOREIGN_ARCH)
    return frozenset(found)


def _emulates(server: Server) -> frozenset[Arch]:
    """Architectures that a machine runs through binfmt_misc; it is known of this very one only."""
    if not server.local:
        return frozenset()
    return frozenset(arch for arch in Arch if arch is not server.arch and binfmt.obstacle(arch) is None)


def _limits_disks(server: Server) -> bool:
    """Whether the kernel can limit the block device below the storage pool."""
    pool = server.get("looking at its storage", server.api().storage_pools[server.pool])
    if pool["driver"] not in _FOLDERS or not server.sees_processes:
        return False
    try:
        BlockDevices().below(Path(str(pool["config"].get("source") or "/")))
    except Unavailable:
        return False
    return True


def _refuse(servers: Sequence[Server], spec: ClusterSpec) -> None:
    """Raise Unavailable or SpecError for what cannot be served here."""
    machines = [Machine(server.address.url, server.arch, 0, _emulates(server)) for server in servers]
    for arch in spec.archs:
        reason = binfmt.obstacle(arch) if all(server.arch is not arch for server in servers) else None
        if reason is not None and any(server.local for server in servers):
            raise reason
    placement.place(spec.nodes, machines)
    for node in spec.nodes:
        bounded = limited(node.disks)
        for disk in bounded:
            nodes.limit_options(disk.limits)
        if len(bounded) > 1:
            raise Unavailable(
                f"{node.name} has {len(bounded)} disks with limits",
                "LXD limits the block device below its storage, which all disks of an instance share",
                "limit one disk of a node only, or use --lab container",
            )
