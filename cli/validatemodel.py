"""`cephlab validate-model`: the model's error against publications, also with each test bed left out of the fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cephlab.cli.answers import compared
from cephlab.cli.compare import CODES
from cephlab.cli.conventions import refuse_unwritable, write_named
from cephlab.cli.figures import show_comparisons
from cephlab.cli.frame import framed
from cephlab.cli.output import Output, table
from cephlab.cli.predict import DemandOption
from cephlab.cli.world import World
from cephlab.lab.base.numbers import percent, si
from cephlab.lab.checks.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cephlab.lab.telemetry.demand import Demand
    from cephlab.tuning.references import Publication
    from cephlab.tuning.trust import Miss
    from cephlab.tuning.validate import Validation

OUTSIDE = "outside what the others validated"
GROWTH = "growth with the load"


@framed
def validate_model(
    out: Output,
    world: World,
    demand: DemandOption = None,
    reference: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Publication to compare with, instead of the shipped ones; repeatable."),
    ] = None,
    fit: Annotated[
        Path | None,
        typer.Option(
            "--fit", metavar="FILE", help="Fit the free constants again, also without each test bed, and write them."
        ),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Plot predicted against published figures into this SVG file.")
    ] = None,
) -> int:
    """Predict every published figure of the reference papers, and report the error.

    Exit code 1 if the error is above the target, 6 if nothing could be predicted.

    Example: cephlab validate-model
    """
    from cephlab.tuning.demandsets import find_every_demand
    from cephlab.tuning.picture import drawn
    from cephlab.tuning.references import load_reference, load_references
    from cephlab.tuning.trust import shipped, shipped_growths
    from cephlab.tuning.validate import validate

    refuse_unwritable("--fit", fit)
    refuse_unwritable("--picture", picture)
    demands, origin = find_every_demand(world.home.demands, demand)
    references = tuple(map(load_reference, reference)) if reference else load_references()
    misses, growths = _fitted(out, world, demands, references, fit) if fit else (shipped()[0], shipped_growths())
    validation = validate(demands, references, world.profile, sensitivity=True)
    if picture:
        beds = {miss.bed for miss in misses}
        write_named(picture, drawn(misses, [reference.name for reference in references if reference.name not in beds]))
    out.note(f"demands: {origin}")
    if out.as_json:
        out.json(
            {"demands": origin, **validation_value(validation, references), "left_out": left_out_value(misses, growths)}
        )
    else:
        _show_validation(out, validation, references, left_out_value(misses, growths))
    return CODES[{True: Outcome.PASS, False: Outcome.FAIL, None: Outcome.INCONCLUSIVE}[validation.met]]


def _fitted(
    out: Output, world: World, demands: Sequence[Demand], references: Sequence[Publication], path: Path
) -> tuple[Sequence[Miss], Sequence[Miss]]:
    """Fit to the references, then without each of them; write the result to `path`. This run does not use it.

    Returns the left-out errors of figures, and of how they grow with the load.
    """
    from cephlab.tuning import fit

    figures = fit.cases(demands, references, world.profile)
    constants = fit.fit(figures)
    misses = fit.left_out(figures, constants, out.note)
    write_named(path, json.dumps(fit.as_file(figures, constants, misses), indent=1) + "\n")
    return misses, fit.growths(figures, misses)


def _show_validation(
    out: Output, validation: Validation, references: Sequence[Publication], left_out: Mapping[str, Any]
) -> None:
    predicted = [comparison for comparison in validation.comparisons if comparison.ratio is not None]
    show_comparisons(out, predicted)
    out.listed(
        "rests on assumptions (what was assumed -> ratio with another assumption):", assumption_lines(validation)
    )
    beyond = [comparison for comparison in validation.comparisons if comparison.ratio is None]
    named = [f"{each.reference}, {each.figure.name} ({si(each.figure.value, each.figure.unit)})" for each in beyond]
    out.listed("beyond the model:", [f"{name}: {each.why}" for name, each in zip(named, beyond, strict=True)])
    lost = [f"{reference.name}: {line}" for reference in references for line in reference.lost]
    out.listed("only in graphs, which the text copies do not have:", lost)
    _show_left_out(out, validation, left_out)
    print(f"\n{summary(validation)}")


def _show_left_out(out: Output, validation: Validation, value: Mapping[str, Any]) -> None:
    now = validation.by_bed
    beds = [
        [bed, f"{now[bed]:.2f}" if bed in now else "-", f"{error:.2f}"] for bed, error in value["by_test_bed"].items()
    ]
    print("\neach test bed left out of the fit (geometric mean error of its rates):")
    out.result(table(("test bed", "fitted", "left out"), beds), None)
    kinds = [
        [kind, f"{row['error']:.2f}", str(row["test_beds"]), f"{row['factor']:.2f}"]
        for kind, row in value["by_kind"].items()
    ]
    out.result(table(("kind of load", "left out, median", "test beds", "90 % within factor"), kinds), None)
    within = percent(value["coverage"], ".0f")
    print(f"median of the test beds left out {value['median']:.2f}; {within} within the interval")


def left_out_value(misses: Sequence[Miss], growths: Sequence[Miss]) -> dict[str, Any]:
    """The errors of the test beds that were left out, as JSON values."""
    from statistics import median

    from cephlab.tuning.fit import bed_errors, kind_errors, typical_error
    from cephlab.tuning.trust import coverage, factor_for, factor_of_growth, factor_outside

    beds = bed_errors(misses)
    kinds = {str(kind): _trusted(error, factor_for(kind, misses)) for kind, error in kind_errors(misses).items()}
    if outside := [miss for miss in misses if miss.outside]:
        kinds[OUTSIDE] = _trusted(typical_error(outside), factor_outside(misses))
    if growths:
        kinds[GROWTH] = _trusted(typical_error(growths), factor_of_growth(growths, misses))
    return {"median": median(beds.values()), "by_test_bed": beds, "by_kind": kinds, "coverage": coverage(misses)}


def _trusted(error: float, learned: tuple[float, int]) -> dict[str, Any]:
    return {"error": error, "test_beds": learned[1], "factor": learned[0]}


def assumption_lines(validation: Validation) -> list[str]:
    """One line for each assumption that a predicted rate rests on."""
    return [
        f"{comparison.reference}, {comparison.figure.name} ({comparison.ratio or 0:.2f}): {rest.what} -> "
        + ", ".join(f"{value / comparison.figure.value:.2f} with {word}" for word, value in rest.otherwise)
        for comparison in validation.comparisons
        for rest in comparison.rests
    ]


def summary(validation: Validation) -> str:
    """How many figures, their error with and without those that rest on assumptions, and whether the target is met."""
    from cephlab.tuning.validate import TARGET_ERROR, TARGET_WORST

    rates = validation.rates
    published = [comparison for comparison in validation.comparisons if comparison.figure.kind.is_rate]
    error, worst = validation.error, validation.worst
    if error is None or worst is None:
        return "no throughput figure could be predicted: measure more operations"
    verdict = "met" if validation.met else "missed"
    firm, without = [rate for rate in rates if not rate.rests], validation.error_without_assumptions
    return (
        f"throughput: {len(rates)} of {len(published)} published figures predicted,\n"
        f"geometric mean error {error:.2f}, worst {worst:.2f}\n"
        f"{len(firm)} of them rest on no assumption"
        + (f": geometric mean error {without:.2f}\n" if without else "\n")
        + f"target (median test bed under {TARGET_ERROR}, each within {TARGET_WORST:g}): {verdict}"
    )


def validation_value(validation: Validation, references: Sequence[Publication]) -> dict[str, Any]:
    """A validation as JSON values; predicted and ratio are null, with `why`, if the model cannot predict it."""
    return {
        "figures": [compared(comparison) for comparison in validation.comparisons],
        "lost": {reference.name: list(reference.lost) for reference in references},
        "throughput_error": validation.error,
        "throughput_worst": validation.worst,
        "throughput_error_by_test_bed": validation.by_bed,
        "throughput_error_without_assumptions": validation.error_without_assumptions,
        "met": validation.met,
    }
