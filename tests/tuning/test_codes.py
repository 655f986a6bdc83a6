"""Prices of erasure codes: as measured, between two codes, and of copies where none was measured."""

from dataclasses import replace

import pytest

from cephlab.lab.base.errors import SpecError
from cephlab.lab.telemetry.demand import Demand
from cephlab.tuning.work import OperationWork, with_reread, work_for
from cephlab.tuning.workload import Shape
from tests.model_parts import demand

K = 1024
READ = demand("randread", primary_s=0.0001)
COPIES = (
    demand(primary_s=0.001, replicas_s=0.001),
    demand(block_bytes=64 * K, primary_s=0.004, replicas_s=0.004),
    READ,
)
SMALL_CODE = demand(primary_s=0.002, replicas_s=0.001, ec=(2, 1))
LARGE_CODE = demand(primary_s=0.005, replicas_s=0.005, ec=(4, 2))


def price(demands: tuple[Demand, ...], block_bytes: int = 4 * K, ec: tuple[int, int] = (0, 0)) -> OperationWork:
    k, m = ec
    return work_for(demands, Shape("randwrite", block_bytes, 1, 1, k=k, m=m))


def test_a_measured_code_costs_what_was_measured() -> None:
    made = price((*COPIES, LARGE_CODE), ec=(4, 2))

    assert (made.primary.cpu, made.replica.cpu) == pytest.approx((0.005, 0.001))
    assert made.doubts == ()


@pytest.mark.parametrize(("ec", "leader"), [((2, 1), 0.002), ((3, 2), 0.004), ((8, 3), 0.010)])
def test_a_leader_pays_for_each_shard_that_it_talks_to(ec: tuple[int, int], leader: float) -> None:
    # 2 others cost it 2 ms and 5 others 5 ms: 1 ms each.
    made = price((*COPIES, SMALL_CODE, LARGE_CODE), ec=ec)

    assert made.primary.cpu == pytest.approx(leader)


def test_a_read_talks_to_the_data_shards_alone() -> None:
    codes = (
        demand("randread", primary_s=0.0003, replicas_s=0.0001, ec=(2, 1)),
        demand("randread", primary_s=0.0005, replicas_s=0.0003, ec=(4, 2)),
    )
    made = work_for(codes, Shape("randread", 4 * K, 1, 1, k=8, m=3))

    # 1 other shard costs the leader 0.3 ms and 3 others 0.5 ms, so 7 others 0.9 ms.
    assert made.primary.cpu == pytest.approx(0.0009)
    assert made.replica.cpu == pytest.approx(0.0001)


def test_codes_that_differ_in_parity_alone_are_not_a_line_for_reads() -> None:
    prices = ((0.003, (2, 1)), (0.005, (2, 2)))
    codes = [demand("randread", primary_s=cost, replicas_s=cost, ec=ec) for cost, ec in prices]

    assert work_for(codes, Shape("randread", 4 * K, 1, 1, k=4, m=2)).primary.cpu == pytest.approx(0.005)


def test_whole_stripes_and_parts_of_them_are_not_on_one_line() -> None:
    # 8 KiB are a whole stripe of 2+1 and half of one of 4+2.
    whole = replace(SMALL_CODE, operation=replace(SMALL_CODE.operation, block_bytes=8 * K))
    part = replace(LARGE_CODE, operation=replace(LARGE_CODE.operation, block_bytes=8 * K))

    assert price((whole, part), 8 * K, ec=(5, 2)).primary.cpu == pytest.approx(0.005)


def test_a_code_that_was_not_measured_is_one_of_copies() -> None:
    made = price(COPIES, 64 * K, ec=(4, 2))

    # A shard of 64 KiB in 4+2 is 16 KiB: a fifth of the way from 0.5 ms to 2 ms.
    assert (made.primary.cpu, made.replica.cpu) == pytest.approx((0.004, 0.0008))
    assert made.doubts[0].startswith("Erasure coding was not measured: a shard is priced as a copy of 16384 B")


def test_between_a_measured_code_and_copies_each_end_is_priced_by_itself() -> None:
    made = price((*COPIES, LARGE_CODE), 34 * K, ec=(4, 2))

    # Half way from 1 ms of the code's other shards at 4 KiB to 0.8 ms of copies of 16 KiB.
    assert made.replica.cpu == pytest.approx(0.0009)
    assert "Erasure coding was not measured" in made.doubts[0]


