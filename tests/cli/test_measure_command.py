"""`cephlab measure` refuses before it starts, and what it measures on is laid out for that."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from cephlab.cli.main import app
from cephlab.cli.measure_request import MeasureRequest, file_name, parse_op, rated
from cephlab.cli.request import parse_bytes
from cephlab.cli.world import World
from cephlab.lab.base.errors import SpecError, Unavailable
from cephlab.lab.cluster import preflight
from cephlab.lab.cluster.preflight import Memory
from cephlab.lab.providers.local import memory
from cephlab.lab.providers.select import Choice
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import Capability
from cephlab.lab.telemetry.demand import Demand, Operation
from cephlab.lab.telemetry.demandfile import Measurement
from cephlab.lab.telemetry.place import ELSEWHERE, MACHINE, MeasuringLayout, client_name, measuring_spec
from cephlab.lab.telemetry.plan import Load
from cephlab.suites.block import costs
from cephlab.suites.block.stand import MeasuredTopology
from tests.fake_provider import FakeProvider, providers

REQUEST = MeasureRequest(
    operations=(("randread", 4096),),
    depth=8,
    low_depth=None,
    arch=host_arch().value,
    replicas=2,
    release="reef",
    lab="local",
    image_bytes=1 << 20,
    within=0.03,
    budget_s=10,
)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--op", "trim"], "'trim'"),
        (["--bs", "4x"], "'4x'"),
        (["--op", "read:0"], "'0'"),
        (["--ec", "1+1"], "'1+1'"),
        (["--arch", "sparc"], "'sparc'"),
        (["--lab", "cloud"], "'cloud'"),
        (["--disks", "tape"], "'tape'"),
        (["--release", "argonaut"], "'argonaut'"),
        (["--release", "reef", "--image", "ceph:v19"], "got --release reef and --image ceph:v19"),
        (["--op", "write:1g", "--size", "256M"], "smaller than one operation"),
    ],
)
def test_bad_input_is_named(arguments: list[str], named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CEPHLAB_HOME", str(tmp_path))
    ended = CliRunner().invoke(app, ["measure", "--json", *arguments])
    assert ended.exit_code == 2, ended.output
    assert named in ended.output
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").iterdir())


@pytest.mark.parametrize("lab", ["ssh", "lxd", "qemu", "uml"])
def test_any_provider_may_be_asked_for_and_auto_takes_those_whose_processes_are_here(lab: str) -> None:
    elsewhere = FakeProvider(lab, cost=1, can=frozenset(Capability) - {Capability.THIS_MACHINE})
    here = FakeProvider("here", cost=2, can=frozenset(Capability))
    world = cast("World", SimpleNamespace(providers=providers(elsewhere, here)))
    assert replace(REQUEST, lab=lab, disks="file").choose(world)[0].provider is elsewhere
    assert replace(REQUEST, lab="auto", disks="file").choose(world)[0].provider is here


@pytest.mark.parametrize(
    ("change", "here", "written_bytes"),
    [
        ({}, True, 2 * 2 << 20),
        ({"clients": 3}, True, 3 * 2 * 2 << 20),
        ({"operations": (("randread", 4096), ("randwrite", 4096))}, True, 2 * 2 * 2 << 20),
        ({"coding": (2, 1)}, True, 3 << 20),
        ({"operations": (("get", 4096),)}, True, 2 << 20),
        ({"operations": (("put", 4096),)}, True, 0),
        ({"operations": (("seq", 4096),)}, True, 2 << 20),
        ({"image_bytes": 1 << 40}, True, 2 * 10 << 30),
        ({}, False, 0),
    ],
    ids=["copies", "clients", "two", "coding", "get", "put", "seq", "no more than the disks", "disks elsewhere"],
)
def test_what_a_measurement_writes_to_disks_in_the_home(
    change: dict[str, Any], written_bytes: int, *, here: bool
) -> None:
    request = replace(REQUEST, **change)
    can = {Capability.DISKS_IN_HOME} if here else set()
    choice = Choice(FakeProvider(can=frozenset(can)), "asked for")
    assert request.written_bytes(choice, request.spec()) == written_bytes
    assert request.written_bytes(choice, request.spec(in_memory=True)) == 0


@pytest.mark.parametrize("more", [[], ["--beside", "same"]], ids=["alone", "beside"])
def test_a_disk_that_cannot_hold_what_is_written_is_refused_at_once(
    more: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CEPHLAB_HOME", str(tmp_path))
    free = 3 * preflight.OSD_DISK_BYTES + (1 << 30)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free))
    monkeypatch.setattr(preflight, "memory", lambda: Memory(64 << 30, 64 << 30))

    def work(*_: object, **__: object) -> None:
        raise AssertionError("refused before any work")

    monkeypatch.setattr("cephlab.lab.cluster.raising.images_for", work)
    ended = CliRunner().invoke(app, ["measure", "--lab", "local", "--disks", "file", *more])
    assert ended.exit_code == 2, ended.output
    assert f"3 OSDs do not fit onto the disk of {tmp_path}/runs" in ended.output
    wanted = (3.8, 3.0) if more else (2.2, 1.5)
    assert "needed about {} GiB, of which the load writes {} GiB, free 1.8 GiB".format(*wanted) in ended.output
    assert "a smaller --size" in ended.output


def test_a_cluster_that_cannot_be_metered_skips_the_suites_costs() -> None:
    stage = cast("Stage", SimpleNamespace(cluster=SimpleNamespace(osd_ids=lambda: [0])))
    with pytest.raises(Unavailable, match="cannot be told apart on 1 OSDs"):
        costs.run(stage, "randread", 4096, 32)


@pytest.mark.parametrize(
    ("conditions", "emulated", "speed"),
    [({}, False, 6.4), ({MACHINE: ELSEWHERE}, False, 0.0), ({"native": "User-Mode Linux"}, True, 0.0)],
)
def test_only_what_was_measured_natively_here_has_this_machines_speed(
    conditions: dict[str, str], emulated: bool, speed: float
) -> None:
    demand = Demand(Operation("randread", 4096), "reef", Arch.X86_64, "0123", {}, emulated=emulated)
    assert rated(Measurement(demand, conditions=conditions), 6.4).demand.core_speed == speed


def test_operations_may_name_their_size() -> None:
    assert parse_op("randread:16k", "4k") == ("randread", 16 << 10)
    assert parse_op("write", "4M") == ("write", 4 << 20)
    assert parse_bytes("--bs", "512") == 512
    with pytest.raises(SpecError, match="--bs"):
        parse_op("write", "tiny")


def test_osds_stand_apart_from_everything_else() -> None:
    spec = measuring_spec(Arch.AARCH64, MeasuringLayout(osds=2, clients=2))
    alone = [node for node in spec.nodes if node.osds]
    assert {node.arch for node in alone} == {Arch.AARCH64}
    assert all(not node.mon and not node.mgr for node in alone)
    assert [node.name for node in spec.nodes if not node.osds] == ["control", client_name(0), client_name(1)]
    assert all(node.arch is host_arch() for node in spec.nodes if not node.osds)


def test_each_client_has_a_node_and_the_lower_load_is_one_of_them() -> None:
    request = replace(REQUEST, clients=3)
    (plan,) = request.plans()
    assert plan.nodes == (client_name(0), client_name(1), client_name(2))
    assert (plan.load, plan.low) == (Load(8, 3), Load(8))
    assert set(plan.nodes) <= {node.name for node in request.spec().nodes}
    assert replace(request, low_depth=2).low() == Load(2, 3)
    assert replace(request, clients=1).low() == Load(2)
    assert replace(request, low_depth=0).low() is None
    demand = Demand(plan.operation, "squid", Arch.AARCH64, "0123456789abcdef", {})
    assert file_name(request, demand) == "squid-aarch64-0123456789ab-randread4k-d8-c3-x2.json"


def test_disks_in_memory_are_asked_of_the_provider() -> None:
    assert Capability.MEMORY_DISK in measuring_spec(Arch.X86_64, MeasuringLayout(in_memory=True)).needs()
    assert Capability.MEMORY_DISK not in measuring_spec(Arch.X86_64).needs()


def test_a_topology_may_be_for_measuring() -> None:
    spec = MeasuredTopology(machines=2).spec("reef", in_memory=True)
    assert spec == measuring_spec(host_arch(), MeasuringLayout(clients=2, in_memory=True))


def test_a_disk_in_memory_is_removed_with_its_run(tmp_path: Path) -> None:
    room, disks = tmp_path / "shm", tmp_path / "disks"
    room.mkdir()
    disks.mkdir()
    memory.make(disks / "n0-block", "cephlab:abc:r1", 1 << 20, room)
    assert (disks / "n0-block").stat().st_size == 1 << 20
    assert memory.marked("cephlab:abc:", room) == {"r1"}
    assert memory.marked("cephlab:other:", room) == frozenset()
    assert memory.remove("cephlab:abc:r1", room) == [str(room / "cephlab-abc-r1")]
    assert memory.remove("cephlab:abc:r1", room) == []
    assert list(room.iterdir()) == []


def test_a_folder_that_takes_no_direct_io_is_named(tmp_path: Path) -> None:
    memory.obstacle.cache_clear()
    obstacle = memory.obstacle(tmp_path / "missing")
    memory.obstacle.cache_clear()
    assert obstacle is not None
    assert "does not support direct I/O" in obstacle
