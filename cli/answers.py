"""All that one `cephlab predict` worked out, for people and as JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from cephlab.cli.recover import Recovered
from cephlab.cli.sweep import Sweep
from cephlab.cli.work import work_value

if TYPE_CHECKING:
    from cephlab.tuning.model import Prediction
    from cephlab.tuning.profile import Profile
    from cephlab.tuning.scaling import Scaling
    from cephlab.tuning.validate import Comparison


@dataclass(frozen=True)
class Answers:
    """All that one `predict` worked out: for each load a prediction, its law, and the points of a sweep.

    origin: of the demands; theirs: of those for published figures; rivals: for each load the other profiles; met: which
    requirements each point of a sweep over machines meets.
    """

    hardware: Profile
    origin: str
    predictions: list[Prediction]
    scalings: list[Scaling]
    swept: Sweep | None
    series: list[list[Prediction]]
    met: list[dict[str, Any]]
    rivals: list[list[Prediction]]
    published: list[Comparison]
    theirs: str
    rebuilt: Recovered | None

    @property
    def value(self) -> dict[str, Any]:
        """As JSON values."""
        value: dict[str, Any] = {
            "demands": self.origin,
            "predictions": _values(self.predictions),
            "work_per_watt": [work_value(prediction, self.hardware) for prediction in self.predictions],
            "scalability": self.laws,
            "published": [compared(comparison) for comparison in self.published],
            "published_demands": self.theirs,
        }
        if self.rebuilt:
            value["recovery"] = self.rebuilt.value
        if any(self.rivals):
            value["compared"] = [_values(row) for row in self.rivals]
        if self.swept:
            value |= {"sweep": [_values(points) for points in self.series], "requirements": self.met}
        return value

    @property
    def laws(self) -> list[str]:
        """The scalability law of each load, in words."""
        pairs = zip(self.scalings, self.predictions, strict=True)
        return [law.words(prediction.shape.clients) for law, prediction in pairs]


def compared(comparison: Comparison) -> dict[str, Any]:
    """A comparison as JSON values; predicted and ratio are null, with `why`, if the model cannot predict it."""
    return {
        "source": comparison.reference,
        "name": comparison.figure.name,
        "kind": comparison.figure.kind.value,
        "unit": comparison.figure.unit,
        "published": comparison.figure.value,
        "where": comparison.figure.where,
        "note": comparison.figure.note,
        "predicted": comparison.predicted,
        "ratio": comparison.ratio,
        "interval": list(comparison.interval) if comparison.interval else None,
        "limit": comparison.limit,
        "why": comparison.why,
        "rests_on": [{"assumed": rest.what, "otherwise": dict(rest.otherwise)} for rest in comparison.rests],
    }


def as_value(prediction: Prediction) -> dict[str, Any]:
    """A prediction as JSON values: operations and bytes a second, seconds, shares of 1."""
    return {
        "profile": prediction.profile,
        "shape": asdict(prediction.shape),
        "ops_s": prediction.ops,
        "bytes_s": prediction.bytes_s,
        "latency_s": prediction.latency_s,
        "interval": _interval_value(prediction),
        "bottleneck": prediction.bottleneck,
        "ceilings": [{"resource": ceiling.name, "ops_s": ceiling.ops} for ceiling in prediction.ceilings],
        "utilisation": prediction.utilisation,
        "unloaded_s": prediction.unloaded_s,
        "unknown": list(prediction.unknown),
    }


def _values(predictions: Sequence[Prediction]) -> list[dict[str, Any]]:
    return [as_value(prediction) for prediction in predictions]


def _interval_value(prediction: Prediction) -> dict[str, Any]:
    """The 90 % intervals of a prediction as JSON values, with what was not validated."""
    trust = prediction.trust
    return {
        **{name: list(interval) for name, interval in prediction.intervals.items()},
        "factor": trust.factor,
        "kind": trust.kind.value,
        "test_beds": trust.beds,
        "outside": list(trust.outside),
    }


def doubts(predictions: Sequence[Prediction]) -> list[str]:
    """Where the intervals come from, what was not validated and what is not known, each once."""
    lines = [f"interval: {prediction.trust}" for prediction in predictions]
    lines += [line for prediction in predictions for line in prediction.trust.outside]
    lines += [f"not known: {line}" for prediction in predictions for line in prediction.unknown]
    return list(dict.fromkeys(lines))
