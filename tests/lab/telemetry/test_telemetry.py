"""Accounting, Ceph's counters, intervals: what a measurement is made of, without a cluster."""

import math
import os
import random
import time
from typing import cast

import psutil
import pytest

from cephlab.lab.base.errors import LabBroken, SpecError
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.telemetry import account_program, accounting, counters, describe
from cephlab.lab.telemetry.bench import operations_of, per_operation
from cephlab.lab.telemetry.clients import BlockClients
from cephlab.lab.telemetry.demand import Interval, Operation, Resource, Role
from cephlab.lab.telemetry.pace import kept_awake
from cephlab.lab.telemetry.plan import Load, Loaded, Plan
from cephlab.lab.telemetry.readings import Spent
from cephlab.lab.telemetry.statistics import Stop, interval, knee, linearity, ratio_of, ratio_of_means, width
from cephlab.lab.workloads.fio import Done, FioResult, Progress
from cephlab.lab.workloads.image import BlockImage

STAT = (
    "18253 (ceph-osd (x)) S 1 1 1 0 -1 4194304 68138 0 1 0 200 100 0 0 20 0 53 0 1261740 787161088 1000 1 " + "0 " * 27
)
IO = "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 1024\n"


def test_the_kernels_text_is_read() -> None:
    usage = accounting.parse_usage(STAT, IO)
    assert (usage.user_s, usage.system_s) == (200 * accounting.TICK_S, 100 * accounting.TICK_S)
    assert (usage.read_bytes, usage.write_bytes) == (4096, 7168)
    assert usage.resident_bytes == 1000 * accounting.PAGE_BYTES


def test_the_finer_clock_is_split_as_the_ticks_are() -> None:
    usage = accounting.parse_usage(STAT, IO, cpu_s=6.0)
    assert (usage.cpu_s, usage.user_s, usage.system_s) == (6.0, 4.0, 2.0)


def test_before_the_first_tick_everything_counts_as_user_time() -> None:
    usage = accounting.parse_usage(STAT.replace(" 200 100 ", " 0 0 "), IO, cpu_s=0.004)
    assert (usage.user_s, usage.system_s) == (0.004, 0.0)


def test_the_clock_of_a_process_is_its_own() -> None:
    before = account_program.clock_s(os.getpid())
    until = time.process_time() + 0.02
    while time.process_time() < until:
        pass
    assert account_program.clock_s(os.getpid()) - before == pytest.approx(0.02, abs=0.015)


def test_this_process_is_accounted_for_with_its_threads() -> None:
    usage = accounting.usage_of_trees({Role.PRIMARY: accounting.tree(os.getpid())})[Role.PRIMARY]
    assert usage.cpu_s > 0
    assert usage.resident_bytes > 1 << 20
    assert usage.threads
    assert usage.since(usage).cpu_s == 0


def test_a_process_that_ended_is_trouble_not_zero() -> None:
    with pytest.raises(LabBroken, match="ended"):
        accounting.tree(4_000_001)
    with pytest.raises(LabBroken, match="4000001"):
        accounting.usage_of_trees({Role.PRIMARY: [4_000_001]})[Role.PRIMARY]


@pytest.mark.parametrize(
    ("name", "kind"), [("msgr-worker-1", "msgr-worker"), ("rocksdb:low0", "rocksdb:low"), ("tp_osd_tp", "tp_osd_tp")]
)
def test_threads_of_one_kind_are_one(name: str, kind: str) -> None:
    assert accounting.thread_kind(name) == kind


def test_interfaces_are_summed_without_loopback() -> None:
    text = "head\nhead\n    lo: 9 9 0 0 0 0 0 0 9 9 0\n  eth0: 100 2 0 0 0 0 0 0 300 4 0 0 0 0 0 0\n"
    wanted = {"received_bytes": 100, "received_packets": 2, "sent_bytes": 300, "sent_packets": 4}
    assert accounting.interface_counters(text) == wanted


DUMP = {
    "AsyncMessenger::Worker-0": {"msgr_send_bytes": 10, "msgr_recv_bytes": 1},
    "AsyncMessenger::Worker-1": {"msgr_send_bytes": 5},
    "bluestore": {"write_big_blobs": 7, "write_big_deferred": 3, "kv_sync_lat": {"avgcount": 4, "sum": 0.5}},
    "bluefs": {"write_disk_count": 2, "flat": {"some": 1}},
}


