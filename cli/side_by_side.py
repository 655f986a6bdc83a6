"""`cephlab measure --beside`: a second cluster of another image or setting under the same load, judged against it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cephlab.cli.measure_request import file_name
from cephlab.cli.output import Output
from cephlab.cli.world import World
from cephlab.lab.base.errors import SpecError

if TYPE_CHECKING:
    from cephlab.cli.measure_request import MeasureRequest
    from cephlab.lab.images.image import Image
    from cephlab.lab.telemetry.compare import Compared
    from cephlab.lab.telemetry.demandfile import Measurement

BASELINE, SAME = "baseline", "same"
_LEAST_KEY = 6
"""Digits of an image's key that are enough to mean one."""


@dataclass(frozen=True)
class SideBySide:
    """What was measured side by side, by operation, and the files it was written to."""

    files: tuple[Path, Path]
    pairs: tuple[tuple[Measurement, Measurement], ...]
    compared: tuple[Compared, ...]


def measure_beside(
    world: World, out: Output, request: MeasureRequest, what: str, changed: dict[str, str]
) -> SideBySide:
    """Raise both clusters and load them together until the verdict is clear or the budget is spent.

    what: the side that is compared with; changed: settings that only the other, the new side has.
    """
    from cephlab.lab.cluster.raising import ClusterRequest, images_for, raise_for, refuse_unfit
    from cephlab.lab.telemetry import demandfile, place
    from cephlab.lab.telemetry.compare import compare, settled
    from cephlab.lab.telemetry.side_by_side import Side, Starts
    from cephlab.lab.telemetry.side_by_side import measure_beside as measure_both

    plans = [replace(plan, low=None) for plan in request.plans()]
    if any(plan.passes for plan in plans):
        why = "each pass of rados bench ends by itself"
        raise SpecError(
            "--op seq and --beside do not go together", why, "measure each by itself, and `cephlab compare`"
        )
    choice, spec = request.choose(world)
    own = replace(spec, options={**spec.options, **changed})
    refuse_unfit(spec, world.home, world.images)
    out.note(f"provider: {choice.reason}")
    with out.progress() as say:
        new = images_for(spec, world.images, say)
        key = new[request.osd_arch].key
        old = other_image(world, request, what, key)
        named = spec.image or f"{spec.release} {key[:12]}"
        out.note(f"before: {old.release} {old.key[:12]}; after: {named} {changed or ''}")
        other = replace(spec, release=old.release, image=old.reference)
        images = {**images_for(other, world.images, say), request.osd_arch: old}
        where = (choice.provider, world.home, world.images)
        with (
            raise_for(ClusterRequest(other, *where, given=images), say, healthy_s=place.HEALTHY_S) as before,
            raise_for(ClusterRequest(own, *where, given=new), say, healthy_s=place.HEALTHY_S) as after,
        ):
            sides, starts, here = (
                (Side(before, old.key), Side(after, after.images[request.osd_arch].identity)),
                Starts.within(request.budget_s),
                place.machine(),
            )
            pairs = [
                measure_both(sides, plan, starts=starts, decide=settled, say=say, conditions=here) for plan in plans
            ]
    files = _files(world, request, *pairs[0])
    for path, side in zip(files, zip(*pairs, strict=True), strict=True):
        demandfile.save(path, side)
    earlier, later = zip(*pairs, strict=True)
    return SideBySide(files, tuple(pairs), tuple(compare(earlier, later)))


def other_image(world: World, request: MeasureRequest, what: str, key: str) -> Image:
    """The image that the new one is compared with; SpecError where the cache has none.

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
        f"--beside: {what!r} names no single image",
        f"looked for {wanted[:12]} of {request.osd_arch} among: {known}",
        "`cephlab image ls` shows keys; where the image is gone, `cephlab compare` takes two demand files",
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
    """Demand files of both sides, beside each other in a folder of their own: no prediction starts from them."""
    folder = world.home.demands / "beside"
    name = file_name(request, new.demand).removesuffix(".json")
    before, after = old.demand.image, new.demand.image
    return folder / f"{name}-before-{before[:12]}.json", folder / f"{name}-after-{after[:12]}.json"
