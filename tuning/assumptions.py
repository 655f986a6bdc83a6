"""Assumptions: which of what nobody published a prediction rests on, and what it would be if that were otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lab.errors import SpecError
from lab.telemetry.demand import Demand
from tuning.daemons import SMT_GAIN
from tuning.model import predict
from tuning.profile import Machine, Profile, scaled
from tuning.references import Published
from tuning.workload import Shape

MATTERS = 0.10
"""A prediction rests on an assumption when an alternative to it moves the prediction by more than this part."""

HARDWARE = 2.0
"""What was assumed of hardware is tried at half and at double: classes of disks and links differ by as much."""

LOAD = 4.0
"""Nobody knows the order of magnitude of workers that are not stated: a quarter and four times as many are tried."""


SMT_GAINS = (1.0, 1.5)
"""A lone thread's speed is worked out from its core's: a second thread on it is tried as worth nothing and half."""


@dataclass(frozen=True)
class Rest:
    """what: the assumption with its value; otherwise: (alternative, operations a second in place of the predicted)."""

    what: str
    otherwise: tuple[tuple[str, float], ...]


def rests(demands: Sequence[Demand], profile: Profile, figure: Published, ops: float) -> tuple[Rest, ...]:
    """What a predicted rate rests on; ops: the prediction as it stands. Empty for a figure without a load."""
    shape = figure.shape
    if shape is None:
        return ()
    ways = [*_of_load(profile, shape, figure.assumed), *_of_hardware(profile, shape), *_of_threads(profile, shape)]
    found = [Rest(what, tuple(_tried(demands, others))) for what, others in ways]
    return tuple(one for one in found if any(abs(rate / ops - 1) > MATTERS for _, rate in one.otherwise))


_Other = tuple[str, Profile, Shape]


def _of_hardware(profile: Profile, shape: Shape) -> Iterator[tuple[str, list[_Other]]]:
    for place, figure in profile.figures():
        if figure.assumed:
            ways = ((figure.times(by), scaled(profile, place, by)) for by in (1 / HARDWARE, HARDWARE))
            yield f"{place} of {figure}", [(str(other), changed, shape) for other, changed in ways]


def _of_threads(profile: Profile, shape: Shape) -> Iterator[tuple[str, list[_Other]]]:
    """The gain of a second thread, from which the speed of one that has its core for itself is worked out."""
    for machine in (*profile.nodes, *profile.clients):
        if machine.threads_per_core > 1 and machine.thread_speed is None:
            ways = [(f"{gain:g}", _at_gain(profile, machine, gain), shape) for gain in SMT_GAINS]
            yield f"{machine.name}: a core's gain by its second thread of {SMT_GAIN:g}", ways


def _at_gain(profile: Profile, machine: Machine, gain: float) -> Profile:
    other = replace(machine, thread_speed=machine.core_speed.times(1 / gain))
    nodes, clients = (
        tuple(other if one is machine else one for one in all_) for all_ in (profile.nodes, profile.clients)
    )
    return replace(profile, nodes=nodes, clients=clients)


def _of_load(profile: Profile, shape: Shape, assumed: Sequence[str]) -> Iterator[tuple[str, list[_Other]]]:
    for key in assumed:
        value = getattr(shape, key)
        changes: list[tuple[float, dict[str, Any]]] = [(other, {key: other}) for other in _others(key, value)]
        ways = ((other, replace(shape, **change)) for other, change in changes)
        yield f"{key} of {value:g}", [(f"{other:g}", profile, changed) for other, changed in ways]


def _others(key: str, value: float) -> tuple[float, ...]:
    """Alternatives: reads all over the disks, none from a cache, else a quarter and four times."""
    if key in ("span", "hit_ratio"):
        return (1.0 if key == "span" else 0.0,)
    return max(1, int(value / LOAD)), int(value * LOAD)


def _tried(demands: Sequence[Demand], others: Sequence[_Other]) -> Iterator[tuple[str, float]]:
    """Each alternative that can be predicted at all."""
    for word, profile, shape in others:
        try:
            yield word, predict(demands, profile, shape).ops
        except SpecError:
            continue
