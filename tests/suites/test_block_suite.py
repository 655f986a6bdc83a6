"""The block suite's own rules, without a cluster: floors, baselines, the papers' settings, scales."""

import random
from dataclasses import replace
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import cast

import pytest

from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import Run, RunId
from cephlab.lab.checks.figures import figures
from cephlab.lab.checks.regression import judge, regression
from cephlab.lab.checks.verdict import Outcome
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.pools import PoolKind
from cephlab.lab.history.history import Bound, Event, History
from cephlab.lab.providers.select import provider
from cephlab.lab.scenario.scenario import Stage, Tier
from cephlab.lab.spec.arch import Arch
from cephlab.lab.telemetry import demandfile
from cephlab.lab.telemetry.demand import Demand, Interval, Operation, Resource, Role
from cephlab.lab.telemetry.demandfile import Measurement
from cephlab.lab.telemetry.statistics import knee
from cephlab.lab.workloads.fio import Done, FioJob, FioResult
from cephlab.lab.workloads.image import BlockImage
from cephlab.lab.workloads.radosbench import BenchResult
from cephlab.suites.bias import UNBIASED
from cephlab.suites.block import SCENARIOS, expected, papers, stand
from cephlab.suites.block.clients import together
from cephlab.suites.block.costs import floors
from cephlab.suites.block.expected import expect
from cephlab.suites.block.papers import SETTINGS
from cephlab.suites.block.radosbench import measured_lines, summed
from cephlab.suites.block.scale import LAB_VOLUMES, Scale, scale
from cephlab.suites.block.stand import IMAGE_BYTES, NO_LIMIT, note_run
from cephlab.tuning.demandsets import find_demands
from cephlab.tuning.model import predict
from cephlab.tuning.profilefile import SHIPPED, find_profile
from cephlab.tuning.workload import Shape


def demand(sent: float, *, image: str = "one", name: str = "randwrite") -> Demand:
    def exact(value: float) -> Interval:
        return Interval(value, value * 0.99, value * 1.01, 9)

    disk = {Resource.DEVICE_WRITE_BYTES: exact(9000.0), Resource.WIRE_SENT_BYTES: exact(sent)}
    costs = {Role.PRIMARY: disk, Role.REPLICA: disk, Role.CLIENT: {Resource.WIRE_RECEIVED_BYTES: exact(sent)}}
    return Demand(Operation(name, 4096), "reef", Arch.X86_64, image, costs)


def judged(measured: Demand) -> Outcome:
    recorder = History().recorder("block.cost")
    recorder.witness("operations", got=1000, least=100)
    floors(recorder, measured)
    return regression(recorder.events()).outcome


def test_a_write_that_reaches_its_replicas_passes() -> None:
    assert judged(demand(12400)) is Outcome.PASS


def test_a_write_that_sends_too_little_fails() -> None:
    assert judged(demand(4400)) is Outcome.FAIL


def test_a_read_that_brings_nothing_fails() -> None:
    assert judged(demand(4200, name="randread")) is Outcome.PASS
    assert judged(demand(300, name="randread")) is Outcome.FAIL


@pytest.mark.parametrize(
    ("value", "low", "high", "outcome"),
    [
        (1.10, 1.01, 1.2, Outcome.FAIL),
        (1.00, 0.9, 1.09, Outcome.PASS),
        (1.08, 0.99, 1.15, Outcome.INCONCLUSIVE),
        (1.065, 1.06, 1.07, Outcome.FAIL),
        (1.04, 1.02, 1.06, Outcome.PASS),
        (1.04, 1.01, 1.12, Outcome.INCONCLUSIVE),
    ],
)
def test_changes_are_judged_by_interval(value: float, low: float, high: float, outcome: Outcome) -> None:
    assert judge(value, low, high) is outcome


