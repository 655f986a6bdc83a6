"""Cache mode writeback against none without a guest: what QEMU is asked for, in which order, and what is judged."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.checks import CHECKS, Outcome
from cephlab.lab.checks.figures import judge_figure
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import Basis
from cephlab.lab.scenario.scenario import Stage, Tier
from cephlab.lab.spec.arch import Arch
from cephlab.lab.telemetry.statistics import ratio_of_means
from cephlab.lab.workloads.image import BlockImage
from cephlab.suites.hci import claims, writeback
from cephlab.suites.hci.hypervisor.command import CacheMode
from cephlab.suites.hci.stand import NODE, TOPOLOGY
from cephlab.suites.hci.writeback import OVERLAP, READS, SYNCED, UNREAD, WRITES
from tests.fake_stage import stage_of

IMAGE = BlockImage("hci", "disk0", 64 << 20)
NONE = (1300.0, 1500.0, 1400.0, 1200.0)
ENV = {"QEMU_MODULE_DIR": "/image/usr/lib/x86_64-linux-gnu/qemu"}


class Machine:
    """A node whose qemu-img needs this many seconds in each cache mode, and no two runs quite as many."""

    def __init__(self, took_s: Mapping[str, float], *, emulated: bool = False, words: str = "Run completed in") -> None:
        self.directory, self.root = PurePosixPath("/node"), PurePosixPath("/image")
        self.arch, self.emulated = Arch.X86_64, emulated
        self.took_s, self.words = took_s, words
        self.given: list[list[str]] = []
        self.done_bytes, self.reaches = 1000.0, 1.0

    def run(self, argv: list[str], *, env: Mapping[str, str], timeout_s: float) -> SimpleNamespace:
        assert (env, timeout_s) == (ENV, 600.0)
        took_s = self.took_s[argv[argv.index("-t") + 1]] * (1 + 0.01 * (len(self.given) % 3))
        self.given.append(argv)
        self.done_bytes += self.reaches * int(argv[argv.index("-c") + 1]) * writeback.BLOCK_BYTES
        return SimpleNamespace(stdout=f"Sending 3200 requests\n{self.words} {took_s:.3f} seconds.\n")

    @property
    def cluster(self) -> Any:
        return SimpleNamespace(
            hosts={NODE: self}, client_name="client.x", patience=2.0, osd_ids=lambda: [0], client=self
        )

    def tell(self, daemon: str, prefix: str) -> dict[str, Any]:
        assert (daemon, prefix) == ("osd.0", "perf dump")
        return {"osd": {"op_in_bytes": self.done_bytes, "op_out_bytes": 0}}


def figures(stage: Stage) -> dict[str, Mapping[str, Any]]:
    return {event.data["metric"]: event.data for event in stage.recorder.events() if event.kind == "figure"}


def test_qemu_is_asked_for_the_papers_four_and_for_a_flush() -> None:
    sparse, synced = WRITES
    [reads] = READS
    base = ["qemu-img", "bench", "-c", "3200", "-d", "4", "-s", "4096"]
    assert sparse.argv(CacheMode.NONE, "x") == [*base, "-w", "--flush-interval=64", "-t", "none", "-f", "raw", "x"]
    assert "--flush-interval=4" in synced.argv(CacheMode.WRITEBACK, "x")
    base[3] = "6400"
    assert reads.argv(CacheMode.WRITEBACK, "x") == [*base, "-t", "writeback", "-f", "raw", "x"]


def test_both_modes_take_turns_and_swap_who_is_first(monkeypatch: pytest.MonkeyPatch) -> None:
    machine, rounds = Machine({"none": 0.5, "writeback": 0.1}), writeback.ROUNDS
    stage = stage_of(machine.cluster)
    own = (stage.cluster, 1)
    monkeypatch.setattr(writeback, "images", lambda *given: nullcontext([IMAGE] if given == own else []))
    writeback.compared(stage, READS)
    ran = [(argv[argv.index("-t") + 1], argv[-1]) for argv in machine.given]
    target = "rbd:hci/disk0:id=x:conf=/node/ceph.conf:rbd_cache_policy=writearound"
    pair = [("none", target), ("writeback", target)]
    assert ran == [turn for number in range(rounds) for turn in (pair if number % 2 == 0 else pair[::-1])]
    [drawn] = [event.data for event in stage.recorder.events() if event.kind == "series"]
    assert (drawn["title"], drawn["axis"], drawn["marks"]) == ("qemu-img bench: reads", "round", {})
    assert drawn["words"] == "4 KiB, 4 in flight, through QEMU's rbd driver without a guest"
    assert [line["label"] for line in drawn["lines"]] == ["none", "writeback"]
    assert {line["panel"] for line in drawn["lines"]} == {"operations per second"}
    assert [x for x, _ in drawn["lines"][0]["points"]] == list(range(1, rounds + 1))
    [judged] = figures(stage).values()
    assert judged["metric"] == "rate with writeback over that with none, reads"
    assert judged["value"] == pytest.approx(5.0, rel=0.02)
    assert CHECKS["figures"](stage.recorder.events()).outcome is Outcome.FAIL


@pytest.mark.parametrize(("reaches", "outcome"), [(1.0, Outcome.PASS), (0.9, Outcome.INCONCLUSIVE)])
def test_requests_that_never_reach_an_osd_show_nothing(
    monkeypatch: pytest.MonkeyPatch, reaches: float, outcome: Outcome
) -> None:
    machine = Machine({"none": 0.5, "writeback": 0.1})
    machine.reaches = reaches
    stage = stage_of(machine.cluster)
    monkeypatch.setattr(writeback, "images", lambda *_: nullcontext([IMAGE]))
    writeback.compared(stage, WRITES)
    assert CHECKS["figures"](stage.recorder.events()).outcome is outcome


def rated(gain: Sequence[float]) -> dict[CacheMode, list[float]]:
    return {CacheMode.NONE: list(NONE), CacheMode.WRITEBACK: [rate * by for rate, by in zip(NONE, gain, strict=True)]}


@pytest.mark.parametrize(
    ("load", "gain", "outcome"),
    [
        (WRITES[0], (4.5, 5.5, 5.0, 4.0), Outcome.PASS),
        (WRITES[0], (1.0, 1.1, 0.9, 1.0), Outcome.FAIL),  # the cache is off
        (WRITES[0], (1.5, 2.5, 1.6, 2.6), Outcome.INCONCLUSIVE),
        (WRITES[1], (1.0, 0.6, 0.7, 0.6), Outcome.PASS),
        (READS[0], (1.0, 1.1, 0.9, 1.0), Outcome.PASS),
        (READS[0], (0.5, 0.6, 0.5, 0.6), Outcome.PASS),
        (READS[0], (6.0, 7.0, 6.5, 5.0), Outcome.FAIL),  # the cache answers
        (READS[0], (1.8, 2.1, 1.9, 2.2), Outcome.INCONCLUSIVE),
    ],
)
@pytest.mark.parametrize("why_not", ["", claims.EMULATED])
def test_the_ratio_of_both_modes_is_judged_by_its_whole_interval(
    load: writeback.BenchLoad, gain: Sequence[float], outcome: Outcome, why_not: str
) -> None:
    stage, rates = stage_of(SimpleNamespace()), rated(gain)
    stage.recorder.witness("bytes", got=1, least=1)
    writeback.note_ratio(stage, load, rates, why_not=why_not)
    [figure] = figures(stage).values()
    ratio = ratio_of_means(rates[CacheMode.WRITEBACK], rates[CacheMode.NONE])
    assert (figure["value"], figure["low"], figure["high"]) == (ratio.mean, ratio.low, ratio.high)
    assert judge_figure(figure).outcome is (Outcome.PASS if why_not else outcome)
    assert CHECKS["figures"](stage.recorder.events()).outcome is (Outcome.PASS if why_not else outcome)
    assert figure["why"].endswith(why_not)


def test_the_limits_are_what_each_load_can_show() -> None:
    assert [load.bound for load in (*WRITES, *READS)] == [OVERLAP, SYNCED, UNREAD]
    assert (OVERLAP.least, OVERLAP.most, UNREAD.least, UNREAD.most) == (2.0, None, None, 2.0)
    assert not SYNCED.judges
    assert [load.bound.basis for load in (*WRITES, *READS)] == [Basis.SHAPE, Basis.NOTED, Basis.SHAPE]
    assert [(load.operations, load.flush_every) for load in (*WRITES, *READS)] == [(3200, 64), (1600, 4), (6400, 0)]
    assert writeback.ROUNDS == 16


@pytest.mark.parametrize(("name", "loads"), [("write", WRITES), ("read", READS)])
def test_each_scenario_runs_its_loads(name: str, loads: Sequence[writeback.BenchLoad]) -> None:
    [scenario] = [scenario for scenario in writeback.SCENARIOS if scenario.name == f"hci.writeback[op={name}]"]
    assert isinstance(scenario.run, partial)
    assert (scenario.run.func, scenario.run.args, scenario.run.keywords) == (writeback.compared, (), {"loads": loads})
    assert (scenario.check, scenario.tier, scenario.topology) == ("figures", Tier.FULL, TOPOLOGY)
    assert scenario.sees == ("rate with writeback over that with none, .*",)
    assert scenario.goal.startswith("With writeback QEMU ")


def test_an_emulated_node_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine({"none": 0.5, "writeback": 0.5}, emulated=True)
    monkeypatch.setattr(writeback, "images", lambda _, count: nullcontext([IMAGE] * count))
    stage = stage_of(machine.cluster)
    writeback.compared(stage, WRITES)
    assert {figure["basis"] for figure in figures(stage).values()} == {"noted"}


@pytest.mark.parametrize("machine", [Machine({"none": 0.0}), Machine({"none": 1.0}, words="Done in")])
def test_a_run_without_a_time_is_trouble_of_the_lab(machine: Machine) -> None:
    with pytest.raises(LabBroken, match="qemu-img did not say how long it took"):
        writeback.rate(cast("Cluster", machine.cluster), IMAGE, READS[0], CacheMode.NONE)


def test_a_rate_is_by_qemus_own_clock() -> None:
    rate = writeback.rate(cast("Cluster", Machine({"none": 1.6}).cluster), IMAGE, READS[0], CacheMode.NONE)
    assert rate == pytest.approx(4000.0)
