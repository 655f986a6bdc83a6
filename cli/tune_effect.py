"""`cephlab tune measure`: what a tuning does to the cost of one operation, beside the same cluster without it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cephlab.cli.frame import framed
from cephlab.cli.measure_request import MAX_DEPTH, MeasureRequest, file_name, parse_op, raised, rated
from cephlab.cli.output import Output, table
from cephlab.cli.request import parse_bytes
from cephlab.cli.world import World

if TYPE_CHECKING:
    from cephlab.lab.tunables.effect import Effect, Row
    from cephlab.tuning.named import Tuning


@dataclass(frozen=True)
class EffectOptions:
    """The operation that is measured, the cluster it is measured on, and how well."""

    op: Annotated[str, typer.Option(help="randwrite, randread, write or read.", metavar="OP")] = "randwrite"
    bs: Annotated[str, typer.Option(help="Size of the operation, e.g. 4k or 4M.")] = "4k"
    depth: Annotated[int, typer.Option(help="Requests in flight.", min=1, max=MAX_DEPTH)] = 16
    arch: Annotated[str, typer.Option(help="Architecture of the OSDs.")] = "x86_64"
    replicas: Annotated[int, typer.Option(help="Copies; there are as many OSDs.", min=1, max=9)] = 2
    release: Annotated[str, typer.Option(help="Ceph release.")] = "reef"
    lab: Annotated[str, typer.Option(help="auto, or a provider; see `cephlab doctor`.")] = "auto"
    size: Annotated[str, typer.Option(help="Size of the RBD image, which is written twice over first.")] = "128M"
    within: Annotated[float, typer.Option(help="Wanted half width of the interval, in percent.", min=0.1)] = 3.0
    budget: Annotated[float, typer.Option(help="Seconds of load at most for each of three measurements.", min=5)] = 30

    def request(self) -> MeasureRequest:
        """What `cephlab measure` would be asked."""
        return MeasureRequest(
            operations=(parse_op(self.op, self.bs),),
            depth=self.depth,
            arch=self.arch,
            replicas=self.replicas,
            release=self.release,
            lab=self.lab,
            image_bytes=parse_bytes("--size", self.size),
            within=self.within / 100,
            budget_s=self.budget,
            disks="file",
        )


@framed
def measure(
    out: Output,
    world: World,
    name: Annotated[str, typer.Argument(help="A tuning that `tune ls` shows, or a .toml file.", metavar="NAME")],
    options: EffectOptions,
    output: Annotated[
        Path | None, typer.Option(help="Folder for the three demand files; the home's `demands/effects` when left out.")
    ] = None,
) -> None:
    """Raise a cluster and measure one operation without, with, and again without the tuning. ^C removes everything."""
    from cephlab.tuning.named import load

    tuning = load(name)
    done = _do(world, out, options.request(), tuning, output)
    out.result(page(done), value_of(done))


@dataclass(frozen=True)
class Measured:
    """An effect and the files that it was saved to: before, tuned, after."""

    tuning: str
    effect: Effect
    files: tuple[Path, ...]


def _do(world: World, out: Output, request: MeasureRequest, tuning: Tuning, output: Path | None) -> Measured:
    from cephlab.lab.telemetry import place
    from cephlab.lab.telemetry.measure import measure as measure_one
    from cephlab.lab.tunables.effect import measure_effect
    from cephlab.lab.tunables.targets import of_cluster

    [plan] = request.plans()
    with raised(world, out, request) as (cluster, provider, say):
        key = cluster.images[request.osd_arch].identity
        effect = measure_effect(
            cluster,
            of_cluster(cluster, provider.capabilities()),
            tuning.name,
            tuning.settings,
            lambda: measure_one(cluster, plan, image_key=key, say=say, conditions=place.machine()),
            say,
        )
    return Measured(tuning.name, effect, _saved(world, request, tuning.name, effect, output))


EFFECTS = "effects"
"""Folder below the home's demands: a prediction starts from the newest file there, and not from a tuned cluster's."""


def _saved(world: World, request: MeasureRequest, tuning: str, effect: Effect, output: Path | None) -> tuple[Path, ...]:
    """The files of an effect: before, tuned, after; on the scale of this machine where it was probed."""
    from cephlab.fixtures.expectation import speed_here
    from cephlab.lab.telemetry import demandfile

    speed = speed_here(world.home)
    folder = (output or world.home.demands / EFFECTS).absolute()
    base = file_name(request, effect.before.demand).removesuffix(".json")
    named = {"before": effect.before, tuning: effect.tuned, "after": effect.after}
    files = {part: folder / f"{base}-{part}.json" for part in named}
    for part, measured in named.items():
        demandfile.save(files[part], [rated(measured, speed)])
    return tuple(files.values())


def page(done: Measured) -> Any:
    """What was set, and each cost without, with, and again without it."""
    from rich.console import Group

    from cephlab.lab.telemetry.describe import title
    from cephlab.lab.tunables.effect import rows

    changes = [
        [change.outcome.value, change.setting.title[:_CELL], change.why[:_CELL]] for change in done.effect.changes
    ]
    columns = ("role", "resource", "before", done.tuning, "after", "change", "")
    spent = [row for row in rows(done.effect) if any(interval.mean for interval in (*row.untuned, row.tuned))]
    return Group(
        table(("outcome", "setting", "why"), changes, title=f"{done.tuning} on this cluster"),
        "",
        table(columns, [_cells(row) for row in spent], title=title(done.effect.tuned.demand)),
        "",
        "differs: the interval with the tuning lies outside of both without it, on one side.",
        *(str(path) for path in done.files),
    )


_CELL = 80


def _cells(row: Row) -> list[str]:
    from cephlab.lab.telemetry.describe import NAMES, amount

    first, last = row.untuned
    change = "" if row.ratio is None else f"{(row.ratio - 1) * 100:+.1f} %"
    amounts = [amount(interval.mean, row.resource) for interval in (first, row.tuned, last)]
    return [row.role.value, NAMES[row.resource], *amounts, change, "differs" if row.differs else ""]


def value_of(done: Measured) -> dict[str, Any]:
    """The same as JSON; intervals per operation in the resource's own unit."""
    from cephlab.lab.tunables.effect import rows

    return {
        "tuning": done.tuning,
        "files": [str(path) for path in done.files],
        "changes": [
            {"setting": change.setting.title, "outcome": change.outcome.value, "why": change.why}
            for change in done.effect.changes
        ],
        "costs": [
            {
                "role": row.role.value,
                "resource": row.resource.value,
                "before": asdict(row.untuned[0]),
                "tuned": asdict(row.tuned),
                "after": asdict(row.untuned[1]),
                "ratio": row.ratio,
                "differs": row.differs,
            }
            for row in rows(done.effect)
        ],
    }
