"""Labs for the contract: one per provider, raised once per module; every test runs on each provider."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from cephlab.lab.base.home import Home, default_home
from cephlab.lab.base.runs import Run, Runs
from cephlab.lab.images.store import ImageStore
from cephlab.lab.providers.base import Images, Lab, Provider
from cephlab.lab.providers.host import Host
from cephlab.lab.providers.select import PROVIDERS
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import DEFAULT_RELEASE, MIB, Capability, ClusterSpec, Disk, Node
from cephlab.lab.spec.inventory import INVENTORY_VARIABLE
from tests.contract.raising import skip_guests
from tests.contract.standing import Standing, standing
from tests.contract.yard import SSH_VARIABLE, Kind, Spot, Yard, machines

FOREIGN = next(arch for arch in Arch if arch is not host_arch())
DISK_BYTES = 64 * MIB

SSH_KINDS = tuple(f"ssh-{kind}" for kind in Kind)
SSH_MACHINES = 6  # a place of two, and two runs side by side of two more

Launch = Callable[..., AbstractContextManager[Lab]]


@dataclass(frozen=True)
class Place:
    """A lab that is up, with what is needed to find it again."""

    provider: Provider
    lab: Lab
    run: Run
    home: Home

    @property
    def native(self) -> Host:
        return self.lab.hosts["n0"]


def node(name: str, arch: Arch | None = None, *disks: str) -> Node:
    return Node(name, arch or host_arch(), tuple(Disk(disk, DISK_BYTES) for disk in disks))


def spec_of(*nodes: Node) -> ClusterSpec:
    """A valid spec around bare machines: the contract starts no Ceph, but a spec has a monitor and a manager."""
    first, *rest = nodes
    head = Node(first.name, first.arch, first.disks, mon=True, mgr=True, cores=first.cores)
    return ClusterSpec((head, *rest))


@pytest.fixture(scope="session")
def home() -> Home:
    return default_home()


@pytest.fixture(scope="session")
def images(home: Home) -> Images:
    """Both architectures' images: from the cache, or built."""
    store = ImageStore(home)
    return {arch: store.get(DEFAULT_RELEASE, arch) for arch in (host_arch(), FOREIGN)}


@contextmanager
def ssh_machines(kind: Kind, home: Home, images: Images, folder: Path) -> Iterator[Yard]:
    """Machines for the provider `ssh`, which has none of its own."""
    spots = [Spot(f"m{number}") for number in range(SSH_MACHINES)]
    with machines(kind, folder, spots, home, images) as bare_machines:
        yield bare_machines


@pytest.fixture(scope="session")
def ssh_loopback(home: Home, images: Images, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    with ssh_machines(Kind.LOOPBACK, home, images, tmp_path_factory.mktemp("yard")) as bare_machines:
        yield bare_machines


@pytest.fixture(scope="session")
def ssh_containers(home: Home, images: Images, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    with ssh_machines(Kind.CONTAINERS, home, images, tmp_path_factory.mktemp("yard")) as bare_machines:
        yield bare_machines


@pytest.fixture(scope="module", params=[*(name for name in PROVIDERS if name != "ssh"), *SSH_KINDS])
def provider(request: pytest.FixtureRequest) -> Iterator[Provider]:
    skip_guests(request.param)
    with pytest.MonkeyPatch.context() as patch:
        if request.param in SSH_KINDS:
            yard: Yard = request.getfixturevalue(request.param.replace("-", "_"))
            patch.setenv(INVENTORY_VARIABLE, str(yard.inventory))
        chosen = PROVIDERS["ssh" if request.param in SSH_KINDS else request.param]()
        reason = chosen.unavailable()
        if reason is not None:
            pytest.skip(str(reason))
        yield chosen


def has(provider: Provider, capability: Capability) -> None:
    if capability not in provider.capabilities():
        pytest.skip(f"{provider.name} has no {capability}")


@pytest.fixture(scope="module")
def launch(provider: Provider, images: Images, home: Home) -> Callable[..., AbstractContextManager[Place]]:
    """Raise nodes as a run of their own; leaving the block removes them and the run's directory."""

    @contextmanager
    def raised(*nodes: Node) -> Iterator[Place]:
        runs = Runs(home)
        run = runs.create(provider.name)
        try:
            with provider.launch(spec_of(*nodes), images, run) as lab:
                yield Place(provider, lab, run, home)
        finally:
            runs.forget(run)

    return raised


@pytest.fixture(scope="module")
def place(launch: Callable[..., AbstractContextManager[Place]], provider: Provider) -> Iterator[Place]:
    """n0, n1 of this machine's architecture and, where the provider can, n2 of the other."""
    nodes = [node("n0", None, "d0", "d1"), node("n1", None, "e0")]
    if Capability.FOREIGN_ARCH in provider.capabilities():
        nodes.append(node("n2", FOREIGN, "f0"))
    with launch(*nodes) as launched:
        yield launched


@pytest.fixture(params=["native", "foreign"])
def host(request: pytest.FixtureRequest, place: Place) -> Host:
    hosts: Mapping[str, Host] = place.lab.hosts
    if request.param == "foreign":
        has(place.provider, Capability.FOREIGN_ARCH)
        return hosts["n2"]
    return hosts["n0"]


@pytest.fixture(scope="session", params=list(Kind))
def stands(
    request: pytest.FixtureRequest, home: Home, images: Images, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Standing]:
    """A cluster that was there before, on machines of either kind."""
    if os.environ.get(SSH_VARIABLE) != "1":
        pytest.skip(f"attaching is tried where {SSH_VARIABLE}=1, as `tox -e lab` has it: minutes")
    with standing(request.param, home, images, tmp_path_factory.mktemp("standing")) as stand:
        yield stand
