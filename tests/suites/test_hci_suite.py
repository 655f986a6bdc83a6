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
from cephlab.lab.workloads.fio import NOTHING, Done, FioResult
from cephlab.suites.hci import papers
from cephlab.suites.hci.hypervisor.guest import Requests
from cephlab.suites.hci.load import DiskLook, GuestRun, per_operation
from cephlab.suites.hci.power import IMAGE_BYTES

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


@pytest.mark.slow
def test_what_has_ended_below_a_process_is_not_forgotten() -> None:
    before = whole_s(os.getpid())
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-I", "-S", "-c", burn], check=True)
    assert whole_s(os.getpid()) - before > 0.25


def test_the_ledgers_image_has_a_power_of_two_of_blocks() -> None:
    assert IMAGE_BYTES & (IMAGE_BYTES - 1) == 0