def test_a_perf_dump_becomes_flat_and_workers_one() -> None:
    flat = counters.flatten(DUMP)
    assert flat["msgr.msgr_send_bytes"] == 15
    assert (flat["bluestore.kv_sync_lat"], flat["bluestore.kv_sync_lat.sum"]) == (4, 0.5)


def test_pacifics_counters_of_bluestore_have_the_names_that_later_releases_give_them() -> None:
    older = {"bluestore": {"bluestore_write_big_blobs": 3, "csum_lat": 2}, "osd": {"osd_map_cache_hit": 1}}
    assert counters.flatten(older) == {
        "bluestore.write_big_blobs": 3,
        "bluestore.csum_lat": 2,
        "osd.osd_map_cache_hit": 1,
    }
    assert counters.traffic(counters.flatten(older))[Resource.DEVICE_WRITES] == 3


def test_device_requests_are_what_bluestore_issued() -> None:
    moved = counters.traffic(counters.flatten(DUMP))
    told = (Resource.DEVICE_WRITES, Resource.WIRE_SENT_BYTES, Resource.WIRE_RECEIVED_BYTES)
    assert tuple(moved[resource] for resource in told) == (4 + 2, 15, 1)


def test_only_changes_are_kept() -> None:
    assert counters.since({"a": 3.0, "b": 1.0}, {"a": 1.0, "b": 1.0}) == {"a": 2.0}


def test_an_interval_is_students() -> None:
    estimate = interval([1.0, 2.0, 3.0])
    # t(0.975, 2) = 4.3027 (Student's table), standard error 1 / sqrt(3).
    assert estimate.mean == 2.0
    assert estimate.high - estimate.mean == pytest.approx(4.3027 / math.sqrt(3), rel=1e-4)
    assert width(estimate) == pytest.approx((estimate.high - 2) / 2)


def test_two_batches_have_an_interval_and_of_the_confidence_that_is_asked_for() -> None:
    # t(0.95, 1) = 6.3138 (Student's table), standard error 1.
    estimate = interval([1.0, 3.0], 0.9)
    assert (estimate.low, estimate.high) == pytest.approx((2 - 6.3138, 2 + 6.3138), rel=1e-4)
    assert (estimate.mean, estimate.samples, estimate.confidence) == (2.0, 2, 0.9)


def test_one_batch_has_no_interval() -> None:
    assert interval([2.0]) == Interval(2.0, -math.inf, math.inf, 1)
    assert interval([2.0], 0.9) == Interval(2.0, -math.inf, math.inf, 1, 0.9)
    with pytest.raises(ValueError, match="at least one value"):
        interval([])


def test_nothing_is_no_share_of_a_mean_of_nothing() -> None:
    assert width(Interval(0.0, -1.0, 1.0, 3)) == math.inf
    assert width(Interval(-2.0, -3.0, -1.0, 3)) == 0.5


def test_measuring_ends_when_narrow_or_when_the_budget_is_spent() -> None:
    stop = Stop(narrow=0.05, budget_s=30, least=3)
    assert stop.reason([1.0, 1.0], 99) is None
    assert "narrow enough" in (stop.reason([1.0, 1.01, 0.99], 6) or "")
    assert stop.reason([1.0, 2.0, 3.0], 6) is None
    assert "budget of 30 s is used up" in (stop.reason([1.0, 2.0, 3.0], 30) or "")


def test_usually_five_batches_within_three_percent_are_enough_and_a_minute_is_the_most() -> None:
    assert Stop().reason([1.0] * 4, 99) is None
    assert Stop().reason([1.0] * 5, 0) == "narrow enough: within 0.0% after 5 batches (3.0% wanted)"
    assert Stop().reason([1.0, 2.0] * 3, 59.9) is None
    assert "budget of 60 s" in (Stop().reason([1.0, 2.0] * 3, 60) or "")
    assert Stop(narrow=0.0).reason([1.0] * 5, 0) is not None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        ([1e-4, 1.01e-4, 1e-4], [1.02e-4, 1.03e-4, 1.02e-4], "linear in load within 10%"),
        ([1e-4, 1.01e-4, 1e-4], [2e-4, 2.01e-4, 2e-4], "not linear in load"),
        ([2e-4, 2.01e-4, 2e-4], [1e-4, 1.01e-4, 1e-4], "not linear in load"),
        ([1e-4, 1.01e-4, 1e-4], [1.12e-4, 1.1e-4, 1.11e-4], "not linear in load"),
        ([1.12e-4, 1.1e-4, 1.11e-4], [1e-4, 1.01e-4, 1e-4], "not linear in load"),
        ([1e-4, 1.5e-4, 0.7e-4], [1e-4, 1.6e-4, 0.7e-4], "cannot tell"),
    ],
)
def test_linearity_is_told_by_the_interval_of_the_ratio(low: list[float], high: list[float], words: str) -> None:
    sentence = linearity(low, high, low_load="depth 4", high_load="depth 16")
    assert sentence.startswith(words)
    assert "depth 4" in sentence


