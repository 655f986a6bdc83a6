"""`cephlab compare`: two runs, two measurements, or the two architectures of one run, with intervals and a verdict."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cephlab.cli.frame import framed
from cephlab.cli.output import Output, table
from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.given import legible
from cephlab.lab.base.numbers import how_many, rise
from cephlab.lab.checks.regression import RULE
from cephlab.lab.checks.verdict import Outcome

if TYPE_CHECKING:
    from rich.table import Table

    from cephlab.lab.archive.runs import FigureRatio
    from cephlab.lab.telemetry.compare import Compared
    from cephlab.lab.telemetry.demandfile import Measurement

CODES = {Outcome.PASS: 0, Outcome.FAIL: 1, Outcome.INCONCLUSIVE: 6}


@framed
def compare(
    out: Output,
    before: Annotated[Path, typer.Argument(metavar="BEFORE", help="Demand file, or a run's archive.")],
    after: Annotated[
        Path | None, typer.Argument(metavar="AFTER", help="The other one; not with --architectures.")
    ] = None,
    architectures: Annotated[
        bool, typer.Option("--architectures", help="Compare x86_64 with aarch64 within one run.")
    ] = False,
) -> int:
    """Show what changed: verdicts, figures, series and costs of two runs, or costs of two demand files.

    Exit code 1 if a verdict got worse or an operation costs more, 6 if that is unclear. Figures and series of
    two runs are only shown. With --architectures, figures are judged.

    Example: cephlab compare before.json after.json
    """
    if architectures == (after is not None):
        what = "--architectures compares within one run" if architectures else "there is only one side to compare"
        raise SpecError(
            what, f"got: {before}" + (f" and {after}" if after else ""), "name two, or one with --architectures"
        )
    for side in filter(None, (before, after)):
        if not os.path.lexists(side):
            raise SpecError(f"{side} does not exist", "wanted: a demand file, or the folder of an archive")
    if after is None:
        return _architectures(out, before)
    if before.is_dir() and after.is_dir():
        return _runs(out, before, after)
    return _costs(out, before, after)


def _costs(out: Output, before: Path, after: Path) -> int:
    """Compare the demands of two files, or of a file and an archive."""
    from cephlab.lab.telemetry.compare import compare as compare_all
    from cephlab.lab.telemetry.describe import operation_text

    earlier, later = measurements(before), measurements(after)
    sides = ((before, earlier), (after, later))
    if not {old.demand.operation for old in earlier} & {new.demand.operation for new in later}:
        detail = "\n".join(
            f"{path}: {', '.join(operation_text(m.demand.operation) for m in side)}" for path, side in sides
        )
        raise SpecError("the two have no operation in common", detail, "measure the same operations on both sides")
    compared = compare_all(earlier, later)
    if not any(comparison.changes for comparison in compared):
        batches = "\n".join(
            f"{path}: {how_many(sum(len(m.batches) for m in side), 'batch', 'batches')}" for path, side in sides
        )
        raise SpecError(
            "no cost can be compared: its spread is that of its batches",
            batches,
            "measure both sides with `cephlab measure`; the demands that ship with cephlab are means without batches",
        )
    return conclude(out, compared)


def _runs(out: Output, before: Path, after: Path) -> int:
    """Compare two archives: verdicts, figures and series, and costs if both measured some."""
    from cephlab.lab.archive.merged import read_whole
    from cephlab.lab.archive.runs import compare_runs
    from cephlab.lab.checks.verdict import merge
    from cephlab.lab.telemetry.compare import compare as compare_all
    from cephlab.lab.telemetry.compare import overall
    from cephlab.lab.telemetry.demandfile import measured_in

    runs = [read_whole(path) for path in (before, after)]
    if not set.intersection(*({record.scenario for record in run.records} for run in runs)):
        counts = "\n".join(
            f"{run.directory}: {how_many(len(run.records), 'scenario')}, none of them in the other" for run in runs
        )
        raise SpecError("the two runs have no scenario in common", counts, "compare runs of the same suites")
    with legible(before, after):
        compared = compare_runs(*runs)
    measured = [measured_in(run.events) for run in runs]
    costs = compare_all(*measured) if all(measured) else []
    verdict = merge([compared.verdict, *([overall(costs)] if costs else [])])
    if out.as_json:
        result = {**asdict(compared), "outcome": verdict.outcome, "reason": verdict.reason}
        out.json({**result, "operations": list(map(asdict, costs))})
        return CODES[verdict.outcome]
    for line in compared.conditions:
        out.result(f"differs: {line}", None)
    if compared.endings:
        heads = ("scenario", "before", "after", "why")
        rows = [[c.scenario, _ended(c.before), _ended(c.after), c.reason] for c in compared.endings]
        out.result(table(heads, rows, title=f"verdicts that changed ({compared.same} did not)"), None)
    else:
        out.result(f"no verdict changed; scenarios in both: {compared.same}", None)
    for figures in (compared.figures, sorted(compared.series, key=lambda line: line.scenario)):
        if figures:
            out.result(_figure_table(figures, ("before", "after")), None)
    for operation in costs:
        show(out, operation)
    out.result(f"{verdict.outcome}: {verdict.reason}", None)
    return CODES[verdict.outcome]


def _architectures(out: Output, directory: Path) -> int:
    """Compare each figure that one archive has of both architectures. Emulated ones are shown but not judged."""
    from cephlab.lab.archive.merged import read_whole
    from cephlab.lab.archive.runs import parity

    with legible(directory):
        figures = parity(read_whole(directory))
    if not figures:
        raise SpecError(
            f"{directory} has no figure of both architectures",
            "its scenarios recorded none, or only of one architecture",
            "run a suite that does: `--suite baseline`",
        )
    judged = [figure.outcome for figure in figures if figure.outcome is not None]
    worst = next((o for o in (Outcome.FAIL, Outcome.INCONCLUSIVE) if o in judged), Outcome.PASS)
    verdict = worst if judged else Outcome.INCONCLUSIVE
    reason = (
        f"{len(judged)} of {how_many(len(figures), 'figure was', 'figures were')} judged"
        if judged
        else "no figure could be judged, see above"
    )
    if out.as_json:
        out.json({"outcome": verdict, "reason": reason, "figures": list(map(asdict, figures))})
    else:
        out.result(_figure_table(figures, ("x86_64", "aarch64")), None)
        out.result(f"{verdict}: {reason}; a ratio is aarch64 / x86_64", None)
    return CODES[verdict]


def _ended(ending: object) -> str:
    return "not run" if ending is None else str(ending)


def _figure_table(figures: Sequence[FigureRatio], sides: tuple[str, str]) -> Table:
    rows = [
        [
            f"{figure.scenario}: {figure.metric}",
            f"{figure.before:.4g} {figure.unit}".strip(),
            f"{figure.after:.4g} {figure.unit}".strip(),
            f"{figure.ratio:.3f}",
            "none" if figure.exact else f"{figure.low:.3f} to {figure.high:.3f}",
            ": ".join(filter(None, ("" if figure.outcome is None else figure.outcome.value, figure.why)))
            or "shown only",
        ]
        for figure in figures
    ]
    return table(("figure", *sides, "ratio", "interval", "verdict"), rows)


def conclude(out: Output, compared: Sequence[Compared]) -> int:
    """Print all operations; returns the exit code of their verdict."""
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
    """The measurements in a demand file or in the history of an archive; SpecError if there are none."""
    from cephlab.lab.telemetry.demandfile import load_measurements

    if not path.is_dir():
        return load_measurements(path)
    from cephlab.lab.archive.merged import read_whole
    from cephlab.lab.telemetry.demandfile import measured_in

    measured = measured_in(read_whole(path).events)
    if not measured:
        raise SpecError(
            f"{path} has no demands", "nothing was measured in its history", "run a suite that does: `--suite block`"
        )
    return measured


def show(out: Output, compared: Compared) -> None:
    """Print the changes of one operation as a table; one line if there are none."""
    from cephlab.lab.telemetry.describe import amount, operation_text

    if not compared.changes:
        out.result(compared.verdict.reason, None)
        return
    rows = [
        [
            change.what,
            amount(change.before, change.resource),
            amount(change.after, change.resource),
            rise(change.ratio.value),
            f"{rise(change.ratio.low)} to {rise(change.ratio.high)}",
            "shown only" if change.outcome is None else change.outcome.value,
        ]
        for change in compared.changes
    ]
    heads = ("cost of one operation", "before", "after", "change", "interval", "verdict")
    out.result(table(heads, rows, title=operation_text(compared.operation)), None)
