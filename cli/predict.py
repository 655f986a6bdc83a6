"""`cephlab predict`, `explain` and `validate-model`: what a profile should deliver, why, and how right the model is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cephlab.cli.compare import CODES
from cephlab.cli.frame import framed
from cephlab.cli.output import Output, table
from cephlab.cli.world import World
from cephlab.lab.base.errors import SpecError
from cephlab.lab.checks.verdict import Outcome
from cephlab.tuning.units import Measure, parse

if TYPE_CHECKING:
    from rich.table import Table

    from cephlab.lab.telemetry.demand import Demand
    from cephlab.tuning.model import Prediction
    from cephlab.tuning.profile import Profile
    from cephlab.tuning.references import Publication
    from cephlab.tuning.validate import Comparison, Validation
    from cephlab.tuning.workload import Shape

_CEILINGS_SHOWN = 8

ProfileOption = Annotated[str, typer.Option("--profile", help="Name of a profile, or the path of its file.")]
DemandOption = Annotated[
    Path | None, typer.Option(help="Demand file; default: the newest measured, else those shipped.")
]


@dataclass(frozen=True)
class LoadOptions:
    """The load that is predicted for, and what it costs. op: empty for the command's default."""

    op: Annotated[str, typer.Option(help="randread, randwrite, read, write, seq, get or put.")] = ""
    bs: Annotated[str, typer.Option(help="Bytes of one operation: 4k, 64k, 4M.")] = "4k"
    replicas: Annotated[int, typer.Option(min=1, help="Copies of each object.")] = 3
    ec: Annotated[str, typer.Option(metavar="K+M", help="Erasure code in place of copies.")] = ""
    clients: Annotated[int, typer.Option(min=1, help="Load generators.")] = 16
    depth: Annotated[int, typer.Option(min=1, help="Operations in flight of each.")] = 16
    hit_ratio: Annotated[
        float, typer.Option(min=0, max=1, help="Share of reads that OSDs answer from their memory.")
    ] = 0.0
    span: Annotated[
        float, typer.Option(min=1e-6, max=1, help="Share of each disk that the data lies on, for rotating disks.")
    ] = 1.0
    demand: DemandOption = None

    def shape(self, op: str) -> Shape:
        """The load of one operation."""
        from cephlab.tuning.workload import Shape, parse_block, parse_ec

        k, m = parse_ec(self.ec)
        return Shape(
            self.op or op,
            parse_block(self.bs),
            self.clients,
            self.depth,
            replicas=self.replicas,
            k=k,
            m=m,
            hit_ratio=self.hit_ratio,
            span=self.span,
        )


@framed
def predict(
    out: Output,
    world: World,
    profile: ProfileOption,
    load: LoadOptions,
    sweep: Annotated[str, typer.Option("--sweep", help="Also for 1, 2, 4 ... of these: depth or clients.")] = "",
    recover: Annotated[str, typer.Option("--recover", metavar="BYTES", help="Also the time to copy a lost node.")] = "",
) -> None:
    """Say what a cluster of that profile should deliver, and what limits it."""
    from cephlab.tuning.demandsets import find_demands
    from cephlab.tuning.model import predict as work_out
    from cephlab.tuning.scaling import scaling

    shapes = [load.shape(name) for name in ([load.op] if load.op else ["randread", "randwrite"])]
    demands, origin = find_demands(world.home.demands, load.demand)
    hardware = world.profile(profile)
    predictions = [work_out(demands, hardware, shape) for shape in shapes]
    series = [[work_out(demands, hardware, swept) for swept in _sweep(shape, sweep)] for shape in shapes]
    scalings = [scaling(world.home.demands, hardware, shape) for shape in shapes]
    published, theirs = _published(world, hardware.name, load.demand)
    rebuilt = recovered(world, recover, demands, hardware, k=shapes[0].k) if recover else None
    out.note(f"demands: {origin}")
    if out.as_json:
        value: dict[str, Any] = {
            "demands": origin,
            "predictions": [as_value(prediction) for prediction in predictions],
            "scalability": [law.words(shape.clients) for law, shape in zip(scalings, shapes, strict=True)],
            "published": [compared(comparison) for comparison in published],
            "published_demands": theirs,
        }
        if rebuilt:
            value["recovery"] = rebuilt.value
        out.json({**value, "sweep": [[as_value(point) for point in points] for points in series]} if sweep else value)
        return
    for prediction, points, law in zip(predictions, series, scalings, strict=True):
        _show(out, prediction)
        out.note(law.words(prediction.shape.clients))
        if points:
            _show_sweep(out, points, sweep)
    if rebuilt:
        out.result("\n".join(["", *rebuilt.lines]), None)
    if published:
        print("\nbeside what was published of this cluster, under the load that it was published for:")
        out.result(comparison_table(published), None)
        out.note(f"demands: {theirs}")


