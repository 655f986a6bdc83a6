"""Which part of an operation falls on one machine, and the bytes through its links, worked out by hand."""

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from cephlab.tuning.placement import MachineLoad, loads, replica_share, reread_share, steps, wire
from cephlab.tuning.profile import Disks
from cephlab.tuning.units import Measure
from cephlab.tuning.work import OperationWork
from cephlab.tuning.workload import STRIPE_UNIT, Shape
from tests.model_parts import disks, figure, machine, profile

BLOCK = 16384
WRITE, READ = Shape("randwrite", BLOCK, 1, 1, replicas=3), Shape("randread", BLOCK, 1, 1, replicas=3)
CODED_WRITE, CODED_READ = Shape("write", BLOCK, 1, 1, k=4, m=2), Shape("randread", BLOCK, 1, 1, k=4, m=2)
PART = Shape("randwrite", 4096, 1, 1, k=4, m=2)
PUT, GET = Shape("put", BLOCK, 1, 1, replicas=3), Shape("get", BLOCK, 1, 1, replicas=3)


def load(primary: float = 1 / 3, replica: float = 2 / 3, gateway: float = 0.0, client: float = 0.0) -> MachineLoad:
    return MachineLoad(machine(disk=(disks(),)), 3, primary, replica, gateway, client, "n")


def work(shape: Shape, beyond: float = 0.0) -> OperationWork:
    return cast("OperationWork", SimpleNamespace(shape=shape, client=SimpleNamespace(wire=beyond)))


@pytest.mark.parametrize(
    ("asked", "shape", "parts"),
    [
        # A third is led from outside and sent on twice; two thirds come as copies, beside each other.
        (load(), WRITE, (1 / 3, 0, 2 / 3, 2 / 3, 2 / 3, 0)),
        # A read is answered by its leader alone.
        (load(), READ, (0, 1 / 3, 0, 0, 0, 0)),
        # Each shard is a quarter. The leader fetches three of the five others, which send at the same time.
        (load(1 / 6, 5 / 6), CODED_READ, (0, 1 / 6, 1 / 8, 1 / 8, 0, 1 / 8)),
        (load(1 / 6, 5 / 6), CODED_WRITE, (1 / 6, 0, 5 / 24, 5 / 24, 5 / 24, 0)),
        # One that leads more than its share sends more than it takes in.
        (load(1 / 2, 1 / 4), WRITE, (1 / 2, 0, 1 / 4, 1, 1 / 4, 0)),
        (load(1 / 2, 1 / 4), CODED_READ, (0, 1 / 2, 3 / 8, 3 / 80, 0, 3 / 80)),
        # What the machine's own client asks of its own OSDs does not reach the wire.
        (load(client=1 / 2), WRITE, (1 / 6, 1 / 3, 2 / 3, 2 / 3, 2 / 3, 0)),
        (load(client=1 / 2), READ, (1 / 3, 1 / 6, 0, 0, 0, 0)),
        # Leader and gateway, 3/12 in and 2/12 out, and gateway and client, 0.2 and 0.15.
        (load(gateway=1 / 4, client=1 / 5), PUT, (0.45, 1 / 6 + 0.15, 2 / 3, 2 / 3, 2 / 3, 0)),
        (load(gateway=1 / 4, client=1 / 5), GET, (1 / 6 + 0.15, 0.45, 0, 0, 0, 0)),
    ],
)
def test_each_hop_carries_the_payload_once(asked: MachineLoad, shape: Shape, parts: tuple[float, ...]) -> None:
    traffic = wire(asked, work(shape))
    each = (traffic.front_in, traffic.front_out, traffic.back_in, traffic.back_out, traffic.fork_in, traffic.fork_out)
    assert each == pytest.approx(tuple(part * BLOCK for part in parts))


def test_bytes_beyond_the_payload_go_both_ways_of_each_hop() -> None:
    plain, more = wire(load(client=1 / 2), work(WRITE)), wire(load(client=1 / 2), work(WRITE, beyond=600.0))
    # A sixth comes from outside and a third goes there: half of 600 bytes, half of it each way.
    assert more.front_in - plain.front_in == pytest.approx(150.0)
    assert more.front_out - plain.front_out == pytest.approx(150.0)
    assert (more.back_in, more.back_out) == (plain.back_in, plain.back_out)


