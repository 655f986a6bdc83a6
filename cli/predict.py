"""`cephlab predict` and `explain`: what a profile should deliver, with what certainty, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cephlab.cli.completion import DEMANDED_RELEASES, PREDICTED_OPERATIONS, PROFILES, words
from cephlab.cli.figures import interval_lines, resource_table, show_comparisons
from cephlab.cli.frame import framed
from cephlab.cli.output import Output
from cephlab.cli.rivals import show_rivals
from cephlab.cli.sweep import LOADS, read_sweep, requirements_met, show_met, show_sweep
from cephlab.cli.work import watt_steps, work_lines, work_value
from cephlab.cli.world import World
from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.nearest import did_you_mean
from cephlab.lab.spec.clusterspec import KNOWN_RELEASES
from cephlab.lab.spec.written import size_bytes
from cephlab.tuning.units import Measure, parse
from cephlab.tuning.workload import OPERATIONS

if TYPE_CHECKING:
    from cephlab.lab.base.home import Home
    from cephlab.lab.telemetry.demand import Demand
    from cephlab.tuning.model import Prediction
    from cephlab.tuning.profile import Profile
    from cephlab.tuning.trust import Trust
    from cephlab.tuning.validate import Comparison
    from cephlab.tuning.workload import Shape

_CEILINGS_SHOWN = 8

ProfileOption = Annotated[
    str,
    typer.Option(
        "--profile", help="Name of a profile, or the path of its file.", metavar="NAME|FILE", autocompletion=PROFILES
    ),
]
DemandOption = Annotated[
    Path | None, typer.Option(help="Demand file.", show_default="the newest measured, else those shipped")
]


@dataclass(frozen=True)
class Machines:
    """The hardware to predict for. changes: `PLACE=VALUE`, which override its file."""

    profile: ProfileOption
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Change a figure of the profile, e.g. nodes.count=6; repeatable.", metavar="PLACE=VALUE"
        ),
    ] = None


@dataclass(frozen=True)
class Further:
    """What else to predict: other points, other machines, a recovery."""

    sweep: Annotated[
        str,
        typer.Option(
            metavar="WHAT",
            help="Also predict other points. WHAT: depth or clients (1, 2, 4 ... up to it), or e.g. nodes.count=3..12.",
            autocompletion=words(*LOADS),
        ),
    ] = ""
    compare: Annotated[
        list[str] | None,
        typer.Option(
            help="Also predict for this profile, side by side; repeatable.",
            metavar="NAME|FILE",
            autocompletion=PROFILES,
        ),
    ] = None
    recover: Annotated[
        str, typer.Option(metavar="SIZE", help="Also predict the time to recover a lost node that held this much.")
    ] = ""


@dataclass(frozen=True)
class LoadOptions:
    """The load to predict for, and its costs. op: empty for the command's default."""

    op: Annotated[
        str,
        typer.Option(
            help=f"One of {', '.join(OPERATIONS)}; randrw70 reads 70 % of the time.",
            autocompletion=PREDICTED_OPERATIONS,
        ),
    ] = ""
    bs: Annotated[str, typer.Option(help="Size of one operation, e.g. 4k, 64k or 4M.", metavar="SIZE")] = "4k"
    replicas: Annotated[int, typer.Option(min=1, help="Number of copies of each object.")] = 3
    ec: Annotated[str, typer.Option(metavar="K+M", help="Erasure code instead of copies.")] = ""
    clients: Annotated[int, typer.Option(min=1, help="Number of load generators.")] = 16
    depth: Annotated[int, typer.Option(min=1, help="Operations in flight of each client.")] = 16
    hit_ratio: Annotated[
        float, typer.Option(min=0, max=1, help="Hit ratio: share of reads that OSDs answer from memory.")
    ] = 0.0
    span: Annotated[
        float, typer.Option(min=1e-6, max=1, help="Share of each disk that holds the data, for rotating disks.")
    ] = 1.0
    stripe_unit: Annotated[
        str, typer.Option(metavar="SIZE", help="Size of one erasure code chunk, e.g. 4k or 16k.")
    ] = "4k"
    data: Annotated[
        str,
        typer.Option(
            metavar="SIZE", help="Size of all data in the pool; decides how much of its metadata is in memory."
        ),
    ] = ""
    demand: DemandOption = None
    release: Annotated[
        str,
        typer.Option(
            help="Ceph release of the cluster.", show_default="that of the demands", autocompletion=DEMANDED_RELEASES
        ),
    ] = ""

    def demands(self, home: Home) -> tuple[tuple[Demand, ...], str]:
        """(demands for the release, where they are from); SpecError for an unknown release."""
        from cephlab.tuning.demandsets import find_demands, find_every_demand, of_release

        if not self.release:
            return find_demands(home.demands, self.demand)
        if self.release not in KNOWN_RELEASES:
            got = f"got {self.release!r}, wanted one of {', '.join(KNOWN_RELEASES)}"
            raise SpecError("--release is not a known release of Ceph", got, did_you_mean(self.release, KNOWN_RELEASES))
        every, origin = find_every_demand(home.demands, self.demand)
        return of_release(every, self.release), origin

    @property
    def shapes(self) -> list[Shape]:
        """The loads: of the given operation, else small random reads and writes."""
        return [self.shape(name) for name in ([self.op] if self.op else ["randread", "randwrite"])]

    def shape(self, op: str) -> Shape:
        """The load of one operation."""
        from cephlab.tuning.workload import Shape, parse_block, parse_ec

        k, m = parse_ec(self.ec, "--ec")
        return Shape(
            self.op or op,
            parse_block(self.bs, "--bs"),
            self.clients,
            self.depth,
            replicas=self.replicas,
            k=k,
            m=m,
            hit_ratio=self.hit_ratio,
            span=self.span,
            stripe_unit=parse_block(self.stripe_unit, "--stripe-unit"),
            data_bytes=_amount("--data", self.data) if self.data else 0.0,
        )