@framed
def explain(out: Output, world: World, profile: ProfileOption, load: LoadOptions) -> None:
    """Show every step of a prediction with its numbers and the source of each formula and figure."""
    from cephlab.tuning.demandsets import find_demands
    from cephlab.tuning.model import predict as work_out

    demands, origin = find_demands(world.home.demands, load.demand)
    hardware = world.profile(profile)
    prediction = work_out(demands, hardware, load.shape("randwrite"))
    sources = [f"{place}: {figure}   [{figure.source}]" for place, figure in hardware.figures()]
    lines = [
        f"{prediction.profile}: {prediction.shape}",
        f"demands: {origin}",
        "",
        *prediction.derivation.lines(),
        *(f"not known: {line}" for line in prediction.unknown),
        "",
        "figures of the profile",
    ]
    value = {
        "demands": origin,
        "prediction": as_value(prediction),
        "steps": [asdict(step) for step in prediction.derivation],
        "figures": {place: {"value": str(figure), "source": figure.source} for place, figure in hardware.figures()},
    }
    out.result("\n".join([*lines, *(f"  {line}" for line in sources)]), value)


@dataclass(frozen=True)
class Recovered:
    """The time to recover a lost node: for people, and as JSON values in seconds."""

    lines: list[str]
    value: dict[str, Any]


def recovered(world: World, size: str, demands: Sequence[Demand], profile: Profile, *, k: int) -> Recovered:
    """For a node that held `size` ("4500 GB"); SpecError where that is no size. k: of an erasure code, 0 for copies."""
    from cephlab.tuning.limits import recovery_limit, supported_factor
    from cephlab.tuning.recovery import recovery_time
    from cephlab.tuning.references import FigureKind

    try:
        data_bytes = parse(size, Measure.BYTES)
    except ValueError as error:
        raise SpecError(f"--recover: {size!r} is not a number of bytes", f"wanted: {error}") from None
    time = recovery_time(profile, data_bytes, k=k)
    limit = recovery_limit(time, supported_factor(demands, (FigureKind.RECOVERY,), world.profile))
    steps = limit.derivation.lines()
    heading = (
        f"{profile.name}: a lost node is copied again in {time.seconds:,.0f} s, limit: {time.limit}; "
        f"on the hardware at most {limit.high:,.0f} s"
    )
    value = {"profile": profile.name, "seconds": time.seconds, "limited_by": time.limit, "at_most_s": limit.high}
    return Recovered([heading, *(f"  {step}" for step in steps)], {**value, "derivation": steps})


def _published(world: World, profile: str, chosen: Path | None) -> tuple[list[Comparison], str]:
    """The published figures of a profile's cluster that the model can predict, and the source of its demands."""
    from cephlab.tuning.demandsets import find_every_demand
    from cephlab.tuning.references import load_references
    from cephlab.tuning.validate import validate

    demands, origin = find_every_demand(world.home.demands, chosen)
    own = [reference for reference in load_references() if reference.profile == profile]
    validation = validate(demands, own, world.profile)
    return [comparison for comparison in validation.comparisons if comparison.ratio is not None], origin


def comparison_table(comparisons: list[Comparison]) -> Table:
    """Published and predicted side by side."""
    rows = []
    for row in comparisons:
        predicted = row.predicted or 0.0
        shown = f"{predicted:,.4g}" if predicted < 1000 else f"{predicted:,.0f}"
        figure, ratio = row.figure, f"{row.ratio or 0:.2f}"
        published = f"{figure.value:,.6g} {figure.unit}"
        rows.append([row.reference, figure.name, published, shown, ratio, row.limit])
    return table(("source", "figure", "published", "predicted", "ratio", "limit"), rows)


