"""Recovery, worked out by hand: what each part of a cluster allows, and what is known of none."""

from dataclasses import replace

import pytest

from cephlab.lab.base.errors import SpecError
from cephlab.tuning.profile import DiskKind, Profile
from cephlab.tuning.recovery import Recovery, recovery_in_place, recovery_time
from cephlab.tuning.units import Measure
from tests.model_parts import disks, figure, machine, profile


def two_kinds_of_disk() -> Profile:
    """Six nodes. Half of what each holds is on hard disks; the flash disks' operations a second limit nothing."""
    hdd = disks("hdd", kind=DiskKind.HDD, count=4, seq_read=2e8, seq_write=1e8, read_iops=100, write_iops=50)
    hdd = replace(hdd, read_latency=figure(0.01, Measure.TIME), sync_latency=figure(0.02, Measure.TIME))
    ssd = disks("ssd", kind=DiskKind.SSD, count=2, seq_read=1e9, seq_write=5e8, read_iops=100, write_iops=50)
    both = (replace(hdd, osds_per_disk=2), replace(ssd, size=figure(2e12, Measure.BYTES)))
    return replace(profile(machine(count=6, bandwidth=1e9, disk=both), rtt_s=0.001), max_backfills=3)


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
    recovery = recovery_in_place(two_kinds_of_disk(), 1e12, nodes_lost=1, share=1.0, k=0, uneven=2.0)

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
