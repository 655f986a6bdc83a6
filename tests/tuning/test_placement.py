"""Where operations, shards and clients fall: mixed nodes, few clients, mixed clients, shapes that do not fit."""

from dataclasses import replace

import pytest

from cephlab.lab.base.errors import SpecError
from cephlab.lab.telemetry.demand import Demand, Role
from cephlab.tuning.ceilings import ceilings
from cephlab.tuning.model import predict
from cephlab.tuning.placement import doubts, loads, replica_share, shards_read, without_largest
from cephlab.tuning.profile import Profile
from cephlab.tuning.work import work_for
from cephlab.tuning.workload import Shape
from tests.model_parts import demand, disks, machine, profile

WRITE = Shape("randwrite", 4096, 50, 20)
GB = 1e9


def mixed(big_disks: int) -> Profile:
    small, big = disks("s", write_iops=1000), disks("b", count=big_disks, write_iops=1000)
    return profile(machine("small", count=2, disk=(small,)), machine("big", count=1, disk=(big,)))


@pytest.mark.parametrize("big_disks", [1, 4, 16, 64])
def test_a_write_keeps_its_copies_however_the_nodes_differ(big_disks: int) -> None:
    shares = loads(mixed(big_disks), WRITE)

    assert sum(load.count * (load.primary + load.replica) for load in shares) == pytest.approx(3)
    assert sum(load.count * load.primary for load in shares) == pytest.approx(1)
    # Three copies on three hosts: each takes every write.
    assert all(load.primary + load.replica == pytest.approx(1) for load in shares)


def test_a_larger_host_does_not_make_the_small_ones_faster() -> None:
    def most(big_disks: int) -> float:
        limits = ceilings(mixed(big_disks), work_for([demand(primary_s=1e-9, writes=3, write_bytes=12288)], WRITE))
        return next(ceiling.ops for ceiling in limits if ceiling.name == "small: disk s")

    assert most(64) == pytest.approx(most(1))


def test_what_a_full_host_cannot_take_goes_to_the_others_by_their_size() -> None:
    nodes = profile(
        machine("big", count=1, disk=(disks(count=10),)),
        machine("middle", count=2, disk=(disks(count=2),)),
        machine("small", count=2, disk=(disks(count=1),)),
    )
    held = {load.name: load.primary + load.replica for load in loads(nodes, replace(WRITE, replicas=2))}

    # Big: 1. The other copy on weights 2, 2, 1, 1.
    assert held == pytest.approx({"big": 1.0, "middle": 2 / 6, "small": 1 / 6})


@pytest.mark.parametrize(("k", "m"), [(0, 0), (2, 1)])
def test_more_shards_than_hosts_are_doubted(k: int, m: int) -> None:
    two = profile(machine(count=2, disk=(disks(count=4),)))
    made = predict([demand(primary_s=1e-4, replicas_s=2e-4)], two, replace(WRITE, k=k, m=m))

    assert any("failure domain" in line for line in made.unknown)
    assert sum(load.count * (load.primary + load.replica) for load in loads(two, WRITE)) == pytest.approx(3)


