"""The model against answers that were worked out by hand."""

import math
from dataclasses import replace

import pytest

from cephlab.lab.base.errors import SpecError
from cephlab.lab.telemetry.demand import Role
from cephlab.tuning.ceilings import Ceiling, ceilings, goodput
from cephlab.tuning.model import predict
from cephlab.tuning.profile import DiskKind, DiskRole, Threads
from cephlab.tuning.recovery import recovery_time
from cephlab.tuning.units import Measure
from cephlab.tuning.work import work_for
from cephlab.tuning.workload import Shape
from tests.model_parts import demand, disks, figure, machine, profile

WRITE = Shape("randwrite", 4096, clients=50, depth=20, replicas=3)


def _allowed(limits: tuple[Ceiling, ...], name: str) -> float:
    return {ceiling.name: ceiling.ops for ceiling in limits}[name]


def test_cpu_of_all_copies_limits_a_write() -> None:
    # 3 nodes x 10 cores x 1 point; 1 ms led + 2 x 0.5 ms copied = 2 point-ms: 30 / 0.002.
    made = predict([demand(primary_s=0.001, replicas_s=0.001)], profile(), WRITE)

    assert made.ceiling == pytest.approx(15_000)
    assert made.bottleneck == "n: CPU"
    assert made.ops == pytest.approx(15_000, rel=0.01)
    assert made.utilisation["n: CPU"] == pytest.approx(1.0, rel=0.01)
    assert made.latency_s == pytest.approx(1000 / made.ops)


def test_core_speed_scales_the_demand() -> None:
    # Measured on CPUs of 2 points, so an operation is 4 point-ms; cores of 8 points do four times as much.
    fast = profile(machine(speed=8.0, disk=(disks(),)))
    made = predict([demand(primary_s=0.001, replicas_s=0.001, core_speed=2.0)], fast, WRITE)

    assert made.ceiling == pytest.approx(3 * 10 * 8 / 0.004)


def test_the_slowest_node_decides_for_all() -> None:
    # Equal shares on every node: the one with a quarter of the speed is full first.
    mixed = profile(
        machine("fast", count=2, speed=4.0, disk=(disks(),)), machine("slow", count=1, speed=1.0, disk=(disks(),))
    )
    made = predict([demand(primary_s=0.001, replicas_s=0.001)], mixed, WRITE)

    assert made.bottleneck == "slow: CPU"
    assert made.ceiling == pytest.approx(10 * 1.0 / (0.001 / 3 + 2 / 3 * 0.0005))


def test_fewer_copies_than_measured_cost_less() -> None:
    two = Shape("randwrite", 4096, clients=50, depth=20, replicas=2)
    made = predict([demand(primary_s=0.001, replicas_s=0.001)], profile(), two)

    assert made.ceiling == pytest.approx(30 / 0.0015)


def test_little_in_flight_is_named_as_the_limit() -> None:
    alone = Shape("randwrite", 4096, clients=1, depth=1, replicas=3)
    made = predict([demand(primary_s=0.001, replicas_s=0.001)], profile(), alone)

    assert made.bottleneck.startswith("too few operations in flight")
    # client -> primary -> replica: two round trips, 1 ms at the primary, 0.5 ms at each replica at the same time.
    assert made.unloaded_s == pytest.approx(0.0002 + 0.001 + 0.0005, rel=0.01)
    assert made.ops == pytest.approx(1 / made.unloaded_s, rel=0.01)


def test_more_in_flight_never_does_less() -> None:
    shapes = [Shape("randwrite", 4096, clients=n, depth=4, replicas=3) for n in (1, 2, 4, 8, 16, 64)]
    done = [predict([demand(primary_s=0.001, replicas_s=0.001)], profile(), shape).ops for shape in shapes]

    assert done == sorted(done)


def test_a_disk_limits_by_operations_and_bytes() -> None:
    # 2 writes of 8 KiB altogether: 2 / 1000 IOPS, no bytes beyond 4 KiB each. One shard on each of three disks.
    slow = profile(machine(disk=(disks(write_iops=1000, seq_write=1e6),)))
    cost = demand(primary_s=1e-6, writes=2, write_bytes=8192, replicas=1)
    limits = ceilings(slow, work_for([cost], Shape("randwrite", 4096, 1, 1, replicas=1)))

    assert _allowed(limits, "n: disk d") == pytest.approx(3 * 1000 / 2)


def test_a_separate_log_takes_the_small_writes() -> None:
    split = machine(
        disk=(
            disks("hdd", kind=DiskKind.HDD, write_iops=100, seq_write=1e8),
            disks("log", role=DiskRole.METADATA, write_iops=10_000, seq_write=1e9),
        )
    )
    cost = demand(primary_s=1e-6, writes=3, write_bytes=12288, replicas=1)
    limits = ceilings(profile(split), work_for([cost], Shape("randwrite", 4096, 1, 1, replicas=1)))

    # One write of the data stays on the disk; two of 4 KiB go to the log.
    assert _allowed(limits, "n: disk hdd") == pytest.approx(3 * 100)
    assert _allowed(limits, "n: disk log") == pytest.approx(3 * 10_000 / 2)


