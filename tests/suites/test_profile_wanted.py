"""Scenarios of requirements by hand: what each one runs, every line that it records, and what it asks the model."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cephlab.lab.base.home import Home
from cephlab.lab.checks.verdict import Outcome
from cephlab.lab.history.history import Bound, Event, History
from cephlab.lab.report.wanted import Shown, record_requirement
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.scenario.topology import NOWHERE
from cephlab.lab.telemetry.demand import Interval
from cephlab.lab.telemetry.power import Energy, Scope, Source
from cephlab.suites.block.stand import MeasuredTopology
from cephlab.suites.profile import wanted as wanting
from cephlab.suites.profile.measured import Measured
from cephlab.suites.profile.wanted import (
    Known,
    Wanted,
    compared,
    doubts_of,
    figure_of,
    note_measured,
    outcome_of,
    predicted,
    scenarios_of,
    why,
)
from cephlab.suites.profile.ways import OBJECTS, Way
from cephlab.tuning.enough import Enough
from cephlab.tuning.held import Answer, Trust, held
from cephlab.tuning.profile import Profile
from cephlab.tuning.profilefile import Hardware
from cephlab.tuning.requirements import Requirement
from cephlab.tuning.units import Measure
from tests.model_parts import as_file, disks, machine, profile
from tests.tuning.test_answers import DEMANDS, load
from tests.tuning.test_answers_of_data import TRUST, cluster, lost, objects, room

HOME = Home(Path("/nonexistent"))
KNOWN = Known(DEMANDS, TRUST, "made up")
NODES, CORES = Enough("nodes", "n: 4 -> 5", "disks", met=True), Enough("cores", "n: 10 -> 20", "disks", met=False)
OPS = Answer("throughput", Measure.OPS, 100.0, 50.0, 200.0, "disks", least=80.0, steps=("how",), doubts=("so", "or so"))
MEAN = Answer("mean latency", Measure.TIME, 0.1, 0.05, 0.2, "network", most=0.3, steps=("how",), doubts=("or so",))
P99 = replace(MEAN, metric="99th percentile (predicted: the mean)", most=0.4)


def wanting_of(requirement: Requirement) -> Wanted:
    return Wanted(requirement, cluster(4), HOME)


PLAIN = load(at_least="80 ops/s")
ANY = wanting_of(PLAIN)
WORDS = str(PLAIN.shapes[0][1])


def stage_now() -> Stage:
    return Stage(None, History().recorder("profile.x"), Random(1), Path())


def told(stage: Stage) -> list[tuple[str, Mapping[str, Any]]]:
    return [(event.kind, event.data) for event in stage.recorder.events()]


def answers_are(monkeypatch: pytest.MonkeyPatch, *answers: Answer) -> None:
    """What the model says of ANY on its own profile, with what is KNOWN."""

    def held_on(wanted: Wanted, on: Profile, known: Known) -> tuple[Answer, ...]:
        assert (wanted, on, known) == (ANY, ANY.profile, KNOWN)
        return answers

    monkeypatch.setattr(Wanted, "held_on", held_on)


def known_here(monkeypatch: pytest.MonkeyPatch, here: Stage) -> None:
    def known_to(_wanted: Wanted, stage: Stage) -> Known:
        assert stage is here
        return KNOWN

    monkeypatch.setattr(Wanted, "known_to", known_to)


# What is known


def test_a_requirement_is_held_against_any_profile() -> None:
    wanted = wanting_of(load(at_least="80 ops/s"))
    assert wanted.held_on(cluster(3), KNOWN) == held(wanted.requirement, cluster(3), DEMANDS, TRUST)
    lost_one = wanting_of(lost())
    assert lost_one.held_on(cluster(5), KNOWN) == held(lost_one.requirement, cluster(5), DEMANDS, TRUST)


def test_what_is_known_comes_from_the_run_and_from_the_users_profiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, stage = Home(tmp_path), stage_now()
    home.profiles.mkdir()
    (home.profiles / "test.toml").write_text(as_file(profile(machine(count=7, disk=(disks(),)))))
    stage.recorder.record("x")

    def demands_for(events: Sequence[Event], where: Home) -> tuple[object, str]:
        assert (events, where) == (stage.recorder.events(), home)
        return DEMANDS, "made up"

    def trust_in(demands: object, find: Any) -> Trust:
        assert demands is DEMANDS
        assert find("test").node_count == 7
        return TRUST

    monkeypatch.setattr(wanting, "demands_for", demands_for)
    monkeypatch.setattr(wanting, "trust_in", trust_in)
    assert Wanted(lost(), cluster(4), home).known_to(stage) == KNOWN


# The scenarios


def hardware() -> Hardware:
    return Hardware(Path("/test.toml"), cluster(4), (load(at_least="1 ops/s"), objects(), room()))


def test_on_paper_each_requirement_is_a_scenario_of_its_own() -> None:
    scenarios = scenarios_of(hardware(), HOME)
    for scenario, requirement in zip(scenarios, hardware().requirements, strict=True):
        assert (scenario.name, scenario.check, scenario.topology) == ("profile.x", "figures", NOWHERE)
        assert isinstance(scenario.run, partial)
        assert scenario.run.func is predicted
        assert scenario.run.keywords == {"wanted": Wanted(requirement, cluster(4), HOME)}
    goal = "test meets this requirement: usable capacity at 50 % of the disks, replicated:3."
    assert scenarios[2].goal == goal


def test_where_the_machines_are_what_can_be_measured_is_compared() -> None:
    paper = scenarios_of(hardware(), HOME)
    fio, spilled, pgs = scenarios_of(hardware(), HOME, attached=True)
    for scenario, on_paper, method in ((fio, paper[0], "Runs the load with fio"), (pgs, paper[2], "Creates a pool")):
        assert (scenario.name, scenario.goal, scenario.check) == (on_paper.name, on_paper.goal, "figures")
        assert scenario.method.startswith(method)
        assert isinstance(scenario.topology, MeasuredTopology)
        topology = scenario.topology
        assert (topology.native, topology.machines, topology.anywhere) == (1, 1, True)
        assert isinstance(scenario.run, partial)
        assert scenario.run.func is compared
        way = scenario.run.keywords["way"]
        assert scenario.method.startswith(way.method)
        assert isinstance(on_paper.run, partial)
        assert scenario.run.keywords == {**on_paper.run.keywords, "way": way}
    assert isinstance(spilled.run, partial)
    assert isinstance(paper[1].run, partial)
    assert spilled.run.func is predicted
    assert spilled.run.keywords == {**paper[1].run.keywords, "why_not": OBJECTS}
    assert replace(spilled, run=paper[1].run) == paper[1]


@pytest.mark.parametrize("seen", ["nothing was seen", Measured(Interval(1, 1, 1, 1), Interval(1, 1, 1, 1), None)])
def test_what_was_seen_decides_and_what_was_not_is_predicted(monkeypatch: pytest.MonkeyPatch, seen: Any) -> None:
    stage, did = stage_now(), list[tuple[object, ...]]()
    known_here(monkeypatch, stage)

    def measure(*given: object) -> Any:
        assert given == (stage, ANY.profile, TRUST)
        return seen

    monkeypatch.setattr(wanting, "predicted", lambda *given: did.append(("predicted", *given)))
    monkeypatch.setattr(wanting, "note_measured", lambda *given: did.append(("measured", *given)))
    compared(stage, ANY, Way("Looks.", measure))
    assert did == [("predicted", stage, ANY, seen) if isinstance(seen, str) else ("measured", stage, ANY, seen, KNOWN)]


# What is recorded


def test_a_predicted_figure_has_its_limits_its_steps_and_its_doubts() -> None:
    stage = stage_now()
    figure_of(stage, replace(OPS, most=300.0), "so")
    figure_of(stage, replace(P99, steps=("first",)), "so", "measured")
    [(_, rate), (_, wait)] = told(stage)
    limits = ("least", "most", "why", "basis")
    assert [rate[key] for key in limits] == [80.0, 300.0, "so", "profile"]
    assert list(rate["derivation"]) == ["how", "not known: so", "not known: or so"]
    shown = ("metric", "value", "low", "high", "unit")
    assert [rate[key] for key in shown] == ["predicted throughput", 100.0, 50.0, 200.0, "ops/s"]
    assert [wait[key] for key in shown] == ["measured 99th percentile", 0.1, 0.05, 0.2, "s"]
    assert list(wait["derivation"]) == ["first"]
    figure_of(stage, P99, "so")
    assert told(stage)[-1][1]["metric"] == "predicted 99th percentile (predicted: the mean)"
    figure_of(stage, OPS, "so", "measured")
    assert told(stage)[-1][1]["metric"] == "measured throughput"


def expected_of(*figures: tuple[Answer, str, str], shown: Shown, witnesses: Mapping[int, tuple[str, int]]) -> Any:
    """What figures and the page of a requirement are recorded as; witnesses: before which figure, and what was got."""
    stage = stage_now()
    for number, (answer, reason, by) in enumerate(figures):
        if number in witnesses:
            stage.recorder.witness(witnesses[number][0], got=witnesses[number][1], least=1)
        figure_of(stage, answer, reason, by)
    record_requirement(stage.recorder, shown)
    return told(stage)


@pytest.mark.parametrize("why_not", [None, "the machines are elsewhere"])
def test_a_prediction_that_is_kept_needs_no_change(monkeypatch: pytest.MonkeyPatch, why_not: str | None) -> None:
    stage, kept = stage_now(), replace(OPS, least=50.0)
    known_here(monkeypatch, stage)
    answers_are(monkeypatch, kept, replace(MEAN, steps=()))
    monkeypatch.setattr(wanting, "enough_for", lambda *_: pytest.fail("nothing has to change"))
    predicted(stage, ANY, *([why_not] if why_not else []))
    rows = [
        ("throughput", "at least 50 ops/s", kept.predicted, "", "disks"),
        ("mean latency", "at most 300 ms", MEAN.predicted, "", "network"),
    ]
    measuring = ["Not measured, so the prediction decides: the machines are elsewhere."] if why_not else []
    page = Shown(WORDS, "test", rows, [], "made up", ["so", "or so"], measuring)
    assert told(stage) == expected_of(
        (kept, "limited by disks", "predicted"),
        (replace(MEAN, steps=()), "limited by network", "predicted"),
        shown=page,
        witnesses={0: ("steps that lead to throughput", 1), 1: ("steps that lead to mean latency", 0)},
    )


def test_a_prediction_that_falls_short_says_what_would_be_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = stage_now()
    known_here(monkeypatch, stage)
    answers_are(monkeypatch, OPS)

    def changes(*given: object) -> list[Enough]:
        assert given == (ANY, KNOWN)
        return [CORES, NODES]

    monkeypatch.setattr(wanting, "enough_for", changes)
    predicted(stage, ANY)
    rows = [("throughput", "at least 80 ops/s", OPS.predicted, "", "disks")]
    page = Shown(WORDS, "test", rows, [str(CORES), str(NODES)], "made up", ["so", "or so"], [])
    assert told(stage) == expected_of(
        (OPS, f"limited by disks; enough: {NODES}", "predicted"),
        shown=page,
        witnesses={0: ("steps that lead to throughput", 1)},
    )


def test_a_measurement_decides_and_what_it_lacks_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three limits the second was not measured; the first was, as blocks of 4 KiB, and is not kept."""
    stage, amount = stage_now(), replace(OPS, kind=Measure.RATE, least=500_000.0)
    work = replace(OPS, metric="work per watt", kind=Measure.WORK, least=0.1, most=5.0)
    answers_are(monkeypatch, amount, P99, work)
    rate, mean = Interval(100.0, 90.0, 110.0, 9), Interval(0.1, 0.1, 0.1, 9)
    plug = (Energy("a", Source.BMC, Scope.MACHINE, 60.0, 60.0 * 200),)
    done = Measured(rate, mean, None, plug, sentences=("By fio.",))
    of_work = done.of("work per watt", Measure.WORK, PLAIN)
    assert of_work is not None
    assert 0.3 < of_work.low < of_work.mean < of_work.high < 0.7
    seen = {
        "throughput": replace(amount, value=409_600.0, low=368_640.0, high=450_560.0),
        "work per watt": replace(work, value=of_work.mean, low=of_work.low, high=of_work.high),
    }

    def changes(*given: object) -> tuple[list[Enough], list[str]]:
        assert given == (ANY, KNOWN, (amount, P99, work), seen)
        return [NODES], ["by a ratio"]

    monkeypatch.setattr(wanting, "enough_measured", changes)
    note_measured(stage, ANY, done, KNOWN)
    lack = "99th percentile (predicted: the mean) as measured: none was reported"
    model, network = "disks, by the model", "network, by the model"
    rows = [
        ("throughput", amount.required, amount.predicted, seen["throughput"].predicted, model),
        (P99.metric, "at most 400 ms", P99.predicted, "", network),
        ("work per watt", work.required, work.predicted, seen["work per watt"].predicted, model),
    ]
    page = Shown(
        what=WORDS,
        profile="test",
        rows=rows,
        enough=[str(NODES)],
        demands="made up",
        doubts=["so", "or so", "by a ratio"],
        measuring=["By fio.", f"Not measured: {lack}."],
    )
    by_prediction = "predicted; the measurement decides"

    def unlimited(answer: Answer) -> Answer:
        return replace(answer, least=None, most=None)

    wanted = expected_of(
        (unlimited(amount), by_prediction, "predicted"),
        (replace(seen["throughput"], steps=()), f"limited by {model}; enough: {NODES}", "measured"),
        (unlimited(P99), by_prediction, "predicted"),
        (unlimited(work), by_prediction, "predicted"),
        (replace(seen["work per watt"], steps=()), f"limited by {model}", "measured"),
        shown=page,
        witnesses={3: (lack, 0)},
    )
    assert told(stage) == wanted


