"""`cephlab measure`: what one operation costs each role, as a demand file, alone or beside a second cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cephlab.cli.compare import conclude
from cephlab.cli.completion import ARCHS, BESIDES, LABS, MEASURED_OPERATIONS, RELEASES, words
from cephlab.cli.conventions import DEFAULT_COPIES, copies, refuse_unwritable
from cephlab.cli.frame import framed
from cephlab.cli.measure_request import (
    DISKS,
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
from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.numbers import percent
from cephlab.lab.spec.clusterspec import HEALTHY_S

if TYPE_CHECKING:
    from cephlab.lab.images.image import Image
    from cephlab.lab.telemetry.compare import Compared
    from cephlab.lab.telemetry.demandfile import Measurement
    from cephlab.lab.telemetry.plan import Plan

BASELINE, SAME = "baseline", "same"
"""What --beside may name besides a release and an image."""
_LEAST_KEY = 6
"""How many digits of an image's key are enough to name one."""


@dataclass(frozen=True)
class MeasuredLoad:
    """What to measure, and how precisely."""

    op: Annotated[
        list[str] | None,
        typer.Option(
            help="randwrite, randread, write, read or randrw70 (70 % random reads) on an image; put, get, delete or "
            "list (1000 names) of objects through a gateway; seq: whole objects with rados bench. With a size: "
            "randread:16k. Repeatable.",
            metavar="OP[:SIZE]",
            autocompletion=MEASURED_OPERATIONS,
        ),
    ] = None
    bs: Annotated[str, typer.Option(help="Size of operations given without one, e.g. 4k or 4M.", metavar="SIZE")] = "4k"
    depth: Annotated[int, typer.Option(help="Requests in flight of each client.", min=1, max=MAX_DEPTH)] = 16
    clients: Annotated[
        int, typer.Option(help="Clients at the same time, each with its own node and image.", min=1, max=MAX_CLIENTS)
    ] = 1
    low_depth: Annotated[
        int | None,
        typer.Option(
            help="Depth of a second, lower load; 0: none.",
            show_default="one client if there are several, else --depth / 4",
            min=0,
        ),
    ] = None
    size: Annotated[
        str, typer.Option(help="Size of each RBD image, which is written twice first, or of all objects.")
    ] = "256M"
    within: Annotated[float, typer.Option(help="Target half-width of the 95 % interval, in percent.", min=0.1)] = 3.0
    budget: Annotated[float, typer.Option(help="Maximum seconds of load for each operation.", min=5)] = 60.0


@dataclass(frozen=True)
class MeasuredCluster:
    """The cluster to measure on."""

    arch: Annotated[str, typer.Option(help="Architecture of the OSDs.", autocompletion=ARCHS)] = "x86_64"
    replicas: Annotated[
        int | None,
        typer.Option(help="Number of copies, and of OSDs.", show_default=str(DEFAULT_COPIES), min=1, max=9),
    ] = None
    ec: Annotated[str | None, typer.Option(help="Erasure code instead of copies, on K+M OSDs.", metavar="K+M")] = None
    release: Annotated[
        str | None, typer.Option(help="Ceph release; not with --image.", show_default="reef", autocompletion=RELEASES)
    ] = None
    lab: Annotated[
        str,
        typer.Option(
            help="auto (local or container), or any provider by name.",
            metavar="PROVIDER",
            autocompletion=LABS,
        ),
    ] = "auto"
    image: Annotated[str | None, typer.Option(help="Use a pulled image instead of a built one.", metavar="REF")] = None
    disks: Annotated[
        str,
        typer.Option(
            help="Where OSDs keep their data: memory, file, or auto. auto means memory if the provider supports it, "
            "so that CPU is the limit.",
            metavar="WHERE",
            autocompletion=words(*DISKS),
        ),
    ] = "auto"
    option: Annotated[
        list[str] | None, typer.Option(help="ceph.conf setting of the cluster; repeatable.", metavar="KEY=VALUE")
    ] = None