@pytest.mark.parametrize(("size", "extents"), [(4 << 20, 1), (8 << 20, 2), (65536, 1), (4096, 1)])
def test_pieces_of_an_extent_are_one_write_of_the_disk(size: int, extents: int) -> None:
    """Beside one write of each 64 KiB two are of RocksDB and its log: these and the extents count."""
    cost = demand(block_bytes=size, primary_s=1e-6, writes=max(1, size / 65536) + 2, write_bytes=size)
    shape = Shape("randwrite", size, 1, 1, replicas=1)
    alone = profile(machine(disk=(disks(kind=DiskKind.HDD, write_iops=100),)))
    apart = (disks(kind=DiskKind.HDD, write_iops=100), disks("log", role=DiskRole.METADATA, write_iops=100))

    assert _allowed(ceilings(alone, work_for([cost], shape)), "n: disk d") == pytest.approx(300 / (extents + 2))
    both = ceilings(profile(machine(disk=apart)), work_for([cost], shape))
    assert _allowed(both, "n: disk d") == pytest.approx(300 / extents)
    assert _allowed(both, "n: disk log") == pytest.approx(300 / 2)


def test_data_that_lies_together_is_read_faster_from_a_rotating_disk() -> None:
    spinning = profile(machine(disk=(disks(kind=DiskKind.HDD, read_iops=170),)))
    cost = demand("randread", primary_s=1e-6)

    def reads(span: float) -> float:
        return _allowed(ceilings(spinning, work_for([cost], Shape("randread", 4096, 1, 1, span=span))), "n: disk d")

    assert reads(1.0) == pytest.approx(3 * 170)
    assert reads(0.01) > 2 * reads(1.0)
    assert reads(0.01) < reads(0.0001) < 3 / 0.001


def test_the_one_kv_thread_of_an_osd_limits_writes() -> None:
    threads = {Role.PRIMARY: {"bstore_kv_sync": 50e-6}, Role.REPLICA: {"bstore_kv_sync": 100e-6}}
    limits = ceilings(profile(), work_for([demand(primary_s=1e-4, replicas_s=2e-4, threads=threads)], WRITE))

    # Each of three OSDs leads a third and copies two thirds: 50 us of its one thread per operation.
    assert _allowed(limits, "n: bstore_kv_sync of an OSD on d") == pytest.approx(1 / (150e-6 / 3))


def test_a_read_holds_an_op_thread_while_the_device_answers() -> None:
    slow = profile(machine(disk=(disks(read_latency=0.0009),)))
    cost = demand("randread", primary_s=1e-4, threads={Role.PRIMARY: {"tp_osd_tp": 100e-6}})
    work = work_for([cost], Shape("randread", 4096, 1, 1))

    assert _allowed(ceilings(slow, work), "n: tp_osd_tp of an OSD on d") == pytest.approx(3 * 16 / 0.001)
    cached = work_for([cost], Shape("randread", 4096, 1, 1, hit_ratio=1.0))
    assert _allowed(ceilings(slow, cached), "n: tp_osd_tp of an OSD on d") == pytest.approx(3 * 16 / 100e-6)


@pytest.mark.parametrize("thread", ["fio", "fn-radosclient"])
def test_one_load_generator_is_limited_by_its_own_thread(thread: str) -> None:
    cost = demand("randread", primary_s=1e-6, client_s=1e-4, threads={Role.CLIENT: {thread: 20e-6}})
    single = predict([cost], profile(), Shape("randread", 4096, clients=1, depth=1000))
    many = predict([cost], profile(), Shape("randread", 4096, clients=4, depth=1000))

    assert single.ceiling == pytest.approx(50_000)
    assert single.bottleneck == f"clients: {thread} of a client process"
    assert many.ceiling == pytest.approx(200_000)


@pytest.mark.parametrize("loader", ["ld-linux-x86", "ld-linux-aarch", "ld-2.31.so"])
def test_a_load_generator_s_own_thread_has_one_name_whatever_started_it(loader: str) -> None:
    cost = demand("randread", primary_s=1e-6, client_s=1e-4, threads={Role.CLIENT: {loader: 20e-6}})
    single = predict([cost], profile(), Shape("randread", 4096, clients=1, depth=1000))

    assert single.ceiling == pytest.approx(50_000)
    assert single.bottleneck == "clients: load generator of a client process"


