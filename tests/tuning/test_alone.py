"""One operation that has the cluster for itself: the model at depth 1 is the sum of its stages."""

from dataclasses import replace

import pytest

from cephlab.lab.telemetry.demand import Role
from cephlab.tuning.demandsets import find_demands
from cephlab.tuning.model import predict
from cephlab.tuning.profile import DiskKind, DiskRole, Profile
from cephlab.tuning.profilefile import SHIPPED, load_profile
from cephlab.tuning.units import Measure
from cephlab.tuning.workload import Shape
from tests.model_parts import demand, disks, figure, machine, profile

SHIPPED_PROFILES = [load_profile(path) for path in sorted(SHIPPED.glob("*.toml"))]
DEMANDS, _ = find_demands(SHIPPED / "none")
PUTS = [
    demand(name, size, primary_s=1e-5, gateway_s=1e-5) for name in ("put", "randwrite") for size in (65536, 4 << 20)
]


FITTING = [
    (cluster, k, m) for cluster in SHIPPED_PROFILES for k, m in ((0, 0), (4, 2), (2, 1)) if (k + m or 3) <= cluster.osds
]


@pytest.mark.parametrize(("cluster", "k", "m"), FITTING, ids=[f"{cluster.name} {k}+{m}" for cluster, k, m in FITTING])
@pytest.mark.parametrize(("operation", "block"), [("randread", 4096), ("randwrite", 4096), ("read", 4 << 20)])
def test_at_depth_1_latency_is_that_of_one_alone(cluster: Profile, k: int, m: int, operation: str, block: int) -> None:
    shape = Shape(operation, block, 1, 1, k=k, m=m)
    made = predict(DEMANDS, cluster, shape)

    assert made.latency_s == pytest.approx(made.unloaded_s, rel=1e-6)


def spinning(*, log: bool, gateways: int = 0) -> Profile:
    data = disks(
        "hdd", kind=DiskKind.HDD, count=10, write_iops=400, read_iops=170, seq_write=2.5e8, sync_latency=0.0085
    )
    wal = disks("log", role=DiskRole.METADATA, write_iops=200_000, seq_write=2e9, sync_latency=20e-6)
    return profile(machine(count=12, gateways=gateways, disk=(data, wal) if log else (data,)))


@pytest.mark.parametrize("protection", [{"replicas": 3}, {"k": 4, "m": 2}])
def test_a_small_write_is_answered_by_the_log(protection: dict[str, int]) -> None:
    shape = Shape("put", 65536, 1, 1, **protection)
    small = replace(shape, block_bytes=32768)
    beside = predict(PUTS, spinning(log=True, gateways=1), small)
    same = predict(PUTS, spinning(log=False, gateways=1), small)

    assert beside.latency_s < 0.002
    assert same.latency_s == pytest.approx(0.0085, rel=0.2)


def test_a_large_shard_is_on_its_disk_before_the_answer() -> None:
    made = predict(PUTS, spinning(log=True, gateways=1), Shape("put", 4 << 20, 1, 1, k=4, m=2))

    assert made.latency_s > (1 << 20) / 2.5e8


def test_more_shards_do_not_make_one_slower() -> None:
    # 4 MiB on 2 + 1, 4 + 2 and 8 + 3 disks: smaller shards, beside each other.
    taken = [
        predict(PUTS, spinning(log=True, gateways=1), Shape("put", 4 << 20, 1, 1, k=k, m=m)).latency_s
        for k, m in ((2, 1), (4, 2), (8, 3))
    ]

    assert taken == sorted(taken, reverse=True)


def test_under_load_the_slowest_shard_is_waited_for() -> None:
    single = predict(PUTS, spinning(log=False), Shape("randwrite", 65536, 300, 1, replicas=1))
    three = predict(PUTS, spinning(log=False), Shape("randwrite", 65536, 300, 1, replicas=3))

    assert three.latency_s > 1.3 * single.latency_s
    assert three.ops < single.ops


def test_a_disk_without_a_published_latency_takes_what_its_rate_allows() -> None:
    slow = profile(machine(disk=(disks(kind=DiskKind.HDD, read_iops=117),)))
    made = predict([demand("randread", primary_s=1e-6)], slow, Shape("randread", 4096, 1, 1))

    assert made.unloaded_s == pytest.approx(1 / 117, rel=0.05)
    assert made.latency_s == pytest.approx(made.unloaded_s)


def test_the_followers_store_beside_the_leader() -> None:
    split = {Role.REPLICA: {"msgr-worker": 0.0002, "tp_osd_tp": 0.0008}}
    nodes = profile()
    made = predict([demand(primary_s=0.001, replicas_s=0.001, threads=split)], nodes, Shape("randwrite", 4096, 1, 1))

    # Two round trips, 1 ms at the leader; of 0.5 ms at a follower only the 0.1 ms of its message.
    assert made.unloaded_s == pytest.approx(0.0002 + 0.001 + 0.0001, rel=0.01)


def test_a_payload_takes_its_time_on_the_narrowest_link() -> None:
    narrow = replace(profile(machine(disk=(disks(),))), uplink=figure(1e8, Measure.RATE))
    made = predict([demand("read", 1 << 20, primary_s=1e-9)], narrow, Shape("read", 1 << 20, 1, 1))

    assert made.unloaded_s == pytest.approx(0.0001 + (1 << 20) / 0.99e8, rel=0.01)


def test_every_step_and_its_source_is_in_the_derivation() -> None:
    made = predict([demand(primary_s=0.001, replicas_s=0.001)], profile(pgs=100), Shape("randwrite", 4096, 50, 20))
    text = "\n".join(made.derivation.lines())

    for wanted in (
        "CRUSH",
        "Raab and Steger",
        "upmap_max_deviation",
        "demand D of n: CPU",
        "bounds with 1000 in flight",
    ):
        assert wanted in text
    assert "latency of one operation alone, R(1)" in text
    assert "Lazowska" in text
    span = Shape("randread", 4096, 1, 1, span=0.01)
    seeks = predict([demand("randread", primary_s=1e-6)], spinning(log=False), span).derivation.lines()
    assert any("Ruemmler and Wilkes" in line and "0.01" in line for line in seeks)