@dataclass(frozen=True)
class Afterwards:
    """What to do with the result."""

    output: Annotated[Path | None, typer.Option(help="Demand file.", show_default="in `demands` of the home")] = None
    save_baseline: Annotated[
        bool, typer.Option("--save-baseline", help="Keep the result as the baseline for later comparisons.")
    ] = False
    beside: Annotated[
        str,
        typer.Option(
            help="Also raise a second cluster, load both at once, and judge what costs more. WHAT: `baseline`, "
            "a release, the beginning of a cached image's key, or `same`.",
            metavar="WHAT",
            autocompletion=BESIDES,
        ),
    ] = ""
    changed: Annotated[
        list[str] | None,
        typer.Option(help="With --beside: ceph.conf setting for the new side only; repeatable.", metavar="KEY=VALUE"),
    ] = None


@framed
def measure(out: Output, world: World, load: MeasuredLoad, cluster: MeasuredCluster, then: Afterwards) -> int:
    """Raise a cluster, load it with one operation, and report what each role spends on it.

    Ctrl-C removes everything. How to read the result: docs/regression.md.

    Example: cephlab measure --op randwrite --bs 4k --depth 16
    """
    request = _request(load, cluster)
    plans = request.plans()
    refuse_unwritable("--output", then.output, folders=True)
    if then.beside or then.changed:
        for option, given in (("--output", then.output), ("--save-baseline", then.save_baseline)):
            if given:
                where = "both results go into `demands/beside` of the home"
                raise SpecError(f"{option} and --beside cannot be given together", where, "leave one out")
        changed = parse_options(then.changed or (), "--changed")
        return conclude(out, measure_beside(world, out, request, then.beside or SAME, changed))
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
        replicas=copies(cluster.replicas, cluster.ec),
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


def _do(
    world: World, out: Output, request: MeasureRequest, plans: list[Plan], output: Path | None
) -> tuple[Path, tuple[Measurement, ...]]:
    from cephlab.fixtures.expectation import speed_here
    from cephlab.lab.telemetry import demandfile, place
    from cephlab.lab.telemetry.measure import measure as measure_one

    measured = []
    speed = speed_here(world.home)  # a profile that cannot be read must not cost the measurement
    with raised(world, out, request) as (cluster, _provider, say):
        key = cluster.images[request.osd_arch].identity
        for plan in plans:
            say(f"measuring {plan.operation.name} of {plan.operation.block_bytes} bytes")
            measured.append(measure_one(cluster, plan, image_key=key, say=say, conditions=place.machine()))
    if not speed:
        out.note("to base predictions on this, run `cephlab probe` and measure again")
    measured = [rated(measurement, speed) for measurement in measured]
    path = output or world.home.demands / file_name(request, measured[0].demand)
    demandfile.save(path, measured)
    return path.absolute(), tuple(measured)


def page(path: Path, measured: tuple[Measurement, ...]) -> Any:
    """The intervals as tables, each with its notes."""
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
        f"harness: {percent(float(measurement.conditions.get('harness_share', 'nan')))} of the measured CPU",
    ]
    if measurement.demand.emulated:
        lines.append(f"says nothing about real hardware: {measurement.conditions.get('native', 'emulated')}")
    return "\n".join(lines)


