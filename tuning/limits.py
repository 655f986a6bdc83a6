"""Limits against a profile: what a metric may be on hardware of that kind."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cephlab.lab.telemetry.demand import Demand
from cephlab.tuning.demandsets import with_shipped
from cephlab.tuning.derivation import Derivation, DerivationStep
from cephlab.tuning.model import Prediction
from cephlab.tuning.profile import Profile
from cephlab.tuning.recovery import Recovery
from cephlab.tuning.references import load_references, of_recovery
from cephlab.tuning.validate import TARGET_WORST, geometric_error, validate


@dataclass(frozen=True)
class Limit:
    """The range of a metric. low, high: in `unit`, None: open on that side; why: one sentence."""

    metric: str
    unit: str
    why: str
    low: float | None = None
    high: float | None = None
    derivation: Derivation = field(default_factory=Derivation)


def throughput_limit(prediction: Prediction, factor: float) -> Limit:
    """At least the predicted operations a second over `factor`: as a rule `made.trust.factor`."""
    low = prediction.ops / factor
    trusted = f"the model is trusted to a factor of {factor:.3g}"
    why = f"{prediction.profile} should do {prediction.ops:,.0f}, limit: {prediction.bottleneck}; {trusted}"
    derivation = _allowed(prediction.derivation, f"{prediction.ops:,.0f} / {factor:.3g}", f"at least {low:,.0f} ops/s")
    return Limit(f"throughput of {prediction.shape}", "ops/s", why, low=low, derivation=derivation)


def latency_limit(prediction: Prediction, factor: float) -> Limit:
    """At most the predicted mean seconds times `factor`."""
    high = prediction.latency_s * factor
    latency, depth = f"{prediction.latency_s * 1e3:.3g} ms", prediction.shape.in_flight
    why = f"{prediction.profile} should take {latency} with {depth} in flight"
    derivation = _allowed(prediction.derivation, f"{prediction.latency_s:.6f} x {factor:.3g}", f"at most {high:.6f} s")
    return Limit(f"mean latency of {prediction.shape}", "s", why, high=high, derivation=derivation)


def recovery_limit(recovery: Recovery, factor: float) -> Limit:
    """At most the predicted seconds times `factor`."""
    high = recovery.seconds * factor
    why = f"copying should take {recovery.seconds:,.0f} s, limited by {recovery.limit}"
    derivation = _allowed(recovery.derivation, f"{recovery.seconds:,.0f} x {factor:.3g}", f"at most {high:,.0f} s")
    return Limit("time to recover", "s", why, high=high, derivation=derivation)


def _allowed(derivation: Derivation, how: str, value: str) -> Derivation:
    return derivation + Derivation((DerivationStep("limit", how, value),))


def trusted_factor(ratios: Sequence[float], least: float = 1.25) -> float:
    """The factor by which a prediction may be off: the worst of validated ratios, and never below `least`.

    2.0, which the model promises, when nothing was validated.
    """
    if geometric_error(ratios) is None:
        return TARGET_WORST
    return max(least, *(max(ratio, 1 / ratio) for ratio in ratios))


def recovery_factor(demands: Sequence[Demand], find: Callable[[str], Profile]) -> float:
    """The factor by which a predicted time of recovery may be off. find: profile by name.

    It is the worst of all published times, or 2 if that is more: recovery has no test beds to leave out. For rates and
    latencies see `Prediction.trust`.
    """
    compared = validate(with_shipped(demands), of_recovery(load_references()), find).comparisons
    return trusted_factor([comparison.ratio for comparison in compared if comparison.ratio], least=TARGET_WORST)
