"""Trust: how far a prediction may be off, by the errors of test beds that were left out of the model's fit.

This is where a limit or a verdict gets the range of a prediction: `trust_in(profile, shape)`, or `Prediction.trust`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from pydantic import BaseModel

from cephlab.lab.base.numbers import how_many, t_quantile
from cephlab.tuning.constants import FITTED, load_json
from cephlab.tuning.profile import Profile
from cephlab.tuning.workload import Flow, Shape

SHARE = 0.90
"""The printed interval contains this share of later measurements."""

BORROWED = 2.0
"""The scatter of all kinds counts as this many test beds, added to those of the kind itself, which may be few."""

SMALL_BYTES = 64 * 1024
"""The largest block that counts as small. Beyond it the bytes cost more than the operation itself."""

_FAR = 2.0
"""A figure more than this many times beyond the validated ones counts as outside."""


class LoadKind(StrEnum):
    """Kinds of load with similar errors."""

    ALONE = "one operation at a time"
    SMALL_READ = "small reads"
    SMALL_WRITE = "small writes"
    MIX = "mixed reads and writes"
    LARGE_READ = "large reads"
    LARGE_WRITE = "large writes"
    OBJECT_READ = "objects read"
    OBJECT_WRITE = "objects written"


def kind_of(shape: Shape) -> LoadKind:
    """The kind of a load."""
    if shape.in_flight == 1:
        return LoadKind.ALONE
    if len(shape.parts) > 1:
        return LoadKind.MIX
    reads, large = shape.flow is Flow.READ, shape.block_bytes > SMALL_BYTES
    if shape.through_gateway:
        return LoadKind.OBJECT_READ if reads else LoadKind.OBJECT_WRITE
    if reads:
        return LoadKind.LARGE_READ if large else LoadKind.SMALL_READ
    return LoadKind.LARGE_WRITE if large else LoadKind.SMALL_WRITE


@dataclass(frozen=True)
class Miss:
    """A published figure of a test bed that was left out. ratio: predicted over published rate.

    outside: the figure is outside what the other test beds validated, as a declared cluster may be.
    """

    bed: str
    kind: LoadKind
    figure: str
    ratio: float
    outside: bool = False


@dataclass(frozen=True)
class Trust:
    """factor: with 90 % probability the true rate lies between predicted / factor and predicted x factor; latency too.

    beds: test beds from which it was learned. outside: what was never validated, as sentences. extrapolated: the factor
    is that of figures which were outside, too, because it is larger than that of the kind.
    """

    kind: LoadKind
    factor: float
    beds: int
    outside: tuple[str, ...] = ()
    extrapolated: bool = False

    def around(self, predicted: float) -> tuple[float, float]:
        """(low, high) of a predicted rate or latency, in its own unit."""
        return predicted / self.factor, predicted * self.factor

    def __str__(self) -> str:
        beds = how_many(self.beds, "test bed")
        source = "outside what the others validated" if self.extrapolated else f"of {self.kind} left out"
        return f"90 % within a factor of {self.factor:.2f}, from {beds} {source}"


@dataclass(frozen=True)
class Range:
    """The validated range of one kind of load. disks: their kinds; coded: False for copies, True for erasure codes."""

    block_bytes: tuple[float, float]
    osds: tuple[float, float]
    in_flight: tuple[float, float]
    disks: tuple[str, ...]
    coded: tuple[bool, ...]


def factor_for(kind: LoadKind, misses: Sequence[Miss]) -> tuple[float, int]:
    """(factor, test beds) of a kind of load inside the validated range."""
    return _factor([miss for miss in misses if miss.kind is kind], misses)


def factor_outside(misses: Sequence[Miss]) -> tuple[float, int]:
    """(factor, test beds) outside the validated range, of all kinds: few figures of a kind are outside."""
    return _factor([miss for miss in misses if miss.outside], misses)


def factor_of_growth(growths: Sequence[Miss], misses: Sequence[Miss]) -> tuple[float, int]:
    """(factor, test beds) of the ratio of two predictions for one cluster that differ only in how much is in flight."""
    return _factor(growths, misses)


def _factor(own: Sequence[Miss], misses: Sequence[Miss]) -> tuple[float, int]:
    """Student's t times the scatter of log errors, each test bed weighing the same.

    The scatter of `own` and of all is pooled by their numbers of test beds, as few beds say little.
    """
    scatter = _scatter(own)
    beds = len(scatter)
    pooled = (sum(scatter.values()) + BORROWED * _mean(_scatter(misses).values())) / (beds + BORROWED)
    t = t_quantile(beds + BORROWED, SHARE)
    return math.exp(t * math.sqrt(pooled)), beds


def _scatter(misses: Iterable[Miss]) -> dict[str, float]:
    """Mean square of the log errors, by test bed."""
    squares: dict[str, list[float]] = {}
    for miss in misses:
        squares.setdefault(miss.bed, []).append(math.log(miss.ratio) ** 2)
    return {bed: _mean(values) for bed, values in squares.items()}


def _mean(values: Iterable[float]) -> float:
    known = list(values)
    return sum(known) / len(known)


def coverage(misses: Sequence[Miss]) -> float:
    """Share of the published figures within the interval learned from the OTHER test beds, each bed weighing the same.

    0 without misses.
    """
    within: dict[str, list[float]] = {}
    for miss in misses:
        others = [other for other in misses if other.bed != miss.bed]
        factor = _factor_of(miss.kind, others, outside=miss.outside)[0] if others else 1.0
        within.setdefault(miss.bed, []).append(float(abs(math.log(miss.ratio)) <= math.log(factor)))
    return _mean(_mean(values) for values in within.values()) if within else 0.0


def trust_in(profile: Profile, shape: Shape) -> Trust:
    """How far a prediction of this load on this profile may be off, and what about it was never validated."""
    kind, outside = kind_of(shape), tuple(outside_of(shipped()[1], profile, shape))
    factor, beds, extrapolated = _factors(kind, bool(outside))
    return Trust(kind, factor, beds, outside, extrapolated)


@cache
def _factors(kind: LoadKind, outside: bool) -> tuple[float, int, bool]:
    return _factor_of(kind, shipped()[0], outside=outside)


@cache
def growth_factor() -> float:
    """How far the predicted ratio of a larger load to a smaller one on the same cluster may be off."""
    return factor_of_growth(shipped_growths(), shipped()[0])[0]


def _factor_of(kind: LoadKind, misses: Sequence[Miss], *, outside: bool) -> tuple[float, int, bool]:
    """(factor, test beds, whether it is that of figures outside the validated range)."""
    inside = factor_for(kind, misses)
    beyond = factor_outside(misses) if outside and any(miss.outside for miss in misses) else inside
    return (*beyond, True) if beyond[0] > inside[0] else (*inside, False)


def outside_of(ranges: Mapping[LoadKind, Range], profile: Profile, shape: Shape) -> Iterable[str]:
    """What about this load on this profile is outside the validated ranges, as sentences."""
    kind = kind_of(shape)
    if kind not in ranges or shape.bare:
        return (f"Never validated: {shape.operation if shape.bare else kind}.",)
    return _outside(kind, ranges[kind], profile, shape)


def _outside(kind: LoadKind, known: Range, profile: Profile, shape: Shape) -> Iterable[str]:
    values = {
        "blocks of {} B": (shape.block_bytes, known.block_bytes),
        "{} OSDs": (profile.osds, known.osds),
        "{} in flight": (shape.in_flight, known.in_flight),
    }
    for words, (value, (low, high)) in values.items():
        if not low / _FAR <= value <= high * _FAR:
            what = words.format(f"{value:,.0f}")
            yield f"Outside what was validated: {what}; {kind} were validated from {low:,.0f} to {high:,.0f}."
    disks = sorted({disks.kind.value for node in profile.nodes for disks in node.data_disks} - set(known.disks))
    if disks:
        yield f"Outside what was validated: {', '.join(disks)}; {kind} were validated on {', '.join(known.disks)}."
    if bool(shape.k) not in known.coded:
        protection = "an erasure code" if shape.k else "copies"
        yield f"Outside what was validated: {kind} with {protection}."


class _Fitted(BaseModel):
    """The part of the constants' file that says how far they are trusted."""

    left_out: dict[str, dict[LoadKind, dict[str, float]]]
    outside: dict[str, tuple[str, ...]]
    growth: dict[str, dict[LoadKind, dict[str, float]]]
    validated: dict[LoadKind, Range]


@cache
def _read() -> _Fitted:
    return load_json(FITTED, _Fitted)


@cache
def shipped() -> tuple[tuple[Miss, ...], Mapping[LoadKind, Range]]:
    """(left-out errors, validated ranges) as shipped with the constants; SpecError where the file has neither."""
    read = _read()
    return tuple(_misses(read.left_out, read.outside)), read.validated


@cache
def shipped_growths() -> tuple[Miss, ...]:
    """The left-out errors of ratios, as shipped with the constants."""
    return tuple(_misses(_read().growth, {}))


def _misses(
    ratios: Mapping[str, Mapping[LoadKind, Mapping[str, float]]], outside: Mapping[str, Sequence[str]]
) -> Iterable[Miss]:
    for bed, kinds in ratios.items():
        for kind, figures in kinds.items():
            for figure, ratio in figures.items():
                yield Miss(bed, kind, figure, ratio, figure in outside.get(bed, ()))
