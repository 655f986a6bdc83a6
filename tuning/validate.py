"""Validation: compares predictions with figures that others published, and says on what assumptions each rests."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import median
from typing import Any

from cephlab.lab.base.errors import SpecError
from cephlab.lab.telemetry.demand import Demand
from cephlab.tuning.daemons import SMT_GAIN
from cephlab.tuning.demandsets import of_release
from cephlab.tuning.model import Prediction, predict
from cephlab.tuning.profile import MachineClass, Profile, scaled
from cephlab.tuning.recovery import Recovery, recovery_time
from cephlab.tuning.references import FigureKind, Publication, Published, Rebuild
from cephlab.tuning.trust import Trust
from cephlab.tuning.workload import Shape

TARGET_ERROR = 1.35
"""The model's promise: the rates of the median test bed are off by less than this factor on average ..."""
TARGET_WORST = 2.0
"""... and those of no test bed by more than this factor, in either direction."""


@dataclass(frozen=True)
class Comparison:
    """One figure. predicted: in the figure's unit, None where the model cannot predict it; why: the reason for None.

    rests: assumptions that matter to the prediction, with its value without them, also in the figure's unit; empty
    unless `validate` was asked for them.
    """

    reference: str
    figure: Published
    predicted: float | None
    limit: str
    why: str
    rests: tuple[Rest, ...] = ()
    trust: Trust | None = None
    """How far a rate or a latency is trusted; None for other figures."""

    @property
    def interval(self) -> tuple[float, float] | None:
        """(low, high) of the prediction, in the figure's unit; None where none was learned."""
        return self.trust.around(self.predicted) if self.trust and self.predicted is not None else None

    @property
    def ratio(self) -> float | None:
        return None if self.predicted is None else self.predicted / self.figure.value


@dataclass(frozen=True)
class Validation:
    """All figures of all references."""

    comparisons: tuple[Comparison, ...]

    @property
    def rates(self) -> list[Comparison]:
        """Comparisons of rates that have a prediction."""
        return [rate for rate in self.comparisons if rate.ratio is not None and rate.figure.kind.is_rate]

    @property
    def error(self) -> float | None:
        """Geometric mean of how far rates are off, as a factor of 1 or more; None when there are none."""
        return geometric_error([rate.ratio for rate in self.rates if rate.ratio])

    @property
    def error_without_assumptions(self) -> float | None:
        """As `error`, for predictions that rest on no assumption."""
        return geometric_error([rate.ratio for rate in self.rates if rate.ratio and not rate.rests])

    @property
    def met(self) -> bool | None:
        """Whether median and worst of the test beds are within the target; None where nothing could be predicted."""
        errors = list(self.by_bed.values())
        if not errors:
            return None
        return median(errors) < TARGET_ERROR and max(errors) <= TARGET_WORST

    @property
    def by_bed(self) -> dict[str, float]:
        """Test bed (a publication) -> the error of its rates."""
        ratios: dict[str, list[float]] = {}
        for rate in self.rates:
            ratios.setdefault(rate.reference, []).append(rate.ratio or 1.0)
        return {bed: geometric_error(known) or 1.0 for bed, known in ratios.items()}

    @property
    def worst(self) -> float | None:
        """The largest factor by which a rate is off."""
        return max((max(rate.ratio, 1 / rate.ratio) for rate in self.rates if rate.ratio), default=None)


def geometric_error(ratios: Sequence[float]) -> float | None:
    """exp of the mean of |log ratio|: 1.25 means that predictions are off by a quarter, in either direction."""
    if not ratios:
        return None
    return math.exp(sum(abs(math.log(ratio)) for ratio in ratios) / len(ratios))


def validate(
    demands: Sequence[Demand],
    references: Sequence[Publication],
    profile_of: Callable[[str], Profile],
    *,
    sensitivity: bool = False,
) -> Validation:
    """Compare every figure. Each publication is predicted with demands of the release nearest to its own.

    profile_of: a profile by name; sensitivity: also say what each rate rests on.
    """
    comparisons: list[Comparison] = []
    known = cache(profile_of)
    for reference in references:
        for figure in reference.figures:
            release = figure.release or reference.release
            theirs = of_release(demands, release)
            profile = known(figure.profile or reference.profile)
            profile = figure.on.of(profile) if figure.on else profile
            comparison = _compare(theirs, reference.name, profile, figure, release)
            comparisons.append(_resting(theirs, profile, comparison, release) if sensitivity else comparison)
    return Validation(tuple(comparisons))


def _resting(demands: Sequence[Demand], profile: Profile, comparison: Comparison, release: str) -> Comparison:
    """The comparison of a rate with what it rests on."""
    shape = comparison.figure.shape
    if not comparison.figure.kind.is_rate or comparison.predicted is None or shape is None:
        return comparison
    unit = (shape.block_bytes if comparison.figure.kind is FigureKind.BANDWIDTH else 1.0) / comparison.figure.scale
    carrying = rests(demands, profile, comparison.figure, comparison.predicted / unit, release)
    scaled = tuple(Rest(rest.what, tuple((word, ops * unit) for word, ops in rest.otherwise)) for rest in carrying)
    return replace(comparison, rests=scaled)


