"""`cephlab predict --compare`: predictions for several profiles under the same load, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cephlab.cli.output import Output, table
from cephlab.lab.base.numbers import si

if TYPE_CHECKING:
    from cephlab.tuning.model import Prediction


def show_rivals(out: Output, predictions: Sequence[Prediction], rivals: Sequence[Sequence[Prediction]]) -> None:
    """Print a table for each load. rivals: for each prediction, those of the other profiles; may be empty."""
    for first, others in zip(predictions, rivals, strict=True):
        if others:
            _show(out, first, others)


def _show(out: Output, first: Prediction, others: Sequence[Prediction]) -> None:
    rows = [rival_row(first, first), *(rival_row(first, other) for other in others)]
    out.lines("", f"{first.shape}, side by side:")
    heads = ("profile", "rate", "90 % interval", "mean latency", "ratio to first")
    out.result(table(heads, rows, wrapped=()), None)
    out.lines(*(f"  {prediction.profile} is limited by: {prediction.bottleneck}" for prediction in (first, *others)))


def rival_row(first: Prediction, prediction: Prediction) -> list[str]:
    """Profile, rate, its interval, latency, and the ratio to the first, empty for the first itself."""
    low, high = prediction.trust.around(prediction.ops)
    ratio = "" if prediction is first else f"{prediction.ops / first.ops:.2f}{told_apart(first, prediction)}"
    return [
        prediction.profile,
        si(prediction.ops, "ops/s"),
        f"{si(low, '')} to {si(high, '')}",
        si(prediction.latency_s, "s"),
        ratio,
    ]


def told_apart(first: Prediction, other: Prediction) -> str:
    """`, faster` or `, slower` if the two 90 % intervals do not overlap, else empty."""
    low, high = first.trust.around(first.ops)
    its_low, its_high = other.trust.around(other.ops)
    return ", faster" if its_low > high else ", slower" if its_high < low else ""
