"""`cephlab predict --output`: all that was predicted as sections of one page, each figure with its interval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING

from cephlab.cli.answers import doubts
from cephlab.cli.figures import RESOURCE_HEADS, figure_rows, resource_rows, source_lines
from cephlab.cli.rivals import rival_row
from cephlab.cli.work import work_lines
from cephlab.lab.base.numbers import how_many, si
from cephlab.lab.report.predicted import Part, Table, render_prediction
from cephlab.lab.report.series import Line, Plot, line_chart

if TYPE_CHECKING:
    from datetime import datetime

    from cephlab.cli.answers import Answers
    from cephlab.cli.sweep import Point
    from cephlab.tuning.model import Prediction

_INTERVAL = "90 % interval"
_COUNTED = {"depth": "in flight", "clients": "clients", "nodes.count": "nodes"}
"""What the points of a sweep count; the other places of a profile have no word for it."""


def page_of(answers: Answers, changes: Sequence[str], made_at: datetime) -> str:
    """The page. changes: `PLACE=VALUE`, as given to `--set`; made_at: in UTC."""
    hardware = answers.hardware
    facts = {
        "profile": f"{hardware.name}: {hardware.title}",
        "changed": ", ".join(changes),
        "demands": answers.origin,
        "made": f"{made_at:%Y-%m-%d %H:%M} UTC",
        "cephlab": version("cephlab"),
    }
    parts = [*_loads(answers), *_further(answers), _rests_on(answers)]
    return render_prediction(f"What {hardware.name} should deliver", facts, parts)


def _loads(answers: Answers) -> Iterator[Part]:
    """A section for each load: figures, limits, resources, the points of a sweep, doubts and steps."""
    for number, (prediction, law) in enumerate(zip(answers.predictions, answers.laws, strict=True)):
        tables, plots = [_figures(prediction), _resources(prediction)], []
        if answers.swept:
            points, swept = answers.swept.points[number], answers.series[number]
            tables.append(_sweep_table(answers.swept.what, points, swept))
            plots.append(_sweep_chart(answers.swept.what, points, swept))
        lines = [*doubts([prediction]), *work_lines(prediction, answers.hardware), law]
        steps = prediction.derivation.lines()
        yield Part(str(prediction.shape), tables, plots, lines, {how_many(len(steps), "step"): steps})


def _figures(prediction: Prediction) -> Table:
    first, *others = prediction.ceilings
    now, too_little, _ = prediction.bottleneck.partition(" (next limit: ")
    following = [first] if too_little else others[:1]
    limits = [("limit", now, ""), *(("next limit", each.name, f"allows {si(each.ops, 'ops/s')}") for each in following)]
    return Table("Predicted", ("figure", "predicted", _INTERVAL), [*figure_rows(prediction), *limits])


def _resources(prediction: Prediction) -> Table:
    return Table("What each resource allows", RESOURCE_HEADS, resource_rows(prediction))


def _sweep_table(what: str, points: Sequence[Point], swept: Sequence[Prediction]) -> Table:
    rows = []
    for point, prediction in zip(points, swept, strict=True):
        (_, *rate), _, (_, *latency) = figure_rows(prediction)
        rows.append((point.at, *rate, *latency, prediction.bottleneck))
    return Table(f"Over {what}", (what, "operations", _INTERVAL, "mean latency", _INTERVAL, "limit"), rows)


def _sweep_chart(what: str, points: Sequence[Point], swept: Sequence[Prediction]) -> Plot:
    """Rate and latency over what is swept, with both ends of their intervals."""
    at = [float(point.at) for point in points]
    panels = (
        ("operations a second", "ops_s", 1.0, [prediction.ops for prediction in swept]),
        ("mean latency, ms", "latency_s", 1e3, [prediction.latency_s for prediction in swept]),
    )
    lines = []
    for panel, key, times, values in panels:
        low, high = zip(*(prediction.intervals[key] for prediction in swept), strict=True)
        for label, ys in (("predicted", values), ("low end", low), ("high end", high)):
            lines.append(Line(panel, label, tuple((x, times * y) for x, y in zip(at, ys, strict=True))))
    return line_chart(f"Over {what}", lines, axis=_COUNTED.get(what, ""))


def _further(answers: Answers) -> Iterator[Part]:
    """What else was asked for: other machines, requirements over a sweep, a recovery."""
    beside = [
        Table(str(first.shape), ("profile", "rate", _INTERVAL, "mean latency", "ratio to first", "limit"), rows)
        for first, others in zip(answers.predictions, answers.rivals, strict=True)
        if (rows := [(*rival_row(first, prediction), prediction.bottleneck) for prediction in (first, *others)])[1:]
    ]
    if beside:
        yield Part("Side by side", beside)
    if answers.swept and answers.met:
        heads = (answers.swept.what, *list(answers.met[0])[1:])
        verdicts = Table("Judged by the interval of the prediction", heads, [[*row.values()] for row in answers.met])
        yield Part("Requirements", [verdicts])
    if answers.rebuilt:
        yield Part("Recovery", lines=[answers.rebuilt.heading], more={"Steps": answers.rebuilt.steps})


def _rests_on(answers: Answers) -> Part:
    """Published figures that the model was compared with, and the figures of the machines with their sources."""
    figures = source_lines(answers.hardware)
    published = [
        (
            f"{row.reference}: {row.figure.name}",
            si(row.figure.value, row.figure.unit),
            si(row.predicted or 0.0, row.figure.unit),
            " to ".join(si(end, row.figure.unit) for end in row.interval or ()),
        )
        for row in answers.published
    ]
    heads = ("published for this cluster, under its own load", "published", "predicted", _INTERVAL)
    tables = [Table(f"Compared; demands: {answers.theirs}", heads, published)] if published else []
    return Part(
        "What it rests on",
        tables,
        more={how_many(len(figures), "figure of the machines", "figures of the machines"): figures},
    )
