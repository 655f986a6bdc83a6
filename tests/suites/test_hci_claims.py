"""The Proxmox VE benchmark's claims: judged by the whole interval where a guest runs on the processor itself."""

from contextlib import nullcontext
from itertools import count
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.checks import CHECKS, Outcome
from cephlab.lab.history.history import Basis, Bound, History, Recorder
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.telemetry.demand import Interval
from cephlab.lab.telemetry.statistics import interval_of, ratio_of
from cephlab.lab.workloads.fio import NOTHING, Done, FioResult
from cephlab.suites.hci import SCENARIOS, claims, papers
from cephlab.suites.hci.hypervisor.command import CacheMode
from cephlab.suites.hci.hypervisor.guest import Requests
from cephlab.suites.hci.load import GuestRun


def rate(mean: float) -> Interval:
    return Interval(mean, mean * 0.95, mean * 1.05, 20)


def new_recorder() -> Recorder:
    recorder = History().recorder("hci.multi-vm-linux")
    recorder.witness("operations", got=100, least=1)
    return recorder


CASES = [(136.5, Outcome.PASS), (101.0, Outcome.INCONCLUSIVE), (60.0, Outcome.FAIL)]


@pytest.mark.parametrize(("writeback", "outcome"), CASES)
def test_more_writes_with_writeback_are_judged(writeback: float, outcome: Outcome) -> None:
    recorder = new_recorder()
    claims.note_writeback(recorder, "1 guest", "36.5 %", (rate(writeback), rate(100)), writes=True, judged=True)
    assert CHECKS["figures"](recorder.events()).outcome is outcome


@pytest.mark.parametrize(("writeback", "outcome"), [(55.6, Outcome.PASS), (99, Outcome.INCONCLUSIVE), (150, "fail")])
def test_fewer_reads_with_writeback_are_judged(writeback: float, outcome: str) -> None:
    recorder = new_recorder()
    claims.note_writeback(recorder, "1 guest", "44.4 %", (rate(writeback), rate(100)), writes=False, judged=True)
    assert CHECKS["figures"](recorder.events()).outcome == outcome


@pytest.mark.parametrize(("six", "outcome"), CASES)
def test_six_guests_that_do_less_than_one_are_red(six: float, outcome: Outcome) -> None:
    recorder = new_recorder()
    claims.note_guests(recorder, "6 guests", (rate(six), rate(100)), judged=True)
    assert CHECKS["figures"](recorder.events()).outcome is outcome


@pytest.mark.parametrize("judged", [True, False])
def test_an_emulated_guest_is_noted_and_not_judged(judged: bool) -> None:
    recorder = new_recorder()
    claims.note_writeback(recorder, "1 guest", "36.5 %", (rate(10), rate(100)), writes=True, judged=judged)
    figure = recorder.events()[-1].data
    assert figure["value"] == pytest.approx(0.1)
    assert ("emulated" in figure["why"]) is not judged
    assert CHECKS["figures"](recorder.events()).outcome is (Outcome.FAIL if judged else Outcome.PASS)


SAID = "the Proxmox VE benchmark of 2020 says"
NOT_JUDGED = {"why": f"{SAID}: so; {claims.EMULATED}", "basis": "noted"}


def noted(recorder: Recorder) -> dict[str, Any]:
    """The figure that was recorded, without what is there of every ratio of 50 to 100."""
    data = dict(recorder.events()[-1].data)
    assert (data.pop("value"), data.pop("unit")) == (0.5, "times")
    assert (data.pop("low"), data.pop("high")) == pytest.approx((47.5 / 105, 52.5 / 95))
    return {key: value for key, value in data.items() if value not in (None, (), [])}


@pytest.mark.parametrize(("writes", "limit"), [(True, {"least": 1.0}), (False, {"most": 1.0})])
def test_writeback_is_compared_with_none(writes: bool, limit: dict[str, float]) -> None:
    for judged in (True, False):
        recorder = new_recorder()
        claims.note_writeback(recorder, "1 guest", "so", (rate(50), rate(100)), writes=writes, judged=judged)
        bound = {"why": f"{SAID}: so", **limit, "basis": "shape"} if judged else NOT_JUDGED
        assert noted(recorder) == {"metric": "rate with writeback over that with none, 1 guest", **bound}


def test_several_guests_are_compared_with_one() -> None:
    own = Bound("so", least=0.25, basis=Basis.PROFILE)
    paper = {"why": f"{SAID}: six guests do more than one", "least": 1.0, "basis": "shape"}
    emulated = {"why": f"{paper['why']}; {claims.EMULATED}", "basis": "noted"}
    for given, judged, bound in (
        (None, True, paper),
        (own, True, {"why": "so", "least": 0.25, "basis": "profile"}),
        (None, False, emulated),
    ):
        recorder = new_recorder()
        claims.note_guests(recorder, "6 guests", (rate(50), rate(100)), given, judged=judged)
        assert noted(recorder) == {"metric": "rate of several guests over that of one, 6 guests", **bound}


def test_a_ratio_to_nothing_is_as_large_as_a_history_holds() -> None:
    recorder = new_recorder()
    claims.note_guests(recorder, "6 guests", (rate(50), Interval(0.0, 0.0, 0.0, 2)), judged=True)
    figure = recorder.events()[-1].data
    assert (figure["value"], figure["low"], figure["high"]) == (1e9, 0.0, 1e9)


