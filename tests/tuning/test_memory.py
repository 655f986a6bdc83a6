"""What a profile leaves an OSD of memory, what an operation moves through it, and what metadata is not in it."""

from dataclasses import replace
from typing import Any

import pytest

from cephlab.lab.telemetry.demand import Role
from cephlab.tuning import memory, placement
from cephlab.tuning.derivation import Derivation
from cephlab.tuning.memory import osd_bytes
from cephlab.tuning.model import Prediction, predict
from cephlab.tuning.profile import Profile
from cephlab.tuning.units import Measure
from cephlab.tuning.work import OperationWork, Price
from cephlab.tuning.workload import Shape
from tests.model_parts import demand, disks, figure, machine, profile

GIB = float(1 << 30)
READS = demand("randread", primary_s=0.001, threads={Role.PRIMARY: {"tp_osd_tp": 0.001}})


def of_memory(gib: float, osds: int) -> list[str]:
    node = replace(machine(count=3, disk=(disks(count=osds),)), memory=figure(gib * GIB, Measure.BYTES))
    made = predict([READS], profile(node), Shape("randread", 4096, 10, 10))
    return [line for line in made.unknown if line.startswith("Memory of n")]


def test_osds_share_seven_tenths_of_a_machine() -> None:
    assert osd_bytes(replace(machine(disk=(disks(count=7),)), memory=figure(100 * GIB, Measure.BYTES))) == 10 * GIB
    assert osd_bytes(machine()) == 0


@pytest.mark.parametrize(
    ("gib", "osds", "said"), [(64.0, 4, ""), (16.0, 4, "fewer reads are answered"), (4.0, 4, "Ceph refuses")]
)
def test_a_machine_that_is_short_of_memory_is_said_to_be(gib: float, osds: int, said: str) -> None:
    lines = of_memory(gib, osds)
    assert bool(lines) is bool(said)
    assert said in "".join(lines)


COPY = demand("write", 1 << 20, primary_s=1e-6, replicas_s=2e-6, client_s=1e-9)
LARGE = Shape("write", 1 << 20, 100, 10)


def with_bandwidth(made: Profile, rate: float, *, clients: bool = False) -> Profile:
    key = "clients" if clients else "nodes"
    wide = [replace(each, memory_bandwidth=figure(rate, Measure.RATE)) for each in getattr(made, key)]
    values: dict[str, Any] = {key: tuple(wide)}
    return replace(made, **values)


def test_clients_share_a_load_by_their_memory_too() -> None:
    """None waits for one of another machine: the one with half the memory bandwidth does half as much."""
    fast, slow = machine("fast", count=1), machine("slow", count=1)
    both = with_bandwidth(replace(profile(), clients=(fast, slow)), 4e9, clients=True)
    both = replace(both, clients=(both.clients[0], replace(slow, memory_bandwidth=figure(2e9, Measure.RATE))))
    limits = {each.name: each.ops for each in predict([COPY], both, LARGE).ceilings}

    together = (4e9 + 2e9) / memory.linked(LARGE.payload_bytes)
    assert limits["clients on fast: memory bandwidth"] == pytest.approx(together)
    assert limits["clients on slow: memory bandwidth"] == pytest.approx(together)


def test_memory_limits_what_moves_through_it() -> None:
    made = predict([COPY], with_bandwidth(profile(), 1e9), LARGE)

    # On each of three nodes: 1/3 of the payload from clients, 2/3 from leaders, 2/3 to others, and all of it to a disk.
    moved = LARGE.payload_bytes * (5 * (1 / 3 + 2 / 3 + 2 / 3) + 2)
    assert made.bottleneck == "n: memory bandwidth"
    assert made.ops == pytest.approx(1e9 / moved)
    assert any(step.source == memory.TRAFFIC_SOURCE for step in made.derivation)


def test_memory_limits_clients_too() -> None:
    made = predict([COPY], with_bandwidth(profile(), 1e6, clients=True), replace(LARGE, clients=1000))
    assert made.bottleneck == "clients: memory bandwidth"
    assert made.ops == pytest.approx(100 * 1e6 / (5 * LARGE.payload_bytes))


def test_the_leader_of_a_code_reads_the_block_and_writes_the_parity() -> None:
    coded, node = replace(LARGE, k=2, m=1), machine(disk=(disks(),))
    load = placement.loads(profile(node), coded)[0]
    plain = OperationWork(coded, Price(), Price(), Price(), None, Derivation())
    links = 5 * (1 / 3 + 2 / 3 / 2 + 2 / 3 / 2)
    assert memory.moved(load, plain) == pytest.approx(LARGE.payload_bytes * (links + 2 / 2 + 1 / 3 * 1.5))


@pytest.mark.parametrize("clients", [True, False])
def test_a_machine_whose_bandwidth_is_not_known_is_named_and_not_limited(clients: bool) -> None:
    made = predict([COPY], with_bandwidth(profile(), 1e15, clients=clients), LARGE)
    said = [line for line in made.unknown if "Memory bandwidth" in line]
    assert said == [f"Memory bandwidth of {'n' if clients else 'client'}: not in the profile, so it is no limit here."]
    assert sum("memory bandwidth" in ceiling.name for ceiling in made.ceilings) == 1


def stored(tb: float, memory_gib: float = 64.0) -> Prediction:
    disk = replace(disks(read_iops=1000.0), size=figure(1e18, Measure.BYTES))
    node = replace(machine(disk=(disk,)), memory=figure(memory_gib * GIB, Measure.BYTES))
    return predict([READS], profile(node), Shape("randread", 4096, 10, 10, data_bytes=tb * 1e12))


def test_reads_miss_what_metadata_is_not_in_memory() -> None:
    known = memory.missed(profile(), Shape("randread", 4096, 1, 1, data_bytes=9e12))

    assert known is not None
    share, step = known
    # 0.45 of 85 % of 0.7 x 100 GB less 768 MiB, beside 9 TB / 4 MiB objects with 64 entries each on every node.
    cache = 0.45 * (0.85 * 0.7 * 1e11 - 768 * (1 << 20))
    needed = 9e12 / (4 << 20) * (1200 + 64 * 660)
    assert share == pytest.approx(1 - cache / needed)
    assert "of cache" in step.how


def test_an_object_of_the_gateway_has_the_entries_of_its_shard() -> None:
    small = Shape("get", 64 * 1024, 1, 1, k=2, m=1, data_bytes=3e9)
    assert memory.metadata_bytes(profile(), small) == pytest.approx(3e9 / 65536 * (1200 + 430))


def test_metadata_that_is_read_from_the_data_s_disk_keeps_it_busy() -> None:
    assert stored(0).ceiling == pytest.approx(3000)
    assert stored(1).ceiling == pytest.approx(3000)  # all in memory
    assert stored(1e6).ceiling == pytest.approx(1500, rel=0.01)  # one more read each
    assert "reads of metadata on n" in "\n".join(stored(1e6).derivation.lines())


def test_nothing_is_in_memory_that_is_too_small_for_any_of_it() -> None:
    assert stored(1, memory_gib=0.5).ceiling == pytest.approx(1500)
