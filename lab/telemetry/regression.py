"""Estimates by how much a cost rose between two measurements, without the part due to the machine's changing speed."""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cephlab.lab.base.numbers import t_quantile
from cephlab.lab.telemetry.demand import LARGEST
from cephlab.lab.telemetry.demandfile import Batch

CONFIDENCE = 0.98
"""Two-sided: one false regression in a hundred (lab/checks/regression.py)."""
_LEAST_LEFT = 6
"""Degrees of freedom that must remain; with fewer, covariates are dropped, the last one first."""

_ROUNDING = 1e-6
_MOST_EXPONENT = math.log(sys.float_info.max)

Covariates = tuple[dict[str, list[float]], dict[str, list[float]]]
"""The covariates of both sides, see `covariates`."""


@dataclass(frozen=True)
class Ratio:
    """after / before with its interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of_logarithms(cls, value: float, low: float, high: float) -> "Ratio":
        """From the logarithms of all three. What no float can hold is infinite."""
        return cls(*(math.exp(number) if number < _MOST_EXPONENT else math.inf for number in (value, low, high)))

    @property
    def ends(self) -> tuple[float, float]:
        """Both ends, for a figure: an infinite upper end becomes LARGEST, since a history cannot hold it."""
        return self.low, min(self.high, LARGEST)


def covariates(batches: Sequence[Batch]) -> dict[str, list[float]]:
    """What changes a cost without being part of it: work per wake-up and per commit, and the pace of the machine.

    Logarithms, one value per batch; only covariates that every batch has.
    """
    logs: dict[str, list[float]] = {}
    for name in ("switches", "syncs"):
        values = [batch.batching.get(name, 0.0) for batch in batches]
        if all(value > 0 for value in values):
            logs[name] = [math.log(value) for value in values]
    if all(batch.reference for batch in batches):
        logs["pace"] = [
            sum(math.log(value) for value in batch.reference.values()) / len(batch.reference) for batch in batches
        ]
    return logs


def pace_moved(beside: Covariates) -> float:
    """Difference of the mean logarithm of the pace of the machine; 0 if a side did not measure it."""
    before, after = (side.get("pace", ()) for side in beside)
    return float(np.mean(after) - np.mean(before)) if len(before) and len(after) else 0.0


def ratio(
    before: Sequence[float],
    after: Sequence[float],
    beside: Covariates = ({}, {}),
    *,
    spread: float = 0.0,
    confidence: float = CONFIDENCE,
) -> Ratio:
    """after / before by analysis of covariance on logarithms: one slope for both sides, one step between them.

    before, after: costs of batches, all above 0. spread: standard deviation of the logarithm from one deployment to the
    next, which the batches of a single deployment cannot show; it enters twice.
    Source: analysis of covariance, e.g. Montgomery, Design and Analysis of Experiments, chapter 15.
    """
    count = len(before) + len(after)
    names = [name for name in beside[0] if name in beside[1]]
    names = names[: max(0, count - 2 - _LEAST_LEFT)]
    columns = [np.ones(count), np.r_[np.zeros(len(before)), np.ones(len(after))]]
    for name in names:
        column = np.asarray([*beside[0][name], *beside[1][name]])
        columns.append(column - column.mean())
    # If the machine itself became slower, the result is uncertain by as much.
    doubt = 2 * spread**2 + pace_moved(beside) ** 2
    return Ratio.of_logarithms(*_fitted(np.column_stack(columns), np.log([*before, *after]), 1, confidence, doubt))


def paired(
    before: Sequence[float],
    after: Sequence[float],
    beside: Covariates = ({}, {}),
    *,
    confidence: float = CONFIDENCE,
) -> Ratio:
    """after / before of two clusters that ran in parallel: a straight line through the starts, at equal covariates.

    before, after: costs of batches of the same periods, one for each start of the daemons, all above 0. The logarithm
    of the ratio of each start is fitted to the difference of its covariates; the step is its value where they do not
    differ. The interval is Student's t, infinite for a single start.
    Source: regression on concomitant variables in paired comparisons, e.g. Montgomery, as for `ratio`.
    """
    target = np.log(np.asarray(after)) - np.log(np.asarray(before))
    count = len(target)
    names = [name for name in beside[0] if name in beside[1]] if count > _LEAST_LEFT else []
    columns = [np.ones(count), *(np.asarray(beside[1][name]) - np.asarray(beside[0][name]) for name in names)]
    return Ratio.of_logarithms(*_fitted(np.column_stack(columns), target, 0, confidence))


def _fitted(
    design: NDArray[np.float64], target: NDArray[np.float64], column: int, confidence: float, doubt: float = 0.0
) -> tuple[float, float, float]:
    """The least-squares coefficient of a column with its interval, infinite if too few values remain.

    It is infinite too if the other columns can replace this one, as covariates do that are constant on each side: least
    squares would then divide the coefficient among them. doubt: additional variance of the coefficient that the values
    cannot show.
    """
    smallest = float(np.finfo(float).eps) * max(design.shape)
    inverse, rank = np.linalg.pinv(design, rcond=smallest), int(np.linalg.matrix_rank(design, rtol=smallest))
    fitted, left = inverse @ target, len(target) - rank
    step, alone = float(fitted[column]), abs(1 - float(inverse[column] @ design[:, column])) < _ROUNDING
    if left <= 0 or not alone:
        return step, -math.inf, math.inf
    rest = target - design @ fitted
    variance = float(rest @ rest) / left * float(inverse[column] @ inverse[column]) + doubt
    half = t_quantile(left, confidence) * math.sqrt(variance)
    return step, step - half, step + half