def test_a_change_decides_beside_the_figures() -> None:
    recorder = History().recorder("block.cost")
    recorder.witness("operations", got=1000, least=100)
    recorder.figure("CPU", 1e-3, "s", NO_LIMIT)
    assert regression(recorder.events()).outcome is Outcome.PASS
    recorder.record("change", what="CPU of OSDs", value=1.2, low=1.15, high=1.25)
    verdict = regression(recorder.events())
    assert verdict.outcome is Outcome.FAIL
    assert "CPU of OSDs: +20.0 %" in verdict.reason


def test_nothing_measured_is_inconclusive() -> None:
    assert regression([Event("block.cost", 0.0, "began", {})]).outcome is Outcome.INCONCLUSIVE


def test_a_baseline_is_found_by_its_image_before_others(tmp_path: Path) -> None:
    home = Home(tmp_path)
    wanted = demand(1.0, image="wanted")
    assert demandfile.find_baseline(home, wanted) is None
    demandfile.store_baseline(home, Measurement(demand(2.0, image="earlier")))
    assert demandfile.find_baseline(home, wanted) == Measurement(demand(2.0, image="earlier"))
    demandfile.store_baseline(home, Measurement(wanted))
    assert demandfile.find_baseline(home, wanted) == Measurement(wanted)
    assert demandfile.find_baseline(home, demand(1.0, name="read")) is None


def test_a_new_baseline_leaves_other_operations(tmp_path: Path) -> None:
    home = Home(tmp_path)
    for measured in (demand(1.0), demand(2.0, name="read"), demand(3.0)):
        demandfile.store_baseline(home, Measurement(measured))
    assert demandfile.find_baseline(home, demand(0.0)) == Measurement(demand(3.0))
    assert demandfile.find_baseline(home, demand(0.0, name="read")) == Measurement(demand(2.0, name="read"))


@pytest.mark.slow
def test_the_knee_is_where_the_curve_bends() -> None:
    assert knee([1, 2, 4, 8, 16, 32, 64], [100, 190, 350, 560, 640, 650, 655]) == 16
    assert knee([1, 2, 3, 4], [1, 2, 3, 4]) is None
    assert knee([1, 2], [1, 2]) is None
    assert knee([1, 2, 4, 8], [4, 3, 3, 2]) is None


def test_the_papers_settings_are_the_full_tiers() -> None:
    tiers = {scenario.name: scenario.tier for scenario in SCENARIOS}
    assert all(tiers[f"block.paper[setting={setting.name}]"] is Tier.FULL for setting in SETTINGS)
    assert {(s.block_bytes, s.depths) for s in SETTINGS if s.name.startswith("altra-multi")} == {
        (4096, (8,)),
        (4096, (16,)),
    }


def test_published_times_are_scaled_and_never_too_short() -> None:
    assert Scale().seconds(600) == 6.0
    assert Scale().seconds(60) == 3.0


SHAPES = [Shape("randread", 4096, 1, depth) for depth in (1, 16)]


def stage_in(home: Path, lab: str = "local", profile: str = "") -> Stage:
    cluster = SimpleNamespace(run=Run(RunId("r1"), home / "runs" / "r1"), provider=provider(lab))
    recorder = History().recorder("block.depth")
    return cast("Stage", SimpleNamespace(cluster=cluster, profile=profile, changes=(), recorder=recorder))


def this_machine(home: Path) -> None:
    (home / "profiles").mkdir()
    shipped = (SHIPPED / "pve-epyc-3n.toml").read_text()
    (home / "profiles/this-machine.toml").write_text(shipped.replace('"pve-epyc-3n"', '"this-machine"', 1))


def test_the_models_line_lies_beside_the_measured_points(tmp_path: Path) -> None:
    this_machine(tmp_path)
    expectation = expect(stage_in(tmp_path), SHAPES)
    lines = expectation.lines([1, 16])
    assert [line.label for line in lines] == ["predicted", "predicted"]
    assert [x for x, _ in lines[0].points] == [1, 16]
    assert lines[0].points[1][1] > lines[0].points[0][1] > 0
    assert "predicted for this-machine from demands" in expectation.words
    assert expectation.bounds(0) == (NO_LIMIT, NO_LIMIT)