def compared(comparison: Comparison) -> dict[str, Any]:
    """A comparison as JSON values; predicted and ratio are null where the model cannot speak, with `why`."""
    return {
        "source": comparison.reference,
        "name": comparison.figure.name,
        "kind": comparison.figure.kind.value,
        "unit": comparison.figure.unit,
        "published": comparison.figure.value,
        "where": comparison.figure.where,
        "note": comparison.figure.note,
        "predicted": comparison.predicted,
        "ratio": comparison.ratio,
        "limit": comparison.limit,
        "why": comparison.why,
        "rests_on": [{"assumed": rest.what, "otherwise": dict(rest.otherwise)} for rest in comparison.rests],
    }


def _sweep(shape: Shape, what: str) -> list[Shape]:
    """The shape with 1, 2, 4 ... up to its own depth or clients; SpecError on another word."""
    if not what:
        return []
    if what not in ("depth", "clients"):
        raise SpecError(f"--sweep: {what!r} is not known", "wanted: depth or clients")
    top = int(getattr(shape, what))
    steps = sorted({1 << power for power in range(top.bit_length())} | {top})
    return [replace(shape, depth=n) if what == "depth" else replace(shape, clients=n) for n in steps if n <= top]


def _show_sweep(out: Output, points: list[Prediction], what: str) -> None:
    rows = [
        [str(getattr(point.shape, what)), f"{point.ops:,.0f}", f"{point.latency_s * 1e3:.3f}", point.bottleneck]
        for point in points
    ]
    out.result(table((what, "ops/s", "mean ms", "limit"), rows), None)


def as_value(prediction: Prediction) -> dict[str, Any]:
    """A prediction as JSON values: operations and bytes a second, seconds, shares of 1."""
    return {
        "profile": prediction.profile,
        "shape": asdict(prediction.shape),
        "ops_s": prediction.ops,
        "bytes_s": prediction.bytes_s,
        "latency_s": prediction.latency_s,
        "bottleneck": prediction.bottleneck,
        "ceilings": [{"resource": ceiling.name, "ops_s": ceiling.ops} for ceiling in prediction.ceilings],
        "utilisation": prediction.utilisation,
        "unloaded_s": prediction.unloaded_s,
        "unknown": list(prediction.unknown),
    }


def _show(out: Output, prediction: Prediction) -> None:
    rows = [
        [ceiling.name, f"{ceiling.ops:,.0f}", f"{prediction.utilisation[ceiling.name]:.0%}"]
        for ceiling in prediction.ceilings[:_CEILINGS_SHOWN]
    ]
    rates = f"{prediction.ops:,.0f} ops/s, {prediction.bytes_s / 1e6:,.0f} MB/s"
    print(f"{prediction.profile}: {prediction.shape}")
    print(f"{rates}, mean {prediction.latency_s * 1e3:.2f} ms; limit: {prediction.bottleneck}")
    out.result(table(("resource", "allows ops/s", "in use"), rows), None)
    for line in prediction.unknown:
        out.note(f"not known: {line}")


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
        out.json({"demands": origin, **validation_value(validation, references)})
    else:
        _show_validation(out, validation, references)
    return CODES[{True: Outcome.PASS, False: Outcome.FAIL, None: Outcome.INCONCLUSIVE}[validation.meets(RATES)]]


def _show_validation(out: Output, validation: Validation, references: tuple[Publication, ...]) -> None:
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


def validation_value(validation: Validation, references: tuple[Publication, ...]) -> dict[str, Any]:
    """A validation as JSON values; predicted and ratio are null where the model cannot speak, with `why`."""
    from cephlab.tuning.validate import RATES

    return {
        "figures": [compared(comparison) for comparison in validation.comparisons],
        "lost": {reference.name: list(reference.lost) for reference in references},
        "throughput_error": validation.error(RATES),
        "throughput_worst": validation.worst(RATES),
        "throughput_error_without_assumptions": validation.error_without(RATES),
        "met": validation.meets(RATES),
    }
