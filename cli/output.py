"""Output of commands: results on stdout, all else on stderr, errors as what, detail and hint. Also: signals."""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
import signal
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cephlab.cli.streams import Unwritten
from cephlab.lab.base.clock import SYSTEM
from cephlab.lab.base.errors import LabBroken, LabError, SpecError, interruption
from cephlab.lab.base.home import default_home
from cephlab.lab.base.progress import Progress

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """A signal asked this process to end. number: the signal's."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(signal.Signals(number).name)


@contextmanager
def interruptible(note: Callable[[str], None]) -> Iterator[None]:
    """Inside the block the first signal raises Interrupted; later ones only print a line.

    note: prints that line; called inside a signal handler.
    """
    signals: list[int] = []

    def handle(number: int, _frame: FrameType | None) -> None:
        signals.append(number)
        if len(signals) == 1:
            raise Interrupted(number)
        note("still removing what was started; please wait")

    before = {number: signal.signal(number, handle) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


DEBUG_VARIABLE = "CEPHLAB_DEBUG"
_WIDE = 200  # columns if there is no terminal: a pipe should get whole lines

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


class Output:
    """Prints what a command has to say. as_json: stdout carries one JSON object and nothing else."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json

    def result(self, text: str | RenderableType, value: Any) -> None:
        """Print the command's result: `value` as JSON if that was asked for, else `text`."""
        if self.as_json:
            self.json(value)
        elif isinstance(text, str):
            print(text)
        else:
            from rich.text import Text

            printer = console(error=False)
            with printer.capture() as capture:
                printer.print(text, soft_wrap=isinstance(text, Text), crop=False)
            # Tables fill their lines with blanks, which a narrower terminal behind a pipe shows as empty lines.
            for line in capture.get().removesuffix("\n").split("\n"):
                print(line.rstrip(" "))

    def incomplete(self, text: str | RenderableType, value: Mapping[str, Any], error: LabError) -> int:
        """Print a result together with the error that it ended with; returns the exit code. As JSON both are one."""
        self.result(text, {**value, "error": _error_value(error)})
        if not self.as_json:
            self.error(error)
        return error.exit_code

    def json(self, value: Any) -> None:
        """Print a value as JSON, with null for the numbers that JSON does not have: infinite, or not a number."""
        print(json.dumps(_finite(value), indent=2, sort_keys=True))

    def lines(self, *lines: str, whole: str = "") -> None:
        """Print lines of the result. On a terminal they wrap between words, and what continues is indented.

        whole: a command; lines with it do not wrap, because they are meant to be copied.
        """
        wide = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
        for line in lines:
            if whole and whole in line:
                print(line)
                continue
            print(_wrapped(line, wide))

    def listed(self, title: str, lines: Sequence[str]) -> None:
        """Print a title, and lines below it."""
        self.lines("", title, *(f"  {line}" for line in lines))

    def note(self, line: str) -> None:
        """Print a line for the reader that is not part of the result; what continues is indented as in `lines`."""
        printer = console(error=True)
        printer.print(_hanging(line, printer), markup=False, highlight=False, soft_wrap=True)

    def warn(self, line: str) -> None:
        printer = console(error=True)
        first, colon, rest = _hanging(f"warning: {line}", printer).partition(":")
        printer.print(f"[yellow]{first}{colon}[/yellow]{_plain(rest)}", highlight=False, soft_wrap=True)

    def error(self, error: LabError) -> None:
        """Print the error in one line, the evidence indented below it, and the remedy."""
        if self.as_json:
            self.json({"error": _error_value(error)})
            return
        from rich.padding import Padding
        from rich.text import Text

        printer = console(error=True)
        unbroken = not printer.is_terminal
        printer.print(f"[bold red]error:[/bold red] {_plain(error.what)}", highlight=False, soft_wrap=unbroken)
        for line in [*error.detail.splitlines(), *getattr(error, "__notes__", ())]:
            printer.print(
                f"  {line}" if unbroken else Padding(Text(line), (0, 0, 0, 2)),
                markup=False,
                highlight=False,
                soft_wrap=unbroken,
            )
        if error.hint:
            printer.print(f"[cyan]hint:[/cyan] {_plain(error.hint)}", highlight=False, soft_wrap=unbroken)

    @contextmanager
    def progress(self) -> Iterator[Progress]:
        """Frame work that may be interrupted; yields a function that reports progress, for any thread.

        Each line has the seconds since the block began; a terminal shows a spinner below the lines.
        """
        from rich import progress

        began = SYSTEM.monotonic()
        printer = console(error=True)
        lock = threading.Lock()
        text = progress.TextColumn("{task.description}", markup=False)
        columns = (progress.SpinnerColumn(), text, progress.TimeElapsedColumn())
        shown = progress.Progress(*columns, console=printer, transient=True, disable=not printer.is_terminal)
        with interruptible(self.note), shown as bar:
            task = bar.add_task("starting", total=None)

            def say(line: str) -> None:
                with lock:
                    stamped(printer, SYSTEM.monotonic() - began, _plain(line))
                    bar.update(task, description=line)

            yield say


