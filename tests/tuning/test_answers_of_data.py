"""Answers on what a cluster holds, by hand on small clusters: recovery, capacity, and objects with their metadata."""

import math
from dataclasses import replace
from typing import Any

import pytest

from cephlab.lab.base.errors import SpecError
from cephlab.tuning import imbalance, placement
from cephlab.tuning.held import (
    UNPUBLISHED,
    Answer,
    Trust,
    held,
    on_each,
    whole_levels,
)
from cephlab.tuning.profile import DiskRole, MachineClass, Profile
from cephlab.tuning.recovery import recovery_in_place, recovery_time
from cephlab.tuning.requirements import (
    CapacityRequirement,
    ObjectsRequirement,
    RecoveryRequirement,
)
from cephlab.tuning.units import Measure
from cephlab.tuning.workload import Shape
from tests.model_parts import disks, figure, machine, profile

TRUST = Trust(recovery=2.0, objects=3.0)
PUT = Shape("write", 1 << 22, clients=1, depth=1)
TB, GIB = 1e12, 2.0**30
DISK = disks(read_iops=100_000, write_iops=50_000, seq_read=1e9, seq_write=5e8, sync_latency=1e-4, read_latency=1e-4)


def plugged(made: MachineClass, loaded_w: float, idle_w: float) -> MachineClass:
    return replace(made, power_loaded=figure(loaded_w, Measure.POWER), power_idle=figure(idle_w, Measure.POWER))


def cluster(count: int = 4) -> Profile:
    return profile(plugged(machine(count=count, disk=(DISK,)), 100, 50))


def near(value: float) -> Any:
    """For a figure of an answer."""
    return pytest.approx(value)


# Recovery


def lost(**given: Any) -> RecoveryRequirement:
    plain = {"name": "x", "kind": "recovery", "fill": 0.5, "protection": "replicated:3", "at_most": "1 h"}
    return RecoveryRequirement.model_validate({**plain, **given})


def test_a_recovery_is_as_slow_as_nodes_that_are_left_or_as_quick_as_all_of_them_at_once() -> None:
    on = replace(cluster(8), pgs=None)
    [answer] = held(lost(share=0.1), on, (), TRUST)
    made = recovery_time(on, 0.5 * TB, nodes_lost=1, share=0.1)
    assert made.limit == "writing disks"
    assert made.seconds == pytest.approx(0.5 * TB / 5e7)
    # Each of the seven OSDs that are left takes over a seventh of the 100 PGs of an OSD, and the busiest more of them.
    uneven = 1 + math.sqrt(2 * math.log(7) / (100 / 7))
    # Each byte is read once and written once by a disk of those that are left; a tenth of each is for recovery.
    slow_s = 0.5 * TB * (1 / (7 * 1e8) + uneven / (7 * 5e7))
    among = recovery_in_place(on, 0.5 * TB, nodes_lost=1, share=0.1, shape=PUT, uneven=uneven).careful
    said = f"recovered by the 7 hosts that are left: at least x 1 / 7 = {made.seconds / 7:,.0f} s"
    assert answer == Answer(
        metric="time to recover",
        kind=Measure.TIME,
        value=near(slow_s),
        low=near(made.seconds / 7 / 2.0),
        high=near(slow_s * 2.0),
        limited_by="disks",
        most=3600.0,
        steps=(
            *made.derivation.lines(),
            said,
            *(f"by the hosts that are left, {line}" for line in among.derivation.lines()),
        ),
        doubts=(UNPUBLISHED,),
    )


def test_nodes_that_are_left_are_no_slower_than_a_new_one() -> None:
    [answer] = held(lost(share=0.1), cluster(4), (), TRUST)
    made = recovery_time(cluster(4), 0.5 * TB, nodes_lost=1, share=0.1)
    uneven = imbalance.taken_over(replace(cluster(4), pgs=None), PUT, 1)
    assert (
        recovery_in_place(cluster(4), 0.5 * TB, nodes_lost=1, share=0.1, shape=PUT, uneven=9.0).careful.seconds
        > made.seconds
    )
    assert uneven == pytest.approx(1 + math.sqrt(2 * math.log(3) / (100 / 3)))
    assert answer.value < made.seconds
    [crowded] = held(lost(share=0.1, fill=0.05), replace(cluster(4), pgs=3), (), TRUST)
    assert crowded.limited_by == made.limit, "some take none of the few PGs"
    assert crowded.value == pytest.approx(made.seconds / 10)
    assert imbalance.taken_over(cluster(2), PUT, 1) == 1.0, "one OSD is left, and takes all"


