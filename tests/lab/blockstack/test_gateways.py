"""Both kinds of gateways keep one protocol: the kernel's target on trees of files, SPDK's by a real gRPC server."""

import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base.errors import CephTrouble, NotReached, SpecError, Unavailable
from cephlab.lab.base.process import Result
from cephlab.lab.blockstack import nvmet_program
from cephlab.lab.blockstack.gatewayapi import GatewayApi, GatewayRefused
from cephlab.lab.blockstack.nvmeof import AnaState, Gateway, Namespace, Volume, host_nqn, secret_of
from cephlab.lab.blockstack.nvmet import KernelGateway
from cephlab.lab.blockstack.spdk import Member, MonitoredPair, SpdkGateway, gateways_of, members, pair_of
from cephlab.lab.cluster.attach.cluster import AttachedCluster
from cephlab.lab.cluster.attach.guard import Existing, Guard, NotPermitted
from cephlab.lab.cluster.attach.permit import Permit
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.providers.programs import Programs
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.inventory import Inventory, Machine, NvmeofAccess, Role
from tests.fake_gateways import MIB, POOL, Group, serving
from tests.lab.blockstack.test_nvmeof import Answering

HOSTS = (host_nqn("c0"), host_nqn("c1"))
VOLUME = Volume("pool", "image", HOSTS)
SECOND = Namespace("pool", "second", number=2)


@dataclass
class Kind:
    """Two gateways of one kind. turned: brings about what `turn` waits for; grown: makes the second image larger;
    size_bytes: of a namespace, as the gateway shows it; left: all that is left of what they showed.
    """

    gateways: tuple[Gateway, Gateway]
    turned: Callable[[], None]
    grown: Callable[[], None]
    left: Callable[[], Any]


@dataclass
class TargetHost:
    """A machine whose kernel is a tree of files."""

    name: str
    folder: Path
    arch: Arch = Arch.X86_64
    address: str = "10.0.0.1"

    @property
    def directory(self) -> PurePosixPath:
        return PurePosixPath("/d")

    def exists(self, _: PurePosixPath) -> bool:
        return True

    def up(self) -> bool:
        return True

    def run(self, argv: Sequence[str]) -> Result:
        return Result(tuple(argv), 0, b"", b"")

    def channel(self, argv: Sequence[str]) -> Answering:
        return Answering(lambda asked: nvmet_program.answer(asked, self.folder / "nvmet", self.folder / "rbd"))


@contextmanager
def kernels(folder: Path, patch: pytest.MonkeyPatch) -> Iterator[Kind]:
    mapped = {"device": "/dev/rbd0", "client": "10.0.0.1:0/1"}
    patch.setattr(Path, "rmdir", shutil.rmtree)  # the kernel removes an item's attributes with it
    patch.setattr(nvmet_program, "map_image", lambda *_: mapped)
    patch.setattr(nvmet_program, "unmap", lambda *_: None)
    hosts = {name: TargetHost(name, folder / name) for name in ("gw1", "gw2")}
    cluster = SimpleNamespace(hosts=hosts, daemons={}, programs=Programs(), patience=1.0, client_name="client.admin")
    gw1, gw2 = (KernelGateway(cast("Cluster", cluster), name, (1, 100)) for name in hosts)

    def left() -> list[str]:
        return [str(path) for path in folder.rglob("*") if path.is_file() or path.is_symlink()]

    yield Kind((gw1, gw2), lambda: None, lambda: None, left)


def attached(group: Group, *, patience: float = 1.0, pools: frozenset[str] = frozenset({"pool"})) -> AttachedCluster:
    """As much of an attached cluster as gateways ask for."""

    def mon(prefix: str, **asked: str) -> dict[str, Any]:
        assert (prefix, asked["pool"]) == ("nvme-gw show", POOL)
        return group.show()

    client = SimpleNamespace(mon=mon, rbd_look=lambda _pool, image, _pieces: {"size": group.images[image]})
    guard = Guard(Permit(pools=pools), Existing(), dict)
    return cast("AttachedCluster", SimpleNamespace(client=client, guard=guard, patience=patience))


@contextmanager
def group_of(group: Group, *, patience: float = 1.0) -> Iterator[tuple[SpdkGateway, SpdkGateway]]:
    cluster = attached(group, patience=patience)
    with serving(group) as addresses:
        gw1, gw2 = (
            SpdkGateway(cluster, name, Arch.X86_64, at, GatewayApi(address), POOL)
            for name, at, address in zip(group.names, ("10.0.0.1", "10.0.0.2"), addresses, strict=True)
        )
        yield gw1, gw2


@contextmanager
def spdks(_folder: Path, _patch: pytest.MonkeyPatch) -> Iterator[Kind]:
    group = images()
    with group_of(group) as gateways:
        larger = {**group.images, "second": 6 * MIB}
        yield Kind(gateways, lambda: group.lose("gw1"), lambda: group.images.update(larger), lambda: group.subsystems)


def images() -> Group:
    return Group({"image": 16 * MIB, "second": 4 * MIB})


@pytest.fixture(params=[kernels, spdks])
def kind(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kind]:
    with request.param(tmp_path, monkeypatch) as made:
        yield made


