"""`cephlab compare`: two measurements, demand by demand, with intervals and a verdict."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.output import JsonOption, Output, reporting, table
from lab.checks.regression import RULE
from lab.checks.verdict import Outcome
from lab.errors import SpecError

if TYPE_CHECKING:
    from lab.telemetry.compare import Compared
    from lab.telemetry.demandfile import Measurement

CODES = {Outcome.PASS: 0, Outcome.FAIL: 1, Outcome.INCONCLUSIVE: 6}
_SidePath = Annotated[Path, typer.Argument(help="Demand file, or a run's archive.", show_default=False)]


def compare(before: _SidePath, after: _SidePath, as_json: JsonOption = False) -> None:
    """Say what became dearer from the first to the second; ends with 1 on a regression, 6 when it cannot tell."""
    with reporting(as_json) as out:
        from lab.telemetry.compare import compare as compare_all

        conclude(out, compare_all(measurements(before), measurements(after)))


def conclude(out: Output, found: Sequence[Compared]) -> None:
    """Show all operations, and end as their verdict wants."""
    from lab.telemetry.compare import overall

    verdict = overall(found)
    if out.as_json:
        out.json({"outcome": verdict.outcome, "reason": verdict.reason, "operations": [as_value(o) for o in found]})
    else:
        for one in found:
            show(out, one)
        out.result(f"{verdict.outcome}: {verdict.reason}\n{RULE}", None)
    if CODES[verdict.outcome]:
        raise typer.Exit(CODES[verdict.outcome])


def measurements(path: Path) -> tuple[Measurement, ...]:
    """Those of a demand file, or all that an archive's history holds; SpecError when there are none."""
    from lab.telemetry.demandfile import load_measurements

    if not path.is_dir():
        return load_measurements(path)
    from lab.archive import read_archive
    from lab.telemetry.demandfile import measured_in

    found = measured_in(read_archive(path).events)
    if not found:
        raise SpecError(f"{path} has no demands", "its history measured none", "run a suite that does: `--suite block`")
    return found


def show(out: Output, one: Compared) -> None:
    """The changes of one operation as a table."""
    from lab.telemetry.describe import amount, operation_text
    from lab.telemetry.regression import CONFIDENCE

    rows = [
        [
            change.what,
            amount(change.before, change.resource),
            amount(change.after, change.resource),
            f"{change.ratio.value - 1:+.1%}",
            f"{change.ratio.low - 1:+.1%} to {change.ratio.high - 1:+.1%}",
            "shown only" if change.outcome is None else change.outcome.value,
        ]
        for change in one.changes
    ]
    heads = ("cost of one operation", "before", "after", "change", f"{CONFIDENCE:.0%} interval", "verdict")
    out.result(table(heads, rows, title=operation_text(one.operation)), None)


def as_value(one: Compared) -> dict[str, Any]:
    """An operation as JSON values."""
    value: dict[str, Any] = json.loads(json.dumps(asdict(one)))
    return value