def test_the_line_is_of_the_runs_own_profile_over_what_was_varied(tmp_path: Path) -> None:
    shapes = [Shape("randread", 4096, count, 8) for count in (1, 3)]
    expectation = expect(stage_in(tmp_path, profile="ampere-altra-4n"), shapes)
    altra = find_profile("ampere-altra-4n", tmp_path)
    made = [predict(find_demands(tmp_path)[0], altra, shape) for shape in shapes]
    rate, latency = expectation.lines([1, 3])
    assert rate.points == ((1.0, made[0].ops), (3.0, made[1].ops))
    assert latency.points == ((1.0, made[0].latency_s), (3.0, made[1].latency_s))
    assert not expectation.limits


def test_machines_of_the_profile_are_held_to_what_is_predicted(tmp_path: Path) -> None:
    expectation = expect(stage_in(tmp_path, "ssh", "ampere-altra-4n"), SHAPES)
    rate, latency = expectation.bounds(1)
    assert rate.least is not None
    factor = expectation.predictions[1].trust.factor
    assert rate.least == pytest.approx(expectation.predictions[1].ops / factor)
    assert latency.most is not None
    assert latency.most == pytest.approx(expectation.predictions[1].latency_s * factor)
    assert "ampere-altra-4n should do" in rate.why
    assert rate.derivation[-1].startswith("limit: ")
    assert expect(stage_in(tmp_path, "local", "ampere-altra-4n"), SHAPES).bounds(1) == (NO_LIMIT, NO_LIMIT)


@pytest.mark.parametrize(("lab", "outcome"), [("ssh", Outcome.INCONCLUSIVE), ("local", Outcome.PASS)])
def test_machines_of_a_profile_that_the_model_says_nothing_of_do_not_pass(
    lab: str, outcome: Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_home: Path) -> None:
        raise SpecError("no measured demand fits randread", "measured: randwrite")

    monkeypatch.setattr(expected, "find_demands", refuse)
    stage = stage_in(tmp_path, lab, "ampere-altra-4n")
    expectation = expect(stage, SHAPES)
    stage.recorder.witness("operations", got=100, least=1)
    note_run(stage.recorder, "randread at depth 1", result(100.0, 0.01), 1, expectation.bounds(0))
    verdict = figures(stage.recorder.events())
    assert verdict.outcome is outcome
    if outcome is Outcome.INCONCLUSIVE:
        assert "limits for randread on the profile's machines, which the model cannot give" in verdict.reason
        assert "no measured demand fits randread" in verdict.reason


def result(iops: float, latency_s: float, stddev: float = 0.0, samples: int = 20) -> FioResult:
    idle = Done(0, 0, 1.0, 0.0, 0.0)
    return FioResult(Done(1000, 4096000, 10.0, iops, latency_s, 0, stddev, samples), idle)


@pytest.mark.parametrize(
    ("iops", "stddev", "samples", "outcome"),
    [
        (200.0, 10.0, 20, Outcome.PASS),
        (50.0, 10.0, 20, Outcome.FAIL),
        (100.0, 40.0, 20, Outcome.INCONCLUSIVE),
        (200.0, 0.0, 1, Outcome.INCONCLUSIVE),
    ],
)
def test_a_run_is_judged_by_the_interval_of_its_rate(
    iops: float, stddev: float, samples: int, outcome: Outcome
) -> None:
    recorder = History().recorder("block.depth")
    run = result(iops, 4 / iops, stddev, samples)
    bound = Bound("predicted", least=100.0, derivation=("limit: 200 / 2 = 100",))
    note_run(recorder, "randread", run, 4, (bound, NO_LIMIT))
    verdict = figures(recorder.events())
    assert verdict.outcome is outcome
    assert "limit: 200 / 2 = 100" in verdict.derivation


