"""How a scenario ends: what it saw wrong outranks what it lacks afterwards, and it speaks for itself alone."""

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from cephlab.lab.archive.archive import Ending, judged
from cephlab.lab.base.clock import TimeLimit, look_on
from cephlab.lab.base.errors import CephTrouble, LabBroken, LabError, NotReached, SpecError, Unavailable
from cephlab.lab.ceph.daemon import Wanted
from cephlab.lab.checks import CHECKS, Outcome, Verdict
from cephlab.lab.cluster import watch as watch_module
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import History, data_of
from cephlab.lab.scenario.scenario import (
    Blame,
    Scenario,
    Stage,
    Tier,
    record_raised,
    record_unseen,
    run_scenario,
    seeded,
    verdict_of,
)
from cephlab.lab.scenario.topology import ANY_ARCH, NOWHERE, PLAIN, Topology


def stage() -> Stage:
    """A stage with a cluster of one daemon."""
    daemon = SimpleNamespace(name="osd.0", wanted=Wanted.RUNNING, process=SimpleNamespace(pid=1), alive=lambda: True)
    cluster = cast("Cluster", SimpleNamespace(name="c1", daemons={"osd.0": daemon}))
    return Stage(cluster, History().recorder("demo.topic"), random.Random(1), Path())


def scenario(run: Callable[[Stage], None]) -> Scenario:
    return Scenario("demo.topic", "A goal.", "A method.", run)


def sees(size: int, then: LabError) -> Callable[[Stage], None]:
    def run(stage: Stage) -> None:
        stage.recorder.observe("size", got=size, wanted=1)
        raise then

    return run


LACK = Unavailable("there is no KVM", "", "run it elsewhere")


def test_something_wrong_and_then_a_lack_is_a_failure() -> None:
    on = stage()
    verdict = run_scenario(scenario(sees(2, LACK)), on)
    assert (verdict.outcome, verdict.reason) == (Outcome.FAIL, "size: got 2, wanted 1")
    assert judged(on.recorder.events()) == (Ending.FAIL, verdict)


@pytest.mark.parametrize("topology", [PLAIN, ANY_ARCH])
def test_what_it_is_and_whether_it_needs_mixed_architectures_is_recorded(topology: Topology) -> None:
    on = stage()
    with pytest.raises(Unavailable):
        run_scenario(replace(scenario(sees(1, LACK)), topology=topology, sees=("more",)), on)
    [began] = data_of(on.recorder.events(), "began")
    assert began == {
        "cluster": "c1",
        "any_arch": topology.any_arch,
        "goal": "A goal.",
        "check": "observations",
        "sees": ["more"],
    }


def test_a_scenario_that_says_no_more_is_plain_and_quick() -> None:
    plain, on = scenario(low), stage()
    assert (plain.tier, plain.topology, plain.needs, plain.spoils) == (Tier.QUICK, PLAIN, frozenset(), False)
    assert (plain.only_releases, plain.expects, plain.sees) == ({}, {}, ())
    assert (plain.lasts_s, plain.asked, plain.memory_bytes, plain.suite) == (None, None, 0, "demo")
    assert replace(plain, name="demo.topic[share=0.5]").suite == "demo"
    assert (on.tier, on.profile, on.changes, on.limit, on.earlier) == (Tier.QUICK, "", (), None, ())
    assert [Tier("quick"), Tier("full")] == [*Tier]


def test_an_error_of_the_lab_is_told_with_its_kind_and_detail_once() -> None:
    recorder = History().recorder("demo.topic")
    for what in ("the disk is full", "the disk is full", "the disk is slow"):
        record_raised(recorder, LabBroken(what, "0 bytes free"), Blame.LAB, what)
    record_raised(recorder, ZeroDivisionError("x"), Blame.LAB, "a mistake")
    record_unseen(recorder, Unavailable("no way in", "timed out"))
    full = {"error": "LabBroken", "blame": "lab", "what": "the disk is full", "detail": "0 bytes free"}
    assert [(event.kind, dict(event.data)) for event in recorder.events()] == [
        ("raised", full),
        ("raised", {**full, "what": "the disk is slow"}),
        ("raised", {"error": "ZeroDivisionError", "blame": "lab", "what": "a mistake", "detail": ""}),
        ("unseen", {"error": "Unavailable", "blame": "lack", "what": "no way in", "detail": "timed out"}),
    ]