def test_nodes_that_are_left_may_be_faster_than_the_lost_ones_or_slower() -> None:
    """The interval holds what links allow, whichever of both kinds has the fast ones."""
    large, small = machine("l", disk=(disks(count=10),)), machine("s", count=20, disk=(disks(),))

    def answer(large_rate: float, small_rate: float, count: int = 4) -> Answer:
        nodes = ((replace(large, count=count), large_rate), (small, small_rate))
        linked = (replace(each, bandwidth=figure(rate, Measure.RATE)) for each, rate in nodes)
        on = replace(profile(*linked, rtt_s=1e-9), max_backfills=1000, pgs=None)
        return held(lost(protection="replicated:2"), on, (), TRUST)[0]

    # A large node takes in a fifth of 5 TB, a small one a fiftieth, and no node sends more.
    slow_large, slow_small = answer(1e7, 1e9), answer(1e9, 1e6)
    assert slow_large.low < 1e12 / 0.99e7 < slow_large.high
    assert slow_small.low < 1e11 / 0.99e6 < slow_small.high
    # Where the only slow one is lost, each of the others takes in a twentieth.
    all_quick = answer(1e6, 1e9, count=1)
    assert all_quick.low < 5e12 / 20 / 0.99e9 < all_quick.high


def test_a_fast_new_node_says_nothing_about_slow_ones_that_are_left() -> None:
    large, small = machine("l", disk=(disks(count=10),)), machine("s", count=20, disk=(disks(seq_write=1e6),))
    on = replace(profile(replace(large, count=4), small, rtt_s=1e-9), max_backfills=1000, pgs=None)
    [answer] = held(lost(protection="replicated:2"), on, (), TRUST)
    assert answer.limited_by == "writing disks"
    assert answer.value >= 5e12 / 50 / 1e6, "a small one writes a fiftieth"


def test_two_lost_nodes_of_an_erasure_code_are_recovered_together() -> None:
    [answer] = held(lost(protection="ec:2+2", nodes_lost=2), cluster(6), (), TRUST)
    made = recovery_time(cluster(6), 0.5 * TB, nodes_lost=2, k=2)
    assert made.seconds != recovery_time(cluster(6), 0.5 * TB, nodes_lost=2).seconds
    assert answer.low == pytest.approx(made.seconds * 2 / 4 / 2.0)
    assert answer.steps[: len(made.derivation.lines())] == tuple(made.derivation.lines())
    assert answer.doubts == (UNPUBLISHED,)


def test_replaced_nodes_are_no_quicker_than_themselves() -> None:
    [answer] = held(lost(replaced=True), cluster(3), (), TRUST)
    made = recovery_time(cluster(3), 0.5 * TB)
    assert (answer.low, answer.value, answer.high) == (made.seconds / 2.0, made.seconds, made.seconds * 2.0)
    assert (answer.limited_by, answer.steps) == (made.limit, tuple(made.derivation.lines()))
    assert not answer.doubts


def test_with_too_few_hosts_left_a_recovery_has_no_end() -> None:
    [answer] = held(lost(), cluster(3), (), TRUST)
    made = recovery_time(cluster(3), 0.5 * TB)
    assert (answer.low, answer.value, answer.high) == (made.seconds / 2.0, made.seconds, math.inf)
    assert answer.limited_by == "hosts: 2 for 3 shards"
    [undersized] = answer.doubts
    assert undersized.startswith("replicated:3 on the 2 hosts that are left: CRUSH's default rule")
    assert answer.steps == tuple(made.derivation.lines())


def test_a_pool_that_cannot_be_placed_has_nothing_to_recover() -> None:
    with pytest.raises(SpecError, match="cannot be placed"):
        held(lost(), cluster(2), (), TRUST)


def test_what_a_lost_node_held_is_a_share_of_the_largest_or_as_many_bytes_as_fit_on_it() -> None:
    both = profile(machine("s", disk=(disks(),)), machine("l", disk=(disks(count=3),)))
    assert on_each(lost(fill=0.5), both) == 1.5 * TB
    assert on_each(lost(fill=None, bytes="3 TB"), both) == 3 * TB
    with pytest.raises(SpecError) as caught:
        on_each(lost(fill=None, bytes="3.1 TB"), both)
    assert caught.value.detail == ("bytes: got 3.1 TB, wanted: at most 3 TB, the data disks of its largest node")


# Capacity


def room(protection: str = "replicated:3") -> CapacityRequirement:
    given = {"name": "x", "kind": "capacity", "fill": 0.5, "protection": protection, "at_least": "2 TB"}
    return CapacityRequirement.model_validate(given)


def test_room_is_that_of_the_first_full_machine_less_what_is_uneven() -> None:
    """Three copies on four equal machines of 1 TB: each has 0.75 of each byte. Of 100 PGs an OSD has 75, or 80."""
    [answer] = held(room(), replace(cluster(4), pgs=100), (), TRUST)
    uneven = 1 + 5 / 75
    assert answer == Answer(
        metric="usable capacity",
        kind=Measure.BYTES,
        value=near(0.5 * TB / 0.75),
        low=near(0.5 * TB / 0.75 / uneven),
        high=near(0.5 * TB / 0.75),
        limited_by="disks of n",
        least=2 * TB,
        steps=(
            "usable: 0.5 x 931 GiB of n / (0.75 shards x 1 of the payload) = 621 GiB; "
            f"the fullest disk has {uneven:.4f} times the mean   [{placement.SOURCE}]",
        ),
    )


