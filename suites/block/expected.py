"""What the model says of a scenario's points: a line beside them, and limits where the machines are the profile's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cephlab.lab.base.errors import LabError
from cephlab.lab.history.history import Bound
from cephlab.lab.report.series import Line
from cephlab.lab.scenario.scenario import Stage
from cephlab.suites.block.stand import NO_LIMIT
from cephlab.suites.machines import are_machines_of, profile_of
from cephlab.tuning.demandsets import find_demands
from cephlab.tuning.limits import Limit, latency_limit, supported_factor, throughput_limit
from cephlab.tuning.model import Prediction, predict
from cephlab.tuning.profilefile import THIS_MACHINE, find_profile
from cephlab.tuning.references import FigureKind
from cephlab.tuning.validate import RATES
from cephlab.tuning.workload import Shape

RATE, LATENCY = "operations per second", "mean latency, seconds"


@dataclass(frozen=True)
class Expected:
    """made: a prediction for each shape, none where nothing can be said; words: from what, or why not.

    limits: for each shape those of its throughput and mean latency; empty where the machines are not the profile's.
    """

    made: tuple[Prediction, ...] = ()
    words: str = ""
    limits: tuple[tuple[Limit, Limit], ...] = ()

    def lines(self, axis: Sequence[float], label: str = "predicted") -> list[Line]:
        """Throughput and latency over what was varied. axis: its value for each shape."""
        if not self.made:
            return []
        rate = tuple(zip(map(float, axis), (prediction.ops for prediction in self.made), strict=True))
        latency = tuple(zip(map(float, axis), (prediction.latency_s for prediction in self.made), strict=True))
        return [Line(RATE, label, rate), Line(LATENCY, label, latency)]

    def bounds(self, index: int) -> tuple[Bound, Bound]:
        """Of throughput and mean latency of one shape."""
        if not self.limits:
            return NO_LIMIT, NO_LIMIT
        rate, latency = self.limits[index]
        return bound(rate), bound(latency)


def bound(limit: Limit) -> Bound:
    """A limit as a figure has it."""
    return Bound(limit.why, limit.low, limit.high, tuple(limit.derivation.lines()))


def expect(stage: Stage, shapes: Sequence[Shape]) -> Expected:
    """By the profile that the run is held against, or by that of this machine, which is held against nothing."""
    home = stage.cluster.run.home
    try:
        named = profile_of(stage)
        profile = named or find_profile(THIS_MACHINE, home.profiles)
        demands, origin = find_demands(home.demands)
        made = tuple(predict(demands, profile, shape) for shape in shapes)
        words = f"predicted for {profile.name} from demands {origin}"
        if named is None or not are_machines_of(stage.cluster.provider, named):
            return Expected(made, words)
        rates, latencies = (
            supported_factor(demands, kinds, lambda name: find_profile(name, home.profiles))
            for kinds in (RATES, (FigureKind.LATENCY,))
        )
    except LabError as error:
        return Expected(words=f"not predicted: {error.what}")
    return Expected(
        made,
        words,
        tuple((throughput_limit(prediction, rates), latency_limit(prediction, latencies)) for prediction in made),
    )
