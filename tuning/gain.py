"""Gains: the ratio of two rates of one profile, with an interval from the model's errors.

A cache in front of slow disks, by its hit ratio, and a larger load compared with a smaller.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from cephlab.lab.base.errors import SpecError
from cephlab.lab.telemetry.demand import Demand
from cephlab.tuning import devices
from cephlab.tuning.derivation import Derivation, DerivationStep
from cephlab.tuning.model import Prediction, predict
from cephlab.tuning.profile import DiskKind, Disks, MachineClass, Profile
from cephlab.tuning.trust import growth_factor
from cephlab.tuning.units import Measure, show
from cephlab.tuning.validate import TARGET_WORST
from cephlab.tuning.workload import Flow, Shape

HARMONIC = "each request waits for one of the two: the times add up, so the rate is a harmonic mean"
SQUARES = "both errors are taken as independent: the squares of their logarithms add up"
GROWTH = "such ratios of published rates, of one cluster under two loads, when it was left out of the model's fit"
REST = "the part that does not wait for the disk takes as long as before (Amdahl 1967)"

_SPEEDS = (DiskKind.HDD, DiskKind.SSD, DiskKind.NVME)


@dataclass(frozen=True)
class Wait:
    """Seconds that a piece of work waits, correct to within `factor`."""

    seconds: float
    factor: float
    derivation: Derivation

    def times(self, count: float) -> "Wait":
        return replace(self, seconds=self.seconds * count)


def in_turn(waits: Sequence[Wait]) -> Wait:
    """Several waits, at least one, added up as one follows the other."""
    steps = sum((wait.derivation for wait in waits), Derivation())
    return Wait(sum(wait.seconds for wait in waits), max(wait.factor for wait in waits), steps)


@dataclass(frozen=True)
class Gain:
    """The speed-up, as a factor. With 90 % probability it lies between low and high."""

    value: float
    low: float
    high: float
    derivation: Derivation


def of_cache(slow: Wait, fast: Wait, hits: float, busy_s: float = 0.0) -> Gain:
    """The gain of a cache: a hit waits as `fast`, a miss as `slow`.

    hits: hit ratio. busy_s: seconds that the same work takes without the cache, where it does more than wait for the
    disk; 0: it only waits.
    """
    apart = together(slow.factor, fast.factor)
    ratios = [fast.seconds / slow.seconds * off for off in (1.0, 1 / apart, apart)]
    waited = [min(1.0, slow.seconds * off / busy_s) if busy_s else 1.0 for off in (1.0, 1 / slow.factor, slow.factor)]
    gains = [1 / (1 - share + share * (hits * ratio + 1 - hits)) for share, ratio in product(waited, ratios)]
    value, low, high = gains[0], min(gains), max(gains)
    rest = f"1 - {waited[0]:.3g} + {waited[0]:.3g} x " if busy_s else ""
    inner = f"{hits:.3g} x {show(fast.seconds, Measure.TIME)} / {show(slow.seconds, Measure.TIME)} + 1 - {hits:.3g}"
    steps = [DerivationStep("gain", f"1 / ({rest}({inner}))", f"{value:.3g} times", HARMONIC)]
    if busy_s:
        how = f"{show(slow.seconds, Measure.TIME)} of {show(busy_s, Measure.TIME)}, within {slow.factor:.3g} times"
        steps.insert(0, DerivationStep("share of the time that waits for the slow disk", how, f"{waited[0]:.3g}", REST))
    steps.append(_interval(low, high, apart, SQUARES))
    return Gain(value, low, high, slow.derivation + fast.derivation + Derivation(tuple(steps)))


def of_growth(less: Prediction, more: Prediction) -> Gain:
    """The rate with more clients or more in flight, over that with less."""
    value, apart = more.ops / less.ops, growth_factor()
    low, high = value / apart, value * apart
    ratio = DerivationStep("gain", f"{more.ops:,.0f} / {less.ops:,.0f} ops/s", f"{value:.3g} times")
    steps = Derivation((ratio, _interval(low, high, apart, GROWTH)))
    return Gain(value, low, high, _steps(less) + _steps(more) + steps)


def together(*factors: float) -> float:
    """The factor by which a ratio may be off when its parts may be off by these factors."""
    return math.exp(math.sqrt(sum(math.log(factor) ** 2 for factor in factors)))


def _steps(prediction: Prediction) -> Derivation:
    """How the prediction was made, and where it is outside the validated range."""
    doubts = tuple(DerivationStep("trust", "", doubt) for doubt in prediction.trust.outside)
    return prediction.derivation + Derivation(doubts)


def _interval(low: float, high: float, apart: float, why: str) -> DerivationStep:
    off = f"the ratio may be off by a factor of {apart:.3g}"
    return DerivationStep("interval", off, f"{low:.3g} to {high:.3g}", why)


def on_cluster(demands: Sequence[Demand], profile: Profile, shape: Shape) -> Wait:
    """One operation's share of the time under a load, 1 / rate: with one in flight, how long it waits."""
    prediction = predict(demands, profile, shape)
    return Wait(1 / prediction.ops, prediction.trust.factor, _steps(prediction))


def classes_of(profile: Profile) -> tuple[Profile, Profile]:
    """(profile with its slowest kind of data disks only, with its fastest only); SpecError without two kinds."""
    kinds = sorted({disks.kind for node in profile.nodes for disks in node.data_disks}, key=_SPEEDS.index)
    if len(kinds) < 2:
        got = f"data disks: {', '.join(kinds) or 'none'}"
        raise SpecError(f"{profile.name} does not have two kinds of data disks", got, "wanted: two, e.g. hdd and nvme")
    return _with(profile, kinds[0]), _with(profile, kinds[-1])


def _with(profile: Profile, kind: DiskKind) -> Profile:
    """Metadata disks stay with the rotating disks that they serve."""

    def left(machine: MachineClass) -> MachineClass:
        data = tuple(disks for disks in machine.data_disks if disks.kind is kind)
        return replace(machine, disks=(*data, *(machine.metadata_disks if data and kind.rotates else ())))

    return replace(profile, nodes=tuple(map(left, profile.nodes)))


def at_client(profile: Profile, shape: Shape) -> Wait:
    """How long one request waits for the fastest disk of a client; SpecError where the profile has none with figures.

    This was never validated, so its error is taken to be the largest that the model promises.
    """
    known = [(seconds, disks) for disks in _fast_of_clients(profile) if (seconds := _alone_s(disks, shape))]
    if not known:
        what = f"no client of {profile.name} has a fast disk with a known {shape.flow} latency"
        hint = "give [[clients.disks]] with role = 'cache' its read_latency and sync_latency"
        raise SpecError(what, f"clients: {', '.join(client.name for client in profile.clients) or 'none'}", hint)
    seconds, disks = min(known, key=lambda pair: pair[0])
    step = DerivationStep(f"one {shape.flow} of {disks.name} at the client", "as rated", show(seconds, Measure.TIME))
    return Wait(seconds, TARGET_WORST, Derivation((step,)))


def _fast_of_clients(profile: Profile) -> Iterator[Disks]:
    return (disks for machine in profile.clients for disks in machine.disks if not disks.kind.rotates)


def _alone_s(disks: Disks, shape: Shape) -> float:
    if shape.flow is Flow.READ:
        return devices.read_latency(disks, shape)
    return disks.sync_latency.value if disks.sync_latency else 0.0
