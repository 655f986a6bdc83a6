"""Growth with clients and with requests in flight: by shape in a lab and through krbd, by the model on its machines."""

import random
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.checks.figures import figures, judge_figure
from cephlab.lab.checks.verdict import Outcome, Verdict
from cephlab.lab.scenario.scenario import Stage, Tier
from cephlab.lab.telemetry.statistics import interval_of, ratio_of
from cephlab.lab.workloads.fio import FioJob, FioResult
from cephlab.lab.workloads.image import BlockImage
from cephlab.lab.workloads.radosbench import BenchResult
from cephlab.suites import gains
from cephlab.suites.bias import UNBIASED, Bias
from cephlab.suites.block import clients, depth, papers, radosbench
from cephlab.suites.block.clients import SEVERAL, SHARED_CORES
from cephlab.suites.block.depth import GAINED
from cephlab.suites.block.papers import SETTINGS
from cephlab.suites.block.radosbench import MORE
from cephlab.tuning.workload import Shape
from tests.suites.test_block_suite import result
from tests.suites.test_gains import NVME, stage_on

IMAGE = BlockImage("block", "image0", 64 << 20)
DEPTHS = (1, 2, 4, 8, 16, 32, 64, 128)
RISING = [100.0 * step for step in (1, 1.9, 3.5, 6, 9, 10, 10, 9.9)]
FLAT = [100.0] * 8
BARELY = [100.0, *[120.5] * 7]


class Sweep:
    """A scenario of the block suite whose fio has these rates, one after the other. bias: of each of them."""

    def __init__(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        lab: str,
        rates: Sequence[float],
        tier: Tier = Tier.QUICK,
        bias: Bias = UNBIASED,
    ) -> None:
        inside = stage_on(tmp_path, NVME, lab=lab)
        hosts = {"client": None, "client1": None, "client2": None}
        cluster = SimpleNamespace(hosts=hosts, client_name="client.admin", osd_ids=lambda: [0, 1, 2])
        vars(cluster).update(vars(inside.cluster))
        self.stage = Stage(
            cast("Any", cluster), inside.recorder, random.Random(1), Path(), tier, profile=inside.profile
        )
        self.jobs: list[FioJob] = []
        self.nodes: list[str] = []
        self.written: list[Any] = []
        left = list(rates)

        def run_judged(of: Stage, _what: str, jobs: Sequence[tuple[str, FioJob]]) -> tuple[list[FioResult], Bias]:
            assert of is self.stage
            self.jobs += [job for _, job in jobs]
            self.nodes += [node for node, _ in jobs]
            rate = left.pop(0)
            each = rate / len(jobs)
            return [result(each, job.depth * job.jobs / each, each / 100) for _, job in jobs], bias

        def written(*given: object, **more: object) -> AbstractContextManager[list[BlockImage]]:
            self.written += [*given, more]
            return nullcontext([IMAGE])

        for module in (papers, depth, clients):
            monkeypatch.setattr(module, "run_judged", run_judged)
        monkeypatch.setattr(papers, "laid_out", lambda *_: nullcontext([IMAGE]))
        monkeypatch.setattr(papers, "mapped", lambda *_: nullcontext("/dev/rbd0"))
        monkeypatch.setattr(depth, "written", written)
        monkeypatch.setattr(clients, "images", lambda _, count: nullcontext([IMAGE] * count))

    def data(self, kind: str) -> list[dict[str, Any]]:
        return [dict(event.data) for event in self.stage.recorder.events() if event.kind == kind]

    def figure(self, metric: str) -> dict[str, Any]:
        [figure] = [data for data in self.data("figure") if data["metric"] == metric]
        return figure

    @property
    def verdict(self) -> Verdict:
        return figures(self.stage.recorder.events())