def test_shards_of_a_code_take_their_part_of_the_payload() -> None:
    [answer] = held(room("ec:3+1"), cluster(4), (), TRUST)
    assert answer.value == pytest.approx(0.5 * 4 * TB * 3 / 4)
    assert "1 shards x 0.3333 of the payload" in answer.steps[0]


def test_of_equal_machines_the_first_is_named_and_those_without_disks_hold_nothing() -> None:
    equal = profile(machine("bare"), machine("a", disk=(DISK,)), machine("b", disk=(DISK,)))
    [answer] = held(room(), equal, (), TRUST)
    assert answer.limited_by == "disks of a"
    small = profile(machine("l", count=2, disk=(replace(DISK, count=4),)), machine("s", count=1, disk=(DISK,)))
    [answer] = held(room(), small, (), TRUST)
    assert (answer.limited_by, answer.value) == ("disks of s", near(0.5 * TB))


def test_room_on_too_few_hosts_may_be_none() -> None:
    [answer] = held(room(), profile(machine(count=2, disk=(replace(DISK, count=2),))), (), TRUST)
    assert (answer.low, answer.limited_by) == (0.0, "hosts: 2 for 3 shards")
    assert answer.high == answer.value > 0
    assert len(answer.doubts) == 1


# Objects


def objects(**given: Any) -> ObjectsRequirement:
    plain = {"name": "x", "kind": "objects", "metadata": {"value": "10 KB", "source": "test"}}
    return ObjectsRequirement.model_validate({**plain, "at_least": "5 objects", **given})


def with_db(made: MachineClass, gib: float) -> MachineClass:
    """Two metadata disks on each machine, of so many GiB together."""
    db = replace(disks("db", count=2, role=DiskRole.METADATA), size=figure(gib * GIB / 2, Measure.BYTES))
    return replace(made, disks=(*made.disks, db))


def test_objects_are_between_the_levels_that_fit_whole_and_all_of_the_disk() -> None:
    """Three machines of two OSDs with 40 GiB each: of levels of 1, 8 and 64 GiB two fit."""
    on = profile(machine("bare"), with_db(machine(disk=(disks(count=2),)), 80))
    [answer] = held(objects(), on, (), TRUST)
    low, high = (6 * gib * GIB / 10_000 for gib in (9, 40))
    assert answer == Answer(
        metric="objects before metadata spills",
        kind=Measure.OBJECTS,
        value=near(low),
        low=near(low / 3.0),
        high=near(high * 3.0),
        limited_by="metadata disks of n",
        least=5.0,
        steps=(
            "metadata: 6 OSDs x 9 GiB to 40 GiB of 40 GiB / 9.77 KiB an object [test] = "
            f"{low:,.0f} to {high:,.0f} objects",
        ),
    )


@pytest.mark.parametrize(("gib", "usable"), [(30, 30), (50, 40)])
def test_what_a_database_can_use_is_known_up_to_its_disk(gib: float, usable: float) -> None:
    on = profile(with_db(machine(disk=(disks(count=2),)), 80))
    [answer] = held(objects(db={"value": f"{gib} GiB", "source": "test"}), on, (), TRUST)
    each = 6 * usable * GIB / 10_000
    assert (answer.value, answer.low, answer.high) == pytest.approx((each, each / 3.0, each * 3.0))
    assert answer.steps[0].startswith(f"metadata: 6 OSDs x {gib} GiB to {gib} GiB of 40 GiB / ")


def test_the_machine_whose_metadata_is_full_first_counts() -> None:
    """Half of the data is on each class, so each has half of the metadata."""
    large, small = with_db(machine("l", disk=(disks(),)), 80), with_db(machine("s", disk=(disks(),)), 9)
    for on in (profile(large, small), profile(small, large)):
        [answer] = held(objects(), on, (), TRUST)
        assert answer.value == pytest.approx(6 * 9 * GIB / 10_000)
        assert answer.limited_by == "metadata disks of s"
    [answer] = held(objects(), profile(large, replace(large, name="same")), (), TRUST)
    assert answer.limited_by == "metadata disks of l"


def test_metadata_is_spread_as_the_data_is() -> None:
    """A machine of three disks has three quarters of the objects' metadata on as large a database."""
    on = profile(
        with_db(machine("l", count=1, disk=(disks(count=3),)), 27), with_db(machine("s", count=1, disk=(disks(),)), 73)
    )
    [answer] = held(objects(), on, (), TRUST)
    assert answer.value == pytest.approx(27 * GIB / (10_000 * 3 / 4))


def test_without_metadata_disks_nothing_spills() -> None:
    with pytest.raises(SpecError) as caught:
        held(objects(), profile(with_db(machine("a", disk=(DISK,)), 9), machine("b", disk=(DISK,))), (), TRUST)
    assert "disks with role metadata of b: missing" in caught.value.detail


@pytest.mark.parametrize(
    ("gib", "whole"), [(0.5, 0.5), (1, 1), (8.9, 1), (9, 9), (72.9, 9), (73, 73), (584.9, 73), (585, 585)]
)
def test_each_level_is_eight_times_the_one_before(gib: float, whole: float) -> None:
    assert whole_levels(gib * GIB) == whole * GIB