def test_guests_together_have_the_sum_of_their_rates_and_of_their_variances() -> None:
    """Their deviations are 3 and 4, so together 5. The one with the fewest samples decides how many there are."""
    guests = [
        Done(9, 0, 9.0, iops, 0.01, iops_stddev=deviation, iops_samples=samples)
        for iops, deviation, samples in ((100.0, 3.0, 20), (200.0, 4.0, 9))
    ]
    runs = [GuestRun(FioResult(done, NOTHING), Requests(1000, 0, 0), ()) for done in guests]
    assert claims.rate_of([runs]) == interval_of(300.0, 5.0, 9)


def test_turns_that_differ_widen_the_interval_of_their_rate() -> None:
    """A cluster that slows down by half between two turns cannot decide about a gain of a third."""
    slow, fast = (claims.rate_of([[guest_run(iops)]]) for iops in (100.0, 200.0))
    both = claims.rate_of([[guest_run(200.0)], [guest_run(100.0)]])
    assert (both.mean, both.low, both.high) == pytest.approx((150.0, slow.low, fast.high))


def test_the_paper_says_something_of_each_pattern_by_operations_and_of_writes_by_bandwidth() -> None:
    by_operations = {(pattern, False) for pattern in ("write", "read", "randwrite", "randread")}
    assert claims.WRITEBACK.keys() == by_operations | {("write", True), ("randwrite", True)}
    assert claims.FOUR_JOBS == 4


WRITTEN_BYTES = 4_096_000


def guest_run(iops: float) -> GuestRun:
    done = Done(1000, WRITTEN_BYTES, 10.0, iops, 0.01, iops_stddev=iops / 20, iops_samples=20)
    return GuestRun(FioResult(NOTHING, done), Requests(0, 1000, 0), ())


def test_a_claim_is_of_the_place_that_it_was_made_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """At one job the paper says nothing of blocks of 4 KiB; of bandwidth it does."""
    kvm = SimpleNamespace(parts=SimpleNamespace(kvm=True))
    monkeypatch.setattr(papers, "hypervisor", lambda _: kvm)
    recorder = new_recorder()
    stage = SimpleNamespace(cluster=None, recorder=recorder)
    points = {
        CacheMode.NONE: {1: [[guest_run(100)]], 4: [[guest_run(100)]]},
        CacheMode.WRITEBACK: {1: [[guest_run(10)]], 4: [[guest_run(137)]]},
    }
    small, _, large, _ = papers.VM
    for jobs in papers.JOBS:
        papers.claim_cache(stage, small, points, jobs, f"1 guest, {jobs} jobs", jobs)  # type: ignore[arg-type]
    assert CHECKS["figures"](recorder.events()).outcome is Outcome.PASS
    papers.claim_cache(stage, large, points, 1, "1 guest, 1 job", 1)  # type: ignore[arg-type]
    assert CHECKS["figures"](recorder.events()).outcome is Outcome.FAIL


@pytest.mark.parametrize(("kvm", "wanted"), [(True, "none writeback writeback none"), (False, "none writeback")])
def test_modes_take_turns_in_both_directions_where_rates_are_judged(
    kvm: bool, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []

    def loaded(_stage: Any, _setting: Any, turn: str, *_rest: Any) -> list[GuestRun]:
        order.append(papers.TURNS[turn])
        return [guest_run(200.0 if turn.endswith("again") else 100.0)]

    monkeypatch.setattr(papers, "hypervisor", lambda _: SimpleNamespace(parts=SimpleNamespace(kvm=kvm)))
    monkeypatch.setattr(papers, "guests_of", lambda *_: nullcontext([None]))
    monkeypatch.setattr(papers, "at_rest", lambda _: [0.0])
    monkeypatch.setattr(papers, "loaded", loaded)
    received = count(start=1_000_000.0, step=WRITTEN_BYTES * 1.05)
    monkeypatch.setattr(papers, "received_bytes", lambda *_: next(received))
    recorder = new_recorder()
    stage = SimpleNamespace(cluster=None, recorder=recorder)
    points = papers.measured(cast("Stage", stage), papers.VM[0], [(1, 1, 1)])
    assert " ".join(order) == wanted
    shares = [event.data["value"] for event in recorder.events() if "bytes to the cluster" in str(event.data)]
    assert shares == pytest.approx([1.05] * len(order)), "each run counts only what reached the cluster during it"
    means = {claims.rate_of(places[1]).mean for places in points.values()}
    assert means == {150.0 if kvm else 100.0}


def test_the_sequential_settings_run_in_several_guests_too() -> None:
    names = {scenario.name for scenario in SCENARIOS}
    for pattern in ("read", "write", "randread", "randwrite"):
        assert {f"hci.multi-vm-linux[op={pattern},size={size}]" for size in ("4K", "4M")} <= names


def test_a_ratio_of_two_rates_takes_both_at_their_worst() -> None:
    ratio = ratio_of(rate(200), rate(100))
    assert (ratio.mean, ratio.low, ratio.high) == pytest.approx((2.0, 190 / 105, 210 / 95))
    assert ratio_of(rate(1), Interval(1.0, -1.0, 3.0, 2)).high == float("inf")
