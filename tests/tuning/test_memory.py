"""What a profile leaves an OSD of memory."""

from dataclasses import replace

import pytest

from cephlab.lab.telemetry.demand import Role
from cephlab.tuning.memory import osd_bytes
from cephlab.tuning.model import predict
from cephlab.tuning.units import Measure
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