def measure_beside(
    world: World, out: Output, request: MeasureRequest, what: str, changed: dict[str, str]
) -> list[Compared]:
    """Raise both clusters and load them together until the verdict is clear or the budget is spent.

    what: the side to compare with; changed: settings that only the new side has.
    """
    from cephlab.lab.cluster.optionnames import refuse_wrong_options
    from cephlab.lab.cluster.raising import ClusterRequest, images_for, raise_for, refuse_unfit
    from cephlab.lab.telemetry import demandfile, place
    from cephlab.lab.telemetry.compare import compare, settled
    from cephlab.lab.telemetry.side_by_side import Side, Starts
    from cephlab.lab.telemetry.side_by_side import measure_beside as measure_both

    plans = [replace(plan, low=None) for plan in request.plans()]
    if any(plan.passes for plan in plans):
        why = "each pass of rados bench ends by itself"
        raise SpecError(
            "--op seq and --beside cannot be given together", why, "measure each alone, then `cephlab compare`"
        )
    if what not in (SAME, BASELINE, *world.images.book.releases):
        other_image(world, request, what, "")  # refused before any image is built
    choice, spec = request.choose(world)
    own = replace(spec, options={**spec.options, **changed})
    refuse_unfit(spec, world.home, world.images, written_bytes=2 * request.written_bytes(choice, spec))
    out.note(f"provider: {choice.reason}")
    with out.progress() as say:
        new = images_for(spec, world.images, say)
        refuse_wrong_options(replace(spec, options={**request.options, **changed}), new)
        key = new[request.osd_arch].key
        old = other_image(world, request, what, key)
        named = spec.image or f"{spec.release} {key[:12]}"
        out.note(f"before: {old.release} {old.key[:12]}; after: {named} {changed or ''}")
        other = replace(spec, release=old.release, image=old.reference)
        images = {**images_for(other, world.images, say), request.osd_arch: old}
        where = (choice.provider, world.home, world.images)
        with (
            raise_for(ClusterRequest(other, *where, given=images), say, healthy_s=HEALTHY_S) as before,
            raise_for(ClusterRequest(own, *where, given=new), say, healthy_s=HEALTHY_S) as after,
        ):
            sides = (Side(before, old.key), Side(after, after.images[request.osd_arch].identity))
            starts, here = Starts.within(request.budget_s), place.machine()
            pairs = [
                measure_both(sides, plan, starts=starts, decide=settled, say=say, conditions=here) for plan in plans
            ]
    earlier, later = zip(*pairs, strict=True)
    for path, side in zip(_files(world, request, *pairs[0]), (earlier, later), strict=True):
        demandfile.save(path, side)
        out.note(str(path))
    for measurement in earlier:
        out.note(measurement.stopped)
    return compare(earlier, later)


def other_image(world: World, request: MeasureRequest, what: str, key: str) -> Image:
    """The image to compare the new one with; SpecError if it is not cached.

    what: `same`, `baseline`, a release, or the beginning of a cached image's key. key: of the new image.
    """
    cached = [image for image in world.images.list() if image.arch is request.osd_arch]
    if what == SAME:
        wanted = key
    elif what == BASELINE:
        wanted = _baseline_key(world, request, key)
    elif what in world.images.book.releases:
        return world.images.get(what, request.osd_arch)
    else:
        wanted = what
    matches = [image for image in cached if image.key.startswith(wanted)] if len(wanted) >= _LEAST_KEY else []
    if len(matches) == 1:
        return matches[0]
    known = ", ".join(sorted(image.key[:12] for image in cached)) or "none"
    raise SpecError(
        f"--beside: {what!r} does not name one image",
        f"looked for {wanted[:12]} of {request.osd_arch} among: {known}",
        "`cephlab image ls` shows keys; if the image is gone, `cephlab compare` takes two demand files",
    )


def _baseline_key(world: World, request: MeasureRequest, key: str) -> str:
    """Key of the image that the stored baseline of the first operation was measured with."""
    from cephlab.lab.telemetry import demandfile
    from cephlab.lab.telemetry.demand import Demand

    operation = request.plans()[0].operation
    baseline = demandfile.find_baseline(world.home, Demand(operation, request.release, request.osd_arch, key, {}))
    if baseline is None:
        raise SpecError(
            "no baseline is stored for this operation",
            f"looked in {demandfile.baseline_folder(world.home)}",
            "`cephlab measure --save-baseline` stores one",
        )
    return baseline.demand.image


def _files(world: World, request: MeasureRequest, old: Measurement, new: Measurement) -> tuple[Path, Path]:
    """Demand files of both sides, in a folder of their own, so that no prediction is based on them."""
    folder = world.home.demands / "beside"
    name = file_name(request, new.demand).removesuffix(".json")
    before, after = old.demand.image, new.demand.image
    return folder / f"{name}-before-{before[:12]}.json", folder / f"{name}-after-{after[:12]}.json"
