"""The HCI suite's own rules, without a machine: the paper's words, what a request costs, and what is judged."""

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from cephlab.lab.checks import CHECKS, Outcome
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import History
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.telemetry.accounting import whole_s
from cephlab.lab.telemetry.demand import Interval
from cephlab.lab.workloads.fio import NOTHING, Done, FioResult, Progress
from cephlab.suites.hci import SCENARIOS, claims, papers
from cephlab.suites.hci.hypervisor.guest import Requests
from cephlab.suites.hci.load import DiskLook, GuestRun, per_operation
from cephlab.suites.hci.power import IMAGE_BYTES
from cephlab.suites.krbd import beside

PAPER = (
    "fio --ioengine=psync --filename=/dev/mapper/test_fio --size=9G --time_based --name=fio --group_reporting "
    "--runtime=600 --direct=1 --sync=1 --rw=write --bs=4K --numjobs=4 --iodepth=1"
)
"""Appendix 5.2 of the Proxmox VE Ceph benchmark, of 2020."""
SCALED = ("--filename", "--size", "--runtime")


def stage(tmp_path: Path) -> Stage:
    recorder = History().recorder("hci.test")
    return Stage(cast("Cluster", None), recorder, random.Random(1), tmp_path)


def test_the_commands_are_the_papers_but_for_size_time_and_device() -> None:
    setting = next(setting for setting in papers.VM if (setting.pattern, setting.size) == ("write", "4K"))
    ours = [word for word in setting.argv("/dev/vdb", 4, 8) if not word.startswith((*SCALED, "--output-format"))]
    assert ours == [word for word in PAPER.split() if not word.startswith(SCALED)]


@pytest.mark.parametrize(("size", "wanted"), [("4K", 4096), ("4M", 4 << 20)])
def test_sizes_are_in_the_papers_words(size: str, wanted: int) -> None:
    assert papers.GuestSetting("", "read", size).block_bytes == wanted


def looks(*pairs: tuple[int, float]) -> list[DiskLook]:
    return [DiskLook(Requests(0, done, 0), spent, float(at)) for at, (done, spent) in enumerate(pairs)]


def test_a_cost_is_by_operation_and_less_what_rest_costs() -> None:
    assert per_operation(looks((0, 0.0), (100, 0.3), (200, 0.5)), 0.1) == pytest.approx((0.002, 0.001))


def test_a_thin_batch_is_put_to_the_next_one() -> None:
    assert per_operation(looks((0, 0.0), (5, 0.1), (50, 0.5), (51, 0.6)), 0.0) == pytest.approx((0.01,))


def run_of(operations: int, requests: int, cpu_s: tuple[float, ...]) -> GuestRun:
    return GuestRun(FioResult(NOTHING, Done(operations, 0, 1.0, 1.0, 0.0)), Requests(0, requests, 0), cpu_s)


@pytest.mark.parametrize(("requests", "wanted_s"), [(100, 0.001), (400, 0.004), (50, 0.0005)])
def test_an_operation_costs_what_all_of_its_requests_cost(requests: int, wanted_s: float) -> None:
    cpu = run_of(100, requests, (0.0009, 0.001, 0.0011)).cpu
    assert cpu is not None
    assert cpu.mean == pytest.approx(wanted_s)


def test_a_run_without_an_operation_has_no_cost_for_one() -> None:
    assert run_of(0, 0, (0.001,)).cpu is None
    assert run_of(100, 100, ()).cpu is None


@pytest.mark.parametrize(
    ("share", "outcome"),
    [(1.0, Outcome.PASS), (1.05, Outcome.PASS), (0.4, Outcome.FAIL), (2.0, Outcome.FAIL)],
    ids=["one", "more", "less", "twice"],
)
def test_synchronous_writes_that_do_not_reach_the_cluster_fail(tmp_path: Path, share: float, outcome: Outcome) -> None:
    on = stage(tmp_path)
    on.recorder.witness("operations", got=100, least=1)
    papers.note_reached(on, "cache=writeback", share, alone=True)
    assert CHECKS["figures"](on.recorder.events()).outcome is outcome


def test_reads_may_be_put_together() -> None:
    assert [setting.writes for setting in papers.VM] == [True, False, True, False]


@pytest.mark.parametrize(
    ("kernel", "outcome"),
    [
        ((10.0, 10.5, 9.8), Outcome.PASS),
        ((18.0, 22.0, 19.0), Outcome.INCONCLUSIVE),
        ((40.0, 41.0, 39.0), Outcome.FAIL),
    ],
    ids=["cheaper", "alike", "dearer"],
)
def test_krbd_is_judged_by_the_whole_interval(tmp_path: Path, kernel: tuple[float, ...], outcome: Outcome) -> None:
    on = stage(tmp_path)
    on.recorder.witness("operations", got=100, least=1)
    beside.judge(on, {"krbd": list(kernel), "librbd": [20.0, 20.5, 19.0]})
    assert CHECKS["figures"](on.recorder.events()).outcome is outcome


