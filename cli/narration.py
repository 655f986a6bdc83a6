"""What a gate shows while it runs: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from cephlab.lab.archive.archive import Ending, Record
from cephlab.lab.base.clock import SYSTEM

_COLOURS = {
    Ending.PASS: "green",
    Ending.FAIL: "bold red",
    Ending.ERROR: "bold magenta",
    Ending.INCONCLUSIVE: "yellow",
    Ending.SKIP: "cyan",
}
_PLAIN_COLUMNS = 200


class Narration:
    """A plugin of the gate that prints every verdict as it comes, and below them what is going on now."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = SYSTEM.monotonic()
        # A signal's handler prints too, and may come while this very thread prints.
        self._lock = threading.RLock()
        self._counts: dict[Ending, int] = {}
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[counts]}"),
            TimeElapsedColumn(),
        )
        self.bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self.bar.add_task("collecting scenarios", total=None, counts="")

    def pytest_cephlab_planned(self, count: int, seed: int, replay: str, archive: str) -> None:
        self.bar.update(self._task, total=count)
        self._print(escape(f"{count} scenarios, seed {seed}; archive: {archive}"))
        self._print(escape(f"replay: {replay}"))

    def pytest_cephlab_progress(self, line: str) -> None:
        self._print(f"[dim]{escape(line)}[/]")

    def pytest_cephlab_begin(self, name: str) -> None:
        self.bar.update(self._task, description=escape(name))
        if not self._console.is_terminal:
            self._print(escape(f"begin {name}"))

    def pytest_cephlab_verdict(self, record: Record) -> None:
        self._counts[record.ending] = self._counts.get(record.ending, 0) + 1
        counts = " ".join(f"[{_COLOURS[ending]}]{n} {ending}[/]" for ending, n in self._counts.items())
        self.bar.update(self._task, advance=1, counts=counts)
        cause = "" if record.ending is Ending.PASS else f": {record.reason}"
        word = f"[{_COLOURS[record.ending]}]{record.ending}[/]"
        self._print(f"{word} {escape(record.scenario)} [dim]({record.seconds:.1f} s)[/]{escape(cause)}")

    def _print(self, text: str) -> None:
        with self._lock:
            stamp = f"{SYSTEM.monotonic() - self._began:6.1f} s"
            self._console.print(f"[dim]{stamp}[/]  {text}", highlight=False, soft_wrap=True)


@contextmanager
def narrating() -> Iterator[Narration]:
    """Narrate on standard error."""
    stream = sys.stderr  # taken now: pytest puts its own in its place while a test runs
    console = Console(file=stream, width=None if stream.isatty() else _PLAIN_COLUMNS)
    narration = Narration(console)
    with narration.bar:
        yield narration
