"""One scenario for each requirement: the prediction with its interval, and what would be enough if it falls short."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from cephlab.fixtures.expectation import demands_for
from cephlab.lab.base.home import Home
from cephlab.lab.checks.verdict import Outcome, Verdict, merge
from cephlab.lab.history.history import Basis, Bound
from cephlab.lab.report.wanted import Row, Shown, record_requirement
from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.scenario.topology import NOWHERE
from cephlab.lab.telemetry.demand import Demand
from cephlab.suites.block.stand import MeasuredTopology
from cephlab.suites.profile.measured import Measured, Seen
from cephlab.suites.profile.ways import Way, way_of
from cephlab.tuning.enough import Enough, enough, kinds_for
from cephlab.tuning.held import PERCENTILE, Answer, Trust, held, trust_in
from cephlab.tuning.profile import Profile
from cephlab.tuning.profilefile import Hardware, find_profile
from cephlab.tuning.requirements import Requirement, words_of


@dataclass(frozen=True)
class Known:
    """What predictions rest on. origin: where the demands come from."""

    demands: Sequence[Demand]
    trust: Trust
    origin: str


@dataclass(frozen=True)
class Wanted:
    """One requirement of a profile. home: where the run's demands and profiles are."""

    requirement: Requirement
    profile: Profile
    home: Home

    def held_on(self, profile: Profile, known: Known) -> tuple[Answer, ...]:
        return held(self.requirement, profile, known.demands, known.trust)

    def known_to(self, stage: Stage) -> Known:
        demands, origin = demands_for(stage.recorder.history.events(), self.home)
        return Known(demands, trust_in(demands, lambda name: find_profile(name, self.home.profiles)), origin)


def scenarios_of(hardware: Hardware, home: Home, *, attached: bool = False) -> list[Scenario]:
    """One for each requirement. attached: whether the machines exist and can be measured."""
    wanted = [Wanted(requirement, hardware.profile, home) for requirement in hardware.requirements]
    return [_there(each, way_of(each.requirement)) if attached else _paper(each) for each in wanted]


def _there(wanted: Wanted, way: Way | str) -> Scenario:
    if isinstance(way, str):
        return replace(_paper(wanted), run=partial(predicted, wanted=wanted, why_not=way))
    return replace(
        _paper(wanted),
        method=f"{way.method} Judges by the measurement; shows the prediction with it.",
        run=partial(compared, wanted=wanted, way=way),
        topology=MeasuredTopology(native=1, machines=1, anywhere=True),
    )


def _paper(wanted: Wanted) -> Scenario:
    return Scenario(
        name=f"profile.{wanted.requirement.name}",
        goal=f"{wanted.profile.name} meets this requirement: {words_of(wanted.requirement)}.",
        method="Predicts it from measured costs and the profile's figures, with the interval of the model's error.",
        run=partial(predicted, wanted=wanted),
        check="figures",
        topology=NOWHERE,
    )


def compared(stage: Stage, wanted: Wanted, way: Way) -> None:
    """Measure the requirement; record each limit with what was measured and what is predicted."""
    known = wanted.known_to(stage)
    measured = way.measure(stage, wanted.profile, known.trust)
    if isinstance(measured, str):
        predicted(stage, wanted, measured)
    else:
        note_measured(stage, wanted, measured, known)


def note_measured(stage: Stage, wanted: Wanted, measured: Measured | Seen, known: Known) -> None:
    """Judge by what was measured, and record the prediction with it."""
    requirement = wanted.requirement
    answers = wanted.held_on(wanted.profile, known)
    shown = {answer.metric: measured.of(answer.metric, answer.kind, requirement) for answer in answers}
    seen = {
        answer.metric: replace(answer, value=interval.mean, low=interval.low, high=interval.high)
        for answer in answers
        if (interval := shown[answer.metric]) is not None
    }
    changes, verdict_words = enough_measured(wanted, known, answers, seen)
    rows, measuring = [], list(measured.sentences)
    for answer in answers:
        figure_of(stage, replace(answer, least=None, most=None), "predicted; the measurement decides")
        limited_by, found_there = f"{answer.limited_by}, by the model", seen.get(answer.metric)
        if found_there is None:
            lack = f"{answer.metric} as measured: {measured.lack(answer.metric)}"
            stage.recorder.witness(lack, got=0, least=1)
            rows.append((answer.metric, answer.required, answer.predicted, "", limited_by))
            measuring.append(f"Not measured: {lack}.")
            continue
        reason = why(replace(found_there, limited_by=limited_by), changes)
        figure_of(stage, replace(found_there, steps=()), reason, "measured")
        rows.append((answer.metric, answer.required, answer.predicted, found_there.predicted, limited_by))
    _record(stage, wanted, rows, changes, known, ((*doubts_of(answers), *verdict_words), measuring))


RATIO = (
    "What would be enough is computed from the measurement, times the model's ratio of the changed machines to these; "
    "the error of such a ratio was never measured."
)