def test_a_turn_is_counted_by_what_was_answered_between_its_looks() -> None:
    looks = [
        beside.MachineLook(0.0, 0.0, 0),
        beside.MachineLook(2.0, 0.5, 100),
        beside.MachineLook(4.0, 0.6, 101),
        beside.MachineLook(6.0, 1.2, 151),
    ]
    turn = beside.turn_of(looks, lambda before, after: float(after.operations - before.operations), idle=0.05)
    assert turn.operations == 150
    assert turn.costs == pytest.approx([0.004, 0.01])
    assert turn.rates == pytest.approx([50.0, 25.0])


def test_looks_before_fio_is_at_work_do_not_count() -> None:
    looks = [beside.MachineLook(at, 0.0, 0) for at in (1.0, 3.0, 5.0, 7.0)]
    assert beside.covered(looks, Progress([2.0, 2.5, 6.0])) == looks[1:3]
    assert beside.covered(looks, Progress([])) == []


@pytest.mark.parametrize("batches", [{"krbd": [1.0], "librbd": [9.0]}, {"krbd": [], "librbd": []}])
def test_one_batch_says_nothing_of_a_ratio(batches: dict[str, list[float]]) -> None:
    assert not beside.narrow(batches)
    assert not beside.clear(batches)


@pytest.mark.parametrize(
    ("kernel", "beyond_doubt"),
    [
        ([4.0, 5.0, 6.0], True),
        ([30.0, 40.0, 50.0], False),  # as likely below as above what librbd costs
        ([12.0, 13.0, 14.0], False),  # below, but not by far
        ([60.0, 65.0, 70.0], True),
    ],
)
def test_a_verdict_is_beyond_doubt_where_the_whole_interval_is_far_from_even(
    kernel: list[float], beyond_doubt: bool
) -> None:
    assert beside.clear({"krbd": kernel, "librbd": [20.0, 21.0, 19.0]}) is beyond_doubt


def test_turns_end_when_the_ratio_is_narrow() -> None:
    assert beside.narrow({"krbd": [10.0, 10.01, 9.99], "librbd": [20.0, 20.01, 19.99]})
    assert not beside.narrow({"krbd": [10.0, 15.0, 9.0], "librbd": [20.0, 25.0, 19.0]})


@pytest.mark.slow
def test_what_has_ended_below_a_process_is_not_forgotten() -> None:
    before = whole_s(os.getpid())
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-I", "-S", "-c", burn], check=True)
    assert whole_s(os.getpid()) - before > 0.25


def test_the_ledgers_image_has_a_power_of_two_of_blocks() -> None:
    assert IMAGE_BYTES & (IMAGE_BYTES - 1) == 0


def test_scenarios_have_names_of_their_own_and_checks_that_exist() -> None:
    assert len({scenario.name for scenario in SCENARIOS}) == len(SCENARIOS)
    assert all(scenario.name.startswith("hci.") and scenario.check in CHECKS for scenario in SCENARIOS)


@pytest.mark.parametrize(
    ("writes", "why_not", "outcome"),
    [
        (True, "", Outcome.PASS),
        (False, "", Outcome.FAIL),
        (True, claims.OTHER_KERNEL, Outcome.FAIL),
        (True, claims.EMULATED, Outcome.FAIL),
    ],
    ids=["writes under KVM", "reads, of which the paper says nothing", "another kernel", "emulated"],
)
def test_cpu_is_judged_where_rates_are_not(tmp_path: Path, writes: bool, why_not: str, outcome: Outcome) -> None:
    """Writes through krbd that are as the paper has them, and cost the machine twice as much."""
    on = stage(tmp_path)
    on.recorder.witness("operations", got=100, least=1)
    slower, faster = Interval(80.0, 79.0, 81.0, 20), Interval(100.0, 99.0, 101.0, 20)
    claims.note_krbd(on.recorder, {"krbd": slower, "librbd": faster}, writes=writes, why_not=why_not)
    costs = {"krbd": [40.0, 41.0, 39.0], "librbd": [20.0, 20.5, 19.0]}
    beside.note_small(on, costs, by_rate=claims.judges_krbd(writes=writes, why_not=why_not))
    assert CHECKS["figures"](on.recorder.events()).outcome is outcome


def test_large_blocks_are_written_down_with_what_sums_their_bytes(tmp_path: Path) -> None:
    on = stage(tmp_path)
    on.recorder.witness("operations", got=100, least=1)
    costs = {"krbd": [40.0, 41.0, 39.0], "librbd": [20.0, 20.5, 19.0]}
    beside.write_down(on, costs, beside.of_bytes("crc32c-generic"))
    verdict = CHECKS["figures"](on.recorder.events())
    assert verdict.outcome is Outcome.PASS
    assert any("krbd over librbd" in line and "crc32c-generic" in line for line in verdict.derivation)


def crypto(*drivers: tuple[str, str, int]) -> str:
    """A /proc/crypto of these (name, driver, priority)."""
    parts = [f"name         : {name}\ndriver       : {driver}\npriority     : {at}\n" for name, driver, at in drivers]
    return "\n".join(parts)


def test_the_kernels_first_driver_is_the_one_that_sums() -> None:
    listed = crypto(("crc32c", "crc32c-generic", 100), ("crc32c", "crc32c-intel", 200), ("sha1", "sha1-ni", 300))
    assert beside.crc32c_driver(listed) == "crc32c-intel"
    assert beside.crc32c_driver(crypto(("sha1", "sha1-ni", 300))) == "no listed driver"
