"""Assumptions: the unpublished figures that a prediction rests on, and what it would be with other values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cephlab.lab.base.errors import SpecError
from cephlab.lab.telemetry.demand import Demand
from cephlab.tuning.daemons import SMT_GAIN
from cephlab.tuning.model import predict
from cephlab.tuning.profile import MachineClass, Profile, scaled
from cephlab.tuning.references import Published
from cephlab.tuning.workload import Shape

MATTERS = 0.10
"""A prediction rests on an assumption when an alternative changes the prediction by more than this share."""

HARDWARE = 2.0
"""An assumed figure of hardware is tried at half and at double: classes of disks and links differ by as much."""

LOAD = 4.0
"""A number of workers that the source does not state is tried at a quarter and at four times, as even its order of
magnitude is unknown."""

SMT_GAINS = (1.0, 1.5)
"""The speed of a lone thread is derived from that of its core. A second thread is tried as worth 0 and 0.5."""


@dataclass(frozen=True)
class Rest:
    """what: the assumption with its value; otherwise: (alternative, operations a second in place of the predicted)."""

    what: str
    otherwise: tuple[tuple[str, float], ...]


def rests(demands: Sequence[Demand], profile: Profile, figure: Published, ops: float) -> tuple[Rest, ...]:
    """What a predicted rate rests on; ops: that rate. Empty for a figure without a load."""
    shape = figure.shape
    if shape is None:
        return ()
    ways = [*_of_load(profile, shape, figure.assumed), *_of_hardware(profile, shape), *_of_threads(profile, shape)]
    tried = [Rest(what, tuple(_tried(demands, others))) for what, others in ways]
    return tuple(rest for rest in tried if any(abs(rate / ops - 1) > MATTERS for _, rate in rest.otherwise))


_Other = tuple[str, Profile, Shape]


def _of_hardware(profile: Profile, shape: Shape) -> Iterator[tuple[str, list[_Other]]]:
    for place, figure in profile.figures():
        if figure.assumed:
            ways = ((figure.times(by), scaled(profile, place, by)) for by in (1 / HARDWARE, HARDWARE))
            yield f"{place} of {figure}", [(str(other), changed, shape) for other, changed in ways]


def _of_threads(profile: Profile, shape: Shape) -> Iterator[tuple[str, list[_Other]]]:
    """The gain of a second thread, from which the speed of a thread alone on its core is derived."""
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
    """Alternatives: reads all over the disks, none from a cache, else a quarter and four times."""
    if key in ("span", "hit_ratio"):
        return (1.0 if key == "span" else 0.0,)
    return max(1, int(value / LOAD)), int(value * LOAD)


def _tried(demands: Sequence[Demand], others: Sequence[_Other]) -> Iterator[tuple[str, float]]:
    """The rate of each alternative that can be predicted."""
    for word, profile, shape in others:
        try:
            yield word, predict(demands, profile, shape).ops
        except SpecError:
            continue