@pytest.mark.slow
def test_a_single_batch_says_nothing_about_linearity() -> None:
    shown = "100 us at depth 1, 150 us at depth 8, and a single batch has no spread"
    for low, high in (([1e-4], [1.4e-4, 1.6e-4]), ([0.9e-4, 1.1e-4], [1.5e-4])):
        assert linearity(low, high, low_load="depth 1", high_load="depth 8").endswith(f"in load: {shown}")


@pytest.mark.slow
def test_linearity_is_told_with_welchs_interval() -> None:
    """The two spreads differ a hundredfold; pooled, the interval would be a third as wide."""
    low, high = ([math.exp(value) for value in values] for values in ((-0.001, 0.001), (0.3, 0.5)))
    sentence = linearity(low, high, low_load="depth 4", high_load="depth 16")
    shown = "1000001 us at depth 4, 1499290 us at depth 16: +50% [-58% .. +431%]"
    assert sentence == f"cannot tell whether it is linear in load: {shown}"


def test_several_clients_have_nodes_of_their_own_and_one_count() -> None:
    operation = Operation("randread", 4096, depth=8, clients=2)
    plan = Plan(operation, ("client", "client1"), low=Load(8))
    assert str(plan.load) == "2 clients of depth 8"
    assert plan.load.in_flight == 16
    with pytest.raises(SpecError, match="2 clients on 1 nodes"):
        Plan(operation, ("client",))
    with pytest.raises(SpecError, match="more clients than nodes"):
        Plan(Operation("randread", 4096), ("client",), low=Load(4, clients=2))
    done = operations_of([Progress((1.0, 2.0, 3.0, 9.0)), Progress((0.5, 2.5, 8.0))])
    assert done(1.5, 3.5) == 3
    behind = operations_of([Progress((1.0, 2.0, 3.0, 9.0)), Progress((0.5, 2.5, 8.0))], [0.0, -1.0])
    assert behind(1.6, 3.6) == 3, "the second one's clock is a second behind"


def test_idle_cost_is_taken_off_and_each_counter_has_its_own_time() -> None:
    used = Spent(
        times=(10.0, 12.0),
        ceph_times={Role.PRIMARY: (10.5, 11.5)},
        usage={},
        ceph={},
        costs={Role.PRIMARY: {Resource.CPU_USER_S: 1.0}},
        ceph_costs={Role.PRIMARY: {Resource.WIRE_SENT_BYTES: 5000.0}},
        harness_s=0.0,
    )
    idle = {Role.PRIMARY: {Resource.CPU_USER_S: 0.25}}
    costs = per_operation(used, idle, lambda began, ended: 50 * (ended - began))
    assert costs == {Role.PRIMARY: {Resource.CPU_USER_S: 0.005, Resource.WIRE_SENT_BYTES: 100.0}}


def test_an_unknown_operation_is_refused() -> None:
    with pytest.raises(SpecError, match="'trim'"):
        Plan(Operation("trim", 4096), ("client",))


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("randrw70", ("randrw", {"norandommap": "1", "rwmixread": "70"})),
        ("randread", ("randread", {"norandommap": "1"})),
        ("write", ("write", {})),
    ],
)
def test_a_mix_tells_fio_its_share_of_reads(name: str, wanted: tuple[str, dict[str, str]]) -> None:
    plan = Plan(Operation(name, 4096, depth=8), ("client",))
    job = BlockClients(cast("Cluster", None), plan, (BlockImage("p", "i", 1 << 20),))._job(0, 8, 1.0)
    assert (job.pattern, dict(job.more)) == wanted


def test_the_latency_of_a_mix_is_of_both_directions() -> None:
    read, write = Done(70, 0, 1.0, 70.0, 0.001), Done(30, 0, 1.0, 30.0, 0.011)
    loaded = Loaded((), cast("Spent", None), 100.0, {}, 0.0, (FioResult(read, write),), "")
    assert loaded.latency_mean_s == pytest.approx(0.004)


