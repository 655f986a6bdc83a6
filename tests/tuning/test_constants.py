"""The free constants: their priors, their file, and what each does to costs and hardware."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cephlab.lab.base.errors import SpecError
from cephlab.tuning import calibrate, constants
from cephlab.tuning.constants import FITTED, Constants, log_distance, priors
from cephlab.tuning.profile import DiskKind, DiskRole
from cephlab.tuning.work import work_for
from cephlab.tuning.workload import Flow, Shape
from tests.model_parts import demand, disks, figure, machine, profile
from tests.tuning.conftest import NEUTRAL

THREADS = {"osd.primary": {"msgr-worker": 0.0004, "bstore_kv_sync": 0.0002, "tp_osd_tp": 0.0004}}
LOAD = Shape("randwrite", 4096, 10, 10)


def test_every_constant_has_a_range_around_its_prior_and_a_source() -> None:
    assert all(prior.low <= prior.value <= prior.high and prior.source for prior in priors().values())
    assert Constants() == Constants(**{name: prior.value for name, prior in priors().items()})


def test_shipped_constants_are_within_their_ranges_and_held_ones_at_their_priors() -> None:
    shipped = constants.current()

    for name, prior in priors().items():
        assert prior.low <= getattr(shipped, name) <= prior.high
        if not prior.spread:
            assert getattr(shipped, name) == prior.value


@pytest.mark.parametrize(
    ("values", "said"),
    [({"osd_cpu": 9}, "osd_cpu is out of its range"), ({"osd_gpu": 1}, "not the model's constants"), (3, "not the")],
)
def test_a_file_that_does_not_fit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, values: object, said: str
) -> None:
    path = tmp_path / "constants.json"
    path.write_text(json.dumps({"values": values}))
    monkeypatch.setattr(constants, "FITTED", path)

    with pytest.raises(SpecError, match=said):
        constants.current.__wrapped__()


def test_distance_from_the_priors_counts_free_constants_only() -> None:
    moved = replace(Constants(), osd_cpu=Constants().osd_cpu * math.exp(0.5), flash_full=0.3)

    assert [distance for distance in log_distance(moved) if distance] == [
        pytest.approx(0.5 / priors()["osd_cpu"].spread)
    ]


def test_neutral_constants_change_nothing() -> None:
    nodes = profile(machine(threads_per_core=2, disk=(disks(write_iops=100, seq_write=1e6),)))
    work = work_for([demand(primary_s=0.001, client_s=0.001)], LOAD)

    same = calibrate.hardware(nodes, Flow.WRITE, NEUTRAL)
    assert same.nodes[0].points == pytest.approx(nodes.nodes[0].points)
    assert same.nodes[0].disks == nodes.nodes[0].disks
    assert same.nodes[0].bandwidth == nodes.nodes[0].bandwidth
    assert calibrate.loaded(work, NEUTRAL) == work
    assert calibrate.lone(work, NEUTRAL).primary.cpu == work.primary.cpu


def test_the_speed_of_a_core_counts_by_its_exponent() -> None:
    half = replace(NEUTRAL, speed_exponent=0.5)
    quick = calibrate.hardware(profile(machine(speed=4 * calibrate.ANCHOR)), Flow.READ, half).nodes[0]

    assert quick.core_speed.value == pytest.approx(2 * calibrate.ANCHOR)
    assert calibrate.speed(calibrate.ANCHOR, half) == calibrate.ANCHOR
    # A machine that was measured itself is predicted with the seconds that were measured, at any exponent.
    costs = calibrate.demands([demand(primary_s=0.001, core_speed=3.0)], half)[0]
    assert work_for([costs], LOAD).primary.cpu / calibrate.speed(3.0, half) == pytest.approx(0.001)
    assert calibrate.demands([demand(core_speed=0.0)], half)[0].core_speed == 0


def test_a_core_with_two_threads_is_scaled_thread_by_thread() -> None:
    half = replace(NEUTRAL, speed_exponent=0.5)
    points = 4 * calibrate.ANCHOR

    assert calibrate.core(points, 1, half) == pytest.approx(2 * calibrate.ANCHOR)
    # Each of the two does 1 / 1.25 of the core, which is the root of that slower, and both together 1.25 times one.
    assert calibrate.core(points, 2, half) == pytest.approx(2 * calibrate.ANCHOR * 1.25**0.5)


def test_a_thread_of_known_speed_leaves_the_core_as_it_is() -> None:
    node = replace(machine(speed=5.0, threads_per_core=2), thread_speed=figure(4.5, machine().core_speed.kind))
    same = calibrate.hardware(profile(node), Flow.READ, NEUTRAL).nodes[0]

    assert same.thread_speed is not None
    assert same.thread_speed.value == pytest.approx(4.5)
    assert same.core_speed.value == pytest.approx(5.0)


def test_links_are_shared_and_writes_meet_at_the_ports_of_nodes() -> None:
    known = replace(NEUTRAL, link_share=0.9, incast=0.5)
    nodes = profile(machine(bandwidth=1e9))

    assert calibrate.hardware(nodes, Flow.READ, known).nodes[0].bandwidth.value == pytest.approx(0.9e9)
    assert calibrate.hardware(nodes, Flow.WRITE, known).nodes[0].bandwidth.value == pytest.approx(0.45e9)
    assert calibrate.hardware(nodes, Flow.WRITE, known).clients[0].bandwidth.value == pytest.approx(0.9e12)


def test_flash_is_not_what_its_data_sheet_rates_and_rotating_disks_are() -> None:
    known = replace(NEUTRAL, flash_full=0.5, flash_bandwidth=0.5)
    rated = disks("flash", write_iops=100, seq_write=400 * 4096, seq_read=2e6)
    every = (rated, replace(rated, name="log", role=DiskRole.METADATA), replace(rated, name="disk", kind=DiskKind.HDD))
    flash, log, disk = calibrate.hardware(profile(machine(disk=every)), Flow.WRITE, known).nodes[0].disks

    for made, iops, bandwidth in ((flash, 200, 200 * 4096), (log, 200, 400 * 4096), (disk, 100, 400 * 4096)):
        assert made.write_iops is not None
        assert made.seq_write is not None
        assert (made.write_iops.value, made.seq_write.value) == (iops, bandwidth)
        assert made.seq_read == every[0].seq_read


def test_a_full_cluster_pays_by_bytes_and_its_batches_are_cheaper() -> None:
    known = replace(NEUTRAL, osd_cpu=1.5, byte_cpu=4.0, busy_thread=0.5, metadata_reads=0.3)
    size = calibrate.LARGE_BYTES
    work = work_for(
        [demand(block_bytes=size, primary_s=0.001, client_s=0.002, threads=THREADS)],  # type: ignore[arg-type]
        replace(LOAD, block_bytes=size),
    )
    full = calibrate.loaded(work, known)

    # Half of 64 KiB is its bytes: 4 to the power of a half.
    assert full.primary.cpu == pytest.approx(0.001 * 1.5 * 2)
    assert full.primary.threads["tp_osd_tp"] == pytest.approx(0.0004 * 3)
    assert full.primary.threads["bstore_kv_sync"] == pytest.approx(0.0002 * 3 * 0.5)
    assert full.primary.threads["msgr-worker"] == pytest.approx(0.0004 * 3 * 0.5)
    assert full.client == work.client
    assert full.metadata_reads == 0.3


def test_one_small_operation_alone_does_not_pay_for_many_connections() -> None:
    known = replace(NEUTRAL, one_connection=0.5)
    small = work_for([demand(primary_s=0.001)], LOAD)
    large = work_for([demand(block_bytes=1 << 20, primary_s=0.001)], replace(LOAD, block_bytes=1 << 20))

    assert calibrate.lone(small, known).primary.cpu == pytest.approx(0.0005)
    assert calibrate.lone(large, known).primary.cpu == pytest.approx(0.001)


@pytest.mark.parametrize(
    ("measured", "wanted", "number"),
    [
        ("reef", "reef", 0),
        ("reef", "pacific", 2),
        ("reef", "squid", 0),
        ("tentacle", "pacific", 2),
        ("reef", "nautilus", 0),
        ("reef", "", 0),
    ],
)
def test_releases_are_counted_from_octopus_on(measured: str, wanted: str, number: int) -> None:
    assert calibrate.steps(measured, wanted) == number


def test_an_older_release_costs_more() -> None:
    work = work_for([demand(primary_s=0.001)], LOAD)
    known = replace(NEUTRAL, release_step=1.1)

    assert calibrate.loaded(work, known, "pacific").primary.cpu == pytest.approx(0.001 * 1.21)


def test_reads_of_an_older_release_cost_little_more() -> None:
    reads = work_for([demand("randread", primary_s=0.001)], replace(LOAD, operation="randread"))
    known = replace(NEUTRAL, release_step=1.1)

    assert calibrate.loaded(reads, known, "pacific").primary.cpu == pytest.approx(0.001 * 1.1**0.5)


def test_the_file_says_what_made_it() -> None:
    held = json.loads(FITTED.read_text())

    assert "validate-model --fit" in held["made_by"]
    assert set(held["left_out_error"]) == set(held["left_out"]) == set(held["publications"])


@pytest.mark.parametrize(("depth", "share"), [(4, 1.0), (6, 1.0), (24, 0.5**0.4), (192, 0.5), (1000, 0.5)])
def test_what_waits_on_one_connection_is_taken_together(depth: int, share: float) -> None:
    """On three OSDs: 2 on a connection cost all, 64 half, 8 are two fifths of the way (log 4 / log 32)."""
    known = replace(NEUTRAL, one_connection=0.5)
    small = work_for([demand(primary_s=0.001, replicas_s=0.002, client_s=0.001)], replace(LOAD, depth=depth))
    made = calibrate.connected(small, 3, known)

    assert made.primary.cpu == pytest.approx(0.001 * share)
    assert made.replica.cpu == pytest.approx(0.001 * share)
    assert made.client == small.client


@pytest.mark.parametrize("other", [{"block_bytes": 1 << 20}, {"k": 2, "m": 1}, {"operation": "put"}])
def test_large_blocks_objects_and_codes_do_not_depend_on_connections(other: dict[str, Any]) -> None:
    shape = replace(LOAD, depth=1000, **other)
    work = work_for([demand(shape.operation, shape.block_bytes, primary_s=0.001)], shape)

    assert calibrate.connected(work, 3, replace(NEUTRAL, one_connection=0.5)) == work


@pytest.mark.parametrize(("full", "iops"), [(1.0, 100), (0.5, 200), (0.0, 400)])
def test_a_new_disk_does_random_writes_as_sequential_ones(full: float, iops: float) -> None:
    known = replace(NEUTRAL, flash_full=full)
    rated = disks(write_iops=100, seq_write=400 * 4096)
    unknown, slow = replace(rated, seq_write=None), disks(write_iops=100, seq_write=50 * 4096)
    made = calibrate.hardware(profile(machine(disk=(rated, unknown, slow))), Flow.WRITE, known).nodes[0].disks

    assert [each.write_iops and each.write_iops.value for each in made] == pytest.approx([iops, 100, 100])


@pytest.mark.parametrize(
    ("release", "shape", "said"),
    [
        ("tentacle", Shape("randwrite", 65536, 1, 1), "64 KiB, 3 copies, was never measured on tentacle at this size"),
        ("pacific", Shape("randread", 4 << 20, 1, 1), "its costs are those of reef"),
        ("squid", Shape("randwrite", 4096, 1, 1), "was never measured on squid"),
        ("tentacle", Shape("put", 4096, 1, 1), "was never measured on tentacle"),
        ("tentacle", Shape("randwrite", 4096, 1, 1), ""),
        ("pacific", Shape("randread", 4096, 1, 1), ""),
        ("reef", Shape("randwrite", 65536, 1, 1), ""),
        ("", Shape("randwrite", 65536, 1, 1), ""),
    ],
)
def test_a_release_that_was_not_measured_at_a_size_is_said(release: str, shape: Shape, said: str) -> None:
    measured = [demand(name, size) for name in ("randread", "randwrite", "put") for size in (4096, 1 << 23)]
    doubts = calibrate.release_doubts(work_for(measured, shape), release)
    assert bool(doubts) is bool(said)
    assert said in "".join(doubts)


@pytest.mark.parametrize(("release", "said"), [("tentacle", True), ("reef", False), ("", False)])
def test_a_code_s_optimizations_are_said_to_be_unmeasured_where_a_pool_can_have_them(release: str, said: bool) -> None:
    coded = work_for([demand(ec=(4, 2))], Shape("randwrite", 4096, 1, 1, k=4, m=2))
    told = [line for line in calibrate.release_doubts(coded, release) if "allow_ec_optimizations" in line]
    assert bool(told) is said
    assert all("never measured" in line for line in told)
