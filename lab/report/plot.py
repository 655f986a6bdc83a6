"""Charts for self-contained pages: panels over one x axis with numbered marks, as SVG and as data."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from itertools import groupby
from typing import Any

WIDTH, _PANEL, _GAP = 960.0, 110.0, 34.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 12.0, 42.0, 22.0
_LABEL, _DIGIT = 8.0, 6.5
"""The room that the number of a mark takes: between two of them, and for each digit."""
_TICKS = 4
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
TONES = ("var(--pass, #1a7f4b)", "var(--skip, #33698c)", "var(--error, #8a3ba8)", "var(--inconclusive, #9a6700)")
"""Colours of lines that are drawn together, in the order in which they are used."""
_SCALES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True)
class Series:
    """One line. points: (x, y) in order of x; tone: a CSS colour; stepped: whether y holds until the next x.

    The line has a gap where y is not a number.
    """

    label: str
    points: tuple[tuple[float, float], ...]
    tone: str = "currentColor"
    stepped: bool = False


@dataclass(frozen=True)
class Panel:
    """Lines over one y axis, which begins at zero, or at a negative value. title: what it shows, with its unit."""

    title: str
    series: tuple[Series, ...]


@dataclass(frozen=True)
class Mark:
    """A numbered line through every panel, or a band up to `until`."""

    at: float
    label: str
    until: float | None = None


@dataclass(frozen=True)
class Graph:
    """A chart of panels. svg: for print; data: from which the script of the page draws it again, for zooming."""

    svg: str
    data: Mapping[str, Any]


def graph(panels: Sequence[Panel], marks: Sequence[Mark] = (), *, unit: str = "s", name: str = "chart") -> Graph:
    """Panels below each other over one x axis, in `unit`. name: for screen readers."""
    parts = [
        {
            "title": panel.title,
            "series": [
                {**asdict(series), "points": [(x, y if math.isfinite(y) else None) for x, y in series.points]}
                for series in panel.series
            ],
        }
        for panel in panels
    ]
    data = {"unit": unit, "panels": parts, "marks": [asdict(mark) for mark in marks]}
    return Graph(chart(panels, marks, unit=unit, name=name), data)


def chart(panels: Sequence[Panel], marks: Sequence[Mark] = (), *, unit: str = "s", name: str = "chart") -> str:
    """An `<svg>` element: panels below each other over one x axis."""
    xs = [x for panel in panels for series in panel.series for x, _ in series.points]
    xs += [mark.at for mark in marks] + [mark.until for mark in marks if mark.until is not None]
    if not xs:
        return ""
    low, high = min(xs), max(xs)
    across = Axis(low, high if high > low else low + 1.0, _LEFT, WIDTH - _RIGHT)
    height = _TOP + len(panels) * (_PANEL + _GAP) - _GAP + _BOTTOM
    bottom = height - _BOTTOM
    parts = list(_marks(marks, across, bottom))
    for number, panel in enumerate(panels):
        top = _TOP + number * (_PANEL + _GAP)
        parts += _panel(panel, across, top)
    parts += _bottom(across, bottom, unit)
    return svg(parts, height, name)


def svg(parts: Sequence[str], height: float, name: str) -> str:
    """An `<svg>` element with these parts. name: for screen readers."""
    box = f'viewBox="0 0 {WIDTH:g} {height:g}" role="img" aria-label="{escape(name)}"'
    return "\n".join([f'<svg class="chart" {box} font-size="11" fill="currentColor">', *parts, "</svg>"])


@dataclass(frozen=True)
class Axis:
    """Maps values from low to high to pixels from start to end."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Round values within, about _TICKS of them."""
        rough = (self.high - self.low) / _TICKS
        size = 10 ** math.floor(math.log10(rough))
        step = next(size * factor for factor in _STEPS if size * factor >= rough)
        first = math.ceil(self.low / step)
        return [number * step for number in range(first, math.floor(self.high / step + 1e-9) + 1)]


def _panel(panel: Panel, across: Axis, top: float) -> Iterator[str]:
    values = [y for series in panel.series for _, y in series.points if math.isfinite(y)]
    peak, least = max([0.0, *values]), min([0.0, *values])
    up = Axis(least, peak * 1.05 if peak or least else 1.0, top + _PANEL, top)
    yield f'<text x="{_LEFT:g}" y="{top - 7:g}" font-weight="600">{escape(panel.title)}</text>'
    yield from _legend(panel, top)
    for tick in up.ticks():
        y = up.at(tick)
        yield f'<line x1="{_LEFT:g}" x2="{across.end:g}" y1="{y:.1f}" y2="{y:.1f}" stroke="var(--line, #ccc)"/>'
        yield f'<text x="{_LEFT - 6:g}" y="{y + 4:.1f}" text-anchor="end" opacity=".7">{short(tick)}</text>'
    for series in panel.series:
        for whole, part in groupby(_drawn(series), lambda point: math.isfinite(point[1])):
            places = [f"{across.at(x):.1f},{up.at(y):.1f}" for x, y in part if whole]
            # A single point is a line of length 0, which round ends show as a dot.
            points = " ".join(places * 2 if len(places) == 1 else places)
            style = f'stroke="{escape(series.tone)}" stroke-width="1.6" stroke-linecap="round"'
            yield f'<polyline points="{points}" fill="none" {style}/>' if whole else ""


def _legend(panel: Panel, top: float) -> Iterator[str]:
    if len(panel.series) < 2:
        return
    x = WIDTH - _RIGHT
    for series in reversed(panel.series):
        place = f'x="{x:g}" y="{top - 7:g}" text-anchor="end"'
        yield f'<text {place} fill="{escape(series.tone)}">{escape(series.label)}</text>'
        x -= 7.0 * len(series.label) + 16


def _drawn(series: Series) -> Iterator[tuple[float, float]]:
    before: float | None = None
    for x, y in series.points:
        if series.stepped and before is not None:
            yield x, before
        yield x, y
        before = y


def _marks(marks: Sequence[Mark], across: Axis, bottom: float) -> Iterator[str]:
    label = 0.0
    for number, mark in enumerate(marks, 1):
        x = across.at(mark.at)
        title = f"<title>{escape(mark.label)}</title>"
        if mark.until is not None:
            size = f'width="{max(0.0, across.at(mark.until) - x):.1f}" height="{bottom - _TOP:.1f}"'
            yield f'<rect x="{x:.1f}" y="{_TOP:g}" {size} opacity=".07">{title}</rect>'
        yield (
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP:g}" y2="{bottom:g}" stroke="currentColor" opacity=".45" '
            f'stroke-dasharray="3 3">{title}</line>'
        )
        # Numbers of marks that are close together move to the right, so that they do not overlap.
        label = max(x, label + _LABEL + _DIGIT * len(str(number)))
        yield f'<text x="{label:.1f}" y="{_TOP - 24:g}" text-anchor="middle">{number}</text>'


def _bottom(across: Axis, bottom: float, unit: str) -> Iterator[str]:
    yield f'<line x1="{_LEFT:g}" x2="{across.end:g}" y1="{bottom:g}" y2="{bottom:g}" stroke="currentColor"/>'
    for tick in across.ticks():
        label = f"{tick:g} {unit}"
        x = min(across.at(tick), WIDTH - _DIGIT / 2 * len(label))  # whole, at the end of the axis too
        yield f'<text x="{x:.1f}" y="{bottom + 15:g}" text-anchor="middle" opacity=".7">{escape(label)}</text>'


def short(value: float) -> str:
    """`1.5k`, `20M`: a value in about five characters."""
    for size, letter in _SCALES:
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"