def _error_value(error: LabError) -> dict[str, str]:
    detail = "\n".join(filter(None, (error.detail, *getattr(error, "__notes__", ()))))
    return {"what": error.what, "detail": detail, "hint": error.hint}


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def stamped(printer: Console, seconds: float, markup: str, *, whole: bool = False) -> None:
    """Print a line of progress with the seconds since the work began; on a terminal what continues is indented.

    whole: do not wrap the line, because it is meant to be copied.
    """
    from rich.text import Text

    stamp = f"{seconds:6.1f} s  "
    text = Text.from_markup(markup)
    unbroken = whole or not printer.is_terminal
    if not unbroken:
        text = Text(f"\n{' ' * len(stamp)}").join(text.wrap(printer, max(printer.width - len(stamp), 1)))
    printer.print(Text.assemble((stamp, "dim"), text), soft_wrap=unbroken)


def console(*, error: bool) -> Console:
    """A console on stderr or stdout; made when needed, because importing rich takes time."""
    from rich.console import Console

    stream = sys.stderr if error else sys.stdout
    return Console(stderr=error, width=None if stream.isatty() else _WIDE)


def _wrapped(line: str, wide: int) -> str:
    inside = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.fill(line, wide, subsequent_indent=inside, break_long_words=False, break_on_hyphens=False)


def _hanging(text: str, printer: Console) -> str:
    """Each line of the text as it is, or wrapped to the width of a terminal."""
    return "\n".join(_wrapped(line, printer.width) for line in text.split("\n")) if printer.is_terminal else text


_TONES = {
    "green": ("ok", "pass", "running", "set", "done", "already", "HEALTH_OK"),
    "yellow": ("inconclusive", "degraded", "HEALTH_WARN", "in use", "abandoned", "waits", "paused", "stopped"),
    "red": ("missing", "fail", "dead", "died", "HEALTH_ERR", "unreachable", "drift", "refused", "error"),
    "cyan": ("skip", "shown only"),
}


def toned(word: str) -> Text:
    """A state or an outcome in its colour, if it has one."""
    from rich.text import Text

    return Text(word, next((tone for tone, words in _TONES.items() if word in words), ""))


def coloured(text: str, words: Sequence[str]) -> Text:
    """A text in which some words, which name a state, have its colour."""
    from rich.text import Text

    styled = Text(text)
    for tone, known in _TONES.items():
        styled.highlight_words([word for word in known if word in words], tone)
    return styled


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str | Text]],
    title: str | None = None,
    wrapped: Sequence[str] | None = None,
    whole: Sequence[str] = (),
) -> Table:
    """A table of plain text without borders; cells are not read as markup.

    On a terminal that is too narrow for it, it becomes a list of its rows.

    wrapped: the columns that may wrap; None: all of them.
    whole: the columns that never wrap, because their text is meant to be copied.
    """
    from rich.text import Text

    from cephlab.cli.grid import Grid

    grid = Grid(box=None, pad_edge=False, title=title, title_justify="left", title_style="bold", header_style="bold")
    for number, column in enumerate(columns):
        unbroken = wrapped is not None and column not in wrapped
        longest = max(len(column), *(len(row[number]) for row in rows), 0) if column in whole else len(column)
        grid.add_column(column, overflow="fold", no_wrap=unbroken, min_width=longest)
    for row in rows:
        grid.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return grid


@contextmanager
def reporting(as_json: bool) -> Iterator[Output]:
    """The frame of every command: expected errors become a message and an exit code, without a traceback."""
    out = Output(as_json=as_json)
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # as it was while the code was loaded
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        default_home()  # a home that cannot be used ends every command here, before it does anything
        yield out
    except KeyboardInterrupt as error:
        raise _interrupted(out, error) from error
    except Unwritten:
        raise  # it cannot be reported on standard output, where --json would
    except LabError as error:
        stopped = interruption(error)
        ended = _ended(out, error, error.exit_code) if stopped is None else _interrupted(out, stopped)
        raise ended from error
    except OSError as error:
        trouble = machine_refused(error)
        raise _ended(out, trouble, trouble.exit_code) from error


def _interrupted(out: Output, error: KeyboardInterrupt) -> Exception:
    number = int(getattr(error, "number", 2))
    return _ended(out, LabError("interrupted", "; ".join(getattr(error, "__notes__", ()))), 128 + number)


def _ended(out: Output, error: LabError, code: int) -> Exception:
    """Print the error; returns what to raise to end with that code. With CEPHLAB_DEBUG=1, print the traceback too."""
    if os.environ.get(DEBUG_VARIABLE) == "1":
        import traceback

        traceback.print_exc()
    out.error(error)
    return typer.Exit(code)


def machine_refused(error: OSError) -> LabError:
    """The error to report for one of the operating system that no code expected."""
    if error.errno == errno.ENAMETOOLONG:
        return SpecError("a path is too long", f"got {error.filename}", "name a shorter one")
    if error.errno == errno.ENOENT and error.filename is None and _removed_here():
        return SpecError("the current folder was removed", "paths are read from it", "change to a folder that exists")
    return LabBroken(
        f"the operating system reported: {error.strerror or error}",
        str(error.filename or ""),
        f"set {DEBUG_VARIABLE}=1 for a traceback; `cephlab doctor` shows what is missing",
    )


def _removed_here() -> bool:
    """Whether the current folder of this process does not exist any more."""
    try:
        return not Path.cwd().exists()
    except FileNotFoundError:
        return True


def _plain(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def pairs(values: Mapping[str, str]) -> str:
    """`key value` lines, with the values aligned."""
    width = max((len(key) for key in values), default=0)
    return "\n".join(f"{key:<{width}}  {value}" for key, value in values.items())
