"""`cephlab predict` and `explain`: what a profile should deliver, with what certainty, and why."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cephlab.cli.answers import Answers, as_value, doubts
from cephlab.cli.completion import DEMANDED_RELEASES, PREDICTED_OPERATIONS, PROFILES, words
from cephlab.cli.conventions import DEFAULT_COPIES, copies, refuse_other_format, refuse_unwritable, write_named
from cephlab.cli.figures import interval_lines, resource_table, show_comparisons, source_lines
from cephlab.cli.frame import framed
from cephlab.cli.output import Output
from cephlab.cli.recover import amount, recovered
from cephlab.cli.rivals import show_rivals
from cephlab.cli.sweep import LOADS, read_sweep, requirements_met, show_met, show_sweep
from cephlab.cli.work import watt_steps, work_lines
from cephlab.cli.world import World
from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.nearest import unknown
from cephlab.lab.spec.clusterspec import KNOWN_RELEASES
from cephlab.tuning.workload import OPERATIONS

if TYPE_CHECKING:
    from cephlab.lab.base.home import Home
    from cephlab.lab.telemetry.demand import Demand
    from cephlab.tuning.model import Prediction
    from cephlab.tuning.profile import Profile
    from cephlab.tuning.validate import Comparison
    from cephlab.tuning.workload import Shape

_CEILINGS_SHOWN = 8
MOST, MOST_COPIES = 10_000_000, 100

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
            help="Also predict other points. WHAT: depth or clients (1, 2, 4 ... up to it), or a value that --set "
            "takes, with a range: PLACE=3..12.",
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
    replicas: Annotated[
        int | None,
        typer.Option(min=1, max=MOST_COPIES, help="Number of copies of each object.", show_default=str(DEFAULT_COPIES)),
    ] = None
    ec: Annotated[str, typer.Option(metavar="K+M", help="Erasure code instead of copies.")] = ""
    clients: Annotated[int, typer.Option(min=1, max=MOST, help="Number of load generators.")] = 16
    depth: Annotated[int, typer.Option(min=1, max=MOST, help="Operations in flight of each client.")] = 16
    hit_ratio: Annotated[
        float, typer.Option(min=0, max=1, help="Hit ratio: share of reads that OSDs answer from memory.")
    ] = 0.0
    span: Annotated[
        float, typer.Option(min=1e-6, max=1, help="Share of each disk that holds the data, for rotating disks.")
    ] = 1.0
    stripe_unit: Annotated[
        str, typer.Option(metavar="SIZE", help="With --ec: size of one chunk, e.g. 4k or 16k.", show_default="4k")
    ] = ""
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
            raise unknown(f"--release: {self.release!r} is not known", self.release, KNOWN_RELEASES)
        every, origin = find_every_demand(home.demands, self.demand)
        return of_release(every, self.release), origin

    @property
    def shapes(self) -> list[Shape]:
        """The loads: of the given operation, else small random reads and writes."""
        return [self.shape(name) for name in ([self.op] if self.op else ["randread", "randwrite"])]

    def shape(self, op: str) -> Shape:
        """The load of one operation."""
        from cephlab.tuning.workload import STRIPE_UNIT, Shape, parse_block, parse_ec

        if self.stripe_unit and not self.ec:
            raise SpecError("--stripe-unit needs an erasure code", "--ec: missing", "add --ec, or leave it out")
        k, m = parse_ec(self.ec, "--ec")
        return Shape(
            self.op or op,
            parse_block(self.bs, "--bs"),
            self.clients,
            self.depth,
            replicas=copies(self.replicas, self.ec),
            k=k,
            m=m,
            hit_ratio=self.hit_ratio,
            span=self.span,
            stripe_unit=parse_block(self.stripe_unit, "--stripe-unit") if self.stripe_unit else STRIPE_UNIT,
            data_bytes=amount("--data", self.data) if self.data else 0.0,
        )


@dataclass(frozen=True)
class PageOptions:
    """Whether to write a page instead."""

    output: Annotated[
        Path | None, typer.Option(help="Write all of it, with its steps and sources, to this HTML page instead.")
    ] = None
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False


@framed
def predict(
    out: Output, world: World, machines: Machines, load: LoadOptions, further: Further, page: PageOptions
) -> None:
    """Predict what a cluster of that profile should deliver, and what limits it.

    Example: cephlab predict --profile kunpeng920 --op randwrite --depth 32
    """
    refuse_other_format(page.output)
    refuse_unwritable("--output", page.output)
    if page.show and page.output is None:
        raise SpecError("--open opens the page that --output writes", "--output is not given", "add --output page.html")
    answers = _answers(world, machines, load, further)
    out.note(f"demands: {answers.origin}")
    if page.output is not None:
        from cephlab.cli.predictpage import page_of
        from cephlab.cli.report import show_page

        write_named(page.output, page_of(answers, machines.changes or (), datetime.now(UTC)))
        written = page.output.absolute()
        out.result(str(written), answers.value | {"page": str(written)})
        if page.show:
            show_page(written)
    elif out.as_json:
        out.json(answers.value)
    else:
        _show_all(out, answers)


def _answers(world: World, machines: Machines, load: LoadOptions, further: Further) -> Answers:
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
    published, theirs = _published(world, hardware.name, load.demand)
    return Answers(
        hardware=hardware,
        origin=origin,
        predictions=predictions,
        scalings=[scaling(world.home.demands, hardware, shape) for shape in shapes],
        swept=swept,
        series=[
            [work_out(at.hardware.profile, at.shape) for at in points] for points in (swept.points if swept else ())
        ],
        met=requirements_met(world, swept, demands) if swept else [],
        rivals=[[work_out(world.profile(name), shape) for name in further.compare or ()] for shape in shapes],
        published=published,
        theirs=theirs,
        rebuilt=recovered(world, further.recover, demands, hardware, k=shapes[0].k) if further.recover else None,
    )


def _show_all(out: Output, answers: Answers) -> None:
    swept = answers.swept
    for number, (prediction, law) in enumerate(zip(answers.predictions, answers.laws, strict=True)):
        _show(out, prediction, answers.hardware)
        out.note(law)
        if swept:
            show_sweep(out, swept.what, swept.points[number], answers.series[number])
    show_rivals(out, answers.predictions, answers.rivals)
    for line in doubts(answers.predictions):
        out.note(line)
    if swept:
        show_met(out, swept.what, answers.met)
    if answers.rebuilt:
        out.lines("", answers.rebuilt.heading, *(f"  {step}" for step in answers.rebuilt.steps))
    if answers.published:
        out.lines("", "compared with figures published for this cluster, under the published load:")
        show_comparisons(out, answers.published)
        if answers.theirs != answers.origin:
            out.note(f"demands for these: {answers.theirs}")


@framed
def explain(out: Output, world: World, machines: Machines, load: LoadOptions) -> None:
    """Show every step of a prediction with its numbers and the source of each formula and figure.

    Example: cephlab explain --profile kunpeng920 --op randread
    """
    from cephlab.tuning.model import predict as work_out

    demands, origin = load.demands(world.home)
    hardware = world.profile(machines.profile, machines.changes or ())
    prediction = work_out(demands, hardware, load.shape("randwrite"), release=load.release)
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
        out.lines(*lines, *(f"  {line}" for line in source_lines(hardware)))


def _published(world: World, profile: str, chosen: Path | None) -> tuple[list[Comparison], str]:
    """The published figures of a profile's cluster that the model can predict, and the source of its demands."""
    from cephlab.tuning.demandsets import find_every_demand
    from cephlab.tuning.references import load_references, of_profile
    from cephlab.tuning.validate import validate

    demands, origin = find_every_demand(world.home.demands, chosen)
    validation = validate(demands, of_profile(load_references(), profile), world.profile)
    return [comparison for comparison in validation.comparisons if comparison.ratio is not None], origin


def _show(out: Output, prediction: Prediction, profile: Profile) -> None:
    lines = [f"{prediction.profile}: {prediction.shape}", *interval_lines(prediction)]
    out.lines(*lines, f"  limit: {prediction.bottleneck}")
    out.result(resource_table(prediction, _CEILINGS_SHOWN), None)
    for line in work_lines(prediction, profile):
        out.note(line)
