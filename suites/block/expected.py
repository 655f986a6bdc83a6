"""The model's prediction for the points of a scenario: lines to draw, and limits if the profile's machines run it."""

from collections.abc import Sequence
from dataclasses import dataclass

from cephlab.lab.base.errors import LabError
from cephlab.lab.history.history import Basis, Bound
from cephlab.lab.report.series import Line
from cephlab.lab.scenario.scenario import Stage
from cephlab.suites.block.stand import NO_LIMIT
from cephlab.suites.machines import at_home, profile_of
from cephlab.tuning.demandsets import find_demands
from cephlab.tuning.limits import Limit, latency_limit, throughput_limit
from cephlab.tuning.model import Prediction, predict
from cephlab.tuning.profilefile import THIS_MACHINE, find_profile
from cephlab.tuning.workload import Shape

RATE, LATENCY = "operations per second", "mean latency, seconds"


@dataclass(frozen=True)
class Expected:
    """predictions: one for each shape, or empty; words: the sources, or why there is no prediction.

    limits: for each shape, of its throughput and its mean latency; empty if other machines than the profile's run it.
    """

    predictions: tuple[Prediction, ...] = ()
    words: str = ""
    limits: tuple[tuple[Limit, Limit], ...] = ()

    def lines(self, axis: Sequence[float]) -> list[Line]:
        """Lines of predicted throughput and latency. axis: the varied value of each shape."""
        if not self.predictions:
            return []
        rates = [prediction.ops for prediction in self.predictions]
        latencies = [prediction.latency_s for prediction in self.predictions]
        return rate_and_latency("predicted", axis, rates, latencies)

    def bounds(self, index: int) -> tuple[Bound, Bound]:
        """Bounds for the throughput and the mean latency of one shape."""
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
    """The operations of the shapes, each named once."""
    return ", ".join(dict.fromkeys(shape.operation for shape in shapes))


def bound(limit: Limit) -> Bound:
    return Bound(limit.why, limit.low, limit.high, tuple(limit.derivation.lines()), basis=Basis.PROFILE)


def expect(stage: Stage, shapes: Sequence[Shape]) -> Expected:
    """Predict with the profile that the user named, or with that of this machine, which sets no limits.

    If the profile's own machines run it and the model has no prediction, the run is inconclusive.
    """
    home, named, judged = stage.cluster.run.home, profile_of(stage), at_home(stage)
    try:
        profile = named or find_profile(THIS_MACHINE, home.profiles)
        demands, origin = find_demands(home.demands)
        predictions = tuple(predict(demands, profile, shape) for shape in shapes)
        words = f"predicted for {profile.name} from demands {origin}"
    except LabError as error:
        return unpredicted(stage, shapes, error.what)
    if not judged:
        return Expected(predictions, words)
    return Expected(
        predictions,
        words,
        tuple(
            (throughput_limit(prediction, prediction.trust.factor), latency_limit(prediction, prediction.trust.factor))
            for prediction in predictions
        ),
    )


def unpredicted(stage: Stage, shapes: Sequence[Shape], why: str) -> Expected:
    """No prediction, and why. If the profile's own machines run the load, the run is inconclusive."""
    if at_home(stage):
        what = f"limits for {named_of(shapes)} on the profile's machines, which the model cannot give"
        stage.recorder.witness(f"{what}: {why}", got=0, least=1)
    return Expected(words=f"not predicted: {why}")
