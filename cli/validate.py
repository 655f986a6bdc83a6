"""`cephlab validate-model`: the model beside what others published."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.compare import CODES
from cli.output import JsonOption, Output, reporting
from cli.predict import DemandOption, compared, comparison_table
from cli.world import world_of

if TYPE_CHECKING:
    from tuning.references import Reference
    from tuning.validate import Comparison, Validation


def validate_model(
    ctx: typer.Context,
    demand: DemandOption = None,
    reference: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Publication to compare with instead of those shipped; repeatable."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Predict every published figure of the reference papers, and say how far off that is.

    Exit code 1 when that is further than the target, 6 when nothing could be predicted.
    """
    with reporting(as_json) as out:
        from tuning.demandsets import find_every_demand
        from tuning.profilefile import find_profile
        from tuning.references import load_reference, load_references
        from tuning.validate import validate

        world = world_of(ctx)
        demands, origin = find_every_demand(world.home.demands, demand)
        references = tuple(map(load_reference, reference)) if reference else load_references()
        found = validate(demands, references, lambda name: find_profile(name, world.home.profiles), sensitivity=True)
        out.note(f"demands: {origin}")
        if as_json:
            out.json({"demands": origin, **as_value(found, references)})
        else:
            _show(out, found, references)
        _end(found)


def _show(out: Output, found: Validation, references: tuple[Reference, ...]) -> None:
    out.result(comparison_table([one for one in found.comparisons if one.ratio is not None]), None)
    print("\nrests on assumptions (what was assumed -> ratio if it were otherwise):")
    for line in assumption_lines(found):
        print(f"  {line}")
    print("\nbeyond the model:")
    for one in found.comparisons:
        if one.ratio is None:
            print(f"  {one.reference}, {one.figure.name} ({one.figure.value:,.6g} {one.figure.unit}): {one.why}")
    print("\nlost with the graphs of the text copies:")
    for reference in references:
        for line in reference.lost:
            print(f"  {reference.name}: {line}")
    print(f"\n{summary(found)}")


def _end(found: Validation) -> None:
    """Exit with the verdict: met, missed, or nothing to judge."""
    from lab.checks.verdict import Outcome
    from tuning.validate import RATES

    outcome = {True: Outcome.PASS, False: Outcome.FAIL, None: Outcome.INCONCLUSIVE}[found.meets(RATES)]
    if outcome is not Outcome.PASS:
        raise typer.Exit(CODES[outcome])


def assumption_lines(found: Validation) -> list[str]:
    """One line for each assumption that a predicted rate rests on."""
    return [
        f"{one.reference}, {one.figure.name} ({one.ratio or 0:.2f}): {rest.what} -> "
        + ", ".join(f"{value / one.figure.value:.2f} with {word}" for word, value in rest.otherwise)
        for one in found.comparisons
        for rest in one.rests
    ]


def summary(found: Validation) -> str:
    """How many figures, how far off with and without those that rest on assumptions, whether that is the target."""
    from tuning.validate import RATES, TARGET_ERROR, TARGET_WORST

    rates = found.of(RATES)
    error, worst = found.error(RATES), found.worst(RATES)
    if error is None or worst is None:
        return "no throughput figure could be predicted: measure more operations"
    met = "met" if found.meets(RATES) else "missed"
    firm, without = [one for one in rates if not one.rests], found.error_without(RATES)
    return (
        f"throughput: {len(rates)} of {len(_rates_published(found))} published figures predicted, "
        f"geometric mean error {error:.2f}, worst {worst:.2f}\n"
        f"{len(firm)} of them rest on no assumption"
        + (f": geometric mean error {without:.2f}\n" if without else "\n")
        + f"target (error under {TARGET_ERROR}, each within {TARGET_WORST:g}): {met}"
    )


def _rates_published(found: Validation) -> list[Comparison]:
    return [one for one in found.comparisons if one.figure.kind.is_rate]


def as_value(found: Validation, references: tuple[Reference, ...]) -> dict[str, Any]:
    """JSON values; predicted and ratio are null where the model cannot speak, with `why`."""
    from tuning.validate import RATES

    return {
        "figures": [compared(one) for one in found.comparisons],
        "lost": {reference.name: list(reference.lost) for reference in references},
        "throughput_error": found.error(RATES),
        "throughput_worst": found.worst(RATES),
        "throughput_error_without_assumptions": found.error_without(RATES),
        "met": found.meets(RATES),
    }
