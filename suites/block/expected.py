"""The model's prediction for a scenario's points: a line beside them, and limits on the profile's own machines."""

from collections.abc import Sequence
from dataclasses import dataclass

from cephlab.lab.base.errors import LabError
from cephlab.lab.history.history import Basis, Bound
from cephlab.lab.report.series import Line
from cephlab.lab.scenario.scenario import Stage
from cephlab.suites.block.stand import NO_LIMIT
from cephlab.suites.machines import are_machines_of, profile_of
from cephlab.tuning.demandsets import find_demands
from cephlab.tuning.limits import Limit, latency_limit, throughput_limit
from cephlab.tuning.model import Prediction, predict
from cephlab.tuning.profilefile import THIS_MACHINE, find_profile
from cephlab.tuning.workload import Shape

RATE, LATENCY = "operations per second", "mean latency, seconds"


@dataclass(frozen=True)
class Expected:
    """predictions: one for each shape, or none at all; words: the sources, or why there is no prediction.

    limits: for each shape those of its throughput and its mean latency; empty on other machines than the profile's.
    """

    predictions: tuple[Prediction, ...] = ()
    words: str = ""
    limits: tuple[tuple[Limit, Limit], ...] = ()

    def lines(self, axis: Sequence[float]) -> list[Line]:
        """Throughput and latency over what varies. axis: its value for each shape."""
        if not self.predictions:
            return []
        rates = [prediction.ops for prediction in self.predictions]
        latencies = [prediction.latency_s for prediction in self.predictions]
        return rate_and_latency("predicted", axis, rates, latencies)

    def bounds(self, index: int) -> tuple[Bound, Bound]:
        """Bounds of one shape's throughput and mean latency."""
        if not self.limits:
            return NO_LIMIT, NO_LIMIT
        rate, latency = self.limits[index]
        return bound(rate), bound(latency)


def rate_and_latency(
    label: str, axis: Sequence[float], rates: Sequence[float], latencies: Sequence[float]
) -> list[Line]:
    """Two lines for a report: throughput and mean latency over an axis."""
    return [
        Line(panel, label, tuple(zip(map(float, axis), values, strict=True)))
        for panel, values in ((RATE, rates), (LATENCY, latencies))
    ]


def named_of(shapes: Sequence[Shape]) -> str:
    """The operations of some shapes, each once."""
    return ", ".join(dict.fromkeys(shape.operation for shape in shapes))


def bound(limit: Limit) -> Bound:
    return Bound(limit.why, limit.low, limit.high, tuple(limit.derivation.lines()), basis=Basis.PROFILE)


def expect(stage: Stage, shapes: Sequence[Shape]) -> Expected:
    """Predict by the profile that the user named, or by this machine's, which sets no limits.

    Where the run's machines are the profile's and it cannot say what they should do, the run is inconclusive.
    """
    home, named = stage.cluster.run.home, profile_of(stage)
    at_home = named is not None and are_machines_of(stage.cluster.provider, named)
    try:
        profile = named or find_profile(THIS_MACHINE, home.profiles)
        demands, origin = find_demands(home.demands)
        predictions = tuple(predict(demands, profile, shape) for shape in shapes)
        words = f"predicted for {profile.name} from demands {origin}"
    except LabError as error:
        if at_home:
            what = f"limits of {named_of(shapes)} on the profile's own machines, which the model does not give"
            stage.recorder.witness(f"{what}: {error.what}", got=0, least=1)
        return Expected(words=f"not predicted: {error.what}")
    if not at_home:
        return Expected(predictions, words)
    return Expected(
        predictions,
        words,
        tuple(
            (throughput_limit(made, made.trust.factor), latency_limit(made, made.trust.factor)) for made in predictions
        ),
    )
