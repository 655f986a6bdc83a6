"""Gains by the model: a cache that is hit, a share of the time that waits, and several clients beside one."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from cephlab.lab.base.errors import SpecError
from cephlab.tuning import gain
from cephlab.tuning.demandsets import find_demands
from cephlab.tuning.derivation import Derivation, DerivationStep
from cephlab.tuning.gain import Wait
from cephlab.tuning.model import predict
from cephlab.tuning.profile import DiskKind, DiskRole, Disks
from cephlab.tuning.profilefile import find_profile
from cephlab.tuning.trust import growth_factor
from cephlab.tuning.workload import Shape
from tests.model_parts import demand, disks, machine, profile

HDD = disks("hdd", kind=DiskKind.HDD, count=7, read_iops=120, write_iops=120, sync_latency=0.0085)
NVME = disks("nvme", read_iops=500_000, write_iops=200_000, sync_latency=20e-6, read_latency=90e-6)
SSD = disks("ssd", kind=DiskKind.SSD, read_iops=90_000, write_iops=60_000)
METADATA = disks("db", role=DiskRole.METADATA)
READ, WRITE = Shape("randread", 4096, 1, 1, 1), Shape("randwrite", 4096, 1, 1, 1)


def wait(seconds: float, factor: float = 1.0) -> Wait:
    return Wait(seconds, factor, Derivation())


def test_hits_and_misses_have_a_harmonic_mean() -> None:
    gained = gain.of_cache(wait(0.010), wait(0.001), 0.9)
    assert gained.value == pytest.approx(0.010 / (0.9 * 0.001 + 0.1 * 0.010))
    assert (gained.low, gained.high) == pytest.approx((gained.value, gained.value))


def test_a_cache_that_is_never_hit_gains_nothing_however_fast_it_is() -> None:
    assert gain.of_cache(wait(0.010, 2.0), wait(1e-9, 2.0), 0.0).high == pytest.approx(1.0)


def test_misses_bound_the_gain_however_wrong_the_model_is() -> None:
    gained = gain.of_cache(wait(0.010, 3.0), wait(1e-6, 3.0), 0.9)
    assert gained.low < gained.value < gained.high <= 10


def test_errors_of_both_rates_are_in_the_interval() -> None:
    gained = gain.of_cache(wait(0.010, 2.0), wait(0.001, 2.0), 1.0)
    apart = gain.together(2.0, 2.0)
    assert apart == pytest.approx(2.0 ** math.sqrt(2))
    assert gain.together(2.0, 0.5, 1.0) == pytest.approx(apart)
    assert (gained.low, gained.value, gained.high) == pytest.approx((10 / apart, 10, 10 * apart))


def test_what_does_not_wait_is_no_faster() -> None:
    """Of 20 ms, 10 wait for the disk: were the cache infinitely fast, 10 would be left."""
    gained = gain.of_cache(wait(0.010, 2.0), wait(1e-9), 1.0, busy_s=0.020)
    assert gained.value == pytest.approx(2.0, rel=1e-3)
    assert gained.low == pytest.approx(20 / 15, rel=1e-3)
    assert any("Amdahl" in line for line in gained.derivation.lines())


def known(seconds: float, factor: float, what: str) -> Wait:
    return Wait(seconds, factor, Derivation((DerivationStep(what, "as rated", f"{seconds:g} s"),)))


def test_both_waits_the_share_that_waits_and_the_interval_are_told_with_their_numbers() -> None:
    """Of 40 ms, 5 to 20 wait for the disk. Both errors together are a factor of 3.67."""
    gained = gain.of_cache(known(0.010, 2.0, "slow"), known(0.001, 3.0, "fast"), 0.9, busy_s=0.040)
    apart = math.exp(math.hypot(math.log(2), math.log(3)))
    assert gained.value == pytest.approx(1 / (0.75 + 0.25 * (0.9 * 0.1 + 0.1)))
    assert gained.low == pytest.approx(1 / (0.875 + 0.125 * (0.9 * 0.1 * apart + 0.1)))
    assert gained.high == pytest.approx(1 / (0.5 + 0.5 * (0.9 * 0.1 / apart + 0.1)))
    assert gained.derivation.lines() == [
        "slow: as rated = 0.01 s",
        "fast: as rated = 0.001 s",
        f"share of the time that waits for the slow disk: 10 ms of 40 ms, within 2 times = 0.25   [{gain.REST}]",
        f"gain: 1 / (1 - 0.25 + 0.25 x (0.9 x 1 ms / 10 ms + 1 - 0.9)) = 1.25 times   [{gain.HARMONIC}]",
        f"interval: the ratio may be off by a factor of 3.67 = 1.08 to 1.78   [{gain.SQUARES}]",
    ]


def test_no_more_than_all_of_the_time_is_waited() -> None:
    """All of 15 ms wait where the model is off by 2: with an infinitely fast cache, misses would be left."""
    gained = gain.of_cache(wait(0.010, 2.0), wait(1e-12, 1.0), 0.9, busy_s=0.015)
    assert gained.high == pytest.approx(10.0)
    whole = gain.of_cache(wait(0.010), wait(0.001), 0.9)
    assert whole.derivation.lines()[0].startswith("gain: 1 / ((0.9 x 1 ms / 10 ms + 1 - 0.9)) = 5.26 times")


def test_a_cache_slower_than_the_disks_loses() -> None:
    assert gain.of_cache(wait(0.001), wait(0.002), 1.0, busy_s=0.010).value < 1


def test_waits_in_turn_add_up_and_the_least_known_decides() -> None:
    both = gain.in_turn([known(0.001, 2.0, "first").times(3), known(0.002, 1.5, "second")])
    assert both.seconds == pytest.approx(0.005)
    assert both.factor == 2.0
    assert both.derivation.lines() == ["first: as rated = 0.001 s", "second: as rated = 0.002 s"]


def test_each_kind_of_disks_is_a_cluster_of_its_own() -> None:
    whole = profile(machine(disk=(HDD, METADATA, NVME)))
    slow, fast = gain.classes_of(whole)
    assert [each.name for each in slow.nodes[0].disks] == ["hdd", "db"]
    assert [each.name for each in fast.nodes[0].disks] == ["nvme"]
    assert (slow.osds, fast.osds) == (21, 3)


def test_of_three_kinds_the_slowest_and_the_fastest_count() -> None:
    slow, fast = gain.classes_of(profile(machine(disk=(SSD, NVME, METADATA, HDD))))
    assert [each.name for each in slow.nodes[0].disks] == ["hdd", "db"]
    assert [each.name for each in fast.nodes[0].disks] == ["nvme"]


def test_metadata_disks_stay_where_rotating_disks_are() -> None:
    """Not with flash disks, and not on a machine that has none of the disks that they serve."""
    slow, _ = gain.classes_of(profile(machine("a", disk=(HDD, METADATA)), machine("b", disk=(NVME, METADATA))))
    assert [[each.name for each in node.disks] for node in slow.nodes] == [["hdd", "db"], []]
    slow, fast = gain.classes_of(profile(machine(disk=(SSD, METADATA, NVME))))
    assert [[each.name for each in side.nodes[0].disks] for side in (slow, fast)] == [["ssd"], ["nvme"]]


def test_the_fast_disks_may_be_on_other_machines() -> None:
    slow, fast = gain.classes_of(profile(machine("a", disk=(SSD,)), machine("b", disk=(NVME,))))
    assert [node.osds for node in slow.nodes] == [1, 0]
    assert [node.osds for node in fast.nodes] == [0, 1]


@pytest.mark.parametrize(
    ("disk", "got"), [((HDD,), "hdd"), ((HDD, METADATA), "hdd"), ((NVME,), "nvme"), ((METADATA,), "none")]
)
def test_a_profile_without_fast_disks_beside_slow_ones_is_refused(disk: tuple[Disks, ...], got: str) -> None:
    with pytest.raises(SpecError, match="does not have two kinds of data disks") as caught:
        gain.classes_of(profile(machine(disk=disk)))
    assert caught.value.detail == f"data disks: {got}"


def test_a_load_waits_for_its_share_of_the_predicted_time() -> None:
    on, busy = profile(machine(disk=(NVME,))), replace(READ, clients=4, depth=8)
    costs = (demand("randread", primary_s=1e-4, replicas=1),)
    made = predict(costs, on, busy)
    waited = gain.on_cluster(costs, on, busy)
    assert waited.seconds == pytest.approx(1 / made.ops)
    assert waited.factor == made.trust.factor
    assert made.trust.outside
    assert waited.derivation.lines() == [
        *made.derivation.lines(),
        *(f"trust: {doubt}" for doubt in made.trust.outside),
    ]


def test_rotating_disks_gain_much_by_a_tier_and_flash_little(tmp_path: Path) -> None:
    demands = find_demands(tmp_path)[0]
    gains = {}
    for slow_disk in (HDD, SSD):
        slow, fast = gain.classes_of(profile(machine(speed=5.0, disk=(slow_disk, NVME))))
        waits = [gain.on_cluster(demands, each, Shape("randwrite", 4096, 1, 4, 2)) for each in (slow, fast)]
        gains[slow_disk.name] = gain.of_cache(waits[0], waits[1], 0.95)
    assert gains["hdd"].low > 3 > gains["ssd"].value > 0.9
    assert gains["ssd"].low < 1


def test_the_fastest_disk_of_a_client_answers_each_way() -> None:
    better = disks("better", sync_latency=10e-6, read_latency=200e-6)
    clients = (machine("client", disk=(HDD, NVME, better)),)
    known = replace(profile(machine(disk=(HDD,))), clients=clients)
    assert gain.at_client(known, READ).seconds == 90e-6
    assert gain.at_client(known, WRITE).seconds == 10e-6
    assert gain.at_client(known, WRITE).factor == 2.0
    assert gain.at_client(known, READ).derivation.lines() == ["one read of nvme at the client: as rated = 90 us"]
    # What is not rated for writes answers none; of equal ones the first does.
    other = replace(better, name="other")
    twice = replace(known, clients=(machine("client", disk=(disks("reads", read_latency=1e-6), better, other)),))
    assert gain.at_client(twice, WRITE).derivation.lines() == ["one write of better at the client: as rated = 10 us"]


def test_a_client_without_a_fast_disk_has_no_cache() -> None:
    for clients in ((), (machine("client", disk=(HDD,)),), (machine("client", disk=(disks("unrated"),)),)):
        with pytest.raises(SpecError, match="has a fast disk with a known"):
            gain.at_client(replace(profile(), clients=clients), WRITE)


def test_clients_that_each_wait_do_as_many_times_as_much(tmp_path: Path) -> None:
    demands, machines = find_demands(tmp_path)[0], find_profile("pve-epyc-3n", tmp_path)
    single, six, crowd = (predict(demands, machines, Shape("randread", 4096, n, 1)) for n in (1, 6, 100_000))
    gained = gain.of_growth(single, six)
    assert 5 < gained.value < 6.01
    assert gained.value == pytest.approx(six.ops / single.ops)
    apart = growth_factor()
    assert (gained.low, gained.high) == (gained.value / apart, gained.value * apart)
    made = [*single.derivation.lines(), *six.derivation.lines()]
    told = gained.derivation.lines()
    assert [line for line in told if not line.startswith("trust: ")][: len(made)] == made
    assert told[-2] == f"gain: {six.ops:,.0f} / {single.ops:,.0f} ops/s = {gained.value:.3g} times"
    assert told[-1].startswith(f"interval: the ratio may be off by a factor of {apart:.3g} = {gained.low:.3g} to ")
    assert gain.of_growth(single, crowd).value < 10_000
