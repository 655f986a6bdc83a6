"""What a prediction says holds the operations back, and how busy each resource is meanwhile."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from cephlab.lab.telemetry.demand import Demand, Role
from cephlab.tuning import mva
from cephlab.tuning.ceilings import Ceiling
from cephlab.tuning.model import Prediction, predict
from cephlab.tuning.mva import Station
from cephlab.tuning.profile import DiskKind, Profile
from cephlab.tuning.workload import Shape
from tests.model_parts import demand, disks, machine, profile

FULL = 0.8


def at(in_flight: int, rtt_s: float = 0.0001) -> Prediction:
    shape = Shape("randwrite", 4096, clients=1, depth=in_flight)
    return predict([demand(primary_s=0.001, replicas_s=0.001)], profile(rtt_s=rtt_s), shape)


def share(made: Prediction) -> float:
    return made.utilisation[made.ceilings[0].name]


def test_a_resource_that_is_used_to_less_than_four_fifths_holds_nothing_back() -> None:
    near_s, far_s = 0.0001, 1.0
    for _ in range(50):
        middle_s = (near_s + far_s) / 2
        near_s, far_s = (middle_s, far_s) if share(at(40, middle_s)) > FULL else (near_s, middle_s)
    above, below = at(40, near_s * 0.999), at(40, far_s * 1.001)
    assert FULL < share(above) < FULL * 1.002
    assert FULL * 0.998 < share(below) < FULL
    assert above.bottleneck == "n: CPU"
    assert below.bottleneck == "too few operations in flight (next limit: n: CPU)"


def test_the_utilisation_is_that_of_the_busiest_of_equals() -> None:
    # 12 PGs led by 3 OSDs: the busiest leads 1.74 times its share, and is what fills up.
    cost = demand("randread", primary_s=1e-5, threads={Role.PRIMARY: {"tp_osd_tp": 100e-6}})
    made = predict([cost], profile(pgs=12), Shape("randread", 4096, clients=100, depth=50))
    pool = next(ceiling for ceiling in made.ceilings if "tp_osd_tp" in ceiling.name)
    assert pool.uneven > 1.5
    assert made.utilisation[pool.name] == pytest.approx(made.ops * pool.seconds * pool.uneven)
    assert made.bottleneck == pool.name
    assert 0.95 < made.utilisation[pool.name] <= 1.0


def test_payload_and_ceiling_follow_from_the_operations() -> None:
    made = at(50)
    assert made.bytes_s == pytest.approx(made.ops * 4096)
    assert made.ceiling == made.ceilings[0].ops
    assert made.ceiling == min(ceiling.ops for ceiling in made.ceilings)
    assert made.profile == "test"
    assert made.latency_s == pytest.approx(50 / made.ops)


def test_the_busiest_of_equals_queues_by_itself() -> None:
    cost = demand("randread", primary_s=1e-5, threads={Role.PRIMARY: {"tp_osd_tp": 100e-6}})
    shape = Shape("randread", 4096, clients=8, depth=4)
    even, uneven = predict([cost], profile(), shape), predict([cost], profile(pgs=12), shape)
    queues = next(line for line in uneven.derivation.lines() if line.startswith("queues with"))
    assert "the busiest of n: tp_osd_tp" in queues
    assert uneven.ops < even.ops


def test_threads_that_work_in_batches_limit_and_never_queue() -> None:
    threads = {Role.PRIMARY: {"bstore_kv_sync": 100e-6}, Role.REPLICA: {"bstore_kv_sync": 200e-6}}
    cost = demand(primary_s=1e-6, replicas_s=2e-6, threads=threads)
    made = predict([cost], profile(), Shape("randwrite", 4096, clients=100, depth=50))
    assert made.bottleneck == "n: bstore_kv_sync of an OSD on d"
    assert made.ops == pytest.approx(made.ceiling)
    assert made.utilisation[made.bottleneck] == pytest.approx(1.0)
    assert not any(line.startswith("demand D of n: bstore_kv_sync") for line in made.derivation.lines())


def lines(
    monkeypatch: pytest.MonkeyPatch, of: Profile, wanted: Shape, *demands: Demand
) -> tuple[Prediction, list[Station]]:
    """A prediction, and the queues that it was worked out from."""
    queues: list[Station] = []
    plain = mva.solve

    def solve(stations: Sequence[Station], alone_s: float, population: int) -> mva.Point:
        queues.extend(stations)
        return plain(stations, alone_s, population)

    monkeypatch.setattr("cephlab.tuning.mva.solve", solve)
    return predict(demands, of, wanted), queues


def of_disk(monkeypatch: pytest.MonkeyPatch, *, pgs: int | None, count: int = 3) -> tuple[Ceiling, list[Station]]:
    """Ceiling and queues of the disks of a cluster that writes three copies, the last of which is waited for."""
    nodes = profile(machine(count=count, disk=(disks(write_iops=1000),)), pgs=pgs)
    cost = demand(primary_s=1e-6, replicas_s=2e-6, writes=1, write_bytes=4096)
    made, stations = lines(monkeypatch, nodes, Shape("randwrite", 4096, 8, 4, replicas=min(3, count)), cost)
    ceiling = next(ceiling for ceiling in made.ceilings if ceiling.name == "n: disk d")
    return ceiling, [station for station in stations if station.name.endswith("n: disk d")]


def test_the_busiest_of_equals_has_a_queue_of_its_own_and_the_others_share_what_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ceiling, (busiest, others) = of_disk(monkeypatch, pgs=6)
    assert (busiest.name, busiest.copies) == ("the busiest of n: disk d", 1)
    assert (others.name, others.copies) == ("n: disk d", 2)
    assert busiest.seconds == pytest.approx(ceiling.seconds * ceiling.uneven)
    assert others.seconds == pytest.approx((3 - ceiling.uneven) / 2 * ceiling.seconds)
    assert ceiling.uneven > 1.3
    # What is waited through is the same part of each.
    part = ceiling.path_s / (ceiling.seconds * ceiling.copies)
    assert part < 0.9
    assert (busiest.waits, others.waits) == pytest.approx((busiest.seconds * part, others.seconds * part))


def test_two_unequal_ones_have_a_queue_each(monkeypatch: pytest.MonkeyPatch) -> None:
    ceiling, (busiest, other) = of_disk(monkeypatch, pgs=2, count=2)
    assert (busiest.copies, other.copies) == (1, 1)
    assert busiest.seconds + other.seconds == pytest.approx(ceiling.seconds * 2)
    assert busiest.seconds > other.seconds


def test_equals_are_one_kind_of_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    ceiling, (alone,) = of_disk(monkeypatch, pgs=None, count=1)
    assert (alone.name, alone.copies, alone.seconds) == ("n: disk d", 1, ceiling.seconds)
    nodes = profile(machine(count=3, disk=(disks(),)))
    cost = demand(primary_s=1e-3, replicas_s=2e-3)
    made, stations = lines(monkeypatch, nodes, Shape("randwrite", 4096, 8, 4, replicas=3), cost)
    cpu = next(ceiling for ceiling in made.ceilings if ceiling.name == "n: CPU")
    station = next(station for station in stations if station.name == "n: CPU")
    assert (station.copies, station.seconds) == (3, cpu.seconds)
    assert station.waits == pytest.approx(cpu.path_s / 3)
    assert cpu.path_s < 3 * cpu.seconds


def test_every_step_of_a_prediction_is_told_in_its_order() -> None:
    spinning = profile(machine(disk=(disks(kind=DiskKind.HDD, read_iops=170),)), pgs=60)
    read = Shape("randread", 4096, 8, 4, span=0.5)
    told = predict([demand("randread", primary_s=1e-3)], spinning, read).derivation.lines()
    beginnings = (
        "measured: randread",
        "CPU of osd.primary",
        "placement on each of 3 n",
        "load of the busiest OSD over the mean",
        "reads of d on 0.5 of it",
        "ceiling of n: disk d",
        "latency of one operation alone, R(1)",
        "demand D of n: disk d",
        "bounds with 32 in flight",
        "queues with 32 in flight",
        "predicted: the lower of the queueing result",
        "latency: 32 / ",
    )
    places = [
        next((number for number, line in enumerate(told) if line.startswith(beginning)), -1) for beginning in beginnings
    ]
    assert -1 not in places, beginnings[places.index(-1)]
    assert places == sorted(places)


def test_the_five_longest_waits_are_told_the_longest_first() -> None:
    made = predict([demand(primary_s=0.001, replicas_s=0.001)], profile(), Shape("randwrite", 4096, 50, 20))
    told = next(line for line in made.derivation.lines() if line.startswith("queues with"))
    waits = told.partition("time in queues: ")[2].partition(" = ")[0].split(", ")
    assert waits[0].startswith("n: CPU ")
    threads = {Role.PRIMARY: {"tp_osd_tp": 100e-6, "msgr-worker-0": 50e-6}, Role.CLIENT: {"fio": 1e-6}}
    busy = demand("randread", primary_s=1e-4, client_s=1e-5, threads=threads)
    many = predict([busy], profile(machine(disk=(disks(read_iops=1e5),)), pgs=60), Shape("randread", 4096, 8, 4))
    told = next(line for line in many.derivation.lines() if line.startswith("queues with"))
    assert len(told.partition("time in queues: ")[2].partition(" = ")[0].split(", ")) == 5
    lone = predict([demand(primary_s=0.001)], profile(), Shape("randwrite", 4096, 1, 1))
    assert "time in queues: none" in "\n".join(lone.derivation.lines())


def test_what_is_not_known_is_told() -> None:
    small = replace(profile(machine(count=2, disk=(disks(count=2),))), missing=("No power figure was published.",))
    made = predict([demand(primary_s=0.001)], small, Shape("randwrite", 4096, 1, 1, replicas=3))
    assert any("CRUSH's default rule" in line for line in made.unknown)
    assert "No power figure was published." in made.unknown
    assert not any("gateways" in line for line in made.unknown)
    served = profile(machine(gateways=1, disk=(disks(),)))
    told = predict([demand("get", primary_s=1e-4, gateway_s=1e-4)], served, Shape("get", 4096, 1, 1)).unknown
    assert told == ("Memory bandwidth of n, client: not in the profile, so it is no limit here.",)


def test_a_demand_is_told_whole_and_as_far_as_it_is_waited_through() -> None:
    made = predict([demand(primary_s=0.001, replicas_s=0.001)], profile(), Shape("randwrite", 4096, 50, 20))
    told = "\n".join(made.derivation.lines())
    # A third of 1 ms and of two copies of 0.5 ms on each of three nodes with 10 cores; the last copy takes 3/4 of both.
    forked = "demand D of n: CPU: 66.7 us at each of 3 = 200 us in all, on the path: 175 us   [the longest of k equal"
    assert forked in told
    assert "0.00827 us in all, on the path: 0.00827 us   [service demand D = visits x service time" in told


def test_one_of_two_classes_has_half_of_the_one_that_is_busiest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second class is not a second busiest one: two machines are as fast in two tables as in one."""
    cost = demand(primary_s=1e-6, replicas_s=1e-6, replicas=2, writes=1, write_bytes=4096)
    load = Shape("randwrite", 4096, 8, 4, replicas=2)
    two, single = (machine(name, count=count, disk=(disks(write_iops=1000),)) for name, count in (("b", 2), ("a", 1)))
    made, stations = lines(monkeypatch, profile(single, replace(single, name="b"), pgs=6), load, cost)
    ceiling = next(ceiling for ceiling in made.ceilings if ceiling.name == "a: disk d")
    assert ceiling.uneven > 1.3
    (busiest, other) = [station for station in stations if station.name.endswith("a: disk d")]
    assert (busiest.copies, busiest.seconds) == (0.5, ceiling.busiest_s)
    assert busiest.seconds + other.seconds == pytest.approx(2 * ceiling.seconds)
    assert made.ops == pytest.approx(predict([cost], profile(two, pgs=6), load).ops)
