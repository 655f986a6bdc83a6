"""A scenario for each requirement: the prediction with its interval, and where it falls short what is enough."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from cephlab.fixtures.expectation import demands_for
from cephlab.lab.base.home import Home
from cephlab.lab.checks.verdict import Outcome, Verdict, merge
from cephlab.lab.history.history import Basis, Bound
from cephlab.lab.report.wanted import record_requirement
from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.scenario.topology import NOWHERE
from cephlab.lab.telemetry.demand import Demand
from cephlab.suites.block.stand import MeasuredTopology
from cephlab.suites.profile.measured import FioLoad, Measured, load_of, measure
from cephlab.tuning.enough import KINDS_OF, Enough, enough
from cephlab.tuning.held import Answer, Trust, held, trust_in
from cephlab.tuning.profile import Profile
from cephlab.tuning.profilefile import Hardware, find_profile
from cephlab.tuning.requirements import LoadRequirement, Requirement, words_of


@dataclass(frozen=True)
class Wanted:
    """One requirement of a profile. home: where the run's demands and profiles are."""

    requirement: Requirement
    profile: Profile
    home: Home

    def held_on(self, profile: Profile, demands: Sequence[Demand], trust: Trust) -> tuple[Answer, ...]:
        return held(self.requirement, profile, demands, trust)

    def find(self, name: str) -> Profile:
        return find_profile(name, self.home.profiles)


def scenarios_of(hardware: Hardware, home: Home, *, attached: bool = False) -> list[Scenario]:
    """One for each requirement. attached: whether the machines are there, so that loads can be measured."""
    wanted = [Wanted(requirement, hardware.profile, home) for requirement in hardware.requirements]
    return [
        _there(each) if attached and not isinstance(load_of(each.requirement), str) else _paper(each) for each in wanted
    ]


def _there(wanted: Wanted) -> Scenario:
    return replace(
        _paper(wanted),
        method="Runs it with fio from all client machines at once. What is measured decides, beside the prediction.",
        run=partial(compared, wanted=wanted),
        topology=MeasuredTopology(native=1, machines=1, anywhere=True),
    )


def _paper(wanted: Wanted) -> Scenario:
    return Scenario(
        name=f"profile.{wanted.requirement.name}",
        goal=f"{wanted.profile.name} does what is wanted of it: {words_of(wanted.requirement)}.",
        method="Predicts it from measured costs and the profile's figures, with the interval of the model's error.",
        run=partial(predicted, wanted=wanted),
        check="figures",
        topology=NOWHERE,
    )


def compared(stage: Stage, wanted: Wanted) -> None:
    """Measure the load; note each limit beside what was measured, and beside that what is predicted."""
    requirement, load = wanted.requirement, load_of(wanted.requirement)
    assert isinstance(requirement, LoadRequirement)
    assert isinstance(load, FioLoad)
    demands, origin = demands_for(stage.recorder.history.events(), wanted.home)
    answers = wanted.held_on(wanted.profile, demands, trust_in(demands, wanted.find))
    note_measured(stage, wanted, answers, measure(stage, requirement, load, wanted.profile), origin)


def note_measured(stage: Stage, wanted: Wanted, answers: Sequence[Answer], done: Measured, demands: str) -> None:
    """Judge what was measured; the prediction stands beside it."""
    rows = []
    requirement = wanted.requirement
    assert isinstance(requirement, LoadRequirement)
    for answer in answers:
        shown = done.of(answer.metric, answer.kind, requirement)
        figure_of(stage, replace(answer, least=None, most=None), "predicted; what was measured decides")
        if shown is None:
            stage.recorder.witness(f"{answer.metric} as measured", got=0, least=1)
            rows.append((answer.metric, answer.required, answer.predicted, "", answer.limited_by))
            continue
        bound = Bound(f"predicted limit: {answer.limited_by}", answer.least, answer.most, basis=Basis.PROFILE)
        interval = (shown.low, shown.high)
        name = f"measured {answer.metric}".partition(" (")[0]
        stage.recorder.figure(name, shown.mean, answer.kind.value, bound, interval=interval)
        seen = replace(answer, value=shown.mean, low=shown.low, high=shown.high)
        rows.append((answer.metric, answer.required, answer.predicted, seen.predicted, answer.limited_by))
    what, profile = words_of(requirement), wanted.profile.name
    record_requirement(stage.recorder, what=what, profile=profile, demands=demands, rows=rows, enough=[])


def predicted(stage: Stage, wanted: Wanted) -> None:
    """Note each limit beside its prediction, and what would be enough where one is not surely kept."""
    demands, origin = demands_for(stage.recorder.history.events(), wanted.home)
    trust = trust_in(demands, wanted.find)
    answers = wanted.held_on(wanted.profile, demands, trust)
    changes = enough_for(wanted, demands, trust) if outcome_of(answers) is not Outcome.PASS else []
    for answer in answers:
        stage.recorder.witness(f"steps that lead to {answer.metric}", got=len(answer.steps), least=1)
        figure_of(stage, answer, why(answer, changes))
    record_requirement(
        stage.recorder,
        what=words_of(wanted.requirement),
        profile=wanted.profile.name,
        demands=origin,
        rows=[(answer.metric, answer.required, answer.predicted, "", answer.limited_by) for answer in answers],
        enough=[str(change) for change in changes],
    )


def outcome_of(answers: Sequence[Answer]) -> Outcome:
    """Of all limits together."""
    return merge(Verdict(answer.outcome, answer.metric) for answer in answers).outcome


def enough_for(wanted: Wanted, demands: Sequence[Demand], trust: Trust) -> list[Enough]:
    """The least change of each kind that makes every limit surely kept."""

    def judged(profile: Profile) -> tuple[bool, str]:
        answers = wanted.held_on(profile, demands, trust)
        worst = min(answers, key=lambda answer: answer.outcome is Outcome.PASS)
        return outcome_of(answers) is Outcome.PASS, worst.limited_by

    return list(enough(wanted.profile, judged, KINDS_OF[wanted.requirement.kind]))


def why(answer: Answer, changes: Sequence[Enough]) -> str:
    """What limits it; and what would be enough."""
    said = f"limited by {answer.limited_by}"
    if not changes or answer.outcome is Outcome.PASS:
        return said
    met = [str(change) for change in changes if change.met]
    return f"{said}; enough: {'; or '.join(met)}" if met else f"{said}; no change alone is enough: {changes[0]}"


def figure_of(stage: Stage, answer: Answer, reason: str) -> None:
    """The prediction as a figure that its limit judges."""
    bound = Bound(reason, answer.least, answer.most, answer.steps, basis=Basis.PROFILE)
    interval = (answer.low, answer.high)
    stage.recorder.figure(f"predicted {answer.metric}", answer.value, answer.kind.value, bound, interval=interval)
