"""`cephlab predict` and `cephlab explain`: what a profile should deliver, and how that was worked out."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.output import JsonOption, Output, reporting, table
from cli.recover import recovered
from cli.world import World, world_of
from lab.errors import SpecError

if TYPE_CHECKING:
    from rich.table import Table

    from lab.telemetry.demand import Demand
    from tuning.model import Prediction
    from tuning.scaling import Scaling
    from tuning.validate import Comparison
    from tuning.workload import Shape

_CEILINGS_SHOWN = 8

ProfileOption = Annotated[str, typer.Option("--profile", help="Name of a profile, or the path of its file.")]
DemandOption = Annotated[
    Path | None, typer.Option("--demand", help="Demand file; default: the newest measured, else those shipped.")
]
OpOption = Annotated[str, typer.Option("--op", help="randread, randwrite, read, write, seq, get or put.")]
BlockOption = Annotated[str, typer.Option("--bs", help="Bytes of one operation: 4k, 64k, 4M.")]
ReplicasOption = Annotated[int, typer.Option("--replicas", min=1, help="Copies of each object.")]
EcOption = Annotated[str, typer.Option("--ec", metavar="K+M", help="Erasure code in place of copies.")]
ClientsOption = Annotated[int, typer.Option("--clients", min=1, help="Load generators.")]
DepthOption = Annotated[int, typer.Option("--depth", min=1, help="Operations in flight of each.")]
HitRatioOption = Annotated[
    float, typer.Option("--hit-ratio", min=0, max=1, help="Share of reads that OSDs answer from their memory.")
]
SpanOption = Annotated[
    float, typer.Option("--span", min=1e-6, max=1, help="Share of each disk that the data lies on, for rotating disks.")
]


def predict(
    ctx: typer.Context,
    profile: ProfileOption,
    *,
    op: OpOption = "",
    bs: BlockOption = "4k",
    replicas: ReplicasOption = 3,
    ec: EcOption = "",
    clients: ClientsOption = 16,
    depth: DepthOption = 16,
    hit_ratio: HitRatioOption = 0.0,
    span: SpanOption = 1.0,
    sweep: Annotated[str, typer.Option("--sweep", help="Also for 1, 2, 4 ... of these: depth or clients.")] = "",
    recover: Annotated[str, typer.Option("--recover", metavar="BYTES", help="Also the time to copy a lost node.")] = "",
    demand: DemandOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what a cluster of that profile should deliver, and what limits it."""
    with reporting(as_json) as out:
        world = world_of(ctx)
        shapes = [
            _shape(name, bs, replicas, ec, clients, depth, hit_ratio=hit_ratio, span=span)
            for name in ([op] if op else ["randread", "randwrite"])
        ]
        demands, origin = demands_of(world, demand)
        made = [_predict(world, profile, demands, shape) for shape in shapes]
        series = [[_predict(world, profile, demands, one) for one in _sweep(shape, sweep)] for shape in shapes]
        scalings = [_scaling(world, profile, shape) for shape in shapes]
        published, theirs = _published(world, made[0].profile, demand)
        rebuilt = recovered(recover, demands, load(world, profile), lambda name: load(world, name), k=shapes[0].k)
        out.note(f"demands: {origin}")
        if as_json:
            value: dict[str, Any] = {
                "demands": origin,
                "predictions": [as_value(one) for one in made],
                "scalability": [one.words(shape.clients) for one, shape in zip(scalings, shapes, strict=True)],
                "published": [compared(one) for one in published],
                "published_demands": theirs,
            }
            if rebuilt:
                value["recovery"] = rebuilt.as_value()
            out.json({**value, "sweep": [[as_value(one) for one in points] for points in series]} if sweep else value)
            return
        for one, points, law in zip(made, series, scalings, strict=True):
            _show(out, one)
            out.note(law.words(one.shape.clients))
            if points:
                _show_sweep(out, points, sweep)
        if rebuilt:
            out.result("\n".join(["", *rebuilt.lines()]), None)
        if published:
            print("\nbeside what was published of this cluster, under the load that it was published for:")
            out.result(comparison_table(published), None)
            out.note(f"demands: {theirs}")


