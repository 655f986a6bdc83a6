"""`cephlab image`: build, list and remove the root trees that clusters start from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.output import JsonOption, reporting, table
from cli.world import world_of
from lab.errors import CleanupFailed, LabError, SpecError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.images.image import Image

app = typer.Typer(help="Build, list and remove images of Ceph releases.", no_args_is_help=True)

_SHORT = 12


@app.command("build")
def build(
    ctx: typer.Context,
    release: Annotated[str, typer.Argument(help="As the recipes name it, e.g. pacific, reef or tentacle.")],
    arch: Annotated[
        list[str] | None, typer.Option(help="Architecture; repeatable. Default: all that the release is for.")
    ] = None,
    refresh: Annotated[bool, typer.Option("--refresh", help="Ask for newer packages although one is cached.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Build an image, unless the cache has it."""
    with reporting(as_json) as out:
        from cli.signals import interruptible
        from lab.arch import parse_arch

        store = world_of(ctx).images
        wanted = [parse_arch(text) for text in arch] if arch else store.book.archs_of(release)
        for one in wanted:
            store.book.find(release, one)
        with interruptible(out.note), out.progress() as say:
            images = [store.get(release, one, refresh=refresh, progress=say) for one in wanted]
        out.result("\n".join(image.key for image in images), {"images": [as_value(image) for image in images]})


@app.command("kernel")
def kernel(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="As the recipes name it, e.g. pages16k or pages64k.")],
    arch: Annotated[
        list[str] | None, typer.Option(help="Architecture; repeatable. Default: all that the kernel is for.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Fetch a kernel for guests, or compile it where Debian has its source only, unless the cache has it."""
    with reporting(as_json) as out:
        from cli.signals import interruptible
        from lab.arch import parse_arch
        from lab.images.kernels import KernelStore

        store = KernelStore(world_of(ctx).home)
        wanted = [parse_arch(text) for text in arch] if arch else store.book.archs_of_kernel(name)
        for one in wanted:
            store.book.find_kernel(name, one)
        with interruptible(out.note), out.progress() as say:
            kernels = [store.get(name, one, compiling=True, progress=say) for one in wanted]
        shown = [f"{one.name} {one.version} for {one.arch}, pages of {one.page_bytes} bytes" for one in kernels]
        values = [
            {"key": one.key, "name": one.name, "arch": one.arch, "version": one.version, "page_bytes": one.page_bytes}
            for one in kernels
        ]
        out.result("\n".join(shown), {"kernels": values})


@app.command("ls")
def ls(ctx: typer.Context, as_json: JsonOption = False) -> None:
    """List the images in the cache."""
    with reporting(as_json) as out:
        images = world_of(ctx).images.list()
        rows = [[i.key[:_SHORT], i.release, i.arch.value, i.ceph_version, ", ".join(i.role_sets)] for i in images]
        shown = table(("key", "release", "arch", "ceph", "roles"), rows) if rows else "no images"
        out.result(shown, {"images": [as_value(image) for image in images]})


@app.command("rm")
def rm(
    ctx: typer.Context,
    which: Annotated[str, typer.Argument(help="A key, its beginning, or a release.", metavar="KEY|RELEASE")],
    as_json: JsonOption = False,
) -> None:
    """Remove images from the cache and from engines; those of running clusters stay."""
    with reporting(as_json) as out:
        from lab.images.claims import refuse_used
        from lab.prune import forget_copies

        world = world_of(ctx)
        images = matching(which, world.images.list())
        for image in images:
            refuse_used(world.home, image)
        errors: list[str] = []
        copies: list[str] = []
        for image in images:
            try:
                world.images.remove(image)
                copies += forget_copies(world.providers, image)
            except LabError as error:
                errors.append(f"{image.key[:_SHORT]}: {error}")
        if errors:
            raise CleanupFailed(errors)
        lines = [f"removed {image.release} for {image.arch} ({image.key[:_SHORT]})" for image in images]
        out.result("\n".join([*lines, *copies]), {"removed": [as_value(image) for image in images], "copies": copies})


def matching(which: str, images: Sequence[Image]) -> list[Image]:
    """Images of a release, or of a key by its beginning; SpecError when there are none or several keys fit."""
    found = [image for image in images if image.release == which]
    if found:
        return found
    found = [image for image in images if which and image.key.startswith(which)]
    if len(found) == 1:
        return found
    known = ", ".join(f"{image.key[:_SHORT]} ({image.release} {image.arch})" for image in images) or "none"
    raise SpecError(f"{'several images begin with' if found else 'there is no image'} {which!r}", f"images: {known}")


def as_value(image: Image) -> dict[str, Any]:
    """One image for `--json`."""
    return {
        "key": image.key,
        "release": image.release,
        "arch": image.arch.value,
        "ceph_version": image.ceph_version,
        "role_sets": list(image.role_sets),
        "root": str(image.root),
    }
