"""Accounting, Ceph's counters, plans and their words: what a measurement is made of, without a cluster."""

import os
import time
from typing import cast

import psutil
import pytest

from cephlab.lab.base.errors import LabBroken, SpecError
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.telemetry import account_program, accounting, counters, describe
from cephlab.lab.telemetry.bench import operations_of, per_operation
from cephlab.lab.telemetry.clients import BlockClients
from cephlab.lab.telemetry.demand import Operation, Resource, Role
from cephlab.lab.telemetry.pace import kept_awake
from cephlab.lab.telemetry.plan import Load, Loaded, Plan
from cephlab.lab.telemetry.readings import Spent
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
