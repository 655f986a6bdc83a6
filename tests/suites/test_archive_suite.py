"""What the archive suite says of disks, levels and loads that are wrong on purpose, and its arithmetic by the paper."""

from collections.abc import Callable
from contextlib import nullcontext
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.checks import CHECKS, Outcome, Verdict
from cephlab.lab.checks.figures import judge_figure
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import Basis, Bound, History, Recorder, data_of
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.telemetry.demand import LARGEST
from cephlab.lab.workloads.s3_load_program import FILL
from cephlab.lab.workloads.s3load import S3Operation, S3Result
from cephlab.suites.archive import SCENARIOS, allocation, failures, filled, scrub, spill
from cephlab.suites.archive.spill import Levels, Met, files_bytes
from cephlab.suites.archive.stand import EC_4_2, FILLED, UNIT_BYTES, taken_bytes
from tests import fake_stage

GB = 1_000_000_000
LEVELS = """
Level    Files   Size     Score Read(GB)
  L1      1/0   503.21 KB   0.9      0.0
  L2      9/0    4.21 MB   0.8      0.0
 Sum     10/0    4.70 MB   0.0      0.0
 Int      0/0    0.00 KB   0.0      0.0
"""


def verdict_of(say: Callable[[Recorder], None]) -> Verdict:
    recorder = History().recorder("archive.topic")
    recorder.witness("operations", got=9, least=1)
    say(recorder)
    return CHECKS["figures"](recorder.events())


@pytest.mark.parametrize(("unit_bytes", "taken"), [(4096, 98_304), (16_384, 98_304), (UNIT_BYTES, 393_216)])
def test_a_small_object_takes_384_kib_by_the_units_of_the_paper(unit_bytes: int, taken: int) -> None:
    assert taken_bytes([65_536], unit_bytes, EC_4_2) == taken


@pytest.mark.parametrize(
    ("size", "taken"), [(1, 6 * 4096), (16_384, 6 * 4096), (16_385, 6 * 8192), (1 << 20, 6 * (1 << 18))]
)
def test_an_object_takes_whole_stripes(size: int, taken: int) -> None:
    assert taken_bytes([size], 4096, EC_4_2) == taken


