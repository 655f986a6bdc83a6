"""How much dearer something became between two measurements, with what the machine's mood explains taken out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from lab.telemetry.demandfile import Batch

CONFIDENCE = 0.98
"""Two-sided: one regression in a hundred that is none (lab/checks/regression.py)."""
_LEAST_LEFT = 6
"""Degrees of freedom that must be left; with fewer, covariates are dropped from the last on."""


@dataclass(frozen=True)
class Ratio:
    """after / before with its interval. explained: covariates that were taken into account."""

    value: float
    low: float
    high: float
    explained: tuple[str, ...] = ()


def covariates(batches: Sequence[Batch]) -> dict[str, list[float]]:
    """What moves a cost without being one: how much each wake-up and commit did, and the machine's own pace.

    Logarithms, one value a batch; only those that every batch has.
    """
    found: dict[str, list[float]] = {}
    for name in ("switches", "syncs"):
        values = [batch.batching.get(name, 0.0) for batch in batches]
        if all(value > 0 for value in values):
            found[name] = [math.log(value) for value in values]
    if all(batch.reference for batch in batches):
        found["pace"] = [
            sum(math.log(value) for value in batch.reference.values()) / len(batch.reference) for batch in batches
        ]
    return found


def pace_moved(beside: tuple[dict[str, list[float]], dict[str, list[float]]]) -> float:
    """Difference of the mean logarithm of the machine's own pace; 0 where it was not taken on both sides."""
    before, after = (side.get("pace", ()) for side in beside)
    return float(np.mean(after) - np.mean(before)) if len(before) and len(after) else 0.0


def ratio(
    before: Sequence[float],
    after: Sequence[float],
    beside: tuple[dict[str, list[float]], dict[str, list[float]]] = ({}, {}),
    *,
    spread: float = 0.0,
    confidence: float = CONFIDENCE,
) -> Ratio:
    """after / before by analysis of covariance on logarithms: one slope for both sides, one step between them.

    before, after: costs of batches, all above 0; beside: covariates of both (`covariates`). spread: standard deviation
    of the logarithm from one deployment to the next, which the batches of one cannot show; it enters twice.
    Source: analysis of covariance, e.g. Montgomery, Design and Analysis of Experiments, chapter 15.
    """
    count = len(before) + len(after)
    names = [name for name in beside[0] if name in beside[1]]
    names = names[: max(0, count - 2 - _LEAST_LEFT)]
    columns = [np.ones(count), np.r_[np.zeros(len(before)), np.ones(len(after))]]
    for name in names:
        column = np.asarray([*beside[0][name], *beside[1][name]])
        columns.append(column - column.mean())
    design = np.column_stack(columns)
    target = np.log([*before, *after])
    fitted, _, rank, _ = np.linalg.lstsq(design, target, rcond=None)
    left = count - int(rank)
    if left <= 0:
        return Ratio(math.exp(float(fitted[1])), 0.0, math.inf, tuple(names))
    rest = target - design @ fitted
    variance = float(rest @ rest) / left * float(np.linalg.pinv(design.T @ design)[1, 1]) + 2 * spread**2
    # A machine that became slower itself by so much leaves what was found uncertain by as much.
    variance += pace_moved(beside) ** 2
    half = float(stats.t.ppf((1 + confidence) / 2, left)) * math.sqrt(variance)
    step = float(fitted[1])
    return Ratio(math.exp(step), math.exp(step - half), math.exp(step + half), tuple(names))


def paired(
    before: Sequence[float],
    after: Sequence[float],
    beside: tuple[dict[str, list[float]], dict[str, list[float]]] = ({}, {}),
    *,
    confidence: float = CONFIDENCE,
) -> Ratio:
    """after / before of two clusters that ran side by side: a straight line through the starts, at equal covariates.

    before, after: costs of batches of the same stretches of time, one for each start of the daemons, all above 0;
    beside: covariates of both (`covariates`). The logarithm of each start's ratio is fitted to the difference of its
    covariates; what it is where they do not differ is the step, its interval is Student's t. One start has none.
    Source: regression on concomitant variables in paired comparisons, e.g. Montgomery, as for `ratio`.
    """
    target = np.log(np.asarray(after)) - np.log(np.asarray(before))
    count = len(target)
    names = [name for name in beside[0] if name in beside[1]] if count > _LEAST_LEFT else []
    columns = [np.ones(count), *(np.asarray(beside[1][name]) - np.asarray(beside[0][name]) for name in names)]
    design = np.column_stack(columns)
    fitted, _, rank, _ = np.linalg.lstsq(design, target, rcond=None)
    step, left = float(fitted[0]), count - int(rank)
    if left <= 0:
        return Ratio(math.exp(step), 0.0, math.inf, tuple(names))
    rest = target - design @ fitted
    variance = float(rest @ rest) / left * float(np.linalg.pinv(design.T @ design)[0, 0])
    half = float(stats.t.ppf((1 + confidence) / 2, left)) * math.sqrt(variance)
    return Ratio(math.exp(step), math.exp(step - half), math.exp(step + half), tuple(names))
