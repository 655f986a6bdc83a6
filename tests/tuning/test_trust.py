"""How far a prediction is trusted: kinds of load, intervals of few test beds, and what was never validated."""

import math
from dataclasses import replace

import pytest

from cephlab.tuning import trust
from cephlab.tuning.profile import DiskKind
from cephlab.tuning.trust import LoadKind, Miss, Range, Trust, coverage, factor_for, factor_outside, kind_of, trust_in
from cephlab.tuning.workload import Shape
from tests.model_parts import disks, machine, profile

READ = LoadKind.SMALL_READ


def _misses(*ratios: float, kind: LoadKind = READ) -> list[Miss]:
    """One figure of each of so many test beds."""
    return [Miss(f"bed {number}", kind, "figure", ratio) for number, ratio in enumerate(ratios)]


@pytest.mark.parametrize(
    ("operation", "block_bytes", "in_flight", "kind"),
    [
        ("randread", 4096, 100, LoadKind.SMALL_READ),
        ("randwrite", 64 << 10, 100, LoadKind.SMALL_WRITE),
        ("randrw70", 4096, 100, LoadKind.MIX),
        ("seq", 4 << 20, 100, LoadKind.LARGE_READ),
        ("write", (64 << 10) + 1, 100, LoadKind.LARGE_WRITE),
        ("get", 4096, 100, LoadKind.OBJECT_READ),
        ("put", 4 << 20, 100, LoadKind.OBJECT_WRITE),
        ("get", 4096, 1, LoadKind.ALONE),
    ],
)
def test_a_load_has_a_kind(operation: str, block_bytes: int, in_flight: int, kind: LoadKind) -> None:
    assert kind_of(Shape(operation, block_bytes, in_flight, 1)) is kind


def test_the_factor_is_students_t_times_the_scatter_of_the_test_beds() -> None:
    error = math.log(1.2)
    factor, beds = factor_for(READ, _misses(1.2, 1 / 1.2, 1.2))

    # All test beds are off alike: the scatter is that error; t of 5 degrees of freedom at 95 % is 2.015.
    assert beds == 3
    assert math.log(factor) == pytest.approx(2.015 * error, rel=1e-3)


def test_a_kind_of_few_test_beds_borrows_from_the_others() -> None:
    others = _misses(*[1.5] * 10, kind=LoadKind.LARGE_READ)
    exact = _misses(1.0001)

    lonely, beds = factor_for(READ, [*others, *exact])
    assert beds == 1
    assert 1.5 < lonely < factor_for(LoadKind.SMALL_WRITE, others)[0]
    assert factor_for(LoadKind.SMALL_WRITE, others)[1] == 0


def test_coverage_judges_a_figure_by_its_own_kind() -> None:
    # Reads of the others are exact, writes are far off: a read that is off by a fifth is beyond what reads say.
    reads = [Miss(f"bed {number}", READ, "read", 1.001) for number in range(9)]
    writes = [Miss(f"bed {number}", LoadKind.LARGE_WRITE, "write", 2.5) for number in range(9)]
    off = Miss("off", READ, "read", 1.9)
    assert coverage([*reads, *writes, off]) == pytest.approx(9 / 10)
    assert Trust(READ, 1.5, 3).outside == ()


def test_many_figures_of_one_test_bed_weigh_as_one() -> None:
    crowd = [Miss("crowd", READ, f"figure {number}", 2.0) for number in range(50)]
    quiet = [Miss(f"bed {number}", READ, "figure", 1.01) for number in range(9)]
    alike = [Miss("crowd", READ, "figure", 2.0), *quiet]

    assert factor_for(READ, [*crowd, *quiet]) == pytest.approx(factor_for(READ, alike))


def test_coverage_is_judged_by_the_other_test_beds() -> None:
    # Two agree within a tenth. Their interval does not hold the third, six times off; one with its own error would.
    assert coverage(_misses(1.1, 1 / 1.1, 6.0)) == pytest.approx(2 / 3)
    assert math.log(6.0) < math.log(factor_for(READ, _misses(1.1, 1 / 1.1, 6.0))[0])
    assert coverage(_misses(1.1, 1.1, 1.1)) == 1.0
    assert coverage([]) == 0.0


def test_an_interval_is_around_the_prediction() -> None:
    known = Trust(READ, 2.0, 3)

    assert known.around(100.0) == (50.0, 200.0)
    assert str(known) == "90 % within a factor of 2.00, from 3 test beds of small reads left out"


def test_what_was_never_validated_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    span = Range((4096, 16384), (10, 100), (100, 1000), ("nvme",), (False,))
    monkeypatch.setattr(trust, "shipped", lambda: (tuple(_misses(1.2, 0.9)), {READ: span}))
    trust._factors.cache_clear()
    small = profile(machine(disk=(disks(kind=DiskKind.HDD),)))
    near = profile(machine(disk=(disks(count=10),)))

    assert trust_in(near, Shape("randread", 4096, 10, 10)).outside == ()
    assert trust_in(near, Shape("randread", 32768, 10, 5)).outside == ()
    [further] = trust_in(near, Shape("randread", 40960, 10, 10)).outside
    assert further.startswith("Outside what was validated: blocks of 40,960 B")
    assert trust_in(small, Shape("randread", 65536, 1, 10, k=2, m=1)).outside == (
        "Outside what was validated: blocks of 65,536 B; small reads were validated from 4,096 to 16,384.",
        "Outside what was validated: 3 OSDs; small reads were validated from 10 to 100.",
        "Outside what was validated: 10 in flight; small reads were validated from 100 to 1,000.",
        "Outside what was validated: hdd; small reads were validated on nvme.",
        "Outside what was validated: small reads with an erasure code.",
    )
    assert trust_in(near, Shape("put", 4096, 10, 10)).outside == ("Never validated: objects written.",)
    assert trust_in(near, Shape("delete", 4096, 10, 10)).outside == ("Never validated: delete.",)
    trust._factors.cache_clear()