def test_a_part_of_a_stripe_brings_the_rest_of_it_first() -> None:
    traffic, shard = wire(load(1 / 6, 5 / 6), work(PART)), PART.shard_bytes
    # Three of the five others send the leader their chunk, and all five get their new one.
    assert traffic.back_in == pytest.approx(5 / 6 * shard + 1 / 6 * 3 * STRIPE_UNIT)
    assert traffic.fork_in == pytest.approx(5 / 6 * shard)
    assert traffic.fork_out == pytest.approx(5 / 6 * 3 / 5 * STRIPE_UNIT)
    assert traffic.back_out == pytest.approx(1 / 6 * 5 * shard + traffic.fork_out)


def test_further_shards_are_all_written_and_some_of_them_read() -> None:
    held = load(1 / 6, 5 / 6)
    assert replica_share(held, CODED_WRITE) == pytest.approx(5 / 6)
    assert replica_share(held, CODED_READ) == pytest.approx(5 / 6 * 3 / 5)
    assert replica_share(load(), READ) == 0.0
    assert reread_share(held, PART) == pytest.approx(4 / 6)
    assert reread_share(load(1 / 6, 1 / 6), PART) == pytest.approx(2 / 6 * 4 / 6)
    assert reread_share(held, CODED_WRITE) == 0.0
    assert reread_share(load(), WRITE) == 0.0


def held(*weights: int, copies: int) -> list[float]:
    """Copies on each of as many machines, of one disk each as large as said."""
    nodes = [machine(f"n{number}", count=1, disk=(disks(count=size),)) for number, size in enumerate(weights)]
    # Disks of one machine are OSDs of their own; as many copies as machines or fewer go to machines.
    shares = loads(profile(*nodes), Shape("randwrite", 4096, 1, 1, replicas=copies))
    return [share.primary + share.replica for share in shares]


def test_what_full_machines_cannot_take_goes_to_the_others_in_turn() -> None:
    # First the largest is full, then the next; the two small ones share what is left.
    assert held(100, 10, 1, 1, copies=3) == pytest.approx([1.0, 1.0, 0.5, 0.5])
    assert held(1, 1, 1, copies=3) == pytest.approx([1.0, 1.0, 1.0])


def test_more_copies_than_machines_are_one_on_each_osd() -> None:
    assert held(3, 2, copies=5) == pytest.approx([3.0, 2.0])
    # Two large disks and four small ones: two copies on the large ones, three on the others.
    large = disks(count=2)
    nodes = (
        machine("large", count=1, disk=(large,)),
        machine("small", count=1, disk=tuple(small(name) for name in "abcd")),
    )
    shares = loads(profile(*nodes), Shape("randwrite", 4096, 1, 1, replicas=5))
    assert [share.primary + share.replica for share in shares] == pytest.approx([2.0, 3.0])


def small(name: str) -> Disks:
    return replace(disks(name), size=figure(1e9, Measure.BYTES))


def test_gateways_serve_only_what_goes_through_them() -> None:
    nodes = (machine("a", count=1, gateways=2, disk=(disks(),)), machine("b", count=2, gateways=1, disk=(disks(),)))
    assert [share.gateway for share in loads(profile(*nodes), GET)] == pytest.approx([1 / 2, 1 / 4])
    assert [share.gateway for share in loads(profile(*nodes), READ)] == [0.0, 0.0]
    assert [share.gateway for share in loads(profile(), READ)] == [0.0]


def test_shares_are_told_with_where_they_come_from() -> None:
    told = [*steps(loads(profile(), WRITE), WRITE)]
    assert [(step.what, step.how, step.value) for step in told] == [
        (
            "placement on each of 3 n",
            "primary for 1 TB of 3 TB; holds 1 of 3 shards, at most one where there are enough hosts",
            "0.3333 as primary + 0.6667 more",
        )
    ]
    (asked,) = steps([load(client=0.5)], WRITE)
    assert asked.value == "0.3333 as primary + 0.6667 more, 0.5000 from its client, 0.0000 through its gateways"
    (served,) = steps([load(gateway=0.25)], PUT)
    assert served.value.endswith(", 0.0000 from its client, 0.2500 through its gateways")
    heavy = replace(load(), machine=machine(disk=(disks(count=2),)))
    assert next(steps([heavy], WRITE)).how.startswith("primary for 2 TB of 6 TB;")