def test_copies_cross_the_network_once_each() -> None:
    # A node takes in 1/3 led from outside and 2/3 copied: 1 block an operation. It sends 2/3 on.
    narrow = profile(machine(bandwidth=1e9, disk=(disks(),)))
    big = Shape("write", 1 << 20, clients=50, depth=20, replicas=3)
    limits = ceilings(narrow, work_for([demand("write", 1 << 20, primary_s=1e-9, replicas_s=1e-9)], big))

    assert _allowed(limits, "n: network in") == pytest.approx(1e9 * goodput(9000) / (1 << 20))
    assert _allowed(limits, "n: network out") == pytest.approx(1e9 * goodput(9000) / (2 / 3 * (1 << 20)))


def test_an_erasure_coded_write_moves_shards() -> None:
    narrow = profile(machine(count=6, bandwidth=1e9, disk=(disks(),)))
    shape = Shape("write", 1 << 20, clients=50, depth=20, k=4, m=2)
    coded = demand("write", 1 << 20, primary_s=1e-9, replicas_s=5e-9, replicas=6, ec=(4, 2))
    limits = ceilings(narrow, work_for([coded], shape))

    # In: a sixth of the blocks, and five sixths of a quarter of a block as shards.
    assert _allowed(limits, "n: network in") == pytest.approx(1e9 * goodput(9000) / ((1 / 6 + 5 / 6 / 4) * (1 << 20)))


def test_a_gateway_doubles_the_way() -> None:
    narrow = profile(machine(bandwidth=1e9, gateways=2, disk=(disks(),)))
    got = demand("get", 1 << 20, primary_s=1e-9, gateway_s=1e-9, replicas=3)
    limits = ceilings(narrow, work_for([got], Shape("get", 1 << 20, 10, 10)))

    # Out of each of three: a third to clients, and two thirds of a third to gateways elsewhere.
    assert _allowed(limits, "n: network out") == pytest.approx(1e9 * goodput(9000) / ((1 / 3 + 2 / 9) * (1 << 20)))


def test_a_gateway_that_was_not_measured_is_said_to_be_unknown() -> None:
    gateways = profile(machine(gateways=1, disk=(disks(),)))
    made = predict([demand("get", primary_s=1e-4)], gateways, Shape("get", 4096, 10, 10))

    assert any("gateways" in line for line in made.unknown)


def test_every_step_is_in_the_derivation() -> None:
    made = predict([demand(primary_s=0.001, replicas_s=0.001)], profile(), WRITE)
    text = "\n".join(made.derivation.lines())

    assert "10 cores x 1.00 points" in text
    assert "15,000 ops/s" in text
    assert "Little's law" in text
    assert "Reiser and Lavenberg" in text


def test_between_two_block_sizes_a_straight_line_is_drawn() -> None:
    measured = [demand("write", 4096, primary_s=0.001), demand("write", 8192, primary_s=0.002)]

    assert work_for(measured, Shape("write", 6144, 1, 1)).primary.cpu == pytest.approx(0.0015)
    assert work_for(measured, Shape("write", 16384, 1, 1)).primary.cpu == pytest.approx(0.004)
    assert work_for(measured, Shape("write", 2048, 1, 1)).primary.cpu == pytest.approx(0.0005)


def test_a_sequential_demand_stands_in_for_a_random_one() -> None:
    work = work_for([demand("write", primary_s=0.001)], WRITE)

    assert work.primary.cpu == pytest.approx(0.001)
    assert work.doubts == ("randwrite was not measured at 4096 B; write is used instead.",)


def test_a_block_far_from_the_measured_ones_is_said_to_be_extrapolated() -> None:
    measured = [demand("write", 4096, primary_s=0.001), demand("write", 8192, primary_s=0.002)]
    made = predict(measured, profile(), Shape("write", 1 << 20, 1, 1))

    assert made.unknown[0].startswith("Extrapolated")
    assert not work_for(measured, Shape("write", 16384, 1, 1)).doubts