def test_the_shipped_intervals_hold_what_was_left_out() -> None:
    misses = trust.shipped()[0]

    assert len({miss.bed for miss in misses}) == 7
    assert sum(miss.outside for miss in misses) == 49
    assert all(miss.outside for miss in misses if miss.bed == "rhcs-10b"), "the only test bed with rotating disks"
    assert 0.85 <= coverage(misses) <= 1.0
    assert all(1.0 < factor_for(kind, misses)[0] < 4.0 for kind in LoadKind)


def test_each_kind_has_a_factor_of_its_own_from_what_ships() -> None:
    misses, ranges = trust.shipped()
    machines = profile(machine(disk=(disks(count=12),)))
    for operation, block_bytes, kind in (
        ("randread", 4096, READ),
        ("randwrite", 4096, LoadKind.SMALL_WRITE),
        ("put", 4 << 20, LoadKind.OBJECT_WRITE),
    ):
        made = trust_in(machines, Shape(operation, block_bytes, 64, 8))
        assert (made.kind, made.factor, made.beds) == (kind, *factor_for(kind, misses))
        assert kind in ranges
    assert len({factor_for(kind, misses)[0] for kind in ranges}) == len(ranges)
    assert len({miss.figure for miss in misses}) > 40


def test_a_kind_without_a_range_is_trusted_by_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    misses = (*_misses(1.4, 1.2), *_misses(1.1, kind=LoadKind.MIX))
    monkeypatch.setattr(trust, "shipped", lambda: (misses, {}))
    trust._factors.cache_clear()
    made = trust_in(profile(machine(disk=(disks(),))), Shape("randread", 4096, 64, 8))
    trust._factors.cache_clear()
    assert made == Trust(READ, *factor_for(READ, misses), (f"Never validated: {READ}.",))


def test_outside_the_validated_range_the_errors_of_figures_that_were_outside_count() -> None:
    """Whatever kind they are of; a kind that is off by more keeps its own factor."""
    exact = [Miss(f"bed {number}", READ, "read", 1.01) for number in range(9)]
    off = [Miss(f"far {number}", LoadKind.MIX, "mix", 2.0, outside=True) for number in range(4)]
    wide = [Miss(f"wide {number}", LoadKind.LARGE_WRITE, "write", 4.0) for number in range(9)]
    misses = [*exact, *off, *wide]
    beyond, beds = factor_outside(misses)

    assert beds == 4
    assert beyond > factor_for(READ, misses)[0]
    assert trust._factor_of(READ, misses, outside=True) == (beyond, 4, True)
    assert trust._factor_of(READ, misses, outside=False) == (*factor_for(READ, misses), False)
    assert trust._factor_of(LoadKind.LARGE_WRITE, misses, outside=True)[0] > beyond
    assert trust._factor_of(READ, exact, outside=True) == (*factor_for(READ, exact), False)


def test_coverage_judges_a_figure_that_was_outside_by_those_that_were() -> None:
    near = [Miss(f"bed {number}", READ, "read", 1.01) for number in range(9)]
    far = [Miss(f"far {number}", LoadKind.MIX, "mix", 1.8, outside=True) for number in range(9)]
    off = Miss("off", READ, "read", 1.7, outside=True)
    assert coverage([*near, *far, off]) == 1.0
    assert coverage([*near, *far, replace(off, outside=False)]) == pytest.approx(18 / 19)


def test_the_shipped_trust_is_wider_outside_and_says_so() -> None:
    machines = profile(machine(disk=(disks(count=12),)))
    inside, outside = (trust_in(machines, Shape("randread", block_bytes, 64, 8)) for block_bytes in (4096, 65536))
    assert not inside.extrapolated
    assert "of small reads left out" in str(inside)
    assert outside.extrapolated
    assert outside.factor > inside.factor
    assert (outside.factor, outside.beds) == factor_outside(trust.shipped()[0])
    assert f"{outside.beds} test beds outside what the others validated" in str(outside)


def test_the_growth_of_a_rate_is_trusted_by_growths() -> None:
    growths = trust.shipped_growths()
    assert len({growth.bed for growth in growths}) >= 4
    assert trust.growth_factor() == trust.factor_of_growth(growths, trust.shipped()[0])[0]
    assert 1.5 < trust.growth_factor() < 2.5


def test_a_figure_at_the_end_of_its_interval_is_covered() -> None:
    """Of two test beds that are off alike each has an interval that the other gave; one alone has none."""
    wide = [Miss("a", READ, "f", 2.0), Miss("b", READ, "f", 1.01)]
    assert coverage(wide) == 0.5
    assert coverage(_misses(1.0)) == 1.0
    assert coverage(_misses(1.5)) == 0.0


def test_copies_and_codes_are_told_apart() -> None:
    known = Range((1, 1e9), (1, 1e9), (1, 1e9), tuple(kind.value for kind in DiskKind), (True,))
    machines = profile(machine(count=8, disk=(disks(),)))
    copies, code = Shape("randread", 4096, 8, 8), Shape("randread", 4096, 8, 8, k=4, m=2)
    assert list(trust._outside(READ, known, machines, copies)) == [f"Outside what was validated: {READ} with copies."]
    only_copies = replace(known, coded=(False,))
    assert list(trust._outside(READ, only_copies, machines, code)) == [
        f"Outside what was validated: {READ} with an erasure code."
    ]
