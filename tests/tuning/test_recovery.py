"""Recovery, worked out by hand: what each part of a cluster allows, and what is known of none."""

from dataclasses import replace
from typing import Any

import pytest

from cephlab.lab.base.errors import SpecError
from cephlab.tuning.profile import DiskKind, MachineClass, Profile
from cephlab.tuning.recovery import (
    Recovery,
    recovery_in_place,
    recovery_of_largest,
    recovery_time,
    refuse_more_than_a_node,
)
from cephlab.tuning.units import Measure
from cephlab.tuning.workload import Shape
from tests.model_parts import disks, figure, machine, profile


def two_kinds_of_disk() -> Profile:
    """Six nodes. Half of what each holds is on hard disks; the flash disks' operations a second limit nothing."""
    hdd = disks("hdd", kind=DiskKind.HDD, count=4, seq_read=2e8, seq_write=1e8, read_iops=100, write_iops=50)
    hdd = replace(hdd, read_latency=figure(0.01, Measure.TIME), sync_latency=figure(0.02, Measure.TIME))
    ssd = disks("ssd", kind=DiskKind.SSD, count=2, seq_read=1e9, seq_write=5e8, read_iops=100, write_iops=50)
    both = (replace(hdd, osds_per_disk=2), replace(ssd, size=figure(2e12, Measure.BYTES)))
    return replace(profile(machine(count=6, bandwidth=1e9, disk=both), rtt_s=0.001), max_backfills=3)


ONE = Shape("write", 1 << 22, 1, 1, replicas=1)


def told(recovery: Recovery) -> list[str]:
    return [f"{step.what}: {step.how} = {step.value}" for step in recovery.derivation]


def test_what_each_part_allows_is_told_with_its_numbers() -> None:
    recovery = recovery_time(two_kinds_of_disk(), 1e12)

    assert told(recovery) == [
        # Read in 21 + 10 ms, written in 42 + 20 ms, first byte after 10 + 20 + 1 ms, a pause of 100 ms; for one half.
        "rate by backfills: 24 at a time x 4 MiB / 224 ms = 899 MB/s",
        "rate by writing disks: 4 hdd x 67.7 MB/s x 1 = 542 MB/s",
        "rate by network into the new node: 1 n x 990 MB/s x 1 = 990 MB/s",
        "rate by reading disks: 20 hdd x 135 MB/s x 1 / 0.5 read per byte = 5.42 GB/s",
        "rate by network out of the others: 5 n x 990 MB/s x 1 / 1 sent per byte = 4.95 GB/s",
        "recovery: 931 GiB / 542 MB/s = 1,846 s",
    ]
    assert recovery.limit == "writing disks"
    assert recovery.seconds == pytest.approx(1846.05, abs=0.01)


def test_two_lost_nodes_of_an_erasure_code_with_half_of_everything_left_to_clients() -> None:
    recovery = recovery_time(two_kinds_of_disk(), 1e12, nodes_lost=2, k=4, share=0.5)

    assert told(recovery) == [
        # Read in 5 + 10 ms, written in 10 + 20 ms, first byte after 10 + 20 + 1 ms, a pause of 100 ms; for one half.
        "rate by backfills: 48 at a time x 1 MiB / 177 ms = 570 MB/s",
        "rate by writing disks: 8 hdd x 34.4 MB/s x 0.5 = 275 MB/s",
        "rate by network into the new node: 2 n x 990 MB/s x 0.5 = 990 MB/s",
        # Each lost byte is made of four: of two on hard disks.
        "rate by reading disks: 16 hdd x 68.8 MB/s x 0.5 / 2 read per byte = 275 MB/s",
        "rate by network out of the others: 4 n x 990 MB/s x 0.5 / 4 sent per byte = 495 MB/s",
        "recovery: 1.82 TiB / 275 MB/s = 7,268 s",
    ]


def test_what_is_left_reads_and_writes_with_the_same_disks_and_waits_for_the_busiest_osd() -> None:
    recovery = recovery_in_place(two_kinds_of_disk(), 1e12, nodes_lost=1, share=1.0, shape=ONE, uneven=2.0).careful

    assert told(recovery) == [
        # Five times as many as into one new node, half of them reserved, and the busiest OSD has twice the mean.
        "rate by backfills: 120 at a time x 4 MiB / 224 ms x 0.5 reserved / 2 at the busiest OSD = 1.12 GB/s",
        "rate by network into the others: 5 n x 990 MB/s x 1 / 2 at the busiest OSD = 2.48 GB/s",
        "rate by network out of the others: 5 n x 990 MB/s x 1 / 1 sent per byte = 4.95 GB/s",
        "rate by disks: (20 hdd x 135 MB/s x 1 / 0.5 read per byte) and "
        "(20 hdd x 67.7 MB/s x 1 / 2 at the busiest OSD), in turns = 1.08 GB/s",
        "recovery: 931 GiB / 1.08 GB/s = 923 s",
    ]
    assert recovery.limit == "disks"


