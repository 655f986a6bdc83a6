"""The fit of the free constants to all publications, and the error of each test bed when it is left out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import permutations
from statistics import median
from typing import Any

import numpy
from scipy import optimize

from cephlab.lab.telemetry.demand import Demand
from cephlab.tuning.constants import Constants, log_distance, priors
from cephlab.tuning.demandsets import of_release
from cephlab.tuning.model import predict
from cephlab.tuning.profile import Profile
from cephlab.tuning.references import FigureKind, Publication, Published
from cephlab.tuning.trust import LoadKind, Miss, Range, coverage, kind_of, outside_of
from cephlab.tuning.validate import predicted_value
from cephlab.tuning.workload import Shape

SCALE = 0.25
"""Log error beyond which the loss grows with the error and no longer with its square (scipy's soft_l1)."""

BED_WEIGHT = 6.0
"""Every test bed counts as this many independent figures, as all figures of a bed share its hardware and setup."""

_STEP = 0.02
_ENOUGH = 1e-4
_ROUNDS = 25


@dataclass(frozen=True)
class Case:
    """A published figure and the cluster on which it was measured."""

    bed: str
    figure: Published
    profile: Profile
    demands: tuple[Demand, ...]
    release: str

    @property
    def shape(self) -> Shape:
        assert self.figure.shape is not None
        return self.figure.shape

    @property
    def kind(self) -> LoadKind:
        return kind_of(self.shape)

    def differs_only_in_load(self, other: Case) -> bool:
        """Whether the ratio of the two rates is the effect of how much is in flight, as far as the publication says."""
        one_operation = [replace(case.shape, clients=1, depth=1) for case in (self, other)]
        same_machines = (self.bed, self.profile, self.release) == (other.bed, other.profile, other.release)
        return same_machines and one_operation[0] == one_operation[1] and self.shape.in_flight != other.shape.in_flight

    def ratio(self, constants: Constants) -> float:
        """Predicted over published rate; for a latency the inverse."""
        prediction = predict(self.demands, self.profile, self.shape, constants, release=self.release)
        ratio = predicted_value(prediction, self.figure) / self.figure.value
        return ratio if self.figure.kind.is_rate else 1 / ratio


def cases(
    demands: Sequence[Demand], references: Sequence[Publication], profile_of: Callable[[str], Profile]
) -> tuple[Case, ...]:
    """Every rate that the model can predict, and the latencies of loads for which no rate was published."""
    fitted = []
    for reference in references:
        rates = {figure.shape for figure in reference.figures if figure.kind.is_rate}
        for figure in reference.figures:
            alone = figure.kind is FigureKind.LATENCY and figure.shape not in rates
            if figure.shape and (figure.kind.is_rate or alone):
                profile = profile_of(figure.profile or reference.profile)
                release = figure.release or reference.release
                hardware = figure.on.of(profile) if figure.on else profile
                fitted.append(Case(reference.name, figure, hardware, of_release(demands, release), release))
    return tuple(fitted)


def fit(figures: Sequence[Case], start: Constants | None = None) -> Constants:
    """The constants that describe the figures best: least log errors, with a robust loss and the priors as penalties.

    Each test bed weighs the same. start: the constants to begin with; None: the priors.
    """
    free = {name: prior for name, prior in priors().items() if prior.spread}
    begun = start or Constants()
    number = Counter(case.bed for case in figures)
    weights = numpy.array([math.sqrt(BED_WEIGHT / number[case.bed]) for case in figures])

    def at(point: Iterable[float]) -> Constants:
        return replace(begun, **dict(zip(free, (math.exp(value) for value in point), strict=True)))

    def residuals(point: Iterable[float]) -> Any:
        constants = at(point)
        errors = numpy.array([math.log(case.ratio(constants)) for case in figures]) / SCALE
        # The square of this is soft_l1's loss. It is applied here, because the priors' loss is a plain square.
        robust = numpy.sign(errors) * numpy.sqrt(2 * (numpy.sqrt(1 + errors**2) - 1)) * weights
        return numpy.concatenate([robust, log_distance(constants)])

    low, high = ([math.log(getattr(prior, end)) for prior in free.values()] for end in ("low", "high"))
    first = [
        min(max(math.log(getattr(begun, name)), least + _ENOUGH), most - _ENOUGH)
        for name, least, most in zip(free, low, high, strict=True)
    ]
    solution = optimize.least_squares(
        residuals,
        first,
        bounds=(low, high),
        diff_step=[_STEP] * len(free),
        xtol=_ENOUGH,
        ftol=_ENOUGH,
        max_nfev=_ROUNDS,
    )
    return at(solution.x.tolist())


def left_out(figures: Sequence[Case], start: Constants, tell: Callable[[str], None] = lambda line: None) -> list[Miss]:
    """The errors of each test bed, predicted with constants fitted to all others. tell: gets a line on each."""
    misses = []
    for bed in sorted({case.bed for case in figures}):
        others = [case for case in figures if case.bed != bed]
        constants, ranges = fit(others, start), validated(others)
        own = [miss(case, constants, ranges) for case in figures if case.bed == bed]
        misses += own
        tell(f"{bed} left out: {bed_errors(own)[bed]:.2f}")
    return misses


def miss(case: Case, constants: Constants, ranges: Mapping[LoadKind, Range]) -> Miss:
    """The error of one figure. ranges: what the figures of the fit validate."""
    outside = any(outside_of(ranges, case.profile, case.shape))
    return Miss(case.bed, case.kind, case.figure.name, case.ratio(constants), outside)


def growths(figures: Sequence[Case], misses: Sequence[Miss]) -> list[Miss]:
    """The errors of how rates grow: of each two figures that differ only in how much is in flight."""
    ratios = {(known.bed, known.figure): known.ratio for known in misses}
    fitted = []
    for less, more in permutations(figures, 2):
        if less.shape.in_flight < more.shape.in_flight and less.differs_only_in_load(more):
            ratio = ratios[more.bed, more.figure.name] / ratios[less.bed, less.figure.name]
            fitted.append(Miss(less.bed, more.kind, f"{less.figure.name} -> {more.figure.name}", ratio))
    return fitted


def bed_errors(misses: Iterable[Miss]) -> dict[str, float]:
    """Test bed -> geometric mean of how far its rates are off, as a factor of 1 or more."""
    return _errors(known for known in misses if known.kind is not LoadKind.ALONE)


def _errors(misses: Iterable[Miss]) -> dict[str, float]:
    logs: dict[str, list[float]] = {}
    for known in misses:
        logs.setdefault(known.bed, []).append(abs(math.log(known.ratio)))
    return {bed: math.exp(sum(values) / len(values)) for bed, values in logs.items()}


def typical_error(misses: Iterable[Miss]) -> float:
    """Median over test beds of the error of these figures."""
    return median(_errors(misses).values())


def kind_errors(misses: Sequence[Miss]) -> dict[LoadKind, float]:
    """Kind of load -> median over test beds of the error of that kind."""
    kinds = {kind: [known for known in misses if known.kind is kind] for kind in LoadKind}
    return {kind: typical_error(own) for kind, own in kinds.items() if own}


def validated(figures: Sequence[Case]) -> dict[LoadKind, Range]:
    """Kind of load -> the ranges that its figures span."""
    of_kind: dict[LoadKind, list[Case]] = {}
    for case in figures:
        of_kind.setdefault(case.kind, []).append(case)
    return {kind: _spans(known) for kind, known in of_kind.items()}


def _spans(known: Sequence[Case]) -> Range:
    shapes = [case.shape for case in known]
    disks = {disks.kind.value for case in known for node in case.profile.nodes for disks in node.data_disks}
    osds = [case.profile.osds for case in known]
    return Range(
        block_bytes=(min(shape.block_bytes for shape in shapes), max(shape.block_bytes for shape in shapes)),
        osds=(min(osds), max(osds)),
        in_flight=(min(shape.in_flight for shape in shapes), max(shape.in_flight for shape in shapes)),
        disks=tuple(sorted(disks)),
        coded=tuple(sorted({bool(shape.k) for shape in shapes})),
    )


def as_file(figures: Sequence[Case], constants: Constants, misses: Sequence[Miss]) -> Mapping[str, Any]:
    """What `constants.FITTED` holds, as JSON values."""
    outside: dict[str, list[str]] = {}
    for known in misses:
        if known.outside:
            outside.setdefault(known.bed, []).append(known.figure)
    return {
        "made_by": "cephlab validate-model --fit FILE",
        "publications": sorted({case.bed for case in figures}),
        "figures": len(figures),
        "fitted_error": {bed: round(error, 3) for bed, error in errors_with(figures, constants).items()},
        "left_out_error": {bed: round(error, 3) for bed, error in bed_errors(misses).items()},
        "coverage": round(coverage(misses), 3),
        "values": {name: round(getattr(constants, name), 4) for name in priors()},
        "validated": {kind.value: asdict(spans) for kind, spans in validated(figures).items()},
        "left_out": _table(misses),
        "outside": outside,
        "growth": _table(growths(figures, misses)),
    }


def _table(misses: Iterable[Miss]) -> dict[str, dict[str, dict[str, float]]]:
    """Test bed -> kind of load -> figure -> ratio."""
    table: dict[str, dict[str, dict[str, float]]] = {}
    for known in misses:
        table.setdefault(known.bed, {}).setdefault(known.kind.value, {})[known.figure] = round(known.ratio, 4)
    return table


def errors_with(figures: Sequence[Case], constants: Constants) -> dict[str, float]:
    """As `bed_errors`, with given constants."""
    ranges = validated(figures)
    return bed_errors([miss(case, constants, ranges) for case in figures])