def test_what_must_be_recorded_and_was_not_is_no_pass() -> None:
    def run(stage: Stage) -> None:
        stage.recorder.observe("size", got=len("1"), wanted=1)

    verdict = run_scenario(replace(scenario(run), sees=("more", "less")), stage())
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.reason == "it ended without recording what it must: nothing matches 'more'"
    assert verdict.derivation == ("nothing matches 'more'", "nothing matches 'less'")


def test_a_check_that_there_is_not_decides_nothing() -> None:
    verdict = run_scenario(replace(scenario(low), check="taste"), stage())
    assert (verdict.outcome, verdict.reason) == (Outcome.INCONCLUSIVE, "there is no check called 'taste'")


def test_the_random_source_of_a_scenario_is_its_own() -> None:
    drawn = [seeded(seed, name).random() for seed in (1, 2) for name in ("demo.a", "demo.b")]
    assert len(set(drawn)) == 4
    assert seeded(1, "demo.a").random() == drawn[0]


def test_a_lack_after_something_right_is_a_skip() -> None:
    on = stage()
    with pytest.raises(Unavailable):
        run_scenario(scenario(sees(1, LACK)), on)
    assert judged(on.recorder.events())[0] is Ending.SKIP


def test_trouble_of_the_lab_is_no_failure_of_ceph_whatever_was_seen_in_it() -> None:
    on = stage()
    with pytest.raises(LabBroken):
        run_scenario(scenario(sees(2, LabBroken("the disk is full"))), on)
    assert judged(on.recorder.events())[0] is Ending.ERROR


def speaks_for_another(stage: Stage) -> None:
    stage.recorder.history.recorder("demo.other").observe("size", got=len("x"), wanted=1)


def test_a_scenario_does_not_speak_for_another_one() -> None:
    with pytest.raises(SpecError, match="another scenario"):
        run_scenario(scenario(speaks_for_another), stage())


def low(stage: Stage) -> None:
    """Sees what it must, of a load that was not there."""
    stage.recorder.observe("size", got=len("1"), wanted=1)
    stage.recorder.witness("writes", got=0, least=1)


def test_a_witness_is_read_whatever_the_check() -> None:
    for check in CHECKS:
        verdict = run_scenario(replace(scenario(low), check=check), stage())
        assert verdict.outcome is not Outcome.PASS, check
    reason = "the load or the fault was not real: writes: 0, at least 1 wanted"
    assert run_scenario(scenario(low), stage()).reason == reason


def test_a_scenario_without_a_cluster_is_judged_and_cannot_touch_one() -> None:
    def looks(on: Stage) -> None:
        on.recorder.observe("hosts", got=len(on.cluster.hosts), wanted=1)

    def knows(on: Stage) -> None:
        on.recorder.observe("size", got=len("1"), wanted=1)

    def nowhere() -> Stage:
        return Stage(None, History().recorder("demo.topic"), random.Random(1), Path())

    on = nowhere()
    assert run_scenario(replace(scenario(knows), topology=NOWHERE), on).outcome is Outcome.PASS
    [began] = data_of(on.recorder.events(), "began")
    assert began["cluster"] == ""
    with pytest.raises(SpecError, match="another scenario"):
        run_scenario(replace(scenario(speaks_for_another), topology=NOWHERE), nowhere())
    with pytest.raises(SpecError, match="has no cluster"):
        run_scenario(replace(scenario(looks), topology=NOWHERE), nowhere())


# What is seen of its cluster while it runs


LATE = TimeLimit("demo.topic", -1.0, "three times its longest pass")


@pytest.fixture
def looks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_module, "LOOK_S", 0.0)


def waits(_stage: Stage) -> None:
    look_on(0.0)


def waits_elsewhere(_stage: Stage) -> None:
    """What the wait of another thread finds is dropped there, and this thread does not wait at all."""
    with ThreadPoolExecutor() as threads:
        threads.submit(look_on, 0.0).exception()


@pytest.mark.parametrize("run", [waits, waits_elsewhere])
@pytest.mark.usefixtures("looks_at_once")
def test_a_scenario_that_takes_longer_than_its_limit_fails(run: Callable[[Stage], None]) -> None:
    on = replace(stage(), limit=LATE)
    with pytest.raises(CephTrouble, match=r"demo\.topic has taken"):
        run_scenario(scenario(run), on)
    assert judged(on.recorder.events())[0] is Ending.FAIL
    on = stage()
    run_scenario(scenario(run), on)
    assert [event.kind for event in on.recorder.events()] == ["began", "ended"]


