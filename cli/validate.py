"""`cephlab validate-model`: the model beside what others published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from cli.output import JsonOption, reporting
from cli.predict import DemandOption, compared, comparison_table, demands_of
from cli.world import world_of

if TYPE_CHECKING:
    from tuning.references import Reference
    from tuning.validate import Comparison, Validation


def validate_model(ctx: typer.Context, demand: DemandOption = None, as_json: JsonOption = False) -> None:
    """Predict every published figure of the reference papers, and say how far off that is."""
    with reporting(as_json) as out:
        from tuning.profilefile import find_profile
        from tuning.references import load_references
        from tuning.validate import validate

        world = world_of(ctx)
        demands, origin = demands_of(world, demand)
        references = load_references()
        found = validate(demands, references, lambda name: find_profile(name, world.home.profiles))
        out.note(f"demands: {origin}")
        if as_json:
            out.json({"demands": origin, **as_value(found, references)})
            return
        spoken = [one for one in found.comparisons if one.ratio is not None]
        out.result(comparison_table(spoken), None)
        print("\nbeyond the model:")
        for one in found.comparisons:
            if one.ratio is None:
                print(f"  {one.reference}, {one.figure.name} ({one.figure.value:,.6g} {one.figure.unit}): {one.why}")
        print("\nlost with the graphs of the text copies:")
        for reference in references:
            for line in reference.lost:
                print(f"  {reference.name}: {line}")
        print(f"\n{summary(found)}")


def summary(found: Validation) -> str:
    """Two lines: how many figures, how far off, and whether that meets the target."""
    from tuning.validate import RATES, TARGET_ERROR, TARGET_WORST

    rates = found.of(RATES)
    error, worst = found.error(RATES), found.worst(RATES)
    if error is None or worst is None:
        return "no throughput figure could be predicted: measure more operations"
    met = "met" if error < TARGET_ERROR and worst <= TARGET_WORST else "missed"
    return (
        f"throughput: {len(rates)} of {len(_rates_published(found))} published figures predicted, "
        f"geometric mean error {error:.2f}, worst {worst:.2f}\n"
        f"target (error under {TARGET_ERROR}, each within {TARGET_WORST:g}): {met}"
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
    }
