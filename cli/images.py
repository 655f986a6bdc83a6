"""`cephlab image`: build, list and remove the root trees that clusters start from."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cephlab.cli.completion import ARCHS, IMAGES, KERNELS, RELEASES, ROLES
from cephlab.cli.conventions import Command, Group, refuse_unwritable
from cephlab.cli.frame import framed
from cephlab.cli.output import Output, table
from cephlab.cli.world import World
from cephlab.lab.base.errors import CleanUp, CleanupFailed, SpecError
from cephlab.lab.base.numbers import how_many
from cephlab.lab.spec.arch import parse_arch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cephlab.lab.images.image import Image

app = typer.Typer(
    name="image",
    cls=Group,
    help="Build, list, compare and remove images of Ceph releases, and fetch kernels for guests.",
    no_args_is_help=True,
)

_SHORT = 12

ArchOption = Annotated[
    list[str] | None,
    typer.Option(help="Architecture; repeatable.", show_default="all supported ones", autocompletion=ARCHS),
]


@dataclass(frozen=True)
class PackageOptions:
    """Which packages an image is built from."""

    refresh: Annotated[bool, typer.Option("--refresh", help="Look for newer packages despite the cache.")] = False
    lock: Annotated[
        Path | None,
        typer.Option(help="Build from the packages in this file. If it does not exist, or with --refresh: write it."),
    ] = None
    snapshot: Annotated[
        datetime | None,
        typer.Option(
            help="Take the packages as of this time (UTC), e.g. 2024-02-29; CEPHLAB_MIRROR names the snapshot archive.",
            metavar="DATE",
        ),
    ] = None

    @property
    def writes(self) -> bool:
        """Whether the lock is written, not read."""
        return self.lock is not None and (self.refresh or not self.lock.exists())


@app.command("build", cls=Command)
@framed
def build(
    out: Output,
    world: World,
    release: Annotated[
        str,
        typer.Argument(
            help="Ceph release, as in the recipes, e.g. reef or tentacle.", metavar="RELEASE", autocompletion=RELEASES
        ),
    ],
    arch: ArchOption = None,
    roles: Annotated[
        list[str] | None,
        typer.Option(
            help="Role set of the image, e.g. database; repeatable.",
            show_default="ceph",
            autocompletion=ROLES,
            metavar="ROLE",
        ),
    ] = None,
    *,
    packages: PackageOptions,
) -> None:
    """Build an image, unless it is cached.

    Example: cephlab image build reef --arch aarch64
    """
    from cephlab.lab.images.lock import Lock, read_lock, write_lock

    store = world.images_of(packages.snapshot)
    wanted = [parse_arch(text) for text in arch] if arch else store.book.archs_of(release)
    role_sets = tuple(roles or ("ceph",))
    recipes = [store.book.find(release, target, role_sets) for target in wanted]
    lock, writing = packages.lock, packages.writes
    if writing:
        refuse_unwritable("--lock", lock, folders=True)
    locked = read_lock(lock) if lock is not None and not writing else None
    if locked is not None:
        for recipe in recipes:
            locked.of(recipe)
    anew = packages.refresh or writing or packages.snapshot is not None
    with out.progress() as say:
        images = [
            store.get(release, target, role_sets=role_sets, refresh=anew, lock=locked, progress=say)
            for target in wanted
        ]
    if lock is not None and writing:
        write_lock(Lock(lock, release, {target: store.debs(release, target, role_sets) for target in wanted}))
        out.note(f"wrote {lock}")
    out.result("\n".join(image.key for image in images), {"images": [as_value(image) for image in images]})


@app.command("kernel", cls=Command)
@framed
def kernel(
    out: Output,
    world: World,
    name: Annotated[
        str,
        typer.Argument(
            help="Kernel, as in the recipes, e.g. pages16k or pages64k.", metavar="NAME", autocompletion=KERNELS
        ),
    ],
    arch: ArchOption = None,
) -> None:
    """Fetch a kernel for guests, or compile it if Debian has only its source; does nothing if it is cached.

    Example: cephlab image kernel pages64k
    """
    from cephlab.lab.images.kernels import KernelStore

    store = KernelStore(world.home)
    wanted = [parse_arch(text) for text in arch] if arch else store.book.archs_of_kernel(name)
    for target in wanted:
        store.book.find_kernel(name, target)
    with out.progress() as say:
        kernels = [store.get(name, target, compiling=True, progress=say) for target in wanted]
    titles = [f"{built.name} {built.version} for {built.arch}, page size {built.page_bytes} bytes" for built in kernels]
    keys = ("key", "name", "arch", "version", "page_bytes")
    values = [{key: getattr(built, key) for key in keys} for built in kernels]
    out.result("\n".join(titles), {"kernels": values})


@app.command("ls", cls=Command)
@framed
def ls(out: Output, world: World) -> None:
    """List the images in the cache.

    Example: cephlab image ls
    """
    images = world.images.list()
    rows = [[i.key[:_SHORT], i.release, i.arch.value, i.ceph_version, ", ".join(i.role_sets)] for i in images]
    listing = table(("key", "release", "arch", "ceph", "roles"), rows) if rows else "no images"
    out.result(listing, {"images": [as_value(image) for image in images]})


@app.command("diff", cls=Command)
@framed
def diff(
    out: Output,
    world: World,
    lock: Annotated[Path, typer.Argument(help="A file that `cephlab image build --lock` wrote.", metavar="FILE")],
) -> None:
    """Show which packages of the cached images differ from a lock file.

    Example: cephlab image diff ci/locks/reef.toml
    """
    from cephlab.lab.images.lock import read_lock

    locked = read_lock(lock)
    images = [image for image in world.images.list() if image.release == locked.release]
    if not images:
        raise SpecError(f"the cache has no image of {locked.release}", f"{lock} is for that release")
    differences = [(image, locked.changes(image.arch, image.packages)) for image in images]
    lines = []
    for image, changes in differences:
        roles = ", ".join(image.role_sets)
        differ = how_many(len(changes), "package differs", "packages differ")
        lines.append(f"{image.release} for {image.arch} ({roles}): {differ} from the lock")
        lines += [f"  {line}" for line in changes]
    out.result("\n".join(lines), {"images": [as_value(image) | {"changes": rows} for image, rows in differences]})


@app.command("rm", cls=Command)
@framed
def rm(
    out: Output,
    world: World,
    which: Annotated[
        str,
        typer.Argument(help="A release, or the beginning of a key.", metavar="KEY|RELEASE", autocompletion=IMAGES),
    ],
) -> int:
    """Remove images from the cache and from container engines; images of running clusters stay.

    Example: cephlab image rm reef
    """
    from cephlab.lab.cluster.prune import forget_copies
    from cephlab.lab.images.cache import refuse_used

    images = matching(which, world.images.list())
    for image in images:
        refuse_used(world.home, image)
    clean_up = CleanUp()
    copies: list[str] = []
    removed: list[Image] = []
    for image in images:
        with clean_up.step(image.key[:_SHORT]):
            world.images.remove(image)
            removed.append(image)
            copies += forget_copies(world.providers, image)
    lines = [f"removed {image.release} for {image.arch} ({image.key[:_SHORT]})" for image in removed]
    text, value = "\n".join([*lines, *copies]), {"removed": [*map(as_value, removed)], "copies": copies}
    if clean_up.errors:
        error = CleanupFailed(clean_up.errors, f"remove {which} again")
        return out.incomplete(text or "nothing was removed", value, error)
    out.result(text, value)
    return 0


def matching(which: str, images: Sequence[Image]) -> list[Image]:
    """All images of a release, else the one image whose key begins with `which`; SpecError for none or several."""
    matches = [image for image in images if image.release == which]
    if matches:
        return matches
    matches = [image for image in images if which and image.key.startswith(which)]
    if len(matches) == 1:
        return matches
    known = ", ".join(f"{image.key[:_SHORT]} ({image.release} {image.arch})" for image in images) or "none"
    raise SpecError(f"{'several images begin with' if matches else 'there is no image'} {which!r}", f"images: {known}")


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