def test_a_wait_that_timed_out_beside_a_stopped_daemon_is_put_down_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_stage: Stage) -> None:
        raise NotReached("a healthy cluster", 60.0, "HEALTH_WARN")

    for held, what in ((False, "a healthy cluster was not reached within 60.0 s"), (True, "osd.0 is stopped")):
        monkeypatch.setattr(watch_module, "stopped", lambda _daemon, held=held: held)
        on = stage()
        with pytest.raises(CephTrouble, match=what) as ended:
            run_scenario(scenario(run), on)
        assert ended.value.__suppress_context__ is held
        assert isinstance(ended.value.__cause__, NotReached) is held
        [raised] = data_of(on.recorder.events(), "raised")
        assert raised["error"] == type(ended.value).__name__
        assert raised["what"] == ended.value.what
        assert "HEALTH_WARN" in raised["detail"]


# What its events say


def told(*more: tuple[str, dict[str, object]], check: str = "observations") -> Verdict:
    """The verdict on a scenario that began, and then on these events."""
    recorder = History().recorder("demo.topic")
    recorder.record("began", check=check)
    for kind, data in more:
        recorder.record(kind, **data)
    return verdict_of(recorder.events())


def ended_by(blame: str) -> tuple[str, dict[str, object]]:
    return "raised", {"error": "LabError", "blame": blame, "what": "no answer", "detail": "asked\ntwice"}


RIGHT: tuple[str, dict[str, object]] = ("observation", {"what": "size", "got": 1, "wanted": 1})
WRONG: tuple[str, dict[str, object]] = ("observation", {"what": "size", "got": 2, "wanted": 1})
ENDED: tuple[str, dict[str, object]] = ("ended", {})
CRASHED: tuple[str, dict[str, object]] = (
    "aftermath",
    {"crashes": ["osd.0: assert"], "dead": [], "complaints": [], "health": "HEALTH_OK", "healthy": True},
)


@pytest.mark.parametrize(
    ("blame", "outcome", "reason"),
    [
        ("ceph", Outcome.FAIL, "no answer"),
        ("lab", Outcome.INCONCLUSIVE, "the lab broke: no answer"),
        ("lack", Outcome.INCONCLUSIVE, "no answer"),
        ("interruption", Outcome.INCONCLUSIVE, "no answer"),
    ],
)
def test_what_ended_it_decides(blame: str, outcome: Outcome, reason: str) -> None:
    assert told(RIGHT, ended_by(blame)) == Verdict(outcome, reason, ("asked", "twice"))


@pytest.mark.parametrize("blame", ["lack", "interruption"])
def test_what_it_saw_wrong_outranks_that_it_was_ended(blame: str) -> None:
    assert told(WRONG, ended_by(blame)).reason == "size: got 2, wanted 1"


def test_what_it_left_behind_counts_if_neither_the_lab_nor_the_user_ended_it() -> None:
    crashed = "afterwards: crash record: osd.0: assert"
    assert told(RIGHT, ENDED).outcome is Outcome.PASS
    assert (told(RIGHT, ENDED, CRASHED).outcome, told(RIGHT, ENDED, CRASHED).reason) == (Outcome.FAIL, crashed)
    both = told(RIGHT, ended_by("ceph"), CRASHED)
    assert "no answer" in both.reason
    assert "crash record: osd.0: assert" in both.derivation
    for blame in ("lab", "lack", "interruption"):
        assert told(RIGHT, ended_by(blame), CRASHED) == told(RIGHT, ended_by(blame))


def test_what_did_not_end_is_inconclusive() -> None:
    assert verdict_of(()) == Verdict(Outcome.INCONCLUSIVE, "it never started")
    assert told(RIGHT) == Verdict(Outcome.INCONCLUSIVE, "it was interrupted")


def test_a_witness_that_was_there_does_not_outrank_its_check(monkeypatch: pytest.MonkeyPatch) -> None:
    bitter = Verdict(Outcome.FAIL, "it is bitter")
    monkeypatch.setattr("cephlab.lab.scenario.scenario.CHECKS", {"taste": lambda _events: bitter})
    verdict = told(("witness", {"what": "bites", "got": 2, "least": 1}), ENDED, check="taste")
    assert (verdict.outcome, verdict.reason) == (Outcome.FAIL, "it is bitter")
