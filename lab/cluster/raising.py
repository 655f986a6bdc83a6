"""Raises clusters: refuses bad requests, then gets images, starts hosts and deploys Ceph."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from cephlab.lab.base import clock, process
from cephlab.lab.base.errors import LabError, NotReached, noted_on
from cephlab.lab.base.home import Home
from cephlab.lab.base.progress import Progress, quiet
from cephlab.lab.base.runs import Run, Runs, remove_tree, write_json
from cephlab.lab.ceph.client import RadosClient
from cephlab.lab.ceph.conf import STARTED_OSD_OPTIONS, STARTING_OSD_OPTIONS, Sizing
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.deploy import stores
from cephlab.lab.cluster.deploy.packages import Deployer
from cephlab.lab.cluster.own import OwnCluster, identified
from cephlab.lab.cluster.preflight import require_fit
from cephlab.lab.cluster.prune import remove
from cephlab.lab.images.cache import claim
from cephlab.lab.images.image import Image
from cephlab.lab.images.recipe import RecipeBook
from cephlab.lab.providers.base import Images, Provider
from cephlab.lab.providers.host import Host, lacks_aio
from cephlab.lab.services import refuse_unknown, role_sets
from cephlab.lab.services.mgr import MGR
from cephlab.lab.services.prometheus import PROMETHEUS
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import HEALTHY_S, ClusterSpec, number_of

CEPH = ("ceph",)
_METRICS_S = 20.0


class ImageSource(Protocol):
    """Finds or builds the image of a release for an architecture. book: the recipes, by release."""

    @property
    def book(self) -> RecipeBook: ...

    def get(self, release: str, arch: Arch, role_sets: Sequence[str] = ..., *, progress: Progress) -> Image: ...
    def cached(self, release: str, arch: Arch, role_sets: Sequence[str] = ...) -> Image | None: ...
    def pulled(self, release: str, arch: Arch, reference: str) -> Image: ...
    def lacking(self, release: str, arch: Arch, role_sets: Sequence[str] = ...) -> dict[str, str]: ...


def refuse_unfit(
    spec: ClusterSpec, home: Home, images: ImageSource, asked: tuple[str, ...] = CEPH, *, written_bytes: int = 0
) -> Sizing:
    """SpecError if a cluster cannot be raised here. Starts nothing.

    asked: role sets besides those of services; written_bytes: what a load will write, see `require_fit`.
    """
    refuse_unknown(spec)
    for arch in spec.archs if spec.image is None else ():
        images.book.find(spec.release, arch, role_sets(spec, asked))
    home.ensure()
    return require_fit(spec, home.runs, written_bytes)


def images_for(spec: ClusterSpec, images: ImageSource, say: Progress, asked: tuple[str, ...] = CEPH) -> Images:
    """The images of a spec: from the cache, built if missing, or the pulled one that the spec names."""
    if spec.image is not None:
        return {arch: images.pulled(spec.release, arch, spec.image) for arch in spec.archs}
    return {arch: images.get(spec.release, arch, role_sets(spec, asked), progress=say) for arch in spec.archs}


def cached_images(spec: ClusterSpec, images: ImageSource, asked: tuple[str, ...] = CEPH) -> Images:
    """The images of a spec that the cache has. Builds and pulls none."""
    archs = spec.archs if spec.image is None else ()
    cached = {arch: images.cached(spec.release, arch, role_sets(spec, asked)) for arch in archs}
    return {arch: image for arch, image in cached.items() if image is not None}


@dataclass(frozen=True)
class Manner:
    """How to raise a cluster. keep_failed: keep a deployment that fails half-way as it is, for inspection.

    from_stores: start from the kept stores of an identical cluster if the home has some. If it has none,
    `first_healthy` keeps the stores of this cluster.
    """

    keep_failed: bool = False
    from_stores: bool = False


@dataclass(frozen=True)
class ClusterRequest:
    """A cluster to raise. given: images to use instead of those from `images`.

    role_sets: role sets of its images beyond those that services need. name: name of its run; None: random.
    """

    spec: ClusterSpec
    provider: Provider
    home: Home
    images: ImageSource
    role_sets: tuple[str, ...] = CEPH
    name: str | None = None
    given: Images | None = None
    manner: Manner = Manner()


@contextmanager
def raise_for(
    request: ClusterRequest, progress: Progress = quiet, *, healthy_s: float | None = None
) -> Iterator[OwnCluster]:
    """A run with its cluster, which knows its images. Leaving the block removes both unless the run is kept by then.

    healthy_s: how long to wait for a healthy cluster; None: the caller waits. An error inside the block gets a note
    about what became of the run.
    """
    spec, provider = request.spec, request.provider
    runs = Runs(request.home)
    run = runs.create(provider.name, request.name)
    try:
        images = request.given or images_for(spec, request.images, progress, request.role_sets)
        with raise_cluster(provider, spec, images, run, progress=progress, manner=request.manner) as cluster:
            cluster.images = identified(cluster, images)
            if healthy_s is not None:
                first_healthy(cluster, healthy_s)
            yield cluster
    except BaseException as error:
        if not run.kept:
            _remove(request, run, error)
        raise
    if not run.kept:
        runs.forget(run)


def _remove(request: ClusterRequest, run: Run, error: BaseException) -> None:
    """Remove the rest of a failed run. An error here becomes a note of the first error."""
    with noted_on(error, "removing it"):
        remove(request.home, run, {request.provider.name: lambda: request.provider})
        error.add_note("everything that was started has been removed again")


@contextmanager
def raise_cluster(
    provider: Provider,
    spec: ClusterSpec,
    images: Images,
    run: Run,
    *,
    progress: Progress = quiet,
    manner: Manner = Manner(),
) -> Iterator[OwnCluster]:
    """Launch hosts and deploy Ceph. Leaving the block removes the cluster unless the run is kept.

    It is not healthy yet: call `first_healthy`. Bad input is refused before anything starts.
    """
    sizing = require_fit(spec, run.directory)
    claim(run, images.values())
    with provider.launch(spec, images, run, progress=progress) as lab:
        shims = {host.name: images[host.arch].aio_shim for host in lab.hosts.values() if lacks_aio(host)}
        patience = patience_for(images, lab.hosts.values(), run.home.path)
        deployer = Deployer(spec, lab.hosts, shims, sizing, patience, progress)
        progress(sizing.reason)
        cluster = OwnCluster(run, spec, provider, lab, deployer.plan(), deployer)
        if manner.from_stores:
            cluster.stores = name_of_stores(cluster, images)
        client = _deploy(cluster, manner)
        cluster.clients[client.host.name] = client
        try:
            cluster.save()
            yield cluster
        finally:
            cluster.close_clients()


def name_of_stores(cluster: OwnCluster, images: Images) -> str:
    """The name of the kept stores that fit the cluster. Empty, after a progress message, if it cannot use any."""
    if reason := stores.unfit(cluster.spec, cluster.hosts.values()):
        cluster.deployer.progress(f"the cluster is built from scratch, not from kept stores: {reason}")
        return ""
    return stores.name_of(cluster.provider.name, cluster.spec, images, cluster.deployment.options)


def _deploy(cluster: OwnCluster, manner: Manner) -> RadosClient:
    """Deploy Ceph from kept stores that fit the cluster, if the home has some; else from scratch."""
    abort = cluster.keep if manner.keep_failed else cluster.power_off
    shelf, name = stores.Shelf(cluster.run.home), cluster.stores
    own = cluster.run.directory / "stores"
    kept = _taken(cluster, shelf, own) if name else None
    if kept is None:
        return cluster.deployer.deploy(cluster.deployment, abort=abort)
    cluster.deployment = replace(cluster.deployment, fsid=kept.fsid)
    cluster.raised_from = f"the stores of an identical cluster, {kept.age_s / 60:.0f} min old"
    cluster.deployer.progress(f"raising the cluster from {cluster.raised_from}")
    try:
        with shelf.doubting(name):
            return stores.restorer(cluster.deployer, kept).deploy(cluster.deployment, abort=abort)
    finally:
        remove_tree(own)


def _taken(cluster: OwnCluster, shelf: stores.Shelf, folder: Path) -> stores.Kept | None:
    """Copy the kept stores that fit the cluster into a folder. None, and no folder, if they cannot be copied."""
    try:
        return shelf.take(cluster.stores, folder)
    except (LabError, OSError) as error:
        remove_tree(folder)
        cluster.deployer.progress(f"kept stores cannot be used, so the cluster is built from scratch: {error}")
        return None


def first_healthy(cluster: OwnCluster, timeout_s: float = HEALTHY_S) -> None:
    """Wait until a new cluster is healthy. Then keep its stores if later identical clusters are to start from them.

    Its OSDs then get the options of OSDs that started.
    """
    _wait_first_healthy(cluster, timeout_s)
    for option, value in STARTED_OSD_OPTIONS.items():
        # Whoever set the option has it from the start.
        if cluster.deployment.options.get(option) == STARTING_OSD_OPTIONS[option]:
            for osd in cluster.up_osds():
                cluster.client.tell(f"osd.{osd}", "config set", var=option, val=[value])


def _wait_first_healthy(cluster: OwnCluster, timeout_s: float) -> None:
    if not cluster.raised_from:
        make_mgr_pool(cluster, timeout_s)
    if not cluster.stores:
        cluster.wait_healthy(timeout_s)
        return
    shelf = stores.Shelf(cluster.run.home)
    if cluster.raised_from:
        with shelf.doubting(cluster.stores):
            cluster.wait_healthy(timeout_s)
        return
    cluster.wait_healthy(timeout_s)
    try:
        stores.keep(shelf, cluster.stores, cluster.deployment, cluster.client)
    except (LabError, OSError) as error:
        cluster.deployer.progress(f"the stores could not be kept, so the next cluster takes as long: {error}")
    # The daemons were paused for a moment.
    cluster.wait_healthy(timeout_s)


def make_mgr_pool(cluster: OwnCluster, timeout_s: float) -> None:
    """Make the pool `.mgr` when all OSDs are up, with the same values as a manager.

    A manager makes it up to 4 s later: its module `devicehealth` sleeps for 2 s before it looks whether there are
    enough OSDs. If a cluster has fewer OSDs than copies, managers make no pool, nor does this.
    """
    if (number_of(cluster.spec.release) or 0) < _FIRST_WITH_MGR_POOL:
        return
    cluster.wait(lambda status: status.all_up, what="every OSD up", timeout_s=timeout_s)
    copies = int(cluster.deployment.options.get("osd_pool_default_size", "3"))
    if len(cluster.up_osds()) >= copies:
        sure = {"yes_i_really_mean_it": True}
        cluster.client.mon("osd pool create", pool=MGR_POOL, pg_num=1, pg_num_min=1, pg_num_max=32, **sure)
        cluster.client.mon("osd pool application enable", pool=MGR_POOL, app="mgr", **sure)


def managers_serving(cluster: Cluster, known: frozenset[str] = frozenset()) -> frozenset[str]:
    """Processes of the managers. If one of them is not in `known`, wait until the active manager serves its metrics.

    The server of the module `prometheus` starts after the cluster is healthy. Its two dozen threads must not count as
    growth of the scenario that runs then. A request to it would be in its log. If the server never starts, the checks
    of the scenario decide.
    """
    managers = [daemon for daemon in cluster.daemons.values() if daemon.kind == MGR.kind]
    running = frozenset(f"{manager.host.name} {manager.process.ref}" for manager in managers if manager.process)
    if running - known and PROMETHEUS.kind in cluster.client.mon("mgr module ls")["enabled_modules"]:
        with suppress(NotReached):
            clock.wait(
                lambda: dict(cluster.client.mon("mgr services")),
                lambda served: PROMETHEUS.kind in served,
                what="the metrics server of the active manager",
                timeout_s=_METRICS_S * cluster.patience,
            )
    return running


MGR_POOL = ".mgr"
_FIRST_WITH_MGR_POOL = 17  # quincy; it has another name in pacific, which the next release changes
MIN_FACTOR = 2.0
MAX_FACTOR = 10.0

_LOOP = """
import time
began = time.process_time()
table = {}
for number in range(60000):
    table[number % 997] = table.get(number % 991, 0) + number