@pytest.mark.parametrize(
    ("measured", "said"),
    [
        ([], "no measured demand"),
        ([demand("randread")], "no measured demand"),
        ([demand("put")], "no measured demand"),
        ([demand(emulated=True)], "no measured demand"),
        ([demand(core_speed=0.0)], "core speed"),
        ([demand(block_bytes=8192)], "one block size only"),
    ],
)
def test_a_shape_that_nothing_speaks_for_is_refused(measured: list[object], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        work_for(measured, WRITE)  # type: ignore[arg-type]


def test_hdd_osds_have_fewer_op_threads() -> None:
    spinning = profile(machine(disk=(disks(kind=DiskKind.HDD),)))
    cost = demand("randread", primary_s=1e-4, threads={Role.PRIMARY: {"tp_osd_tp": 100e-6}})
    limits = ceilings(spinning, work_for([cost], Shape("randread", 4096, 1, 1)))

    assert _allowed(limits, "n: tp_osd_tp of an OSD on d") == pytest.approx(3 * 5 / 100e-6)
    assert Threads().messenger == 3


def test_recovery_is_limited_by_backfills_then_by_the_network() -> None:
    nodes = profile(machine(bandwidth=1e9, disk=(disks(count=4, seq_read=1e9, seq_write=1e9),)), rtt_s=1e-9)
    recovery = recovery_time(nodes, 1e12)

    # One backfill on each of 4 OSDs, an object in 8.39 ms: 2 GB/s; the network takes 1 GB/s x 0.99.
    assert recovery.limit == "network into the new node"
    assert recovery.seconds == pytest.approx(1e12 / (1e9 * goodput(9000)))
    assert recovery_time(nodes, 1e12, share=0.5).seconds == pytest.approx(2 * recovery.seconds)


def test_a_hdd_pauses_after_each_object() -> None:
    slow = profile(
        machine(disk=(disks(kind=DiskKind.HDD, seq_read=2e8, seq_write=2e8, read_iops=200, write_iops=200),))
    )
    recovery = recovery_time(slow, 1e12)

    # 4 MiB: 2 x (21 ms + 5 ms) and osd_recovery_sleep_hdd of 100 ms.
    assert recovery.limit == "backfills"
    assert recovery.seconds == pytest.approx(
        1e12 / ((4 << 20) / (0.1 + 2 * (4 * 2**20 / 2e8 + 0.005) + 0.0001)), rel=1e-3
    )


def test_a_narrow_uplink_limits_what_clients_get() -> None:
    narrow = replace(profile(), uplink=figure(1e8, Measure.RATE))
    made = predict([demand("randread", primary_s=1e-9)], narrow, Shape("randread", 4096, 10, 100))

    assert made.bottleneck == "uplink between clients and cluster"
    assert made.ceiling == pytest.approx(1e8 * goodput(9000) / 4096)


def test_cores_of_an_nvmeof_gateway_limit_what_is_known_of_them_and_say_so_of_the_rest() -> None:
    behind = replace(profile(), nvmeof_cores=1)
    costs = [demand("randread", size, primary_s=1e-9) for size in (4096, 65536)]
    made = predict(costs, behind, Shape("randread", 4096, 10, 100))
    assert made.bottleneck == "NVMe-oF gateways: cores that poll"
    assert made.ceiling == pytest.approx(65_000)
    said = "NVMe-oF gateways: their cost is known for 4 KiB of an image only, so they are no limit here."
    assert said not in made.unknown
    assert said in predict(costs, behind, Shape("randread", 65536, 10, 100)).unknown


def test_the_busiest_osd_decides() -> None:
    threads = {Role.PRIMARY: {"tp_osd_tp": 100e-6}}
    cost = demand("randread", primary_s=1e-4, threads=threads)
    read = Shape("randread", 4096, 1, 1, replicas=2)

    def allowed(pgs: int | None) -> float:
        return _allowed(ceilings(profile(pgs=pgs), work_for([cost], read)), "n: tp_osd_tp of an OSD on d")

    # 300 PGs led by 3 OSDs: 100 each, the largest sqrt(2 ln 3 / 100) = 0.148 above that.
    assert allowed(300) == pytest.approx(3 * 16 / 100e-6 / 1.1482, rel=1e-3)
    # Unknown: 100 PGs on each OSD, of which it leads half.
    assert allowed(None) == pytest.approx(3 * 16 / 100e-6 / (1 + math.sqrt(2 * math.log(3) / 50)))


def test_the_balancer_evens_out_what_is_written() -> None:
    threads = {Role.PRIMARY: {"bstore_kv_sync": 100e-6}}
    limits = ceilings(profile(pgs=100), work_for([demand(primary_s=1e-4, threads=threads)], WRITE))

    # 100 PGs of 3 copies on 3 OSDs: each holds 100, at most 5 more.
    assert _allowed(limits, "n: bstore_kv_sync of an OSD on d") == pytest.approx(3 / 100e-6 / 1.05)


def test_frames_take_their_share_of_a_link() -> None:
    # 1500 bytes carry 1448 of payload beside IPv4 and TCP with timestamps, and take 1538 on the wire.
    assert goodput(1500) == pytest.approx(1448 / 1538)


def test_more_backfills_recover_sooner() -> None:
    slow = profile(
        machine(disk=(disks(kind=DiskKind.HDD, seq_read=2e8, seq_write=2e8, read_iops=200, write_iops=200),))
    )
    usual = recovery_time(slow, 1e12)
    two = recovery_time(replace(slow, max_backfills=2), 1e12)

    assert usual.limit == two.limit == "backfills"
    assert two.seconds == pytest.approx(usual.seconds / 2)