LARGE, SMALL = machine("l", count=4, disk=(disks(count=10),)), machine("s", count=8, disk=(disks(),))
"""Of 10 TB and of 1 TB. Placement gives the large ones ten times as much."""


def unlike(large: MachineClass = LARGE, small: MachineClass = SMALL) -> Profile:
    """Links alone limit: a backfill takes next to no time."""
    return replace(profile(large, small, rtt_s=1e-9), max_backfills=1000)


def seconds(on: Profile, data_bytes: float = 5e12, **given: Any) -> tuple[float, str]:
    among = recovery_in_place(on, data_bytes, **{"nodes_lost": 1, "share": 1.0, "shape": ONE, "uneven": 2.0, **given})
    assert among.ideal.seconds <= among.careful.seconds
    return among.careful.seconds, among.careful.limit


def test_a_large_node_takes_in_more_than_a_small_one_through_the_same_link() -> None:
    slow = (replace(each, bandwidth=figure(1e9, Measure.RATE)) for each in (LARGE, SMALL))
    # Of 38 TB that are left, each large node has 10, and so it takes in 10 / 38 of what the lost one held.
    took, limit = seconds(unlike(*slow))
    assert limit == "network into the others"
    assert took == pytest.approx(5e12 * 10 / 38 / 0.99e9 * 2, rel=1e-3)


def test_a_host_that_holds_a_copy_of_nearly_all_takes_in_next_to_nothing() -> None:
    large, small = (replace(each, bandwidth=figure(1e6, Measure.RATE)) for each in (LARGE, SMALL))
    took, limit = seconds(unlike(replace(large, count=3), replace(small, count=2)), shape=replace(ONE, replicas=3))
    assert limit == "network into the others"
    # Of three copies each large one held 30 / 32 of one, and two of them then hold one each: a fifteenth more of what
    # was lost. The small ones share the rest.
    assert took == pytest.approx(5e12 * (1 - 2 / 15) / 2 / 0.99e6 * 2, rel=1e-3)


def test_the_new_node_is_like_the_lost_one_where_the_largest_is_lost() -> None:
    small = replace(SMALL, bandwidth=figure(1e7, Measure.RATE))
    on = unlike(replace(LARGE, bandwidth=figure(1e9, Measure.RATE)), small)
    [any_of_them, largest] = (recover(on, 5e12) for recover in (recovery_time, recovery_of_largest))
    assert any_of_them.seconds == pytest.approx(5e12 / 0.99e7, rel=1e-3)
    # Those that are left send in proportion to what they hold: each small one a 38th.
    assert largest.seconds == pytest.approx(5e12 / 38 / 0.99e7, rel=1e-3)
    assert largest.limit == "network out of the others"
    both = recovery_of_largest(on, 5e11, nodes_lost=5)
    assert both.seconds == pytest.approx(5e11 * 5 / 5 / 0.99e7, rel=1e-3), "a small one is lost too"


def test_nodes_without_osds_are_none_to_copy_from() -> None:
    whole = two_kinds_of_disk()
    beside = replace(whole, nodes=(*whole.nodes, machine("gateway", count=6)))

    assert told(recovery_time(beside, 1e12)) == told(recovery_time(whole, 1e12))
    with pytest.raises(SpecError, match="too many nodes are lost"):
        recovery_time(beside, 1e12, nodes_lost=6)


def test_disks_of_unknown_speed_are_no_limit() -> None:
    recovery = recovery_time(profile(machine(disk=(disks(),)), rtt_s=0.001), 1e12)

    assert [line.partition(":")[0] for line in told(recovery)] == [
        "rate by backfills",
        "rate by network into the new node",
        "rate by network out of the others",
        "recovery",
    ]
    # An object after each round trip.
    assert recovery.seconds == pytest.approx(1e12 / ((4 << 20) / 0.001))


def test_no_node_held_more_than_the_largest_has_room_for() -> None:
    small, large = machine(disk=(disks(),)), machine(name="large", disk=(disks(count=3),))
    room = large.weight
    refuse_more_than_a_node(profile(small, large), room, "--recover")
    with pytest.raises(SpecError, match="no node of"):
        refuse_more_than_a_node(profile(small, large), room + 1, "--recover")
