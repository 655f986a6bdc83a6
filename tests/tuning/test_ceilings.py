"""Every ceiling worked out by hand: what it allows, what an operation waits for there, and what a reader is told."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from cephlab.tuning import daemons
from cephlab.tuning.ceilings import UTILISATION_LAW, Ceiling, ceilings, goodput, last_of
from cephlab.tuning.derivation import Derivation
from cephlab.tuning.profile import DiskKind, DiskRole, MachineClass, Profile
from cephlab.tuning.units import Measure
from cephlab.tuning.work import OperationWork, Price
from cephlab.tuning.workload import Shape
from tests.model_parts import disks, figure, machine, profile

NOTHING = Price()
LAST_OF_2, LAST_OF_3 = (1 + 1 / 2) / 2, (1 + 1 / 2 + 1 / 3) / 3
LAST_OF_4, LAST_OF_5 = (1 + 1 / 2 + 1 / 3 + 1 / 4) / 4, (1 + 1 / 2 + 1 / 3 + 1 / 4 + 1 / 5) / 5


def work(
    shape: Shape,
    *,
    client: Price = NOTHING,
    primary: Price = NOTHING,
    replica: Price = NOTHING,
    gateway: Price | None = None,
    reread: Price | None = None,
) -> OperationWork:
    return OperationWork(shape, client, primary, replica, gateway, Derivation(), reread=reread)


def by_name(nodes: Profile, done: OperationWork) -> Mapping[str, Ceiling]:
    return {ceiling.name: ceiling for ceiling in ceilings(nodes, done)}


def figures(ceiling: Ceiling) -> object:
    """Seconds on one of the copies, how many copies there are, and seconds that the operation waits."""
    return pytest.approx((ceiling.seconds, ceiling.copies, ceiling.path_s), rel=1e-9)


def told(ceiling: Ceiling) -> tuple[str, str]:
    return ceiling.step.how, ceiling.step.value


FOUR = machine(count=4, speed=2.0, gateways=1, disk=(disks(),))
"""Each leads a quarter of the operations and holds half a further copy; a quarter goes through its gateway."""
PUT = Shape("put", 65536, clients=3, depth=8)
WRITE = Shape("randwrite", 65536, clients=3, depth=8)
EC = Shape("randwrite", 4096, clients=3, depth=8, k=4, m=2)


# CPU of nodes


def test_cpu_of_a_node_is_spent_on_what_it_leads_copies_and_passes_on() -> None:
    put = work(PUT, primary=Price(cpu=8e-3), replica=Price(cpu=4e-3), gateway=Price(cpu=2e-3))
    cpu = by_name(profile(FOUR), put)["n: CPU"]

    # 2 led, 2 copied and 0.5 passed on, of 20 points; of two copies the operation waits for the last.
    assert figures(cpu) == (4.5e-3 / 20, 4, (2e-3 + 2e-3 * LAST_OF_2 + 0.5e-3) / 20 * 4)
    parts = "0.250 x 8.000 primary + 0.500 x 4.000 replica + 0.250 x 2.000 gateway"
    assert told(cpu) == (f"10 cores x 2.00 points / ({parts} point-ms)", "4,444 ops/s")
    assert (cpu.step.what, cpu.step.source) == ("ceiling of n: CPU", UTILISATION_LAW)
    assert not cpu.batches


def test_a_client_on_a_node_takes_of_its_cpu() -> None:
    nodes = profile(replace(FOUR, gateways=0), clients_on_nodes=True)
    done = work(replace(WRITE, clients=2), client=Price(cpu=2e-3), primary=Price(cpu=8e-3), replica=Price(cpu=4e-3))
    limits = by_name(nodes, done)
    asked, spared = limits["n with a client: CPU"], limits["n without a client: CPU"]

    assert figures(asked) == (5e-3 / 20, 2, (2e-3 + 2e-3 * LAST_OF_2 + 1e-3) / 20 * 2)
    assert "+ 0.500 x 2.000 client point-ms)" in told(asked)[0]
    assert figures(spared) == (4e-3 / 20, 2, (2e-3 + 2e-3 * LAST_OF_2) / 20 * 2)


def test_a_part_of_a_stripe_costs_reading_the_others_first() -> None:
    done = work(EC, primary=Price(cpu=6e-3), replica=Price(cpu=1.2e-3), reread=Price(cpu=3e-3))
    cpu = by_name(profile(machine(count=6, disk=(disks(),))), done)["n: CPU"]

    # A sixth led, five sixths copied, four of six chunks read; both wait for the last of those that work at once.
    assert figures(cpu) == (4e-3 / 10, 6, (1e-3 + 1e-3 * LAST_OF_5 + 2e-3 * LAST_OF_4) / 10 * 6)
    parts = "0.167 x 6.000 primary + 0.833 x 1.200 replica + 0.667 x 3.000 read before"
    assert told(cpu)[0] == f"10 cores x 1.00 points / ({parts} point-ms)"


def test_reading_first_is_left_out_where_it_was_not_measured() -> None:
    cpu = by_name(profile(machine(count=6, disk=(disks(),))), work(EC, primary=Price(cpu=6e-3)))["n: CPU"]

    assert figures(cpu) == (1e-3 / 10, 6, 1e-3 / 10 * 6)
    assert "read before" not in told(cpu)[0]


def test_nobody_is_waited_for_where_nobody_works_beside() -> None:
    assert last_of(0) == 0.0
    assert last_of(1) == 1.0
    assert last_of(2) == pytest.approx(LAST_OF_2)


# Threads of OSDs


def two_osds_on_each_of_two_disks(count: int) -> Profile:
    return profile(machine(count=count, disk=(replace(disks(count=2), osds_per_disk=2),)))


def test_an_operation_waits_for_its_leader_s_threads_and_the_last_replica_s() -> None:
    threads = {"tp_osd_tp": 1 / 1024}
    done = work(WRITE, primary=Price(threads=threads), replica=Price(threads={"tp_osd_tp": 1 / 2048}))
    pool = by_name(two_osds_on_each_of_two_disks(4), done)["n: tp_osd_tp of an OSD on d"]

    # 16 OSDs lead a sixteenth each, with as much work for the two replicas of others as for what they lead.
    assert figures(pool) == (2 / 1024 / 16 / 16, 16, (1 / 1024 + 1 / 1024 * LAST_OF_2) / 16)
    assert told(pool) == (
        "16 threads / (1.9531 point-ms / 1.00 points) / (0.0625 of the operations x 1.00 at the busiest OSD)",
        "131,072 ops/s",
    )
    assert (pool.step.source, pool.batches) == (daemons.SOURCE, False)


def test_threads_that_the_leader_and_the_replicas_use_alone() -> None:
    done = work(
        WRITE,
        primary=Price(threads={"msgr-worker": 3e-3, "bstore_kv_sync": 1e-3}),
        replica=Price(threads={"bstore_aio": 4e-3}),
    )
    limits = by_name(two_osds_on_each_of_two_disks(4), done)
    led, copied = limits["n: msgr-worker of an OSD on d"], limits["n: bstore_aio of an OSD on d"]

    assert figures(led) == (3e-3 / 3 / 16, 16, 3e-3 / 3)
    assert figures(copied) == (8e-3 / 16, 16, 8e-3 * LAST_OF_2)
    batches = {name for name, ceiling in limits.items() if ceiling.batches}
    assert batches == {"n: bstore_kv_sync of an OSD on d"}


def test_threads_that_read_a_stripe_before_a_part_of_it_is_written() -> None:
    done = work(EC, reread=Price(threads={"bstore_aio": 3e-3}))
    pool = by_name(two_osds_on_each_of_two_disks(6), done)["n: bstore_aio of an OSD on d"]

    # Four chunks are read for each write, and 24 OSDs lead a part of the writes each.
    assert figures(pool) == (12e-3 / 24, 24, 12e-3)


# Disks and what they hang on


@pytest.mark.parametrize("shape", [replace(WRITE, replicas=1), Shape("randread", 65536, clients=3, depth=8)])
@pytest.mark.parametrize("role", list(DiskRole)[:2])
def test_osds_that_share_a_disk_are_together_as_even_as_one_with_all_their_pgs(role: DiskRole, shape: Shape) -> None:
    """A disk does not see how its PGs are spread over its OSDs: more OSDs on it cannot make it slower."""
    shared = disks("x", kind=DiskKind.NVME, role=role, read_iops=1000, write_iops=1000)

    def ceiling(osds: int) -> Ceiling:
        own = replace(disks("d", count=2), osds_per_disk=osds)
        disk = (own, shared) if role is DiskRole.METADATA else (replace(shared, count=2, osds_per_disk=osds),)
        nodes = profile(machine(count=4, disk=disk), pgs=8)
        done = work(shape, primary=Price(writes=8, write_bytes=65536), replica=Price(writes=8, write_bytes=65536))
        return by_name(nodes, done)["n: disk x"]

    assert ceiling(1).uneven > 1
    assert ceiling(4).uneven == pytest.approx(ceiling(1).uneven)
    assert ceiling(4).ops == pytest.approx(ceiling(1).ops)


def test_a_write_waits_for_the_last_of_its_shards_on_disk_and_log() -> None:
    data = disks(count=2, write_iops=1000, seq_write=1e8)
    log = replace(disks("log", role=DiskRole.METADATA, write_iops=10_000), size=figure(5e11, Measure.BYTES))
    logged = Price(writes=3, write_bytes=65536 + 8192)
    done = work(WRITE, primary=logged, replica=logged)
    limits = by_name(profile(machine(count=4, disk=(data, log))), done)

    # Three quarters of a shard on each node, on one of two disks: 1 ms and what is beyond 4 KiB at 100 MB/s.
    busy = 0.001 + 61440 / 1e8
    assert (0.375 * busy, 8, 3 * busy * LAST_OF_3) == figures(limits["n: disk d"])
    assert told(limits["n: disk d"])[0] == (
        "1 / (0.3750 of the shards x 1.00 at the busiest x (1.00 I/O at 1,000 IOPS + 60 KiB at 100 MB/s))"
    )
    # Two small writes to the one log.
    assert figures(limits["n: disk log"]) == (0.75 * 0.0002, 4, 3 * 0.0002 * LAST_OF_3)


def test_the_disk_with_the_most_placement_groups_is_full_first() -> None:
    few = profile(machine(count=4, disk=(disks(write_iops=1000),)), pgs=100)
    disk = by_name(few, work(replace(WRITE, block_bytes=4096)))["n: disk d"]

    # 75 of 300 copies are on each OSD, and up to 5 more on one; three quarters of an operation are on each disk.
    assert disk.ops == pytest.approx(1000 / 0.75 / (1 + 5 / 75))
    assert figures(disk) == (0.75 / 1000, 4, 3 / 1000 * LAST_OF_3)


def test_disks_share_a_link_with_those_of_their_own_kind_alone() -> None:
    ssd = disks("ssd", count=2, shared_link=1e9)
    hdd = replace(disks("hdd", count=2), size=figure(3e12, Measure.BYTES))
    limits = by_name(profile(machine(count=4, disk=(ssd, hdd))), work(WRITE))

    # Of three quarters of a shard of 64 KiB a quarter goes through it, as it has a quarter of the capacity.
    assert figures(limits["n: link to ssd"]) == (12288 / 1e9, 4, 4 * 12288 / 1e9 * LAST_OF_3)
    assert told(limits["n: link to ssd"]) == ("1 GB/s / 12 KiB per operation", "81,380 ops/s")
    assert "n: link to hdd" not in limits


# Networks


def test_osds_among_themselves_have_a_network_of_their_own() -> None:
    split = replace(machine(count=4, bandwidth=1e9, disk=(disks(),)), cluster_bandwidth=figure(5e8, Measure.RATE))
    limits = by_name(profile(split), work(WRITE, client=Price(wire=8192)))

    # A quarter of 64 KiB comes in, and a quarter of half of the bytes beyond; the answer goes out.
    front, back = 1e9 * goodput(9000), 5e8 * goodput(9000)
    assert ((16384 + 1024) / front, 4, (16384 + 1024) / front * 4) == figures(limits["n: network in"])
    assert (1024 / front, 4, 1024 / front * 4) == figures(limits["n: network out"])
    # Half a copy is taken in, and two copies of a quarter are sent; the copies come in at the same time.
    assert (32768 / back, 4, 32768 * LAST_OF_2 / back * 4) == figures(limits["n: cluster network in"])
    assert (32768 / back, 4, 32768 / back * 4) == figures(limits["n: cluster network out"])
    cluster = limits["n: cluster network in"].step
    assert cluster.how == "500 MB/s x 0.990 / 32 KiB per operation"
    assert cluster.source == "framing: IEEE 802.3, RFC 791, RFC 9293"


def test_one_network_carries_clients_and_copies() -> None:
    limits = by_name(profile(machine(count=4, bandwidth=1e9, disk=(disks(),))), work(WRITE))

    link = 1e9 * goodput(9000)
    assert (49152 / link, 4, (16384 + 32768 * LAST_OF_2) / link * 4) == figures(limits["n: network in"])
    assert not any("cluster network" in name for name in limits)


def test_an_uplink_carries_the_payload_and_half_of_what_is_beyond() -> None:
    narrow = replace(profile(), uplink=figure(1e10, Measure.RATE))
    limits = by_name(narrow, work(WRITE, client=Price(wire=8192), primary=Price(cpu=1e-3)))
    uplink = limits["uplink between clients and cluster"]

    seconds = (65536 + 4096) / (1e10 * goodput(9000))
    assert (seconds, 1, seconds) == figures(uplink)
    assert told(uplink)[0] == "10 GB/s x 0.990 / 68 KiB per operation"
    assert {"n: CPU", "n: network in", "clients: network"} <= limits.keys()


def test_polling_cores_of_an_nvmeof_gateway_limit_small_operations_on_images() -> None:
    behind = replace(profile(), nvmeof_cores=4)
    small = replace(WRITE, block_bytes=4096)
    name = "NVMe-oF gateways: cores that poll"
    writes, reads = (by_name(behind, work(shape))[name] for shape in (small, replace(small, operation="randread")))
    assert figures(writes) == (pytest.approx(1 / 200_000), 4, pytest.approx(1 / 50_000))
    assert reads.ops == pytest.approx(260_000)
    assert name not in by_name(profile(), work(small))
    assert name not in by_name(behind, work(WRITE))
    through_s3 = replace(behind, nodes=(machine(gateways=1, disk=(disks(),)),))
    assert name not in by_name(through_s3, work(replace(small, operation="put")))


# Load generators


def clients(*machines: MachineClass) -> Profile:
    return replace(profile(), clients=machines)


THREE_KINDS = clients(
    machine("narrow", count=1, bandwidth=2e7),
    machine("slow", count=2, cores=2),
    machine("fast", count=3, cores=100),
)
ASKED = Price(cpu=4e-3, wire=8192, threads={"fio": 1e-3, "msgr-worker": 1.5e-3})
NARROW, SLOW, FAST = 0.5 * 2e7 * goodput(9000) / (65536 + 4096), 0.5 * 2 / 4e-3, 0.5 * 1 / 1e-3
"""Half of a machine is in use, as 3 load generators are on 6: what its network, its CPU and its fio thread allow."""
PART = 3 * FAST / (NARROW + 2 * SLOW + 3 * FAST)


def test_client_machines_that_differ_do_as_much_as_each_can() -> None:
    limits = by_name(THREE_KINDS, work(WRITE, client=ASKED))
    whole = NARROW + 2 * SLOW + 3 * FAST

    for name in ("clients on narrow: network", "clients on slow: CPU", "clients on fast: fio of a client process"):
        assert limits[name].ops == pytest.approx(whole), "all are at their limit together"
    # 1.5 machines of the fast ones are in use.
    assert figures(limits["clients on fast: CPU"]) == (PART / 1.5 * 4e-3 / 100, 1.5, PART * 4e-3 / 100)
    network = PART * (65536 + 4096) / (1e12 * goodput(9000))
    assert (network / 1.5, 1.5, network) == figures(limits["clients on fast: network"])
    assert figures(limits["clients on fast: fio of a client process"]) == (PART / 1.5 * 1e-3, 1.5, PART * 1e-3)
    three_threads = limits["clients on fast: msgr-worker of a client process"]
    assert figures(three_threads) == (PART / 1.5 * 0.5e-3, 1.5, PART * 0.5e-3)


def test_what_client_machines_do_is_told() -> None:
    limits = by_name(THREE_KINDS, work(WRITE, client=ASKED))

    assert told(limits["clients on fast: CPU"])[0] == (
        f"1.5 machines x 100 points / ({PART:.4f} of the operations x 4.000 point-ms)"
    )
    assert told(limits["clients on fast: network"])[0] == (f"1.5 x 990 GB/s / ({PART:.4f} of the operations x 68 KiB)")
    fio = limits["clients on fast: fio of a client process"].step
    assert fio.how == f"1.5 processes of 3 x 1 thread / (1.0000 point-ms / 1.00 points) / {PART:.4f} of the operations"
    assert fio.source == daemons.SOURCE


def test_equal_client_machines_are_told_as_one() -> None:
    limits = by_name(clients(machine("only", count=2)), work(replace(WRITE, clients=8), client=ASKED))

    # Both in full use, with four load generators each.
    assert figures(limits["clients: CPU"]) == (4e-3 / 10 / 2, 2, 4e-3 / 10)
    assert figures(limits["clients: fio of a client process"]) == (1e-3 / 8, 8, 1e-3)


def test_load_generators_on_nodes_are_as_fast_as_their_node() -> None:
    both = (machine("fast", count=2, speed=4.0, disk=(disks(),)), machine("slow", count=2, disk=(disks(),)))
    mixed = by_name(profile(*both, clients_on_nodes=True), work(WRITE, client=ASKED))
    equal = by_name(profile(replace(both[1], count=3), clients_on_nodes=True), work(WRITE, client=ASKED))

    # Half of the three are on each kind, and an operation comes from one of them.
    assert figures(mixed["clients on fast: fio of a client process"]) == (1e-3 / 4 / 3, 1.5, 1e-3 / 4 / 2)
    assert figures(mixed["clients on slow: fio of a client process"]) == (1e-3 / 3, 1.5, 1e-3 / 2)
    assert told(equal["clients: fio of a client process"])[0] == (
        "3 processes of 3 x 1 thread / (1.0000 point-ms / 1.00 points) / 1.0000 of the operations"
    )