def test_a_gateway_of_either_kind_serves_what_a_volume_is(kind: Kind) -> None:
    gw1, gw2 = kind.gateways
    gw1.serve(VOLUME, AnaState.OPTIMIZED)
    gw2.serve(VOLUME, AnaState.INACCESSIBLE)
    told = [gateway.told() for gateway in kind.gateways]
    assert [{key: each[key] for key in VOLUME.identity} for each in told] == [VOLUME.identity] * 2
    assert [each["state"] for each in told] == ["optimized", "inaccessible"]
    assert told[0]["group"] == told[1]["group"]
    assert all(first < last for first, last in (each["controllers"] for each in told))
    assert gw1.clients() == ("10.0.0.1:0/1",)
    kind.turned()
    gw2.turn(AnaState.OPTIMIZED)
    assert gw2.told()["state"] == "optimized"


@pytest.mark.slow
def test_namespaces_of_either_kind_come_grow_and_go(kind: Kind) -> None:
    gw1, gw2 = kind.gateways
    gw1.serve(VOLUME, AnaState.OPTIMIZED)
    gw2.serve(VOLUME, AnaState.INACCESSIBLE)
    for gateway in kind.gateways:
        gateway.add(SECOND)
    kind.grown()
    for gateway in kind.gateways:
        gateway.grow(SECOND)
    for gateway in kind.gateways:
        gateway.remove(SECOND)
    assert {key: gw1.told()[key] for key in VOLUME.identity} == VOLUME.identity
    for _ in range(2):
        for gateway in kind.gateways:
            gateway.withdraw()
    assert not kind.left()


def test_a_gateway_that_serves_nothing_withdraws_nothing(kind: Kind) -> None:
    for gateway in kind.gateways:
        gateway.withdraw()
    assert not kind.left()


@pytest.mark.parametrize(
    "idle",
    ["create_subsystem", "add_host", "create_listener", "namespace_add", "namespace_resize", "namespace_delete"],
)
def test_a_gateway_that_says_yes_and_does_nothing_is_found_out(idle: str) -> None:
    group = images()
    group.idle = {idle}
    with group_of(group, patience=0.0) as (gateway, _), pytest.raises(CephTrouble):
        use(gateway, group)


def use(gateway: SpdkGateway, group: Group) -> None:
    gateway.serve(VOLUME, AnaState.OPTIMIZED)
    gateway.add(SECOND)
    group.images["second"] = 6 * MIB
    gateway.grow(SECOND)
    gateway.remove(SECOND)


def test_a_pair_that_only_says_that_it_handed_over_is_found_out() -> None:
    group = images()
    group.idle = {"namespace_change_load_balancing_group"}
    with group_of(group, patience=0.0) as (gw1, gw2):
        pair = MonitoredPair(attached(group), VOLUME, gw1, gw2)
        pair.serve()
        with pytest.raises(NotReached, match="ANA group 2"):
            pair.hand_over()


def test_what_a_killed_run_left_is_taken_away_first() -> None:
    group = images()
    group.subsystems[VOLUME.nqn] = {"serial": "old", "hosts": {"nqn.old": ""}, "listeners": {}, "namespaces": {}}
    with group_of(group) as (gateway, _):
        gateway.serve(VOLUME, AnaState.OPTIMIZED)
        assert {key: gateway.told()[key] for key in VOLUME.identity} == VOLUME.identity


def test_a_subsystem_that_stays_is_found_out() -> None:
    group = images()
    with group_of(group, patience=0.0) as (gateway, _):
        gateway.serve(VOLUME, AnaState.OPTIMIZED)
        group.idle = {"delete_subsystem"}
        with pytest.raises(NotReached, match="delete_subsystem"):
            gateway.withdraw()


def test_a_refusal_has_the_gateways_status_and_words() -> None:
    group = images()
    group.refusals = {"namespace_add": (19, "No such image")}
    with (
        group_of(group) as (gateway, _),
        pytest.raises(GatewayRefused, match="refused namespace_add with ENODEV") as told,
    ):
        gateway.serve(VOLUME, AnaState.OPTIMIZED)
    assert (told.value.status, told.value.detail) == (19, "No such image")


def test_what_is_there_for_another_reason_is_told_in_the_gateways_words() -> None:
    group = images()
    group.refusals = {"namespace_add": (17, "image is already used by nqn.other")}
    with group_of(group, patience=0.0) as (gateway, _), pytest.raises(NotReached, match=r"already used by nqn\.other"):
        gateway.serve(VOLUME, AnaState.OPTIMIZED)


def test_a_secret_that_a_gateway_passes_over_lets_nobody_in() -> None:
    volume = Volume("pool", "image", HOSTS, {HOSTS[0]: secret_of(bytes(32))})
    group = images()
    with group_of(group, patience=0.0) as (gateway, _):
        gateway.serve(volume, AnaState.OPTIMIZED)
        assert group.subsystems[volume.nqn]["hosts"] == {HOSTS[0]: volume.secrets[HOSTS[0]], HOSTS[1]: ""}
        group.knows_secrets = False
        with pytest.raises(NotReached, match="add_host"):
            gateway.serve(volume, AnaState.OPTIMIZED)


