"""`cephlab up`: raise a cluster, wait until it is healthy, and leave it running."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli import microceph
from cli.output import JsonOption, Output, reporting
from cli.request import Request, nodes_text, warnings
from cli.signals import interruptible
from cli.world import World, world_of
from lab.errors import LabError, NotReached

if TYPE_CHECKING:
    from lab.arch import Arch
    from lab.cluster import Cluster
    from lab.images.image import Image
    from lab.providers.base import Provider
    from lab.runs import Run
    from lab.spec import ClusterSpec

HEALTHY_S = 120.0
_TAIL_LINES = 4

Say = Callable[[str], None]


def up(
    ctx: typer.Context,
    *,
    nodes: Annotated[
        str | None,
        typer.Option(help="ARCH:COUNT,... Default: 2 native and 1 of the other architecture.", show_default=False),
    ] = None,
    release: Annotated[
        str | None,
        typer.Option(help="Ceph release; `cephlab image ls` shows those built. Not with --image.", show_default="reef"),
    ] = None,
    osds_per_node: Annotated[int | None, typer.Option(help="OSDs on each node.", show_default="1")] = None,
    mons: Annotated[
        int | None, typer.Option(help="Monitors, 1 to 5, over both architectures.", show_default="1")
    ] = None,
    mgrs: Annotated[int | None, typer.Option(help="Managers.", show_default="1")] = None,
    disk_size: Annotated[str | None, typer.Option(help="Size of each OSD's sparse disk.", show_default="10GiB")] = None,
    separate_db: Annotated[
        bool | None, typer.Option("--separate-db", help="Give each OSD a disk for its RocksDB.")
    ] = None,
    lab: Annotated[str, typer.Option(help="auto, or a provider; see `cephlab doctor`.")] = "auto",
    image: Annotated[str | None, typer.Option(help="Pulled image instead of a built one.", metavar="REF")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the cluster; made up when left out.")] = None,
    spec: Annotated[Path | None, typer.Option(help="TOML file that describes the whole cluster.")] = None,
    option: Annotated[
        list[str] | None, typer.Option(help="ceph.conf setting; repeatable.", metavar="KEY=VALUE")
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for HEALTH_OK, before patience.")] = HEALTHY_S,
    keep: Annotated[bool, typer.Option("--keep", help="Leave a cluster that failed to come up as it is.")] = False,
    deploy: microceph.DeployOption = microceph.PACKAGES,
    inventory: microceph.InventoryOption = None,
    snap: microceph.SnapOption = None,
    device: microceph.DeviceOption = None,
    gateway: microceph.GatewayOption = None,
    as_json: JsonOption = False,
) -> None:
    """Raise a cluster and leave it running; prints its name."""
    with reporting(as_json) as out:
        request = Request(
            nodes, release, osds_per_node, mons, mgrs, disk_size, separate_db, image, tuple(option or ()), spec
        )
        snaps = microceph.Wanted(release, osds_per_node, disk_size, inventory, snap, device or (), gateway or (), name)
        microceph.refuse_misplaced(deploy, snaps, request.of_packages)
        if deploy == microceph.MICROCEPH:
            found = microceph.raise_microceph(world_of(ctx), out, snaps)
        else:
            raising = Raising(world_of(ctx), out, lab=lab, name=name, timeout_s=timeout, keep=keep)
            found = raising.do(request)
        out.result(str(found["name"]), found)


class Raising:
    """One `up`, from its options to a healthy cluster that outlives this process."""

    def __init__(self, world: World, out: Output, *, lab: str, name: str | None, timeout_s: float, keep: bool) -> None:
        self._world = world
        self._out = out
        self._lab = lab
        self._name = name
        self._timeout_s = timeout_s
        self._keep = keep

    def do(self, request: Request) -> dict[str, Any]:
        """Refuse, or raise the cluster; returns what `--json` prints. Removes everything when it fails."""
        from lab.clock import SYSTEM
        from lab.preflight import require_fit

        began = SYSTEM.monotonic()
        provider, spec = self._plan(request)
        runs = self._world.runs
        self._world.home.ensure()
        require_fit(spec, self._world.home.runs)
        with interruptible(self._out.note), self._out.progress() as say:
            run = runs.create(provider.name, self._name)
            try:
                cluster = self._raise(provider, spec, run, say)
            except BaseException as error:
                if not run.kept:
                    self._remove(run, error)
                raise
        return describe(cluster, seconds=SYSTEM.monotonic() - began)

    def _plan(self, request: Request) -> tuple[Provider, ClusterSpec]:
        from lab.arch import Arch, host_arch
        from lab.providers.select import choose

        other = next(arch for arch in Arch if arch is not host_arch())
        spec = request.build(foreign_runs=self._foreign_runs(other) if request.nodes is None else True)
        if spec.image is None:
            for arch in spec.archs:
                self._world.images.book.find(spec.release, arch)
        choice = choose(self._lab, spec, providers=self._world.providers)
        if request.nodes is None and request.spec is None:
            self._out.note(f"nodes: {nodes_text(spec)} (choose with --nodes)")
        self._out.note(f"provider: {choice.reason}")
        for line in warnings(spec):
            self._out.warn(line)
        return choice.provider, spec

    def _foreign_runs(self, arch: Arch) -> bool:
        """Whether the provider asked for, or any under `auto`, has nodes of another architecture here."""
        from lab.providers.select import AUTO, provider
        from lab.spec import Capability

        names = self._world.providers if self._lab == AUTO else [self._lab]
        found = [provider(name, self._world.providers) for name in names]
        return any(one.unavailable() is None and Capability.FOREIGN_ARCH in one.capabilities() for one in found)

    def _raise(self, provider: Provider, spec: ClusterSpec, run: Run, say: Say) -> Cluster:
        from lab.cluster import raise_cluster
        from lab.pulled import identified

        images = self._images(spec, say)
        with raise_cluster(provider, spec, images, run, progress=say, keep_failed=self._keep) as cluster:
            try:
                identified(cluster, images)
                say("waiting for HEALTH_OK")
                cluster.wait_healthy(self._timeout_s)
                cluster.write_client_files()
            except BaseException as error:
                if isinstance(error, NotReached):
                    error.detail += "\n" + last_words(cluster)
                if self._keep:
                    cluster.keep()
                    error.add_note(f"kept as {cluster.name}; remove it with: cephlab down {cluster.name}")
                raise
            # From here on nobody but `down` removes it, so nothing that can fail may come before it is healthy.
            cluster.keep()
            say("healthy")
            return cluster

    def _images(self, spec: ClusterSpec, say: Say) -> Mapping[Arch, Image]:
        if spec.image is not None:
            return {arch: self._world.images.pulled(spec.release, arch, spec.image) for arch in spec.archs}
        store = self._world.images
        return {arch: store.get(spec.release, arch, progress=say) for arch in spec.archs}

    def _remove(self, run: Run, error: BaseException) -> None:
        """Remove what is left of a run that failed; what goes wrong here is told with the error, not instead."""
        from lab.prune import remove

        try:
            remove(self._world.home, run, self._world.providers)
        except LabError as also:
            error.add_note(f"and removing it failed: {also}")
        else:
            error.add_note("everything that was started has been removed again")


def describe(cluster: Cluster, *, seconds: float) -> dict[str, Any]:
    """What `up --json` prints. conf, keyring: files on this machine; seconds: from the command's start."""
    from lab.pulled import described

    conf, keyring = cluster.client_files
    return {
        "name": cluster.name,
        "release": cluster.spec.release,
        "image": described(cluster),
        "provider": cluster.provider_name,
        "fsid": cluster.deployment.fsid,
        "conf": str(conf),
        "keyring": str(keyring),
        "seconds": round(seconds, 2),
        "nodes": [
            {
                "name": host.name,
                "arch": host.arch.value,
                "address": host.address,
                "emulated": host.emulated,
                "daemons": sorted(d.name for d in cluster.daemons.values() if d.host.name == host.name),
            }
            for host in cluster.hosts.values()
        ],
    }


def last_words(cluster: Cluster) -> str:
    """The ends of all daemons' logs: they are about to be removed with the cluster."""
    parts = []
    for daemon in cluster.daemons.values():
        tail = daemon.log_tail(_TAIL_LINES)
        parts.append(f"last log lines of {daemon.name} on {daemon.host.name}:\n{tail or '(none)'}")
    return "\n".join(parts)