@framed
def predict(out: Output, world: World, machines: Machines, load: LoadOptions, further: Further) -> None:
    """Predict what a cluster of that profile should deliver, and what limits it.

    Example: cephlab predict --profile kunpeng920 --op randwrite --depth 32
    """
    from cephlab.tuning.model import predict as work_out_of
    from cephlab.tuning.profilefile import find_hardware
    from cephlab.tuning.scaling import scaling

    shapes = load.shapes
    demands, origin = load.demands(world.home)
    read = find_hardware(machines.profile, world.home.profiles, machines.changes or ())
    hardware = read.profile
    work_out = partial(work_out_of, demands, release=load.release)
    predictions = [work_out(hardware, shape) for shape in shapes]
    swept = read_sweep(further.sweep, read, machines.changes or (), shapes)
    places = swept.points if swept else [()] * len(shapes)
    series = [[work_out(point.hardware.profile, point.shape) for point in points] for points in places]
    met = requirements_met(world, swept, demands) if swept else []
    rivals = [[work_out(world.profile(name), shape) for name in further.compare or ()] for shape in shapes]
    scalings = [scaling(world.home.demands, hardware, shape) for shape in shapes]
    published, theirs = _published(world, hardware.name, load.demand)
    rebuilt = recovered(world, further.recover, demands, hardware, k=shapes[0].k) if further.recover else None
    out.note(f"demands: {origin}")
    if out.as_json:
        value: dict[str, Any] = {
            "demands": origin,
            "predictions": _values(predictions),
            "work_per_watt": [work_value(made, hardware) for made in predictions],
            "scalability": [law.words(shape.clients) for law, shape in zip(scalings, shapes, strict=True)],
            "published": [compared(comparison) for comparison in published],
            "published_demands": theirs,
            **({"recovery": rebuilt.value} if rebuilt else {}),
            **({"compared": [_values(row) for row in rivals]} if further.compare else {}),
        }
        if swept:
            value |= {"sweep": [_values(points) for points in series], "requirements": met}
        out.json(value)
        return
    for prediction, points, made, law in zip(predictions, places, series, scalings, strict=True):
        _show(out, prediction, hardware)
        out.note(law.words(prediction.shape.clients))
        if swept:
            show_sweep(out, swept.what, points, made)
    show_rivals(out, predictions, rivals)
    _note_doubts(out, predictions)
    if swept:
        show_met(out, swept.what, met)
    if rebuilt:
        out.lines("", *rebuilt.lines)
    if published:
        out.lines("", "compared with figures published for this cluster, under the published load:")
        show_comparisons(out, published)
        if theirs != origin:
            out.note(f"demands for these: {theirs}")


@framed
def explain(out: Output, world: World, machines: Machines, load: LoadOptions) -> None:
    """Show every step of a prediction with its numbers and the source of each formula and figure.

    Example: cephlab explain --profile kunpeng920 --op randread
    """
    from cephlab.tuning.model import predict as work_out

    demands, origin = load.demands(world.home)
    hardware = world.profile(machines.profile, machines.changes or ())
    prediction = work_out(demands, hardware, load.shape("randwrite"), release=load.release)
    sources = [f"{place}: {figure}   [{figure.source}]" for place, figure in hardware.figures()]
    lines = [
        f"{prediction.profile}: {prediction.shape}",
        f"demands: {origin}",
        "",
        *prediction.derivation.lines(),
        *(f"not known: {line}" for line in prediction.unknown),
        *watt_steps(prediction, hardware),
        "",
        "figures of the profile",
    ]
    value = {
        "demands": origin,
        "prediction": as_value(prediction),
        "steps": [asdict(step) for step in prediction.derivation],
        "figures": {place: {"value": str(figure), "source": figure.source} for place, figure in hardware.figures()},
    }
    if out.as_json:
        out.json(value)
    else:
        out.lines(*lines, *(f"  {line}" for line in sources))