def enough_measured(
    wanted: Wanted, known: Known, answers: Sequence[Answer], seen: Mapping[str, Answer]
) -> tuple[list[Enough], list[str]]:
    """(changes, sentences): what would be enough where a measured limit is not kept, and what that rests on.

    No changes where the model cannot tell: for percentiles, and for machines that it does not fit.
    """
    short = [answer for answer in answers if (it := seen.get(answer.metric)) and it.outcome is not Outcome.PASS]
    kinds = kinds_for(wanted.requirement)
    if not short or not kinds:
        return [], []
    for answer in short:
        measured = seen[answer.metric]
        if answer.metric.startswith(PERCENTILE):
            return [], [f"What would be enough is not known for {answer.metric}: the model has means only."]
        if measured.low <= 0 or math.isinf(measured.high):
            return [], ["What would be enough is not known, as only one end of what was measured is known."]
        if not answer.low <= measured.value <= answer.high:
            off = f"{answer.metric} is predicted as {answer.predicted} but was measured as {measured.predicted}"
            return [], [f"What would be enough is not known, as the model does not fit these machines: {off}."]
    at_first = {answer.metric: answer.value for answer in answers}

    def judged(profile: Profile) -> tuple[bool, str]:
        answers_of = wanted.held_on(profile, known)
        scaled = [
            _times(replace(seen[each.metric], limited_by=each.limited_by), each.value / at_first[each.metric])
            for each in answers_of
            if each.metric in seen and not each.metric.startswith(PERCENTILE)
        ]
        return _kept(scaled)

    return list(enough(wanted.profile, judged, kinds)), [RATIO]


def _times(answer: Answer, factor: float) -> Answer:
    return replace(answer, value=answer.value * factor, low=answer.low * factor, high=answer.high * factor)


def _kept(answers: Sequence[Answer]) -> tuple[bool, str]:
    """Whether all limits are sure to be met, and what limits the first that is not."""
    worst = min(answers, key=lambda answer: answer.outcome is Outcome.PASS)
    return outcome_of(answers) is Outcome.PASS, worst.limited_by


def predicted(stage: Stage, wanted: Wanted, why_not: str = "") -> None:
    """Record each limit with its prediction, and what would be enough where one is not sure to be met.

    why_not: why existing machines were not measured.
    """
    known = wanted.known_to(stage)
    answers = wanted.held_on(wanted.profile, known)
    changes = enough_for(wanted, known) if outcome_of(answers) is not Outcome.PASS else []
    for answer in answers:
        stage.recorder.witness(f"steps that lead to {answer.metric}", got=len(answer.steps), least=1)
        figure_of(stage, answer, why(answer, changes))
    rows = [(answer.metric, answer.required, answer.predicted, "", answer.limited_by) for answer in answers]
    measuring = [f"Not measured, so the prediction decides: {why_not}."] if why_not else []
    _record(stage, wanted, rows, changes, known, (doubts_of(answers), measuring))


def _record(
    stage: Stage,
    wanted: Wanted,
    rows: Sequence[Row],
    changes: Sequence[Enough],
    known: Known,
    words: tuple[Sequence[str], Sequence[str]],
) -> None:
    """words: what the prediction leaves out, and what the measurement rests on or lacks."""
    enough_lines = [str(change) for change in changes]
    what, profile = words_of(wanted.requirement), wanted.profile.name
    record_requirement(stage.recorder, Shown(what, profile, rows, enough_lines, known.origin, *words))


def doubts_of(answers: Sequence[Answer]) -> tuple[str, ...]:
    """What the predictions leave out, each sentence once."""
    return tuple(dict.fromkeys(line for answer in answers for line in answer.doubts))


def outcome_of(answers: Sequence[Answer]) -> Outcome:
    """The outcome of all limits together."""
    return merge(Verdict(answer.outcome, answer.metric) for answer in answers).outcome


def enough_for(wanted: Wanted, known: Known) -> list[Enough]:
    """The least change of each kind with which every limit is sure to be met."""
    return list(
        enough(
            wanted.profile,
            lambda profile: _kept(wanted.held_on(profile, known)),
            kinds_for(wanted.requirement),
        )
    )


def why(answer: Answer, changes: Sequence[Enough]) -> str:
    """What limits the figure, and what would be enough."""
    limit = f"limited by {answer.limited_by}"
    if not changes or answer.outcome is Outcome.PASS:
        return limit
    sufficient = [str(change) for change in changes if change.met]
    return (
        f"{limit}; enough: {'; or '.join(sufficient)}"
        if sufficient
        else f"{limit}; no single change is enough: {changes[0]}"
    )


def figure_of(stage: Stage, answer: Answer, reason: str, by: str = "predicted") -> None:
    """Record a figure with its limit and what it leaves out. by: how it was found."""
    steps = (*answer.steps, *(f"not known: {line}" for line in answer.doubts if by == "predicted"))
    bound = Bound(reason, answer.least, answer.most, steps, basis=Basis.PROFILE)
    metric = answer.metric if by == "predicted" else answer.metric.partition(" (")[0]
    interval = (answer.low, answer.high)
    stage.recorder.figure(f"{by} {metric}", answer.value, answer.kind.value, bound, interval=interval)
