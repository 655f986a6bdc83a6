"""How long a cluster takes to HEALTH_OK with a clean pool: from nothing, from kept stores, and in the plain way."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from rich.console import Console
from rich.table import Table

from cephlab.lab.base.home import Home, default_home
from cephlab.lab.base.runs import Run, Runs
from cephlab.lab.ceph.daemon import Daemon
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.deploy.packages import Deployer
from cephlab.lab.cluster.preflight import require_fit
from cephlab.lab.cluster.raising import Manner, first_healthy, patience_for, raise_cluster
from cephlab.lab.images.store import ImageStore
from cephlab.lab.providers.base import Images
from cephlab.lab.providers.select import choose
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.clusterspec import HEALTHY_S, ClusterSpec
from tests.bench.plain import PlainBringUp

pytestmark = pytest.mark.bench

POOL = "bench"
PG_NUM = 16
RELEASE = "reef"
ANEW, FROM_STORES = Manner(), Manner(from_stores=True)


@dataclass(frozen=True)
class Cost:
    """seconds: wall clock to a clean pool; cpu_s: of all daemons; resident_bytes: of all daemons, at the end."""

    seconds: float
    cpu_s: float
    resident_bytes: int


@dataclass(frozen=True)
class Bench:
    """What all ways of bringing up share."""

    spec: ClusterSpec
    images: Images
    runs: Runs

    def ours(self, manner: Manner = ANEW) -> Cost:
        run = self.runs.create("local")
        try:
            began = time.monotonic()
            provider = choose("local", self.spec).provider
            with raise_cluster(provider, self.spec, self.images, run, manner=manner) as cluster:
                if manner.from_stores and not cluster.raised_from:
                    first_healthy(cluster)  # which keeps them
                pools.create(cluster, POOL, pg_num=PG_NUM)  # which waits until its PGs are clean
                cluster.wait(
                    lambda status: status.sound and status.mgr_available and status.clean,
                    what="HEALTH_OK",
                    timeout_s=HEALTHY_S,
                )
                return cost_since(began, list(cluster.daemons.values()))
        finally:
            self.runs.forget(run)

    def plain(self) -> Cost:
        run = self.runs.create("local")
        try:
            return self._plain(run)
        finally:
            self.runs.forget(run)

    def _plain(self, run: Run) -> Cost:
        began = time.monotonic()
        sizing = require_fit(self.spec, run.directory)
        with choose("local", self.spec).provider.launch(self.spec, self.images, run) as lab:
            shims = {host.name: self.images[host.arch].aio_shim for host in lab.hosts.values() if host.emulated}
            patience = patience_for(self.images, lab.hosts.values(), self.runs.home.path)
            deployer = Deployer(self.spec, lab.hosts, shims, sizing, patience, lambda _line: None)
            bring_up = PlainBringUp(deployer)
            deployment = bring_up.deploy()
            bring_up.make_pool(POOL, PG_NUM)
            bring_up.wait_clean()
            return cost_since(began, list(deployment.daemons.values()))


def cost_since(began: float, daemons: list[Daemon]) -> Cost:
    """The cost of a bring-up that has just ended."""
    seconds = time.monotonic() - began
    processes = [psutil.Process(daemon.process.pid) for daemon in daemons if daemon.process is not None]
    times = [process.cpu_times() for process in processes]
    return Cost(
        seconds=seconds,
        cpu_s=sum(spent.user + spent.system for spent in times),
        resident_bytes=sum(process.memory_info().rss for process in processes),
    )


@pytest.fixture(scope="module")
def show() -> Iterator[Callable[[str, Mapping[str, Cost]], None]]:
    table = Table(title="bring-up to HEALTH_OK with a clean pool (local provider, 1 mon, 1 mgr, 3 OSDs)")
    for column in ("cluster", "way", "seconds", "daemons' CPU s", "resident MiB", "times quicker"):
        table.add_column(column)

    def add(name: str, costs: Mapping[str, Cost]) -> None:
        for way, cost in costs.items():
            figures = (f"{cost.seconds:.1f}", f"{cost.cpu_s:.1f}", f"{cost.resident_bytes / (1 << 20):.0f}")
            table.add_row(name, way, *figures, f"{costs['plain'].seconds / cost.seconds:.1f}")

    yield add
    Console(width=120).print(table)


@pytest.fixture(scope="module")
def home() -> Home:
    return default_home().ensure()


@pytest.mark.parametrize(
    ("name", "topology"), [("native", Topology(native=3, foreign=0)), ("mixed", Topology(native=2, foreign=1))]
)
def test_bring_up(name: str, topology: Topology, home: Home, show: Callable[[str, Mapping[str, Cost]], None]) -> None:
    spec = topology.spec(RELEASE)
    store = ImageStore(home)
    images = {arch: store.get(RELEASE, arch) for arch in spec.archs}
    bench = Bench(spec, images, Runs(home))
    require_warm(images)
    plain, ours = bench.plain(), bench.ours()
    bench.ours(FROM_STORES)  # keeps them, where there are none
    restored = bench.ours(FROM_STORES)
    show(name, {"plain": plain, "cephlab": ours, "cephlab, from stores": restored})
    # The one thing that would make this pointless; the figures themselves are for reading.
    assert ours.seconds < plain.seconds
    assert restored.seconds < (ours if topology.foreign else plain).seconds, "stores save the emulated mkfs"


def require_warm(images: Images) -> None:
    """Read the binaries once, so that the first of the two ways does not pay for the disk."""
    for image in images.values():
        for program in ("ceph-osd", "ceph-mon", "ceph-mgr"):
            assert Path(image.root / "usr/bin" / program).read_bytes()
