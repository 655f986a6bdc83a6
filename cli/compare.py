"""`cephlab compare`: two measurements, demand by demand, with intervals and a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cephlab.cli.frame import framed
from cephlab.cli.output import Output, table
from cephlab.lab.base.errors import SpecError
from cephlab.lab.checks.regression import RULE
from cephlab.lab.checks.verdict import Outcome

if TYPE_CHECKING:
    from cephlab.lab.telemetry.compare import Compared
    from cephlab.lab.telemetry.demandfile import Measurement

CODES = {Outcome.PASS: 0, Outcome.FAIL: 1, Outcome.INCONCLUSIVE: 6}
_SidePath = Annotated[Path, typer.Argument(help="Demand file, or a run's archive.", show_default=False)]


@framed
def compare(out: Output, before: _SidePath, after: _SidePath) -> int:
    """Say what became dearer from the first to the second; ends with 1 on a regression, 6 when it cannot tell."""
    from cephlab.lab.telemetry.compare import compare as compare_all

    return conclude(out, compare_all(measurements(before), measurements(after)))


def conclude(out: Output, compared: Sequence[Compared]) -> int:
    """Show all operations; returns the exit code of their verdict."""
    from cephlab.lab.telemetry.compare import overall

    verdict = overall(compared)
    if out.as_json:
        out.json({"outcome": verdict.outcome, "reason": verdict.reason, "operations": list(map(asdict, compared))})
    else:
        for operation in compared:
            show(out, operation)
        out.result(f"{verdict.outcome}: {verdict.reason}\n{RULE}", None)
    return CODES[verdict.outcome]


def measurements(path: Path) -> tuple[Measurement, ...]:
    """The measurements of a demand file or of an archive's history; SpecError when there are none."""
    from cephlab.lab.telemetry.demandfile import load_measurements

    if not path.is_dir():
        return load_measurements(path)
    from cephlab.lab.archive.archive import read_whole
    from cephlab.lab.telemetry.demandfile import measured_in

    measured = measured_in(read_whole(path).events)
    if not measured:
        raise SpecError(f"{path} has no demands", "its history measured none", "run a suite that does: `--suite block`")
    return measured


def show(out: Output, compared: Compared) -> None:
    """The changes of one operation as a table."""
    from cephlab.lab.telemetry.describe import amount, operation_text
    from cephlab.lab.telemetry.regression import CONFIDENCE

    rows = [
        [
            change.what,
            amount(change.before, change.resource),
            amount(change.after, change.resource),
            f"{change.ratio.value - 1:+.1%}",
            f"{change.ratio.low - 1:+.1%} to {change.ratio.high - 1:+.1%}",
            "shown only" if change.outcome is None else change.outcome.value,
        ]
        for change in compared.changes
    ]
    heads = ("cost of one operation", "before", "after", "change", f"{CONFIDENCE:.0%} interval", "verdict")
    out.result(table(heads, rows, title=operation_text(compared.operation)), None)
