"""Visits of one shard to one disk, worked out by hand."""

import pytest

from cephlab.tuning.derivation import Derivation
from cephlab.tuning.devices import visit
from cephlab.tuning.profile import DiskKind, Disks, MachineClass
from cephlab.tuning.work import OperationWork, Price
from cephlab.tuning.workload import Shape
from tests.model_parts import disks, machine

RATED = disks(kind=DiskKind.HDD, read_iops=50, write_iops=100, sync_latency=0.004)


def of(shape: Shape, writes: float) -> OperationWork:
    """Each shard does so many writes, leader and others alike."""
    price = Price(writes=writes, write_bytes=writes * 4096)
    return OperationWork(shape, Price(), price, price, None, Derivation())


def on(disk: Disks = RATED) -> MachineClass:
    return machine(disk=(disk,))


def test_fewer_and_larger_writes_than_pieces_are_one_for_each_extent() -> None:
    large = of(Shape("write", 4 << 20, 1, 1, replicas=1), writes=8)

    assert visit(RATED, on(), large).busy_s == pytest.approx(1 / 100)


def test_the_log_s_write_is_waited_for_and_the_data_s_is_not() -> None:
    """A small write to a rotating disk that has its log too: three writes keep it busy, the answer comes after one."""
    small = visit(RATED, on(), of(Shape("randwrite", 4096, 1, 1, replicas=1), writes=3))

    assert small.busy_s == pytest.approx(3 / 100)
    assert small.path_s == pytest.approx(1 / 100)
    assert small.alone_s == pytest.approx(1 / 100)


def test_a_part_of_a_stripe_is_read_by_k_of_its_disks_before_the_write() -> None:
    flash = disks(read_iops=50, write_iops=100)
    part = visit(flash, on(flash), of(Shape("randwrite", 4096, 1, 1, k=4, m=2), writes=2))

    # 2 writes at 100 a second; 4 of 6 shards are read at 50 a second, and all of them are waited for.
    assert part.busy_s == pytest.approx(2 / 100 + 4 / 6 / 50)
    assert part.path_s == pytest.approx(2 / 100 + 1 / 50)


def test_a_rotating_disk_defers_small_writes_beside_flash_disks_too() -> None:
    small = of(Shape("randwrite", 4096, 1, 1, replicas=1), writes=3)

    assert visit(RATED, machine(disk=(RATED, disks("flash"))), small) == visit(RATED, on(), small)