def _compare(demands: Sequence[Demand], name: str, profile: Profile, figure: Published, release: str) -> Comparison:
    if figure.recovery is not None:
        again = rebuilt(profile, figure.recovery)
        return Comparison(name, figure, again.seconds / figure.scale, again.limit, "")
    if figure.shape is None:
        return Comparison(name, figure, None, "", figure.beyond)
    try:
        prediction = predict(demands, profile, figure.shape, release=release)
    except SpecError as error:
        return Comparison(name, figure, None, "", f"{error.what}: {error.detail}")
    trust = None if figure.kind is FigureKind.CPU else prediction.trust
    return Comparison(name, figure, predicted_value(prediction, figure), prediction.bottleneck, "", trust=trust)


def rebuilt(profile: Profile, lost: Rebuild) -> Recovery:
    """The prediction for a published recovery, on the machines of its profile."""
    return recovery_time(profile, lost.data_bytes, nodes_lost=lost.nodes_lost, nodes=lost.nodes, share=lost.share)


def predicted_value(prediction: Prediction, figure: Published) -> float:
    """The prediction in the figure's own unit."""
    return _value(prediction, figure) / figure.scale


def _value(prediction: Prediction, figure: Published) -> float:
    if figure.kind is FigureKind.BANDWIDTH:
        return prediction.bytes_s
    if figure.kind is FigureKind.LATENCY:
        return prediction.latency_s
    if figure.kind is FigureKind.ALONE:
        return prediction.unloaded_s
    if figure.kind is FigureKind.CPU:
        nodes = [name for name in prediction.utilisation if name.endswith(": CPU") and "clients" not in name]
        return max(prediction.utilisation[name] for name in nodes)
    return prediction.ops


MATTERS = 0.10
"""A prediction rests on an assumption when an alternative changes the prediction by more than this share."""

HARDWARE = 2.0
"""An assumed hardware figure is tried at half and at double: classes of disks and links differ by that much."""

LOAD = 4.0
"""A number of workers that the source does not state is tried at a quarter and at four times, as even its order of
magnitude is unknown."""

SMT_GAINS = (1.0, 1.5)
"""A lone thread's speed is derived from its core's. The gain of a second thread is tried as 0 and as 0.5."""


@dataclass(frozen=True)
class Rest:
    """what: the assumption with its value; otherwise: (alternative, operations a second in place of the predicted)."""

    what: str
    otherwise: tuple[tuple[str, float], ...]


def rests(
    demands: Sequence[Demand], profile: Profile, figure: Published, ops: float, release: str = ""
) -> tuple[Rest, ...]:
    """What a predicted rate rests on; ops: that rate. Empty for a figure without a load."""
    shape = figure.shape
    if shape is None:
        return ()
    ways = [*_of_load(profile, shape, figure.assumed), *_of_hardware(profile, shape), *_of_threads(profile, shape)]
    tried = [Rest(what, tuple(_tried(demands, others, release))) for what, others in ways]
    return tuple(rest for rest in tried if any(abs(rate / ops - 1) > MATTERS for _, rate in rest.otherwise))


_Other = tuple[str, Profile, Shape]


def _of_hardware(profile: Profile, shape: Shape) -> Iterator[tuple[str, list[_Other]]]:
    for place, figure in profile.figures():
        if figure.assumed:
            ways = ((figure.times(by), scaled(profile, place, by)) for by in (1 / HARDWARE, HARDWARE))
            yield f"{place} of {figure}", [(str(other), changed, shape) for other, changed in ways]


def _of_threads(profile: Profile, shape: Shape) -> Iterator[tuple[str, list[_Other]]]:
    """The gain of a core's second thread. The speed of a thread alone on its core is derived from it."""
    for machine in (*profile.nodes, *profile.clients):
        if machine.threads_per_core > 1 and machine.thread_speed is None:
            ways = [(f"{gain:g}", _at_gain(profile, machine, gain), shape) for gain in SMT_GAINS]
            yield f"{machine.name}: a core's gain by its second thread of {SMT_GAIN:g}", ways


def _at_gain(profile: Profile, machine: MachineClass, gain: float) -> Profile:
    other = replace(machine, thread_speed=machine.core_speed.times(1 / gain))
    nodes, clients = (
        tuple(other if known is machine else known for known in all_) for all_ in (profile.nodes, profile.clients)
    )
    return replace(profile, nodes=nodes, clients=clients)


def _of_load(profile: Profile, shape: Shape, assumed: Sequence[str]) -> Iterator[tuple[str, list[_Other]]]:
    for key in assumed:
        value: Any = getattr(shape, key)
        changes: list[dict[str, Any]] = [{key: other} for other in _others(key, value)]
        yield f"{key} of {value:g}", [(f"{change[key]:g}", profile, replace(shape, **change)) for change in changes]


def _others(key: str, value: float) -> tuple[float, ...]:
    """Alternatives: reads across the whole disks, no reads from memory, else a quarter and four times the value."""
    if key in ("span", "hit_ratio"):
        return (1.0 if key == "span" else 0.0,)
    return max(1, int(value / LOAD)), int(value * LOAD)


def _tried(demands: Sequence[Demand], others: Sequence[_Other], release: str) -> Iterator[tuple[str, float]]:
    """The rate of each alternative that can be predicted."""
    for word, profile, shape in others:
        try:
            yield word, predict(demands, profile, shape, release=release).ops
        except SpecError:
            continue