@pytest.mark.parametrize(
    ("operations", "iops", "latency_s", "outcome"),
    [
        (162, 18.5, 4.36, Outcome.PASS),  # 128 asked for, 81 on average: the last ones took half the run to end
        (1620, 18.5, 4.36, Outcome.FAIL),  # in a run ten times as long they do not explain it
        (1000, 100.0, 0.64, Outcome.FAIL),  # half of them were never in flight
    ],
)
def test_a_queue_that_was_not_full_fails_unless_the_last_requests_explain_it(
    operations: int, iops: float, latency_s: float, outcome: Outcome
) -> None:
    recorder = History().recorder("block.depth")
    idle = Done(0, 0, 1.0, 0.0, 0.0)
    run = FioResult(Done(operations, 4096, operations / iops, iops, latency_s), idle)
    note_run(recorder, "randread", run, 128)
    assert figures(recorder.events()).outcome is outcome


def test_latency_beyond_what_is_predicted_fails() -> None:
    recorder = History().recorder("block.depth")
    note_run(recorder, "randread", result(100.0, 0.04, 1.0), 4, (NO_LIMIT, Bound("predicted", most=0.02)))
    assert figures(recorder.events()).outcome is Outcome.FAIL


def test_clients_together_are_held_to_what_is_predicted_for_all() -> None:
    recorder = History().recorder("block.clients")
    recorder.witness("operations", got=1000, least=100)
    runs = [result(100.0, 0.04, 1.0), result(100.0, 0.04, 1.0)]
    together(recorder, "randread by 2", runs, (Bound("predicted", least=150.0), NO_LIMIT))
    assert figures(recorder.events()).outcome is Outcome.PASS
    together(recorder, "randread by 2", runs, (Bound("predicted", least=250.0), NO_LIMIT))
    assert figures(recorder.events()).outcome is Outcome.FAIL


def test_rados_bench_has_throughput_and_latency_of_all_clients() -> None:
    two = [BenchResult(100, 10.0, 1 << 20, 0.4, 1.0), BenchResult(300, 10.0, 1 << 20, 0.1, 1.0)]
    rate, latency = measured_lines([1, 2], [two[:1], two])
    assert rate.points == ((1.0, 10.0), (2.0, 40.0))
    assert [mean_s for _, mean_s in latency.points] == pytest.approx([0.4, 0.175])
    summed_rate, mean = summed(two)
    assert summed_rate.low < 40.0 < summed_rate.high
    assert mean.low < 0.175 < mean.high


def test_without_a_profile_of_this_machine_nothing_is_predicted(tmp_path: Path) -> None:
    expectation = expect(stage_in(tmp_path), SHAPES)
    assert expectation.lines([1, 16]) == []
    assert "this-machine" in expectation.words


def test_the_papers_loads_are_there_by_name() -> None:
    by_name = {setting.name: setting for setting in SETTINGS}
    four = {(1, 1), (1, 32), (4, 1), (4, 32)}
    for name in ("pve-vm-write-4k", "pve-vm-read-4096k", "pve-multi-vm-randwrite-4k", "pve-multi-vm-randread-4096k"):
        assert set(by_name[name].loads) == four
    assert by_name["kunpeng-48-read"].volumes == 48