def test_figures_carry_their_units() -> None:
    assert describe.amount(1.5e-4, Resource.CPU_USER_S) == "150.0 us"
    assert describe.amount(0.02, Resource.CPU_USER_S) == "20.00 ms"
    assert describe.amount(4096.4, Resource.WIRE_SENT_BYTES) == "4096 B"
    assert describe.size_text(4 << 20) == "4 MiB"
    assert describe.operation_text(Operation("read", 4096, 2, k=2, m=1)) == "read 4 KiB at depth 2 on EC 2+1"


def test_cpus_are_kept_awake_only_inside_the_block() -> None:
    def fillers() -> int:
        mine = psutil.Process().children()
        return sum(1 for child in mine if child.status() != psutil.STATUS_ZOMBIE)

    before = fillers()
    with kept_awake():
        assert fillers() == before + len(os.sched_getaffinity(0))
    assert fillers() == before


def test_a_ratio_of_means_has_fiellers_interval_and_no_upper_end_over_what_may_be_nothing() -> None:
    # By hand: means 20 and 10, variances of the means 1/3 each, t of 4 degrees of freedom 2.7764.
    ratio = ratio_of_means((19.0, 20.0, 21.0), (9.0, 10.0, 11.0))
    assert (ratio.mean, ratio.low, ratio.high) == pytest.approx((2.0, 1.6858, 2.4197), abs=1e-3)
    assert ratio_of_means((10.0, 11.0), (0.0, 10.0)).high == math.inf
    assert ratio_of_means((10.0, 11.0), (0.0, 10.0)).ends == (0.0, 1e9)
    assert ratio.ends == (ratio.low, ratio.high)
    assert (ratio.samples, ratio.confidence) == (6, 0.95)
    # The same with a mean of 30, whose ratio squared is not its double.
    ratio = ratio_of_means((29.0, 30.0, 31.0), (9.0, 10.0, 11.0))
    assert (ratio.mean, ratio.low, ratio.high) == pytest.approx((3.0, 2.5595, 3.5987), abs=1e-3)
    assert ratio_of_means((0.0, 10.0), (10.0, 11.0)).low == 0.0


@pytest.mark.parametrize(
    ("over", "under", "ratio"),
    [((10.0,), (5.0, 5.0), 2.0), ((10.0, 10.0), (5.0,), 2.0), ((1.0, 2.0), (0.0, 0.0), math.inf)],
)
def test_a_ratio_of_means_of_too_little_has_no_ends(
    over: tuple[float, ...], under: tuple[float, ...], ratio: float
) -> None:
    assert ratio_of_means(over, under, 0.9) == Interval(ratio, 0.0, math.inf, len(over) + len(under), 0.9)


def test_a_ratio_of_intervals_is_of_their_worst_ends() -> None:
    under = Interval(2.0, 1.0, 4.0, 9)
    assert ratio_of(Interval(6.0, 5.0, 7.0, 4, 0.9), under) == Interval(3.0, 1.25, 7.0, 4, 0.9)
    assert ratio_of(Interval(6.0, -5.0, 7.0, 4), under).low == 0.0
    assert ratio_of(under, Interval(0.0, -1.0, 1.0, 4)) == Interval(math.inf, 1.0, math.inf, 4)
    assert ratio_of(under, Interval(0.0, 0.0, 0.0, 4)) == Interval(math.inf, 0.0, math.inf, 4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rates", "bends_at"),
    [
        ([10.0, 20.0, 21.0, 22.0], 2.0),
        ([10.0, 20.0, 21.0], None),
        ([10.0, 10.0, 10.0, 10.0], None),
        ([10.0, 20.0, 30.0, 40.0], None),
        ([10.0, 20.0, 19.0, 21.0, 20.0, 22.0], 2.0),
    ],
)
def test_a_knee_is_where_a_rising_curve_bends(rates: list[float], bends_at: float | None) -> None:
    assert knee(range(1, len(rates) + 1), rates) == bends_at


def test_a_ratio_of_means_covers_as_often_as_it_says() -> None:
    source = random.Random(7)
    covered = 0
    for _ in range(400):
        over, under = ([source.gauss(mean, 3.0) for _ in range(8)] for mean in (30.0, 20.0))
        ratio = ratio_of_means(over, under)
        covered += ratio.low <= 1.5 <= ratio.high
    assert 0.92 <= covered / 400 <= 0.98