def altra(name: str = "altra-single-write") -> papers.FioSetting:
    return next(setting for setting in SETTINGS if setting.name == name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rates", "outcome"), [(RISING, Outcome.PASS), (FLAT, Outcome.FAIL), (BARELY, Outcome.INCONCLUSIVE)]
)
@pytest.mark.parametrize(("lab", "through"), [("uml", "krbd"), ("local", "librbd")])
def test_the_papers_curve_over_depths_has_to_rise(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lab: str,
    through: str,
    rates: Sequence[float],
    outcome: Outcome,
) -> None:
    sweep = Sweep(tmp_path, monkeypatch, lab, rates)
    papers.run(sweep.stage, altra())
    assert [job.depth for job in sweep.jobs] == list(DEPTHS)
    assert {job.engine for job in sweep.jobs} == {"libaio" if through == "krbd" else "rbd"}
    assert sweep.verdict.outcome is outcome
    gain = ratio_of(interval_of(max(rates), max(rates) / 100, 20), interval_of(rates[0], rates[0] / 100, 20))
    gained = sweep.figure(GAINED)
    assert (gained["value"], gained["low"], gained["high"]) == pytest.approx((gain.mean, gain.low, gain.high))
    assert (gained["least"], gained["basis"]) == (1.2, "shape")
    [drawn] = sweep.data("series")
    assert drawn["title"] == f"altra-single-write: {through} against requests in flight"
    measured = next(line for line in drawn["lines"] if line["label"] == "measured")
    assert measured["points"] == [[depth, rate] for depth, rate in zip(DEPTHS, rates, strict=True)]
    assert (drawn["marks"].get("knee") in DEPTHS) is (rates is not FLAT)


KRBD = "which the model cannot give: it is fitted to librbd, not to the kernel's RBD client"


@pytest.mark.slow
@pytest.mark.parametrize(("rates", "outcome"), [(RISING, Outcome.INCONCLUSIVE), (FLAT, Outcome.FAIL)])
def test_on_the_profiles_machines_krbd_is_not_held_to_the_model_of_librbd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rates: Sequence[float], outcome: Outcome
) -> None:
    """A hundredth of what librbd should do is no failure of krbd; a curve that does not rise is one."""
    sweep = Sweep(tmp_path, monkeypatch, "ssh", rates)
    papers.run(sweep.stage, altra())
    assert sweep.verdict.outcome is outcome
    assert any(f"limits for randwrite on the profile's machines, {KRBD}" in line for line in sweep.verdict.derivation)
    assert {data["basis"] for data in sweep.data("figure") if "all volumes" in data["metric"]} == {"noted"}
    assert sweep.figure(GAINED)["basis"] == "shape"
    [drawn] = sweep.data("series")
    assert {line["label"] for line in drawn["lines"]} == {"measured"}
    assert "not predicted: it is fitted to librbd" in drawn["words"]


@pytest.mark.slow
def test_a_setting_of_two_depths_is_no_curve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = Sweep(tmp_path, monkeypatch, "local", [100.0] * 4)
    papers.run(sweep.stage, altra("pve-vm-write-4k"))
    assert sweep.data("series") == []
    assert sweep.verdict.outcome is Outcome.PASS
    assert {setting.name for setting in SETTINGS if setting.curve} == {"altra-single-write", "altra-single-read"}


def judged(figure: dict[str, Any]) -> Outcome:
    return judge_figure(figure).outcome


GROWN = "randread by 3 clients over that of one"


@pytest.mark.parametrize(
    ("lab", "three", "outcome"),
    [
        ("ssh", 2.8e5, Outcome.PASS),
        ("ssh", 1.05e5, Outcome.FAIL),
        ("ssh", 0.5e5, Outcome.FAIL),
        ("local", 0.5e5, Outcome.PASS),
    ],
)
def test_clients_gain_what_the_model_says_on_the_profiles_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lab: str, three: float, outcome: Outcome
) -> None:
    """In a lab clients and OSDs share the same cores, so the figure is only recorded."""
    sweep = Sweep(tmp_path, monkeypatch, lab, [1e5, three])
    clients.run(sweep.stage, "randread")
    alone, several = (Shape("randread", 4096, count, clients.DEPTH) for count in (1, 3))
    gained = sweep.figure(GROWN)
    assert gained["value"] == pytest.approx(three / 1e5)
    assert gained["low"] < gained["value"] < gained["high"]
    limit = gains.of_growth(sweep.stage, alone, several, SHARED_CORES)
    assert (gained["least"], gained["why"]) == (limit.least, limit.why)
    assert limit.judges is (lab == "ssh")
    assert judged(gained) is outcome