def test_jobs_and_depth_of_a_paper_reach_fio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[FioJob] = []

    def run_jobs(_cluster: object, jobs: list[tuple[str, FioJob]]) -> list[FioResult]:
        given.extend(job for _, job in jobs)
        return [result(100.0, job.depth * job.jobs / 100.0) for _, job in jobs]

    monkeypatch.setattr(stand, "run_jobs", run_jobs)
    recorder = History().recorder("block.paper")
    inside = stage_in(tmp_path).cluster
    cluster = SimpleNamespace(client_name="client.admin", hosts={"client": None}, **vars(inside))
    stage = Stage(cast("Cluster", cluster), recorder, random.Random(1), Path())
    setting = next(setting for setting in SETTINGS if setting.name == "pve-multi-vm-randread-4k")
    papers.loaded(stage, setting, [(BlockImage("p", f"i{n}", 64 << 20), "") for n in range(4)], (4, 32))

    argv = given[0].argv(PurePosixPath("/out"))
    assert {"--numjobs=4", "--iodepth=32", "--rw=randread", "--sync=1", "--bs=4096"} <= set(argv)
    assert figures(recorder.events()).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("lab", "iops", "outcome"),
    [("ssh", 20.0, Outcome.FAIL), ("ssh", 500_000.0, Outcome.PASS), ("local", 20.0, Outcome.PASS)],
)
def test_a_papers_setting_is_held_to_the_model_where_the_hosts_are_the_profiles(
    tmp_path: Path, lab: str, iops: float, outcome: Outcome
) -> None:
    """200,000 writes a second were published of it; a lab's hosts are held to nothing."""
    stage = stage_in(tmp_path, lab, "ampere-altra-4n")
    recorder = stage.recorder
    recorder.witness("operations", got=1000, least=100)
    setting = next(setting for setting in SETTINGS if setting.name == "altra-multi-write")
    results = [result(iops, 0.001, stddev=iops / 50) for _ in range(3)]
    papers.note_all(stage, setting, results, setting.name, expect(stage, setting.shapes(3)).bounds(0)[0], UNBIASED)
    verdict = figures(recorder.events())
    assert verdict.outcome is outcome
    assert ("ampere-altra-4n should do" in verdict.reason) is (lab == "ssh")


def test_the_model_is_asked_for_the_loads_and_the_copies_of_a_setting_but_not_for_a_mix() -> None:
    setting = next(setting for setting in SETTINGS if setting.name == "pve-vm-write-4k")
    copied = replace(setting, kind=PoolKind("replicated", 2))
    assert copied.shapes(3) == [
        Shape("write", 4096, 3 * jobs, depth, replicas=2) for jobs, depth in ((1, 1), (1, 32), (4, 1), (4, 32))
    ]
    coded = replace(setting, kind=PoolKind("ec42", 6, k=4, m=2), jobs=(1,), depths=(8,))
    assert coded.shapes(1) == [Shape("write", 4096, 1, 8, k=4, m=2)]
    assert replace(setting, pattern="randrw").shapes(3) == []


def test_a_lab_loads_fewer_images_and_says_so(tmp_path: Path) -> None:
    assert Scale().volumes(48) == LAB_VOLUMES
    assert f"{LAB_VOLUMES} of 48 images" in Scale().words(100 << 30, 48, 60)
    altra = scale(find_profile("ampere-altra-4n", tmp_path))
    assert altra.volumes(48) == 48
    assert "images" not in altra.words(1 << 30, 48, 60)


def test_a_mixed_run_has_the_mean_latency_of_both_directions() -> None:
    both = FioResult(Done(100, 0, 1.0, 100.0, 0.01), Done(300, 0, 1.0, 300.0, 0.03))
    assert both.latency_mean_s == pytest.approx(0.025)
    assert FioResult(Done(0, 0, 1.0, 0.0, 0.0), Done(0, 0, 1.0, 0.0, 0.0)).latency_mean_s == 0.0


def test_published_sizes_and_times_are_run_where_the_machines_are(tmp_path: Path) -> None:
    altra = scale(find_profile("ampere-altra-4n", tmp_path))
    assert altra.image_bytes(200 << 30, 1) == 200 << 30
    assert altra.seconds(300) == 300
    assert Scale().image_bytes(200 << 30, 3) == IMAGE_BYTES


def test_what_has_no_room_is_cut_to_whole_objects() -> None:
    small = Scale(capacity_bytes=100e9)
    cut_bytes = small.image_bytes(200 << 30, 2)
    assert cut_bytes == int(100e9 * 0.05 / 3 / 2) >> 22 << 22
    assert small.words(200 << 30, 2, 600) == f"{cut_bytes >> 20} of 204800 MiB, 6 of 600 s"