def test_copies_are_not_priced_by_a_code_of_their_size() -> None:
    code = demand(block_bytes=34 * K, primary_s=1.0, replicas_s=1.0, ec=(4, 2))

    assert price((*COPIES, code), 34 * K).primary.cpu == pytest.approx(0.0025)


def test_a_code_that_was_measured_on_both_sides_is_not_priced_by_copies_of_its_size() -> None:
    sequential = demand("write", 64 * K, primary_s=0.011, replicas_s=0.005, ec=(4, 2))
    copied = demand(block_bytes=34 * K, primary_s=1.0, replicas_s=1.0)
    made = price((*COPIES, copied, LARGE_CODE, sequential), 34 * K, ec=(4, 2))

    # Half way from 5 ms at random to 11 ms in sequence.
    assert made.primary.cpu == pytest.approx(0.008)
    assert not any("Erasure coding" in doubt for doubt in made.doubts)


@pytest.mark.parametrize("ec", [(0, 0), (4, 2)])
def test_beyond_all_sizes_the_nearest_that_were_measured_count(ec: tuple[int, int]) -> None:
    """A step of a byte is no step of the price: 256 KiB in sequence are nearer than 64 KiB at random."""
    measured = [demand(block_bytes=size * K, primary_s=0.001, ec=ec) for size in (4, 64)]
    measured += [demand("write", size * K, primary_s=cost, ec=ec) for size, cost in ((64, 0.002), (256, 0.005))]
    largest, beyond = (price(tuple(measured), size, ec).primary.cpu for size in (256 * K, 256 * K + 1))

    assert largest == 0.005
    assert beyond == pytest.approx(largest, rel=1e-5)
    assert price(tuple(measured), 448 * K, ec).primary.cpu == pytest.approx(0.009)


def test_a_code_stands_in_where_copies_were_not_measured() -> None:
    codes = (LARGE_CODE, replace(LARGE_CODE, operation=replace(LARGE_CODE.operation, block_bytes=64 * K)))

    assert price(codes, 34 * K).primary.cpu == pytest.approx(0.005)
    with pytest.raises(SpecError, match="one block size only"):
        price(codes[:1], 34 * K)


@pytest.mark.parametrize(("block_bytes", "ec", "again"), [(4 * K, (4, 2), False), (16 * K, (8, 3), True)])
def test_reads_before_a_write_count_once(block_bytes: int, ec: tuple[int, int], *, again: bool) -> None:
    """4 KiB in 4+2 were measured with them; 16 KiB are a whole stripe there, and a half of one in 8+3."""
    measured = (LARGE_CODE, replace(LARGE_CODE, operation=replace(LARGE_CODE.operation, block_bytes=16 * K)))
    demands = (*COPIES, *measured)

    assert (with_reread(demands, price(demands, block_bytes, ec)).reread is not None) == again


def test_a_stripe_unit_of_its_own_changes_shards_and_reads_and_says_that_it_was_not_measured() -> None:
    wide = Shape("randwrite", 16 * K, 1, 1, k=4, m=2, stripe_unit=16 * K)
    made = with_reread((*COPIES, LARGE_CODE), work_for((*COPIES, LARGE_CODE), wide))

    assert wide.shard_bytes == 16 * K
    assert wide.reads_first
    assert not replace(wide, stripe_unit=4 * K).reads_first
    assert any("stripe unit of 16384 B was never measured" in doubt for doubt in made.doubts)
    assert "stripe unit 16 KiB" in str(wide)
    copies = work_for(COPIES, Shape("randwrite", 4 * K, 1, 1, stripe_unit=16 * K))
    assert copies.doubts == ()


@pytest.mark.parametrize("unit", [0, 5 * K, -4 * K])
def test_a_stripe_unit_that_is_no_multiple_of_a_page_is_refused(unit: int) -> None:
    with pytest.raises(SpecError, match="stripe unit") as refused:
        Shape("randwrite", 16 * K, 1, 1, k=4, m=2, stripe_unit=unit)
    assert "multiple of 4096 B" in refused.value.detail