@pytest.mark.parametrize(("more", "outcome"), [(0, Outcome.PASS), (4096, Outcome.FAIL), (-4096, Outcome.FAIL)])
def test_the_disk_space_of_objects_is_held_to_the_formula(
    monkeypatch: pytest.MonkeyPatch, more: int, outcome: Outcome
) -> None:
    """64 KiB take 384 KiB at the paper's unit, six times as much; EC 4+2 alone would be 1.5."""
    put = tuple(S3Operation(FILL, "put", 0, "/b/o", 1, 65_536, 0.0, 0.0, 1.0, True, "") for _ in range(3))
    held = iter((1_000_000, 1_000_000 + 3 * 393_216 + more))
    fakes = {
        "opened": lambda _cluster: ["door"],
        "near": lambda _cluster: "n0",
        "loaded": lambda *_args: S3Result(put, (), 0, 1.0, 1.0),
        "data_bytes": lambda _cluster: next(held),
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(allocation, name, fake)
    stage = fake_stage.stage_of(SimpleNamespace())
    allocation.run(stage, UNIT_BYTES)
    [figure] = data_of(stage.recorder.events(), "figure")
    assert (figure["least"], figure["most"]) == (6.0, 6.0)
    assert judge_figure(figure).outcome is outcome


def test_the_papers_levels_are_its_275_gb() -> None:
    """7.6 TB in 9 partitions hold levels of 0.256 GB to 256 GB, and not the next one."""
    held = Levels(268_435_456, 10, "rocksdb_original").held_bytes(7.6e12 / 9)
    assert held == pytest.approx(275 * GB, rel=0.12)


def test_a_level_that_does_not_fit_whole_is_not_held() -> None:
    assert Levels(100, 10, "").held_bytes(1200) == 100 + 100 + 1000
    assert Levels(100, 10, "").held_bytes(1199) == 100 + 100


def test_the_sum_of_rocksdbs_levels_is_read() -> None:
    assert files_bytes(LEVELS) == pytest.approx(4.70 * (1 << 20))
    with pytest.raises(LabBroken):
        files_bytes("no table")


@pytest.mark.parametrize(
    ("met", "outcome"),
    [
        (Met(900, 1100), Outcome.PASS),
        (Met(300, 400), Outcome.FAIL),
        (Met(2500, 2600), Outcome.FAIL),
        (Met(600, 800), Outcome.INCONCLUSIVE),
    ],
)
def test_a_spill_too_early_or_too_late_is_found(met: Met, outcome: Outcome) -> None:
    assert verdict_of(lambda recorder: spill.compare(recorder, met, spill.PAPER, 2e6, 2000.0)).outcome is outcome


@pytest.mark.parametrize(
    ("last", "outcome"),
    [([1.0, 1.1, 0.9, 1.0], Outcome.PASS), ([2.0, 2.1, 1.9, 2.0], Outcome.FAIL), ([1.0, 2.0], Outcome.INCONCLUSIVE)],
)
def test_operations_that_cost_more_on_full_disks_are_found(last: list[float], outcome: Outcome) -> None:
    costs = [[1.0, 1.1, 0.9, 1.0], last]
    assert verdict_of(lambda recorder: filled.judge(recorder, "read", costs, [0.2, 0.85])).outcome is outcome


@pytest.mark.parametrize(
    ("default", "lowered", "outcome"),
    [
        ([5.0, 5.1, 4.9], [8.0, 8.1, 7.9], Outcome.PASS),
        ([10.0, 12.0, 8.0], [10.0, 11.0, 9.0], Outcome.INCONCLUSIVE),
        ([5.0, 5.1, 4.9], [3.0, 3.1, 2.9], Outcome.FAIL),
    ],
    ids=["the paper's", "no difference", "the pause hurts"],
)
def test_a_scrub_that_a_pause_does_not_ease_is_found(
    default: list[float], lowered: list[float], outcome: Outcome
) -> None:
    rates = {scrub.NONE: [10.0, 10.1, 9.9], scrub.DEFAULT: default, scrub.LOWERED: lowered}
    assert verdict_of(lambda recorder: scrub.judge(recorder, "get", rates)).outcome is outcome


def test_a_ratio_without_an_upper_end_is_kept_as_json() -> None:
    recorder = History().recorder("archive.demo")
    filled.judge(recorder, "read", [[0.0, 1.0], [1.0, 1.0]], [0.2, 0.85])
    rates = {scrub.NONE: [0.0, 1.0], scrub.DEFAULT: [0.0, 1.0], scrub.LOWERED: [1.0, 1.0]}
    scrub.judge(recorder, "get", rates)
    highs = [figure["high"] for figure in data_of(recorder.events(), "figure")]
    assert highs == [LARGEST] * 3


LONGEST = Bound("a grace, then peering", most=60.0, basis=Basis.CORRECTNESS)


def operation(began_s: float, took_s: float, code: str = "") -> S3Operation:
    return S3Operation("run", "get", 0, "/b/o", 1, 100, began_s, began_s, began_s + took_s, True, code)


@pytest.mark.parametrize(
    ("more", "outcome"),
    [
        ([], Outcome.PASS),
        ([operation(5.0, 0.1, "503")], Outcome.FAIL),
        ([operation(5.0, 70.0)], Outcome.FAIL),
    ],
    ids=["sound", "an error", "a wait"],
)
def test_requests_that_fail_or_wait_too_long_are_found(more: list[S3Operation], outcome: Outcome) -> None:
    operations = (*more, *(operation(11 + number, 0.1) for number in range(20)))
    result = S3Result(operations, (), 0, 30.0, 1.0)
    assert verdict_of(lambda recorder: failures.served(recorder, result, 10.0, LONGEST)).outcome is outcome


def test_a_load_that_stopped_for_good_shows_nothing() -> None:
    result = S3Result((operation(5.0, 0.1),), (), 0, 30.0, 1.0)
    verdict = verdict_of(lambda recorder: failures.served(recorder, result, 10.0, LONGEST))
    assert verdict.outcome is Outcome.INCONCLUSIVE


ANSWERED = tuple(operation(float(number), 0.1) for number in range(30))
REFUSED = tuple(operation(float(number), 0.1, "ConnectionRefusedError") for number in range(30))
POWER_BACK_S = 15


@pytest.mark.parametrize(
    ("operations", "targets", "outcome"),
    [
        ((*ANSWERED, *REFUSED), ["4 GiB", "4 GiB"], Outcome.PASS),
        (ANSWERED, ["4 GiB", "1 GiB"], Outcome.FAIL),
        (REFUSED, ["4 GiB", "4 GiB"], Outcome.INCONCLUSIVE),
        ((*ANSWERED[:POWER_BACK_S], *REFUSED[POWER_BACK_S:]), ["4 GiB", "4 GiB"], Outcome.INCONCLUSIVE),
    ],
    ids=["sound", "less memory afterwards", "nobody was ever answered", "nobody was answered afterwards"],
)
def test_a_power_cut_is_judged_by_what_was_observed(
    monkeypatch: pytest.MonkeyPatch, operations: tuple[S3Operation, ...], targets: list[str], outcome: Outcome
) -> None:
    def stores(stage: Stage, cluster: Cluster) -> None:
        stage.recorder.observe("fsck of osd.0 after the power was cut", got=len(operations) > 0, wanted=True)

    said = iter(targets)
    power = SimpleNamespace(switch_on=lambda _: None)
    done = S3Result(operations, (), 0, 30.0, 1.0)
    for name, value in {
        "aimed": lambda *_: power,
        "paper_mix": lambda _: nullcontext(),
        "inflict": lambda *_: nullcontext(),
        "check_stores": stores,
        "near": lambda _: None,
        "now_s": lambda _: POWER_BACK_S,
        "healed": lambda *_: done,
        "memory_targets": lambda _: {"osd.0": next(said)},
        "agreed": lambda _: None,
    }.items():
        monkeypatch.setattr(failures, name, value)
    scenario = next(each for each in SCENARIOS if each.name == "archive.power-cut")
    assert fake_stage.verdict_of(scenario, SimpleNamespace()).outcome is outcome


def test_the_cluster_has_six_machines_and_gateways_of_both_architectures() -> None:
    spec = FILLED.spec("reef")
    assert [node.arch for node in spec.nodes if node.osds] == [host_arch()] * 4 + [host_arch().other] * 2
    assert [node.arch for node in spec.nodes if node.services] == [host_arch(), host_arch().other]
    assert all(osd.db for node in spec.nodes for osd in node.osds)


@pytest.mark.parametrize("seed", range(8))
def test_of_two_machines_that_fail_one_is_of_the_other_architecture(seed: int) -> None:
    spec = FILLED.spec("reef")
    stage: Any = SimpleNamespace(cluster=SimpleNamespace(spec=spec), rng=Random(seed))
    struck = {fault.target for fault in failures.faults_of(stage, 2, failures.MACHINES)}
    assert len(struck) == 2
    assert host_arch().other in {node.arch for node in spec.nodes if node.name in struck}


def test_the_quick_tier_has_a_scenario_of_each_kind() -> None:
    quick = {scenario.name.partition("[")[0] for scenario in SCENARIOS if scenario.tier == "quick"}
    assert quick == {"archive.allocation", "archive.filled", "archive.spill-over", "archive.failure"}
