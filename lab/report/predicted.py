"""One self-contained HTML page of a prediction: each figure with its interval, its limits, and what it rests on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cephlab.lab.report.carried import carried
from cephlab.lab.report.page import template
from cephlab.lab.report.series import Plot


@dataclass(frozen=True)
class Table:
    """caption: what it shows; rows: a cell for each of the heads, the first of them the head of its row."""

    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Part:
    """A section of the page. lines: below its tables; more: closed at first, by what it is, a line each."""

    title: str
    tables: Sequence[Table] = ()
    plots: Sequence[Plot] = ()
    lines: Sequence[str] = ()
    more: Mapping[str, Sequence[str]] = field(default_factory=dict)


def render_prediction(title: str, facts: Mapping[str, str], parts: Sequence[Part]) -> str:
    """The page; it loads nothing from elsewhere. facts: what was asked, and of which cephlab."""
    contents: list[str] = []  # the template adds each heading
    page = carried(charts=any(part.plots for part in parts))
    return template("predicted.html.j2").render(page=page, contents=contents, title=title, facts=facts, parts=parts)
