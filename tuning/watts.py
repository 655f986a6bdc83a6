"""Watts of a profile's machines under a predicted load, by the linear model, and the work done per watt."""

from collections.abc import Mapping
from dataclasses import dataclass

from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.numbers import percent
from cephlab.lab.telemetry.power import modelled
from cephlab.tuning.model import Prediction
from cephlab.tuning.profile import MachineClass, Profile


@dataclass(frozen=True)
class ModelledWatts:
    """Watts of all machines of a profile, or of one architecture. steps: the arithmetic, a line for each class."""

    watts: float
    steps: tuple[str, ...]


@dataclass(frozen=True)
class PredictedWork:
    """Operations per joule, from low to high: the interval is that of the rate. The watts are modelled: source `model`.

    what: `all nodes`, or an architecture with its share of the rate, which is its share of the disks' weight.
    """

    what: str
    value: float
    low: float
    high: float
    watts: ModelledWatts


def watts_under(profile: Profile, utilisation: Mapping[str, float] | None = None, arch: str = "") -> ModelledWatts:
    """Watts under a load. utilisation: of a prediction; None: full load. arch: of its nodes only; empty: of all.

    A class without `power_idle` counts with `power_loaded`, whatever its utilisation. SpecError without the latter.
    """
    chosen = [machine for machine in profile.nodes if arch in ("", machine.arch.value)]
    without = [machine.name for machine in chosen if machine.power_loaded is None]
    if without:
        raise SpecError(
            f"{profile.name} declares no power for some of its nodes",
            f"power_loaded of {', '.join(without)}: missing; wanted: a figure with its source, e.g. 350 W",
        )
    classes = [_of_class(machine, (utilisation or {}).get(f"{machine.name}: CPU")) for machine in chosen]
    return ModelledWatts(sum(watts for watts, _ in classes), tuple(step for _, step in classes))


def _of_class(machine: MachineClass, share: float | None) -> tuple[float, str]:
    """Watts of all machines of a class, and the arithmetic."""
    assert machine.power_loaded is not None
    loaded_w, count = machine.power_loaded.value, machine.count
    name = f"{machine.name}: {count} x"
    if machine.power_idle is None or share is None:
        why = "" if machine.power_idle else "; no power_idle, so at full load"
        return (
            count * loaded_w,
            f"{name} {loaded_w:g} W = {count * loaded_w:,.0f} W{why} [{machine.power_loaded.source}]",
        )
    idle_w, used = machine.power_idle.value, min(1.0, share)
    watts = count * modelled(min(idle_w, loaded_w), loaded_w, used)
    sum_of = f"({idle_w:g} W + ({loaded_w:g} W - {idle_w:g} W) x {used:.3f} of its CPUs)"
    return watts, f"{name} {sum_of} = {watts:,.0f} W [{machine.power_idle.source}; {machine.power_loaded.source}]"


def predicted_work(prediction: Prediction, profile: Profile) -> tuple[PredictedWork, ...]:
    """Work per watt of all nodes, and of each architecture by itself where there are two.

    SpecError where a class of nodes has no `power_loaded`.
    """
    low, high = prediction.trust.around(prediction.ops)
    predicted = [_work("all nodes", 1.0, (prediction.ops, low, high), watts_under(profile, prediction.utilisation))]
    weights = {
        arch: sum(machine.count * machine.weight for machine in profile.nodes if machine.arch.value == arch)
        for arch in sorted({machine.arch.value for machine in profile.nodes})
    }
    for arch, weight in weights.items() if len(weights) > 1 else ():
        share = weight / sum(weights.values())
        watts = watts_under(profile, prediction.utilisation, arch)
        predicted.append(
            _work(f"{arch}, {percent(share, '.0f')} of the rate", share, (prediction.ops, low, high), watts)
        )
    return tuple(predicted)


def _work(what: str, share: float, rate: tuple[float, float, float], watts: ModelledWatts) -> PredictedWork:
    value, low, high = (share * ops / watts.watts for ops in rate)
    return PredictedWork(what, value, low, high, watts)