def test_reasons_name_what_is_enough_or_the_first_that_is_not() -> None:
    assert why(OPS, []) == "limited by disks"
    assert why(replace(OPS, least=50.0), [NODES]) == "limited by disks"
    assert why(OPS, [CORES, NODES, NODES]) == f"limited by disks; enough: {NODES}; or {NODES}"
    assert why(OPS, [CORES]) == f"limited by disks; no single change is enough: {CORES}"


def test_sentences_are_said_once_and_the_worst_limit_counts() -> None:
    assert doubts_of([OPS, MEAN]) == ("so", "or so")
    assert outcome_of([MEAN]) is Outcome.PASS
    assert outcome_of([MEAN, OPS]) is Outcome.INCONCLUSIVE
    assert outcome_of([OPS, MEAN, replace(MEAN, most=0.01)]) is Outcome.FAIL


def test_a_bound_of_a_figure_is_the_profiles() -> None:
    stage = stage_now()
    figure_of(stage, OPS, "so")
    other = stage_now()
    bound = Bound("so", 80.0, None, ("how", "not known: so", "not known: or so"))
    other.recorder.figure("predicted throughput", 100.0, "ops/s", bound, interval=(50.0, 200.0))
    [(_, plain)] = told(other)
    [(_, of_profile)] = told(stage)
    assert of_profile == {**plain, "basis": "profile"}