@dataclass(frozen=True)
class Recovered:
    """The time to recover a lost node: for people, and as JSON values in seconds."""

    lines: list[str]
    value: dict[str, Any]


def _amount(option: str, text: str) -> float:
    """Bytes of "20 TB" as in profiles, or of "4T" as in other options; SpecError if it is not a size."""
    try:
        return parse(text, Measure.BYTES)
    except ValueError:
        if size := size_bytes(text):
            return size
    units = "k, M, G, T and KiB ... PiB in powers of 1024, KB ... PB in powers of 1000"
    raise SpecError(f"{option}: {text!r} is not a size", f"wanted: bytes above 0, or with a unit: {units}", "write 4T")


def recovered(world: World, size: str, demands: Sequence[Demand], profile: Profile, *, k: int) -> Recovered:
    """For a node that held `size` ("4500 GB"); SpecError if it is not a size. k: of an erasure code, 0 for copies."""
    from cephlab.tuning.limits import recovery_limit, supported_factor
    from cephlab.tuning.recovery import recovery_time
    from cephlab.tuning.references import FigureKind

    data_bytes = _amount("--recover", size)
    time = recovery_time(profile, data_bytes, k=k)
    limit = recovery_limit(time, supported_factor(demands, (FigureKind.RECOVERY,), world.profile))
    steps = limit.derivation.lines()
    heading = (
        f"{profile.name}: a lost node is recovered in {time.seconds:,.0f} s, limit: {time.limit}; "
        f"on the hardware in at most {limit.high:,.0f} s"
    )
    value = {"profile": profile.name, "seconds": time.seconds, "limited_by": time.limit, "at_most_s": limit.high}
    return Recovered([heading, *(f"  {step}" for step in steps)], {**value, "derivation": steps})


def _published(world: World, profile: str, chosen: Path | None) -> tuple[list[Comparison], str]:
    """The published figures of a profile's cluster that the model can predict, and the source of its demands."""
    from cephlab.tuning.demandsets import find_every_demand
    from cephlab.tuning.references import load_references, of_profile
    from cephlab.tuning.validate import validate

    demands, origin = find_every_demand(world.home.demands, chosen)
    validation = validate(demands, of_profile(load_references(), profile), world.profile)
    return [comparison for comparison in validation.comparisons if comparison.ratio is not None], origin


def compared(comparison: Comparison) -> dict[str, Any]:
    """A comparison as JSON values; predicted and ratio are null, with `why`, if the model cannot predict it."""
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
        "interval": list(comparison.interval) if comparison.interval else None,
        "limit": comparison.limit,
        "why": comparison.why,
        "rests_on": [{"assumed": rest.what, "otherwise": dict(rest.otherwise)} for rest in comparison.rests],
    }


def as_value(prediction: Prediction) -> dict[str, Any]:
    """A prediction as JSON values: operations and bytes a second, seconds, shares of 1."""
    return {
        "profile": prediction.profile,
        "shape": asdict(prediction.shape),
        "ops_s": prediction.ops,
        "bytes_s": prediction.bytes_s,
        "latency_s": prediction.latency_s,
        "interval": interval_value(prediction.trust, prediction),
        "bottleneck": prediction.bottleneck,
        "ceilings": [{"resource": ceiling.name, "ops_s": ceiling.ops} for ceiling in prediction.ceilings],
        "utilisation": prediction.utilisation,
        "unloaded_s": prediction.unloaded_s,
        "unknown": list(prediction.unknown),
    }


def _values(predictions: Sequence[Prediction]) -> list[dict[str, Any]]:
    return [as_value(made) for made in predictions]


def interval_value(trust: Trust, prediction: Prediction) -> dict[str, Any]:
    """The 90 % interval of a prediction as JSON values, with what was not validated."""
    return {
        "ops_s": list(trust.around(prediction.ops)),
        "latency_s": list(trust.around(prediction.latency_s)),
        "factor": trust.factor,
        "kind": trust.kind.value,
        "test_beds": trust.beds,
        "outside": list(trust.outside),
    }


def _note_doubts(out: Output, predictions: Sequence[Prediction]) -> None:
    """Note where the intervals come from, what was not validated and what is not known, each once."""
    lines = [f"in brackets: {made.trust}" for made in predictions]
    lines += [line for made in predictions for line in made.trust.outside]
    lines += [f"not known: {line}" for made in predictions for line in made.unknown]
    for line in dict.fromkeys(lines):
        out.note(line)


def _show(out: Output, prediction: Prediction, profile: Profile) -> None:
    lines = [f"{prediction.profile}: {prediction.shape}", *interval_lines(prediction)]
    out.lines(*lines, f"  limit: {prediction.bottleneck}")
    out.result(resource_table(prediction, _CEILINGS_SHOWN), None)
    for line in work_lines(prediction, profile):
        out.note(line)
