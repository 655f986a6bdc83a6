"""What a gate prints: a live line on a terminal, plain lines elsewhere, and the verdicts at the end."""

import shlex
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Column

from cephlab.cli.output import stamped
from cephlab.fixtures.entering import called, ways_in
from cephlab.fixtures.run import SIGNALLED, GateResult
from cephlab.lab.archive.archive import Ending, Record, counted
from cephlab.lab.base.clock import SYSTEM
from cephlab.lab.base.numbers import how_many
from cephlab.lab.report.defects import SUITE
from cephlab.lab.report.page import SAMPLE, SHARD, left_list

_COLOURS = {
    Ending.PASS: "green",
    Ending.FAIL: "bold red",
    Ending.ERROR: "bold magenta",
    Ending.INCONCLUSIVE: "yellow",
    Ending.SKIP: "cyan",
}
_PLAIN_COLUMNS = 200
_ROOM_FOR_A_BAR = 120  # columns: with fewer the bar would take what the name needs
_TELLING = 3  # scenarios must have ended before the time left is estimated


class Narration:
    """A plugin of the gate that prints each verdict as it comes, and below them what is running now."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = SYSTEM.monotonic()
        # The signal handler prints too, and may interrupt this thread while it prints.
        self._lock = threading.RLock()
        self._counts: dict[Ending, int] = {}
        columns = (
            SpinnerColumn(),
            # The only column that may wrap is the one that is cut where the line is too long.
            TextColumn("{task.description}", table_column=Column(overflow="ellipsis")),
            *([BarColumn(bar_width=20)] if console.width >= _ROOM_FOR_A_BAR else []),
            TextColumn("{task.fields[reached]}"),
            TextColumn("{task.fields[counts]}"),
            TimeElapsedColumn(),
        )
        self.bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self.bar.add_task("collecting scenarios", total=None, counts="", reached="")
        self._planned = 0
        self._planned_at = self._began

    def pytest_cephlab_planned(self, count: int, seed: int, replay: str, archive: str) -> None:
        self._planned, self._planned_at = count, SYSTEM.monotonic()
        self.bar.update(self._task, total=count, reached=self.reached())
        self._print(escape(f"{how_many(count, 'scenario')}, seed {seed}; archive: {archive}"))
        self._print(escape(f"replay: {replay}"), whole=True)

    def pytest_cephlab_progress(self, line: str) -> None:
        self._print(f"[dim]{escape(line)}[/]")

    def pytest_cephlab_begin(self, name: str) -> None:
        self.bar.update(self._task, description=escape(name))
        if not self._console.is_terminal:
            self._print(escape(f"begin {name} ({self.reached()})"))

    def pytest_cephlab_verdict(self, record: Record) -> None:
        self._counts[record.ending] = self._counts.get(record.ending, 0) + 1
        counts = " ".join(f"[{_COLOURS[ending]}]{n} {ending}[/]" for ending, n in self._counts.items())
        self.bar.update(self._task, advance=1, counts=counts, reached=self.reached())
        explained = record.ending is not Ending.PASS or record.suite == SUITE
        cause = f": {record.reason}" if explained else ""
        word = f"[{_COLOURS[record.ending]}]{record.ending}[/]"
        self._print(f"{word} {escape(record.scenario)} [dim]({record.seconds:.1f} s)[/]{escape(cause)}")

    def reached(self) -> str:
        """`3/40, about 4 min left`. The time left assumes the pace so far; it is left out until three have ended."""
        finished = sum(self._counts.values())
        count = f"{finished}/{self._planned}"
        if finished < _TELLING or finished >= self._planned:
            return count
        left_s = (SYSTEM.monotonic() - self._planned_at) / finished * (self._planned - finished)
        return f"{count}, about {left_s / 60:.0f} min left" if left_s >= 90 else f"{count}, about {left_s:.0f} s left"

    def _print(self, text: str, *, whole: bool = False) -> None:
        with self._lock:
            stamped(self._console, SYSTEM.monotonic() - self._began, text, whole=whole)


@contextmanager
def narrating() -> Iterator[Narration]:
    """Narrate on standard error."""
    stream = sys.stderr  # taken now: pytest replaces sys.stderr while a test runs
    console = Console(file=stream, width=None if stream.isatty() else _PLAIN_COLUMNS)
    narration = Narration(console)
    with narration.bar:
        yield narration


def page(result: GateResult) -> str:
    """The verdicts as text. Scenarios that did not pass have their cause in one line, and the path of their logs."""
    settled = [record for record in result.records if record.scenario not in result.left]
    begun = {record.scenario for record in result.records}
    counts = ", ".join(f"{count} {ending.word}" for ending, count in counted(settled).items())
    cut = "interrupted: " if result.code >= SIGNALLED else ""
    lines = ["", cut + (counts or "nothing ran"), *([SAMPLE] if result.sample else [])]
    lines += [SHARD.format(result.shard)] if result.shard else []
    for ending in (Ending.FAIL, Ending.ERROR, Ending.INCONCLUSIVE, Ending.SKIP):
        rows = [record for record in settled if record.ending is ending]
        if rows:
            lines += ["", f"{ending.word}:"]
        for record in rows:
            logs = f"\n      logs: {result.archive / record.logs}" if record.logs else ""
            lines.append(f"  {record.scenario}: {record.reason}{logs}")
    known = [r for r in result.records if r.ending is Ending.PASS and r.suite == SUITE]
    lines += ["", "known defects:"] if known else []
    lines += [f"  {record.scenario}: {record.reason}" for record in known]
    if result.left:
        lines += [
            "",
            left_list([f"{name} (interrupted)" if name in begun else name for name in result.left]),
            f"continue with: {called(f'cephlab gate --resume {shlex.quote(str(result.archive))}', result.home)}",
        ]
    if result.unexpected_skips:
        lines += ["", "skips that this tier does not expect (see suites/expected-skips.toml); they fail the run:"]
        lines += [f"  {line}" for line in result.unexpected_skips]
    for text in result.trouble:
        lines += ["", f"lab error: {text}"]
    for name in result.kept:
        lines += ["", f"{name} is still running. Enter it with:"]
        lines += [f"  {command}" for command in ways_in(name, result.home)]
    replay = called(result.replay, result.home)
    return "\n".join([*lines, "", f"archive: {result.archive}", f"replay:  {replay}"])


def describe(result: GateResult) -> dict[str, Any]:
    """What `gate --json` prints."""
    return {
        "code": result.code,
        "archive": str(result.archive),
        "replay": result.replay,
        "seed": result.seed,
        "kept": list(result.kept),
        "trouble": list(result.trouble),
        "unexpected_skips": list(result.unexpected_skips),
        "left": list(result.left),
        "verdicts": [asdict(record) for record in result.records],
    }
