"""`cephlab validate-model`: the model beside what others published."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cephlab.cli.compare import CODES
from cephlab.cli.frame import framed
from cephlab.cli.output import Output
from cephlab.cli.predict import DemandOption, compared, comparison_table
from cephlab.cli.world import World
from cephlab.lab.checks.verdict import Outcome

if TYPE_CHECKING:
    from cephlab.tuning.references import Publication
    from cephlab.tuning.validate import Validation


@framed
def validate_model(
    out: Output,
    world: World,
    demand: DemandOption = None,
    reference: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Publication to compare with instead of those shipped; repeatable."),
    ] = None,
) -> int:
    """Predict every published figure of the reference papers, and say how far off that is.

    Exit code 1 when that is further than the target, 6 when nothing could be predicted.
    """
    from cephlab.tuning.demandsets import find_every_demand
    from cephlab.tuning.references import load_reference, load_references
    from cephlab.tuning.validate import RATES, validate

    demands, origin = find_every_demand(world.home.demands, demand)
    references = tuple(map(load_reference, reference)) if reference else load_references()
    validation = validate(demands, references, world.profile, sensitivity=True)
    out.note(f"demands: {origin}")
    if out.as_json:
        out.json({"demands": origin, **as_value(validation, references)})
    else:
        _show(out, validation, references)
    return CODES[{True: Outcome.PASS, False: Outcome.FAIL, None: Outcome.INCONCLUSIVE}[validation.meets(RATES)]]


def _show(out: Output, validation: Validation, references: tuple[Publication, ...]) -> None:
    predicted = [comparison for comparison in validation.comparisons if comparison.ratio is not None]
    out.result(comparison_table(predicted), None)
    print("\nrests on assumptions (what was assumed -> ratio if it were otherwise):")
    for line in assumption_lines(validation):
        print(f"  {line}")
    print("\nbeyond the model:")
    for comparison in validation.comparisons:
        if comparison.ratio is None:
            figure = comparison.figure
            print(f"  {comparison.reference}, {figure.name} ({figure.value:,.6g} {figure.unit}): {comparison.why}")
    print("\nin graphs that the text copies lack:")
    for reference in references:
        for line in reference.lost:
            print(f"  {reference.name}: {line}")
    print(f"\n{summary(validation)}")


def assumption_lines(validation: Validation) -> list[str]:
    """One line for each assumption that a predicted rate rests on."""
    return [
        f"{comparison.reference}, {comparison.figure.name} ({comparison.ratio or 0:.2f}): {rest.what} -> "
        + ", ".join(f"{value / comparison.figure.value:.2f} with {word}" for word, value in rest.otherwise)
        for comparison in validation.comparisons
        for rest in comparison.rests
    ]


def summary(validation: Validation) -> str:
    """How many figures, how far off with and without those that rest on assumptions, whether that is the target."""
    from cephlab.tuning.validate import RATES, TARGET_ERROR, TARGET_WORST

    rates = validation.of(RATES)
    published = [comparison for comparison in validation.comparisons if comparison.figure.kind.is_rate]
    error, worst = validation.error(RATES), validation.worst(RATES)
    if error is None or worst is None:
        return "no throughput figure could be predicted: measure more operations"
    met = "met" if validation.meets(RATES) else "missed"
    firm, without = [rate for rate in rates if not rate.rests], validation.error_without(RATES)
    return (
        f"throughput: {len(rates)} of {len(published)} published figures predicted, "
        f"geometric mean error {error:.2f}, worst {worst:.2f}\n"
        f"{len(firm)} of them rest on no assumption"
        + (f": geometric mean error {without:.2f}\n" if without else "\n")
        + f"target (error under {TARGET_ERROR}, each within {TARGET_WORST:g}): {met}"
    )


def as_value(validation: Validation, references: tuple[Publication, ...]) -> dict[str, Any]:
    """JSON values; predicted and ratio are null where the model cannot speak, with `why`."""
    from cephlab.tuning.validate import RATES

    return {
        "figures": [compared(comparison) for comparison in validation.comparisons],
        "lost": {reference.name: list(reference.lost) for reference in references},
        "throughput_error": validation.error(RATES),
        "throughput_worst": validation.worst(RATES),
        "throughput_error_without_assumptions": validation.error_without(RATES),
        "met": validation.meets(RATES),
    }
