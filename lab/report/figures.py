"""The figures of a scenario as rows: each value, the limit that judges it, and what that limit is based on."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cephlab.lab.checks.figures import figure_parts
from cephlab.lab.checks.service import bounded, computed, limits_by_metric
from cephlab.lab.history.history import Event, data_of

_MISSING = "not measured"


@dataclass(frozen=True)
class FigureRow:
    """A figure as shown. limit: its limit, or why it has none; basis: what the limit is based on."""

    metric: str
    value: str
    limit: str
    basis: str


def figure_rows(events: Sequence[Event]) -> Iterator[FigureRow]:
    """Every figure with its own limit and the one that was recorded for it, then every limit of another metric.

    Those other metrics are the ones that the check `service` computes. A limit that has no value is shown without one.
    """
    limits = limits_by_metric(events)
    figures = data_of(events, "figure")
    for data in figures:
        limit = limits.get(data["metric"])
        if limit is None or bounded(data):
            yield _row(data)
        if limit is not None:
            yield _row(data, limit)
    if not limits:
        return
    known = {data["metric"] for data in figures}
    values = {metric: (value, unit) for metric, value, unit in computed(events)}
    for metric, limit in limits.items():
        if metric in values or metric not in known:
            value, unit = values.get(metric, (limit["high"], limit["unit"]))
            row = _row({"metric": metric, "value": value, "low": value, "high": value, "unit": unit}, limit)
            yield row if metric in values else replace(row, value=_MISSING)


def _row(figure: Mapping[str, Any], limit: Mapping[str, Any] | None = None) -> FigureRow:
    """A figure with a limit that was recorded for it, else with its own. Older archives have no basis."""
    judged = {**figure, "least": None, "most": limit["high"], "why": limit["why"]} if limit is not None else figure
    metric, value, words = figure_parts(judged)
    return FigureRow(metric, value, words, str((limit or {}).get("basis", figure.get("basis", ""))))
