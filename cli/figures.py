"""Figures for people: three digits with an SI prefix, a prediction with its interval, a ratio in colour."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cephlab.cli.output import table
from cephlab.lab.base.numbers import percent, si

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.table import Table
    from rich.text import Text

    from cephlab.cli.output import Output
    from cephlab.tuning.model import Prediction
    from cephlab.tuning.profile import Profile
    from cephlab.tuning.validate import Comparison

_CLOSE, _WITHIN = 1.25, 2.0
"""The target of the model: its mean error, and the factor that each figure is within."""


def figure_rows(prediction: Prediction) -> list[tuple[str, str, str]]:
    """(what, figure, `low to high`) of operations, bytes and latency, with the 90 % interval."""
    figures = (
        ("operations", prediction.ops, "ops/s", "ops_s"),
        ("payload", prediction.bytes_s, "bytes/s", "bytes_s"),
        ("mean latency", prediction.latency_s, "s", "latency_s"),
    )
    ends = prediction.intervals
    return [
        (what, si(value, unit), " to ".join(si(end, unit) for end in ends[key])) for what, value, unit, key in figures
    ]


def interval_lines(prediction: Prediction) -> list[str]:
    """The same as lines. The unit says what operations and bytes are."""
    (_, *rate), (_, *payload), latency = figure_rows(prediction)
    named = (rate, payload, [" ".join(latency[:2]), latency[2]])
    return [f"  {figure} ({ends})" for figure, ends in named]


def ratio_text(ratio: float) -> Text:
    """A ratio of predicted to published, in a colour that shows how far off it is."""
    from rich.text import Text

    off = max(ratio, 1 / ratio) if ratio > 0 else float("inf")
    return Text(f"{ratio:.2f}", "green" if off <= _CLOSE else "yellow" if off <= _WITHIN else "red")


def limit_lines(which: str, limited: Iterable[tuple[str, str]]) -> list[str]:
    """A line for each limit, with all that it limits. which: words before those; limited: (what, its limit)."""
    groups: dict[str, list[str]] = {}
    for what, limit in limited:
        groups.setdefault(limit, []).append(what)
    return [f"  limit {which} {', '.join(those)}: {limit}" for limit, those in groups.items()]


def show_comparisons(out: Output, comparisons: Sequence[Comparison]) -> None:
    """Print published and predicted figures side by side, a table for each source, and below it the limits."""
    for source in dict.fromkeys(row.reference for row in comparisons):
        rows = [row for row in comparisons if row.reference == source]
        cells: list[list[str | Text]] = [
            [
                row.figure.name,
                si(row.figure.value, row.figure.unit),
                si(row.predicted or 0.0, row.figure.unit),
                f"{row.trust.factor:.2f}" if row.trust else "-",
                ratio_text(row.ratio or 0.0),
            ]
            for row in rows
        ]
        heads = ("figure", "published", "predicted", "factor", "ratio")
        out.result(table(heads, cells, title=source, wrapped=("figure",)), None)
        out.lines(*limit_lines("of", [(row.figure.name, row.limit.partition(" (next limit: ")[0]) for row in rows]), "")
    if any(row.trust for row in comparisons):
        lone = "" if all(row.trust for row in comparisons) else "; -: known for rates and latencies only"
        out.lines(f"factor: 90 % of measured values lie between the prediction divided and multiplied by it{lone}")


RESOURCE_HEADS = ("resource", "allows", "utilisation")


def resource_rows(prediction: Prediction) -> list[tuple[str, str, str]]:
    """RESOURCE_HEADS of each resource: the rate that it allows, lowest first, and its utilisation."""
    return [
        (ceiling.name, si(ceiling.ops, "ops/s"), percent(prediction.utilisation[ceiling.name], ".0f"))
        for ceiling in prediction.ceilings
    ]


def resource_table(prediction: Prediction, shown: int) -> Table:
    """The resources that allow least."""
    return table(RESOURCE_HEADS, resource_rows(prediction)[:shown], wrapped=("resource",))


def source_lines(profile: Profile) -> list[str]:
    """Every figure of a profile with its place and its source."""
    return [f"{place}: {figure}   [{figure.source}]" for place, figure in profile.figures()]