def test_enough_hosts_are_not_doubted() -> None:
    made = predict([demand(primary_s=1e-4, replicas_s=2e-4)], profile(), WRITE)

    assert not any("failure domain" in line for line in made.unknown)


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        (replace(WRITE, replicas=4), "cannot be placed"),
        (replace(WRITE, k=4, m=2), "cannot be placed"),
        (Shape("get", 4096, 1, 1), "needs a gateway"),
    ],
)
def test_what_a_cluster_cannot_hold_or_serve_is_refused(shape: Shape, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        predict([demand(primary_s=1e-4), demand("get", primary_s=1e-4)], profile(), shape)


@pytest.mark.parametrize(("k", "m"), [(0, 0), (2, 1)])
def test_more_data_than_the_disks_hold_is_refused(k: int, m: int) -> None:
    room = profile().weight * (k or 1) / 3
    shape, demands = replace(WRITE, k=k, m=m), [demand(primary_s=1e-4)]

    assert predict(demands, profile(), replace(shape, data_bytes=room)).ceiling > 0
    with pytest.raises(SpecError, match="cannot hold that much data"):
        predict(demands, profile(), replace(shape, data_bytes=room * 1.001))


def read_by(clients: int) -> float:
    """Bytes a second that so many clients on three nodes of 1.25 GB/s can read."""
    nodes = profile(machine(bandwidth=1.25 * GB, disk=(disks(),)), clients_on_nodes=True)
    big = Shape("read", 4 << 20, clients, 64)
    return predict([demand("read", 4 << 20, primary_s=1e-9)], nodes, big).ceiling * big.block_bytes


def test_one_client_on_a_node_reads_through_that_nodes_port() -> None:
    # Two thirds of what it reads come in from the others.
    assert read_by(1) == pytest.approx(1.25 * GB * 3 / 2, rel=0.02)
    assert read_by(2) == pytest.approx(2 * read_by(1))
    assert read_by(3) == pytest.approx(3 * read_by(1))
    assert read_by(9) == pytest.approx(read_by(3))


def test_one_client_on_a_node_gets_objects_through_that_nodes_port() -> None:
    nodes = profile(machine(bandwidth=1.25 * GB, gateways=1, disk=(disks(),)), clients_on_nodes=True)
    shape = Shape("get", 4 << 20, 1, 64)
    made = predict([demand("get", 4 << 20, primary_s=1e-9, gateway_s=1e-9)], nodes, shape)

    # Two thirds come from other gateways; its own gateway serves a third, two thirds of it from other OSDs.
    assert made.ceiling * shape.block_bytes == pytest.approx(1.25 * GB / (2 / 3 + 2 / 9), rel=0.02)


def test_nodes_without_a_client_are_named_apart() -> None:
    nodes = profile(clients_on_nodes=True)
    shares = loads(nodes, replace(WRITE, clients=1))

    assert [(load.name, load.count, load.client) for load in shares] == [
        ("n with a client", 1.0, 1.0),
        ("n without a client", 2.0, 0.0),
    ]
    assert [load.name for load in loads(nodes, WRITE)] == ["n"]


READS: list[Demand] = [
    demand("randread", primary_s=1e-9, client_s=1e-4, threads={Role.CLIENT: {"fio": 20e-6}}),
]


@pytest.mark.parametrize("on_nodes", [False, True])
def test_the_order_of_machines_changes_nothing(*, on_nodes: bool) -> None:
    fast = machine("fast", count=3, speed=8.0, bandwidth=GB, disk=(disks(),))
    slow = machine("slow", count=3, speed=1.0, bandwidth=GB / 10, disk=(disks(),))

    def most(*machines: object) -> float:
        made = profile(clients_on_nodes=on_nodes)
        there = {"nodes": machines} if on_nodes else {"clients": machines}
        return predict(READS, replace(made, **there), Shape("randread", 4096, 12, 64)).ceiling  # type: ignore[arg-type]

    assert most(fast, slow) == pytest.approx(most(slow, fast))


def test_slow_clients_hold_back_themselves_and_not_the_fast_ones() -> None:
    fast, slow = machine("fast", count=3, bandwidth=GB), machine("slow", count=3, bandwidth=GB / 10)
    big = Shape("read", 1 << 20, 6, 64)

    def most(*machines: object) -> float:
        clients = replace(profile(), clients=machines)  # type: ignore[arg-type]
        return predict([demand("read", 1 << 20, primary_s=1e-9)], clients, big).ceiling

    # Six machines with one process each, or three.
    assert most(fast, slow) == pytest.approx(1.1 * most(fast))


def test_a_part_of_a_stripe_is_read_before_it_is_written() -> None:
    spinning = profile(machine(count=6, disk=(disks(read_iops=100, write_iops=1000),)))
    measured = [demand(primary_s=1e-6, replicas_s=2e-6), demand("randread", primary_s=3e-6)]
    part = predict(measured, spinning, Shape("randwrite", 4096, 1, 1, k=4, m=2))
    whole = predict(
        [demand(block_bytes=16384, primary_s=1e-6, ec=(4, 2))], spinning, Shape("randwrite", 16384, 1, 1, k=4, m=2)
    )

    # Each of six disks takes a write of 4 KiB, and in four of six operations a read.
    assert {ceiling.name: ceiling.ops for ceiling in part.ceilings}["n: disk d"] == pytest.approx(
        1 / (1 / 1000 + 4 / 6 / 100)
    )
    assert {ceiling.name: ceiling.ops for ceiling in whole.ceilings}["n: disk d"] == pytest.approx(1000)
    assert part.unloaded_s > whole.unloaded_s + 1 / 100
    assert "read before the write" in "\n".join(part.derivation.lines())


def test_a_read_before_a_write_that_was_not_measured_is_said() -> None:
    nodes = profile(machine(count=6, disk=(disks(),)))
    made = predict([demand(primary_s=1e-6)], nodes, Shape("randwrite", 4096, 1, 1, k=4, m=2))

    assert any("reads the stripe first" in line for line in made.unknown)


def test_objects_are_written_whole_and_never_read_before() -> None:
    assert not Shape("put", 5000, 1, 1, k=4, m=2).reads_first
    assert Shape("put", 5000, 1, 1, k=4, m=2).shard_bytes == 4096
    assert Shape("randwrite", 65536, 1, 1, k=4, m=2).shard_bytes == 16384


def test_a_read_asks_k_shards() -> None:
    nodes = profile(machine(count=6, disk=(disks(),)))
    shape = Shape("randread", 65536, 1, 1, k=4, m=2)
    (load,) = loads(nodes, shape)

    assert 6 * (load.primary + replica_share(load, shape)) == pytest.approx(4)


@pytest.mark.parametrize(
    ("lost", "kept"),
    [
        (0, {"small": 2, "linked": 2, "large": 1, "plain": 2}),
        (1, {"small": 2, "linked": 2, "plain": 2}),
        (2, {"small": 2, "linked": 1, "plain": 2}),
        (4, {"small": 2, "plain": 1}),
    ],
)
def test_the_largest_machines_go_first_and_of_equal_ones_the_best_linked(lost: int, kept: dict[str, int]) -> None:
    nodes = profile(
        machine("small", count=2, disk=(disks(count=1),), bandwidth=9e12),
        machine("linked", count=2, disk=(disks(count=2),), bandwidth=2e12),
        machine("large", count=1, disk=(disks(count=3),), bandwidth=1e12),
        machine("plain", count=2, disk=(disks(count=2),), bandwidth=1e12),
    )
    left = without_largest(nodes, lost)
    assert {each.name: each.count for each in left.nodes} == kept
    assert left == replace(nodes, nodes=left.nodes)


def test_a_pool_with_more_shards_than_hosts_is_doubted_by_their_number() -> None:
    host = profile(machine("n", count=1, disk=(disks(count=4),)))
    [doubt] = doubts(host, WRITE)
    assert " on 1 host: CRUSH's default rule " in doubt
    assert doubts(mixed(1), WRITE) == []


def test_a_read_asks_every_data_shard_and_a_list_one_copy_of_the_index() -> None:
    assert shards_read(Shape("randread", 4096, 1, 1, k=4, m=2)) == 4
    assert shards_read(Shape("list", 4096, 1, 1, k=4, m=2)) == 1
    assert shards_read(Shape("randread", 4096, 1, 1)) == 1
