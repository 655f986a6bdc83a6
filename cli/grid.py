"""A table that becomes a list of its rows where a terminal is too narrow for it, so that nothing is cut."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

_READABLE = 12
"""Least width of a column that wraps, if it has words as long: no ordinary word is broken."""
_GAP = 2


class Grid(Table):
    """A table without borders, whose cells are texts."""

    def least_width(self) -> int:
        """The columns of a terminal that it needs."""
        least = [self._least(number) for number in range(len(self.columns))]
        return sum(least) + _GAP * (len(least) - 1)

    def _least(self, number: int) -> int:
        column = self.columns[number]
        texts = [Text(str(column.header)), *self._texts(number)]
        if column.no_wrap:
            return max(text.cell_len for text in texts)
        words = [len(word) for text in texts for word in text.plain.split()]
        return max(column.min_width or 0, min(_READABLE, max(words, default=0)))

    def _texts(self, number: int) -> list[Text]:
        return [cell for cell in self.columns[number].cells if isinstance(cell, Text)]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        shown = self if self.least_width() <= options.max_width else self._without_bars()
        if shown.least_width() <= options.max_width:
            yield from Table.__rich_console__(shown, console, options)
        else:
            yield from shown._as_list(options.max_width)

    def _as_list(self, width: int) -> RenderResult:
        if self.title:
            yield Text(str(self.title), "bold")
        heads = [str(column.header).strip() for column in self.columns]
        first = self._first()
        for cells in zip(*(self._texts(number) for number in range(len(heads))), strict=True):
            # A name may be meant to be copied, so the terminal itself wraps it.
            lead = Text(" " * _GAP, no_wrap=True, overflow="ignore")
            yield lead.join(cell for cell in cells[: first + 1] if cell)
            named = zip(heads[first + 1 :], cells[first + 1 :], strict=True)
            parts = [Text.assemble((f"{head}: ", "bold"), cell) for head, cell in named if cell]
            for line in _packed(parts, width - _GAP):
                yield Padding(line, (0, 0, 0, _GAP))

    def _first(self) -> int:
        """The first column with a heading. Those before it, as of states, have none."""
        return next((number for number, column in enumerate(self.columns) if column.header), 0)

    def _without_bars(self) -> Grid:
        """Columns without a heading that follow one with a heading draw what another one says."""
        first, shown = self._first(), copy(self)
        shown.columns = [column for number, column in enumerate(self.columns) if number <= first or column.header]
        return shown


def _packed(parts: Sequence[Text], width: int) -> list[Text]:
    """Lines with as many of the parts each as fit."""
    lines: list[Text] = []
    for part in parts:
        if lines and lines[-1].cell_len + _GAP + part.cell_len <= width:
            lines[-1] = Text(" " * _GAP).join((lines[-1], part))
        else:
            lines.append(part)
    return lines
