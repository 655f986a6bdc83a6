"""Measured series and demands of a history as charts: figures over depth or clients, and the cost of each role."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any

from cephlab.lab.history.history import Event, Recorder
from cephlab.lab.report.plot import TONES, WIDTH, Mark, Panel, Series, graph, svg
from cephlab.lab.telemetry.demandfile import EVENT, Measurement, event_of, measured_in
from cephlab.lab.telemetry.describe import seconds_text, title

KIND = "series"
_LEAST_LOOKS = 2
_LEFT, _ROW, _BAR = 120.0, 26.0, 16.0


@dataclass(frozen=True)
class Line:
    """One line of a panel. points: (x, y). Lines with the same panel name are drawn together."""

    panel: str
    label: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Plot:
    """title; svg: the chart; words: one line below it, may be empty; data: that of its Graph, if it is one."""

    title: str
    svg: str
    words: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


def record_series(
    recorder: Recorder, name: str, lines: Sequence[Line], *, axis: str, marks: Mapping[str, float], words: str = ""
) -> None:
    """Record a series in the history. axis: what x counts, or its unit; marks: label -> place on it."""
    raw = [
        {"panel": line.panel, "label": line.label, "points": [list(point) for point in line.points]} for line in lines
    ]
    recorder.record(KIND, title=name, axis=axis, lines=raw, marks=dict(marks), words=words)


def record_demand(recorder: Recorder, measured: Measurement) -> None:
    """Record a measurement in the history."""
    recorder.record(EVENT, **event_of(measured))


def record_look(
    recorder: Recorder, kind: str, stand: str, drawn: Mapping[str, Mapping[str, float]], **facts: Any
) -> None:
    """Record counters as they are now.

    drawn: panel -> label -> value, which the report plots over time; stand: what is running meanwhile.
    """
    recorder.record(kind, stand=stand, drawn=drawn, **facts)


def plots(events: Sequence[Event]) -> tuple[Plot, ...]:
    """Every chart that a scenario's events make."""
    series = (_series(event.data) for event in events if event.kind == KIND)
    return (*series, *map(_bars, measured_in(events)), *_looks(events))


def line_chart(title: str, lines: Sequence[Line], *, axis: str, marks: Mapping[str, float] | None = None) -> Plot:
    """Lines over one axis, those of a panel together; the words below it name the marks."""
    panels: dict[str, list[Series]] = {}
    for line in lines:
        series_of_panel = panels.setdefault(line.panel, [])
        series_of_panel.append(Series(line.label, line.points, TONES[len(series_of_panel) % len(TONES)]))
    places = dict(marks or {})
    shown = [Panel(name, tuple(series)) for name, series in panels.items()]
    words = [f"{number}: {label} ({at:g})" for number, (label, at) in enumerate(places.items(), 1)]
    chart = graph(shown, [Mark(at, label) for label, at in places.items()], unit=axis, name=title)
    return Plot(title, chart.svg, "; ".join(words), chart.data)


def _series(data: Mapping[str, Any]) -> Plot:
    lines = [
        Line(line["panel"], line["label"], tuple((float(x), float(y)) for x, y in line["points"]))
        for line in data["lines"]
    ]
    marks = {label: float(at) for label, at in data["marks"].items()}
    chart = line_chart(data["title"], lines, axis=data["axis"], marks=marks)
    return replace(chart, words="; ".join(words for words in (chart.words, data["words"]) if words))


def _looks(events: Sequence[Event]) -> Iterator[Plot]:
    """Counters over time, as they were recorded for drawing, with a mark where each run begins."""
    kinds: dict[str, list[Event]] = {}
    for event in events:
        if "drawn" in event.data:
            kinds.setdefault(event.kind, []).append(event)
    for kind, looks in kinds.items():
        if len(looks) < _LEAST_LOOKS:
            continue
        origin = looks[0].at_s
        lines: dict[tuple[str, str], list[tuple[float, float]]] = {}
        marks: dict[str, float] = {}
        for event in looks:
            at = event.at_s - origin
            marks.setdefault(str(event.data["stand"]), round(at, 1))
            for panel, values in event.data["drawn"].items():
                for label, value in values.items():
                    lines.setdefault((panel, label), []).append((at, float(value)))
        shown = [Line(panel, label, tuple(points)) for (panel, label), points in lines.items()]
        yield line_chart(f"{kind}: counters over time", shown, axis="s", marks=marks)


def _bars(measured: Measurement) -> Plot:
    """CPU of one operation for each role: one bar, with user and system one after the other."""
    costs = {
        role.value: [means.get("cpu_user_s", 0.0), means.get("cpu_system_s", 0.0)]
        for role, of_role in measured.demand.costs.items()
        if (means := {resource.value: max(0.0, interval.mean) for resource, interval in of_role.items()})
    }
    longest = max((sum(parts) for parts in costs.values()), default=0.0) or 1.0
    height = _ROW * len(costs) + 6
    name = f"CPU seconds of one operation: {title(measured.demand)}"
    parts: list[str] = []
    for number, (role, values) in enumerate(costs.items()):
        parts += _bar(role, values, longest, number * _ROW + 4)
    words = f"user, then system; {measured.stopped}; {measured.linearity}"
    return Plot(name, svg(parts, height, name), words)


def _bar(role: str, values: Sequence[float], longest: float, top: float) -> Iterator[str]:
    yield f'<text x="{_LEFT - 8:g}" y="{top + 12:g}" text-anchor="end">{escape(role)}</text>'
    x = _LEFT
    for value, tone in zip(values, TONES, strict=False):
        width = (WIDTH - _LEFT - 90) * value / longest
        yield f'<rect x="{x:.1f}" y="{top:g}" width="{width:.1f}" height="{_BAR:g}" fill="{tone}"/>'
        x += width
    yield f'<text x="{x + 6:.1f}" y="{top + 12:g}">{escape(seconds_text(sum(values)))}</text>'
