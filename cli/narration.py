"""What a gate shows: a live line on a terminal and plain lines elsewhere, and its verdicts at the end."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from cephlab.fixtures.entering import called, ways_in
from cephlab.fixtures.run import GateResult
from cephlab.lab.archive.archive import Ending, Record, counted
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


_SIGNALLED = 128  # a shell's exit codes above it say which signal ended a command


def page(result: GateResult) -> str:
    """The verdicts as text: what did not pass has its cause in one line, and where to look."""
    counts = ", ".join(f"{count} {ending.word}" for ending, count in counted(result.records).items())
    cut = "interrupted: " if result.code >= _SIGNALLED else ""
    lines = ["", cut + (counts or "nothing ran")]
    for ending in (Ending.FAIL, Ending.ERROR, Ending.INCONCLUSIVE, Ending.SKIP):
        rows = [record for record in result.records if record.ending is ending]
        if rows:
            lines += ["", f"{ending.word}:"]
        for record in rows:
            logs = f"\n      logs: {result.archive / record.logs}" if record.logs else ""
            lines.append(f"  {record.scenario}: {record.reason}{logs}")
    if result.unexpected_skips:
        lines += ["", "skipped although this tier does not expect it (suites/expected-skips.toml), so the run fails:"]
        lines += [f"  {line}" for line in result.unexpected_skips]
    for text in result.trouble:
        lines += ["", f"trouble: {text}"]
    for name in result.kept:
        lines += ["", f"{name} was left up. Enter it with:"]
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
        "verdicts": [asdict(record) for record in result.records],
    }