def explain(
    ctx: typer.Context,
    profile: ProfileOption,
    *,
    op: OpOption = "randwrite",
    bs: BlockOption = "4k",
    replicas: ReplicasOption = 3,
    ec: EcOption = "",
    clients: ClientsOption = 16,
    depth: DepthOption = 16,
    hit_ratio: HitRatioOption = 0.0,
    span: SpanOption = 1.0,
    demand: DemandOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show every step of a prediction with its numbers and the source of each formula and figure."""
    with reporting(as_json) as out:
        world = world_of(ctx)
        demands, origin = demands_of(world, demand)
        shape = _shape(op, bs, replicas, ec, clients, depth, hit_ratio=hit_ratio, span=span)
        made = _predict(world, profile, demands, shape)
        found = load(world, profile)
        sources = [f"{place}: {figure}   [{figure.source}]" for place, figure in found.figures()]
        lines = [
            f"{made.profile}: {made.shape}",
            f"demands: {origin}",
            "",
            *made.derivation.lines(),
            *(f"not known: {line}" for line in made.unknown),
            "",
            "figures of the profile",
        ]
        value = {
            "demands": origin,
            "prediction": as_value(made),
            "steps": [asdict(step) for step in made.derivation],
            "figures": {place: {"value": str(figure), "source": figure.source} for place, figure in found.figures()},
        }
        out.result("\n".join([*lines, *(f"  {line}" for line in sources)]), value)


def load(world: World, name: str) -> Any:
    """A profile by name or path."""
    from tuning.profilefile import find_profile

    return find_profile(name, world.home.profiles)


def demands_of(world: World, chosen: Path | None) -> tuple[tuple[Demand, ...], str]:
    """The demands to predict from, and where they are from; SpecError when there are none."""
    from tuning.demandsets import find_demands

    return find_demands(world.home.demands, chosen)


def _predict(world: World, profile: str, demands: tuple[Demand, ...], shape: Shape) -> Prediction:
    from tuning.model import predict as work_out

    return work_out(demands, load(world, profile), shape)


def _scaling(world: World, profile: str, shape: Shape) -> Scaling:
    from tuning.scaling import scaling

    return scaling(world.home.demands, load(world, profile), shape)


def _shape(
    op: str, bs: str, replicas: int, ec: str, clients: int, depth: int, *, hit_ratio: float, span: float
) -> Shape:
    from tuning.workload import Shape, parse_block, parse_ec

    k, m = parse_ec(ec)
    return Shape(op, parse_block(bs), clients, depth, replicas=replicas, k=k, m=m, hit_ratio=hit_ratio, span=span)


def _published(world: World, profile: str, chosen: Path | None) -> tuple[list[Comparison], str]:
    """The published figures of a profile's cluster that the model can speak to, and where their demands are from."""
    from tuning.demandsets import find_every_demand
    from tuning.references import load_references
    from tuning.validate import validate

    demands, origin = find_every_demand(world.home.demands, chosen)
    own = [reference for reference in load_references() if reference.profile == profile]
    found = validate(demands, own, lambda name: load(world, name))
    return [one for one in found.comparisons if one.ratio is not None], origin


def comparison_table(comparisons: list[Comparison]) -> Table:
    """Published and predicted side by side."""
    rows = []
    for one in comparisons:
        predicted = one.predicted or 0.0
        shown = f"{predicted:,.4g}" if predicted < 1000 else f"{predicted:,.0f}"
        published = f"{one.figure.value:,.6g} {one.figure.unit}"
        rows.append([one.reference, one.figure.name, published, shown, f"{one.ratio or 0:.2f}", one.limit])
    return table(("source", "figure", "published", "predicted", "ratio", "limit"), rows)


def compared(one: Comparison) -> dict[str, Any]:
    """A comparison as JSON values; predicted and ratio are null where the model cannot speak, with `why`."""
    return {
        "source": one.reference,
        "name": one.figure.name,
        "kind": one.figure.kind.value,
        "unit": one.figure.unit,
        "published": one.figure.value,
        "where": one.figure.where,
        "note": one.figure.note,
        "predicted": one.predicted,
        "ratio": one.ratio,
        "limit": one.limit,
        "why": one.why,
        "rests_on": [{"assumed": rest.what, "otherwise": dict(rest.otherwise)} for rest in one.rests],
    }


def _sweep(shape: Shape, what: str) -> list[Shape]:
    """The shape with 1, 2, 4 ... up to its own depth or clients; SpecError on another word."""
    from dataclasses import replace

    if not what:
        return []
    if what not in ("depth", "clients"):
        raise SpecError("--sweep is not known", f"got {what!r}, wanted depth or clients")
    top = int(getattr(shape, what))
    steps = sorted({1 << power for power in range(top.bit_length())} | {top})
    return [replace(shape, depth=n) if what == "depth" else replace(shape, clients=n) for n in steps if n <= top]


def _show_sweep(out: Output, points: list[Prediction], what: str) -> None:
    rows = [
        [str(getattr(one.shape, what)), f"{one.ops:,.0f}", f"{one.latency_s * 1e3:.3f}", one.bottleneck]
        for one in points
    ]
    out.result(table((what, "ops/s", "mean ms", "limit"), rows), None)


def as_value(made: Prediction) -> dict[str, Any]:
    """A prediction as JSON values: operations and bytes a second, seconds, shares of 1."""
    return {
        "profile": made.profile,
        "shape": asdict(made.shape),
        "ops_s": made.ops,
        "bytes_s": made.bytes_s,
        "latency_s": made.latency_s,
        "bottleneck": made.bottleneck,
        "ceilings": [{"resource": ceiling.name, "ops_s": ceiling.ops} for ceiling in made.ceilings],
        "utilisation": made.utilisation,
        "unloaded_s": made.unloaded_s,
        "unknown": list(made.unknown),
    }


def _show(out: Output, made: Prediction) -> None:
    rows = [
        [ceiling.name, f"{ceiling.ops:,.0f}", f"{made.utilisation[ceiling.name]:.0%}"]
        for ceiling in made.ceilings[:_CEILINGS_SHOWN]
    ]
    mb = made.bytes_s / 1e6
    print(f"{made.profile}: {made.shape}")
    print(f"{made.ops:,.0f} ops/s, {mb:,.0f} MB/s, mean {made.latency_s * 1e3:.2f} ms; limit: {made.bottleneck}")
    out.result(table(("resource", "allows ops/s", "in use"), rows), None)
    for line in made.unknown:
        out.note(f"not known: {line}")
