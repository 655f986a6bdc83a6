"""`cephlab measure`: what one operation costs each role, with intervals, as a demand file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cephlab.cli import side_by_side as beside
from cephlab.cli.compare import conclude
from cephlab.cli.frame import framed
from cephlab.cli.measure_request import (
    MAX_CLIENTS,
    MAX_DEPTH,
    MeasureRequest,
    file_name,
    parse_ec,
    parse_op,
    raised,
    rated,
    release_of,
)
from cephlab.cli.output import Output, table
from cephlab.cli.request import parse_bytes, parse_options
from cephlab.cli.world import World

if TYPE_CHECKING:
    from cephlab.lab.telemetry.demandfile import Measurement
    from cephlab.lab.telemetry.plan import Plan


@dataclass(frozen=True)
class MeasuredLoad:
    """What is measured, and how well."""

    op: Annotated[
        list[str] | None,
        typer.Option(
            help="randwrite, randread, write or read of an image, put or get of objects through a gateway, seq of "
            "whole objects by rados bench; also as randread:16k; repeatable.",
            metavar="OP[:SIZE]",
        ),
    ] = None
    bs: Annotated[str, typer.Option(help="Size of those operations that name none, e.g. 4k or 4M.")] = "4k"
    depth: Annotated[int, typer.Option(help="Requests in flight of each client.", min=1, max=MAX_DEPTH)] = 16
    clients: Annotated[
        int, typer.Option(help="Clients at once, each on a node and an image of its own.", min=1, max=MAX_CLIENTS)
    ] = 1
    low_depth: Annotated[
        int | None,
        typer.Option(help="A second, lower load; 0 for none. Default: one client of several, else --depth / 4.", min=0),
    ] = None
    size: Annotated[str, typer.Option(help="Size of each RBD image, written twice over first, or of all objects.")] = (
        "256M"
    )
    within: Annotated[float, typer.Option(help="Wanted half width of the interval, in percent.", min=0.1)] = 3.0
    budget: Annotated[float, typer.Option(help="Seconds of load at most for each operation.", min=5)] = 60.0


@dataclass(frozen=True)
class MeasuredCluster:
    """The cluster that it is measured on."""

    arch: Annotated[str, typer.Option(help="Architecture of the OSDs.")] = "x86_64"
    replicas: Annotated[int, typer.Option(help="Copies; there are as many OSDs.", min=1, max=9)] = 3
    ec: Annotated[str | None, typer.Option(help="K+M: erasure-coded instead, on K+M OSDs.", metavar="K+M")] = None
    release: Annotated[str | None, typer.Option(help="Ceph release; not with --image.", show_default="reef")] = None
    lab: Annotated[
        str, typer.Option(help="auto (local or container), or any provider by its name; see docs/regression.md.")
    ] = "auto"
    image: Annotated[str | None, typer.Option(help="Pulled image instead of a built one.", metavar="REF")] = None
    disks: Annotated[
        str, typer.Option(help="memory, file, or auto: in memory where the provider can, so that CPU is what limits.")
    ] = "auto"
    option: Annotated[
        list[str] | None, typer.Option(help="ceph.conf setting of the cluster; repeatable.", metavar="KEY=VALUE")
    ] = None


@dataclass(frozen=True)
class Afterwards:
    """What becomes of the result."""

    output: Annotated[Path | None, typer.Option(help="Demand file; in the home's `demands` when left out.")] = None
    save_baseline: Annotated[
        bool, typer.Option("--save-baseline", help="Keep the result as what later runs are compared with.")
    ] = False
    beside: Annotated[
        str,
        typer.Option(
            help="Raise this too, load both at once, and judge what became dearer: `baseline`, a release, the "
            "beginning of a cached image's key, or `same`.",
            metavar="WHAT",
        ),
    ] = ""
    changed: Annotated[
        list[str] | None,
        typer.Option(help="With --beside: ceph.conf setting of the new side only; repeatable.", metavar="KEY=VALUE"),
    ] = None


@framed
def measure(out: Output, world: World, load: MeasuredLoad, cluster: MeasuredCluster, then: Afterwards) -> int:
    """Raise a cluster, load it with one operation, and say what each role spends on it. ^C removes everything."""
    request = _request(load, cluster)
    plans = request.plans()
    if then.beside or then.changed:
        return _side_by_side(world, out, request, then.beside, parse_options(then.changed or ()))
    path, measured = _do(world, out, request, plans, then.output)
    from cephlab.lab.telemetry import demandfile
    from cephlab.lab.telemetry.demandfile import to_json

    for measurement in measured if then.save_baseline else ():
        out.note(f"baseline: {demandfile.store_baseline(world.home, measurement)}")
    out.result(page(path, measured), {**to_json(measured), "file": str(path)})
    return 0


def _request(load: MeasuredLoad, cluster: MeasuredCluster) -> MeasureRequest:
    return MeasureRequest(
        operations=tuple(parse_op(text, load.bs) for text in load.op or ("randwrite",)),
        depth=load.depth,
        clients=load.clients,
        low_depth=load.low_depth,
        arch=cluster.arch,
        replicas=cluster.replicas,
        coding=parse_ec(cluster.ec) if cluster.ec else (0, 0),
        release=release_of(cluster.release, cluster.image),
        lab=cluster.lab,
        image=cluster.image,
        image_bytes=parse_bytes("--size", load.size),
        within=load.within / 100,
        budget_s=load.budget,
        disks=cluster.disks,
        options=parse_options(cluster.option or ()),
    )


def _side_by_side(world: World, out: Output, request: MeasureRequest, what: str, changed: dict[str, str]) -> int:
    """Returns 1 on a regression, 6 when it cannot tell, as `cephlab compare` does."""
    result = beside.measure_beside(world, out, request, what or beside.SAME, changed)
    for line in (*map(str, result.files), *(before.stopped for before, _ in result.pairs)):
        out.note(line)
    return conclude(out, result.compared)


def _do(
    world: World, out: Output, request: MeasureRequest, plans: list[Plan], output: Path | None
) -> tuple[Path, tuple[Measurement, ...]]:
    from cephlab.fixtures.expectation import speed_here
    from cephlab.lab.telemetry import demandfile, place
    from cephlab.lab.telemetry.measure import measure as measure_one

    measured = []
    with raised(world, out, request) as (cluster, _provider, say):
        key = cluster.images[request.osd_arch].identity
        for plan in plans:
            say(f"measuring {plan.operation.name} of {plan.operation.block_bytes} bytes")
            measured.append(measure_one(cluster, plan, image_key=key, say=say, conditions=place.machine()))
    speed = speed_here(world.home)
    if not speed:
        out.note("run `cephlab probe` and measure again where a prediction is to start from this")
    measured = [rated(measurement, speed) for measurement in measured]
    path = output or world.home.demands / file_name(request, measured[0].demand)
    demandfile.save(path, measured)
    return path.absolute(), tuple(measured)


def page(path: Path, measured: tuple[Measurement, ...]) -> Any:
    """The intervals as tables, and the words that belong to them."""
    from rich.console import Group

    parts: list[Any] = []
    for measurement in measured:
        parts += [costs_table(measurement), _words(measurement), ""]
    return Group(*parts, str(path))


def costs_table(measurement: Measurement) -> Any:
    """A row for each role and resource of a demand."""
    from cephlab.lab.telemetry.describe import rows, title

    heads = ("role", "resource", "per operation", "95 % interval")
    return table(heads, list(rows(measurement.demand)), title=title(measurement.demand))


def _words(measurement: Measurement) -> str:
    lines = [
        measurement.stopped,
        measurement.linearity,
        f"harness: {float(measurement.conditions.get('harness_share', 'nan')):.1%} of the CPU that was measured",
    ]
    if measurement.demand.emulated:
        lines.append(f"says nothing of real hardware: {measurement.conditions.get('native', 'emulated')}")
    return "\n".join(lines)