print(time.process_time() - began)
"""


def patience_for(images: Images, hosts: Iterable[Host], home: Path) -> float:
    """1.0 if every host is native, else the largest factor of the emulated ones.

    The factor is the CPU time of an interpreter loop, emulated divided by native. It is stored next to the images,
    because it depends on the machine and the image. An interpreter is the worst case for an emulator. Daemons were
    measured at 4 to 10 times (mkfs, boot), so the factor is kept between 2 and 10.
    """
    native = [host for host in hosts if not host.emulated]
    emulated = {host.arch: host for host in hosts if host.emulated}
    if not emulated:
        return 1.0
    factors = []
    for arch, host in emulated.items():
        # An emulated machine has another factor than an emulated program.
        kind = "patience" if lacks_aio(host) else "patience-machine"
        store = home / "images" / f"{kind}-{images[arch].key[:16]}.json"
        if not store.is_file():
            baseline = loop_s(native[0]) if native else _own_loop_s()
            write_json(store, {"factor": loop_s(host) / baseline})
        factors.append(float(json.loads(store.read_text())["factor"]))
    return min(MAX_FACTOR, max(MIN_FACTOR, *factors))


def loop_s(host: Host) -> float:
    """CPU seconds of a fixed interpreter loop on a host, without the start of the interpreter."""
    return float(host.run(["python3", "-c", _LOOP], timeout_s=300).stdout)


def _own_loop_s() -> float:
    return float(process.run([sys.executable, "-c", _LOOP], timeout_s=300).stdout)