def test_a_gateway_before_the_api_that_is_spoken_is_refused() -> None:
    group = images()
    group.version = "1.1.0"
    with group_of(group) as (gateway, _), pytest.raises(Unavailable, match="too old"):
        gateway.serve(VOLUME, AnaState.OPTIMIZED)


def test_only_images_of_pools_on_the_list_are_shown() -> None:
    group = images()
    with group_of(group) as (gateway, _):
        gateway.cluster = attached(group, pools=frozenset({"other"}))
        with pytest.raises(NotPermitted, match="'pool' is not on the list"):
            gateway.serve(VOLUME, AnaState.OPTIMIZED)
    assert group.asked == []


def test_tls_is_not_passed_over() -> None:
    group = images()
    with group_of(group) as (gateway, _), pytest.raises(SpecError, match="TLS"):
        gateway.serve(replace(VOLUME, tls=True), AnaState.OPTIMIZED)
    assert group.asked == []


def test_a_size_that_the_api_cannot_say_is_refused() -> None:
    group = images()
    with group_of(group) as (gateway, _):
        gateway.serve(VOLUME, AnaState.OPTIMIZED)
        group.images["image"] += 512
        with pytest.raises(SpecError, match="whole MiB"):
            gateway.grow(VOLUME)


@pytest.mark.slow
def test_a_monitored_pair_waits_for_what_the_monitors_do() -> None:
    group = images()
    with group_of(group) as (gw1, gw2):
        pair = MonitoredPair(attached(group), VOLUME, gw1, gw2)
        pair.serve()
        assert group.subsystems[VOLUME.nqn]["listeners"] == {"gw1": ("10.0.0.1", "4420"), "gw2": ("10.0.0.2", "4420")}
        group.lose("gw1")
        pair.take_over()
        assert (pair.serving.name, gw2.told()["state"]) == ("gw2", "optimized")
        group.find("gw1")
        pair.rejoin()
        assert (pair.serving.name, gw1.told()["state"], gw2.told()["state"]) == ("gw1", "optimized", "inaccessible")
        pair.hand_over()
        assert [gateway.told()["group"] for gateway in (gw1, gw2)] == ["2", "2"]
        assert (pair.serving.name, gw2.told()["state"], gw1.told()["state"]) == ("gw2", "optimized", "inaccessible")
        pair.hand_over()
        assert pair.serving.name == "gw1"
        pair.withdraw()
    assert group.subsystems == {}


def test_a_twin_that_the_monitors_never_turn_is_named() -> None:
    group = images()
    with group_of(group) as (gw1, gw2):
        pair = MonitoredPair(attached(group), VOLUME, gw1, gw2)
        pair.serve()
        gw2.cluster = attached(group, patience=0.0)
        with pytest.raises(NotReached, match="gw2 optimized for ANA group 1"):
            pair.take_over()


def test_the_monitors_words_are_read() -> None:
    group = images()
    group.lose("gw1")
    assert members(group.show()) == {
        "client.nvmeof.gw1": Member(False, 1, {1: "STANDBY", 2: "STANDBY"}),
        "client.nvmeof.gw2": Member(True, 2, {1: "ACTIVE", 2: "ACTIVE"}),
    }
    assert members({"epoch": 1, "num gws": 0}) == {}


def test_a_gateway_that_the_monitors_do_not_know_is_named() -> None:
    group = images()
    with group_of(group) as (gateway, _):
        group.show = lambda: {"num gws": 0}  # type: ignore[method-assign]
        with pytest.raises(CephTrouble, match=r"no gateway client\.nvmeof\.gw1"):
            gateway.member()


def machine(number: int, *roles: Role) -> Machine:
    return Machine(f"m{number}", f"192.0.2.{number}", f"198.51.100.{number}", Arch.AARCH64, frozenset(roles))


def inventory(*machines: Machine, access: NvmeofAccess | None) -> AttachedCluster:
    known = Inventory(Path("inventory.toml"), machines, nvmeof=access)
    return cast("AttachedCluster", SimpleNamespace(inventory=known))


def test_gateways_are_those_that_the_inventory_names() -> None:
    cluster = inventory(machine(1, Role.NVMEOF), machine(2, Role.CLIENT), access=NvmeofAccess(POOL, 5501))
    [gateway] = gateways_of(cluster)
    assert (gateway.name, gateway.arch, gateway.pool) == ("m1", Arch.AARCH64, POOL)
    assert (gateway.api.address, gateway.address, gateway.port) == ("192.0.2.1:5501", "198.51.100.1", 4420)
    with pytest.raises(Unavailable, match="needs two"):
        pair_of(cluster, VOLUME)
    with pytest.raises(Unavailable, match="names no NVMe-oF gateway of the attached cluster"):
        gateways_of(inventory(machine(1, Role.CLIENT), access=None))


def test_without_its_libraries_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(Unavailable, match="grpcio and protobuf are not installed") as told:
        gateways_of(inventory(machine(1, Role.NVMEOF), access=NvmeofAccess(POOL)))
    assert "cephlab[nvmeof]" in told.value.hint