def test_one_client_alone_does_not_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "client_counts", lambda *_: (1,))
    sweep = Sweep(tmp_path, monkeypatch, "ssh", [1e5])
    clients.run(sweep.stage, "randread")
    assert not any("over that of one" in data["metric"] for data in sweep.data("figure"))


@pytest.mark.parametrize(
    ("lab", "bias", "outcome"),
    [
        ("ssh", UNBIASED, Outcome.FAIL),
        ("ssh", Bias("c0 was busy"), Outcome.INCONCLUSIVE),
        ("local", UNBIASED, Outcome.PASS),
    ],
)
def test_waiting_clients_gain_what_the_model_says_on_the_profiles_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lab: str, bias: Bias, outcome: Outcome
) -> None:
    """Six of them should do more than 1.5 times as much as one, whose request waits for idle disks."""
    monkeypatch.setattr(clients, "client_counts", lambda *_: (1, 6))
    sweep = Sweep(tmp_path, monkeypatch, lab, [1e3, 1.5e3] * clients.TURNS, bias=bias)
    clients.one_is_not_enough(sweep.stage)
    alone, several = (Shape("randread", 4096, count, 1) for count in (1, 6))
    limit = gains.of_growth(sweep.stage, alone, several, SEVERAL)
    gained = sweep.figure("randread by 6 clients over that of one")
    assert (gained["value"], gained["least"]) == (pytest.approx(1.5), limit.least)
    assert judged(gained) is outcome


def test_clients_that_were_busy_in_one_turn_of_several_leave_the_gain_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "client_counts", lambda *_: (1, 6))
    sweep = Sweep(tmp_path, monkeypatch, "ssh", [1e3, 1.5e3] * clients.TURNS)
    loaded, biases = clients.loaded, iter([UNBIASED, Bias("c0 was busy"), UNBIASED, UNBIASED])
    monkeypatch.setattr(clients, "loaded", lambda *given: (loaded(*given)[0], next(biases)))
    clients.one_is_not_enough(sweep.stage)
    assert judged(sweep.figure("randread by 6 clients over that of one")) is Outcome.INCONCLUSIVE


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "outcome"), [(600.0, Outcome.PASS), (130.0, Outcome.FAIL)])
def test_rados_bench_gains_what_the_model_says_on_the_profiles_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rate: float, outcome: Outcome
) -> None:
    sweep = Sweep(tmp_path, monkeypatch, "ssh", [])
    monkeypatch.setattr(radosbench, "client_counts", lambda *_: (1, 6))
    monkeypatch.setattr("cephlab.suites.block.radosbench.pools.pool", lambda *_, **__: nullcontext("bench"))

    def bench(_stage: object, _what: str, _pool: str, _mode: str, count: int, _size: object) -> Any:
        each = rate / count if count > 1 else 100.0
        return [BenchResult(int(each * 60), 60.0, int(each * 60) << 22, 0.1, each / 50)] * count, UNBIASED

    monkeypatch.setattr(radosbench, "bench", bench)
    radosbench.run(sweep.stage)
    alone, several = (Shape("seq", 4 << 20, count, 16) for count in (1, 6))
    limit = gains.of_growth(sweep.stage, alone, several, MORE)
    gained = sweep.figure("seq by 6 clients over that of one")
    assert (gained["least"], gained["basis"]) == (limit.least, "profile")
    assert judged(gained) is outcome
